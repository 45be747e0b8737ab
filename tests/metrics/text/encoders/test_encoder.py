import json
import shutil

import pytest

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.encoder import max_tokens
from trivium.metrics.text.encoders.loading import load


@pytest.mark.parametrize(
    ("config", "tokeniser", "expected"),
    [
        ({"model_type": "bert", "max_position_embeddings": 512}, {"model_max_length": 512}, 512),
        ({"model_type": "bert", "max_position_embeddings": 512}, {"model_max_length": 1e30}, 512),
        ({"model_type": "bert", "max_position_embeddings": 512}, {"model_max_length": 128}, 128),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, {}, 512),
        ({"model_type": "modernbert", "max_position_embeddings": 8192}, {}, 8192),
        ({"model_type": "t5"}, {}, 512),
    ],
)
def test_the_limit_is_the_smaller_of_the_models_and_its_tokenisers(config, tokeniser, expected):
    assert max_tokens(config, tokeniser) == expected


def test_a_limit_that_leaves_no_token_is_refused(tiny_folder, tiny_onnx_folder, tmp_path):
    for source in (tiny_folder, tiny_onnx_folder):
        folder = tmp_path / source.name
        shutil.copytree(source, folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        (folder / "tokenizer_config.json").write_text(json.dumps(config | {"model_max_length": 2}))
        with pytest.raises(EncoderUnavailable, match="leaves none"):
            load(str(folder))
