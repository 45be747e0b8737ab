import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.model_files import choose, find

BOTH = ("onnx", "torch")


@pytest.mark.parametrize(
    ("files", "backends", "expected"),
    [
        (["model.onnx", "model.safetensors"], BOTH, ("onnx", ("model.onnx",))),
        (["model.onnx", "model.safetensors"], ("torch", "onnx"), ("torch", ("model.safetensors",))),
        (["onnx/model.onnx", "onnx/model_O3.onnx"], BOTH, ("onnx", ("onnx/model.onnx",))),
        (["onnx/model.onnx", "model.onnx"], BOTH, ("onnx", ("model.onnx",))),
        (["my.onnx", "my.onnx_data"], BOTH, ("onnx", ("my.onnx", "my.onnx_data"))),
        (["a-1.safetensors", "a-2.safetensors"], BOTH, ("torch", ("a-1.safetensors", "a-2.safetensors"))),
        (["a.onnx", "b.onnx", "model.safetensors"], BOTH, ("torch", ("model.safetensors",))),
        (["model.onnx", "model.safetensors"], ("onnx",), ("onnx", ("model.onnx",))),
        (["model.safetensors", "pytorch_model.bin"], ("onnx",), ("onnx", ("model.safetensors",))),
    ],
)
def test_the_first_backend_that_can_run_what_is_there_is_chosen(files, backends, expected):
    assert choose("it", files, backends) == expected


@pytest.mark.parametrize(
    ("files", "backends", "message"),
    [
        (["onnx/model.onnx"], ("torch",), 'pip install "trivium[semantic]"'),
        (["pytorch_model.bin"], BOTH, "pickled weights"),
        (["a.onnx", "b.onnx"], BOTH, "holds no model.onnx"),
        ([], BOTH, "holds no model.onnx"),
    ],
)
def test_what_no_installed_backend_can_run_says_what_to_do(files, backends, message):
    with pytest.raises(EncoderUnavailable, match="^it holds ") as caught:
        choose("it", files, backends)
    assert message in str(caught.value)


def test_a_folder_is_known_by_its_name_and_a_digest_of_its_weights(tmp_path: Path):
    folder = tmp_path / "my-encoder"
    (folder / "onnx").mkdir(parents=True)
    (folder / "onnx" / "model.onnx").write_bytes(b"weights")
    (folder / "config.json").write_text("{}", encoding="utf-8")
    source = find(str(folder), BOTH)
    assert (source.name, source.revision) == ("my-encoder", sha256(b"weights").hexdigest())
    assert (source.backend, source.weights) == ("onnx", ("onnx/model.onnx",))


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "a/b/c", "~/nothing here"])
def test_a_folder_that_does_not_exist_is_reported_as_missing(name: str):
    with pytest.raises(EncoderUnavailable, match="is not a folder here"):
        find(name, BOTH)


def test_a_name_that_the_hub_would_not_take_is_refused():
    pytest.importorskip("huggingface_hub")
    with pytest.raises(EncoderUnavailable, match="is not a name on the Hugging Face hub"):
        find("some--one", BOTH)


def test_a_file_is_no_encoder(tmp_path: Path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"")
    with pytest.raises(EncoderUnavailable, match="is a file"):
        find(str(file), BOTH)


@pytest.mark.parametrize(("content", "message"), [("{", "cannot be read"), ("[]", "holds no JSON object")])
def test_a_broken_configuration_is_named(content: str, message: str, tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "config.json").write_text(content, encoding="utf-8")
    source = find(str(tmp_path), BOTH)
    with pytest.raises(EncoderUnavailable, match=message):
        source.config("config.json")


def test_a_missing_configuration_is_empty(tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(b"")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}), encoding="utf-8")
    source = find(str(tmp_path), BOTH)
    assert source.config("tokenizer_config.json") == {}
    assert source.config("config.json") == {"model_type": "bert"}


@pytest.mark.parametrize(
    ("config", "said"),
    [({"model_type": "deberta-v2"}, "is a model of type 'deberta-v2'"), ({"model_type": "bert"}, "fetched")],
)
def test_a_family_that_cannot_be_run_is_refused_before_its_weights_are_fetched(config, said, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")

    def fetch(name: str, *, local_files_only: bool = False, **options: object) -> str:
        if local_files_only:
            raise hub.errors.LocalEntryNotFoundError("not here")
        raise OSError("fetched")

    stated = SimpleNamespace(siblings=[SimpleNamespace(rfilename="model.safetensors")], config=config)
    monkeypatch.setattr(hub, "snapshot_download", fetch)
    monkeypatch.setattr(hub.constants, "is_offline_mode", lambda: False)
    monkeypatch.setattr(hub.HfApi, "model_info", lambda self, name, timeout: stated)
    with pytest.raises(EncoderUnavailable) as caught:
        find("some/one", ("onnx",))
    assert said in f"{caught.value} {caught.value.__cause__}"
