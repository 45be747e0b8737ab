import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.encoders import write_safetensors
from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.bert_graph import EncoderGraph, build_graph

onnxruntime = pytest.importorskip("onnxruntime")

SIZES = {"vocab_size": 40, "initializer_range": 0.5}
BERT = SIZES | {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}
ROBERTA = BERT | {"max_position_embeddings": 26, "pad_token_id": 1, "type_vocab_size": 1}
DISTILBERT = SIZES | {
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 24,
}

MODELS = [
    pytest.param("bert", BERT, "AutoModel", id="bert"),
    pytest.param("bert", BERT, "AutoModelForMaskedLM", id="bert with a head"),
    pytest.param("bert", BERT | {"hidden_act": "gelu_new"}, "AutoModel", id="bert gelu_new"),
    pytest.param("bert", BERT | {"hidden_act": "gelu_fast"}, "AutoModel", id="bert gelu_fast"),
    pytest.param("bert", BERT | {"hidden_act": "relu", "layer_norm_eps": 1e-3}, "AutoModel", id="bert relu"),
    pytest.param("distilbert", DISTILBERT, "AutoModel", id="distilbert"),
    pytest.param(
        "distilbert", DISTILBERT | {"activation": "relu"}, "AutoModelForMaskedLM", id="distilbert relu"
    ),
    pytest.param("roberta", ROBERTA, "AutoModel", id="roberta"),
    pytest.param("roberta", ROBERTA, "AutoModelForMaskedLM", id="roberta with a head"),
    pytest.param("xlm-roberta", ROBERTA, "AutoModelForMaskedLM", id="xlm-roberta"),
    pytest.param("camembert", ROBERTA | {"pad_token_id": 3}, "AutoModelForMaskedLM", id="camembert"),
    pytest.param("electra", BERT | {"embedding_size": 16}, "AutoModelForPreTraining", id="electra, narrow"),
    pytest.param("electra", BERT | {"embedding_size": 32}, "AutoModel", id="electra"),
]


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """PyTorch and transformers, where they are installed: importing them counts for no test."""
    if find_spec("torch") and find_spec("transformers"):
        from transformers import BertModel  # noqa: F401


def random_model(family: str, settings: Mapping[str, Any], auto_class: str, folder: Path) -> Any:
    """A model of transformers, every weight of it random, saved in a folder."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(family, **settings)
    model = getattr(transformers, auto_class).from_config(config, attn_implementation="eager").eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.4, generator=generator)
    model.save_pretrained(folder)
    return model


def read_config(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def graph_of(folder: Path, layer: int | None = None) -> EncoderGraph:
    return build_graph("it", read_config(folder), sorted(folder.glob("*.safetensors")), layer)


def run(graph: EncoderGraph, **inputs: np.ndarray) -> np.ndarray:
    """The hidden states, after the arrays of weights are gone: ONNX Runtime promises to copy them."""
    options = onnxruntime.SessionOptions()
    arrays = {name: array.copy() for name, array in graph.weights.items()}
    weights = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
    options.add_external_initializers(list(weights), list(weights.values()))
    session = onnxruntime.InferenceSession(graph.model, options, providers=["CPUExecutionProvider"])
    for array in arrays.values():
        array[...] = np.nan
    (hidden,) = session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})
    return hidden


def batch(vocabulary: int = 40, length: int = 11, padding: int = 0) -> dict[str, np.ndarray]:
    """Token ids of three texts, padded to one length; what stands for padding also stands in one of them."""
    generator = np.random.default_rng(5)
    ids = generator.integers(4, vocabulary, (3, length))
    ids[2, 3] = padding
    mask = np.ones_like(ids)
    mask[1, 4:] = mask[2, length - 1 :] = 0
    ids[mask == 0] = padding
    types = np.zeros_like(ids)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def by_torch(model: Any, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The hidden states of each layer."""
    import torch

    inputs = {name: torch.from_numpy(array) for name, array in inputs.items()}
    if model.config.model_type == "distilbert":
        inputs.pop("token_type_ids")
    with torch.inference_mode():
        return [each.numpy() for each in model(**inputs, output_hidden_states=True).hidden_states]


def apart(ours: np.ndarray, theirs: np.ndarray, mask: np.ndarray) -> float:
    """The largest difference at a token that is not padding."""
    assert ours.shape == theirs.shape
    return float(np.abs((ours - theirs)[mask == 1]).max())


@pytest.mark.cpu(20, "transformers is imported and its models run")
@pytest.mark.parametrize(("family", "settings", "auto_class"), MODELS)
def test_every_layer_equals_that_of_transformers(family, settings, auto_class, tmp_path):
    model = random_model(family, settings, auto_class, tmp_path)
    inputs = batch(padding=settings.get("pad_token_id", 0))
    theirs = by_torch(model, inputs)
    assert len(theirs) == 3
    for layer, expected in [*enumerate(theirs), (None, theirs[-1])]:
        ours = run(graph_of(tmp_path, layer), **inputs)
        assert apart(ours, expected, inputs["attention_mask"]) < 1e-5


def test_token_types_count(tmp_path):
    model = random_model("bert", BERT, "AutoModel", tmp_path)
    inputs = batch()
    inputs["token_type_ids"][:, 5:] = 1
    ours = run(graph_of(tmp_path), **inputs)
    assert apart(ours, by_torch(model, inputs)[-1], inputs["attention_mask"]) < 1e-5


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_weights_of_another_precision_are_read_as_single(dtype: str, tmp_path: Path):
    torch = pytest.importorskip("torch")
    model = random_model("bert", BERT, "AutoModel", tmp_path).to(getattr(torch, dtype))
    model.save_pretrained(tmp_path)
    inputs = batch()
    ours = run(graph_of(tmp_path), **inputs)
    assert apart(ours, by_torch(model.float(), inputs)[-1], inputs["attention_mask"]) < 1e-5


def test_the_names_of_old_checkpoints_and_weights_in_several_files_are_read(tmp_path):
    model = random_model("bert", BERT, "AutoModelForMaskedLM", tmp_path)
    save = pytest.importorskip("safetensors.torch").save_file
    (tmp_path / "model.safetensors").unlink()
    halves: list[dict[str, Any]] = [{}, {}]
    for index, (name, tensor) in enumerate(model.bert.state_dict().items()):
        old = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        halves[index % 2][f"bert.{old}"] = tensor.contiguous()
    for index, half in enumerate(halves):
        save(half, tmp_path / f"model-0000{index + 1}-of-00002.safetensors")
    inputs = batch()
    ours = run(graph_of(tmp_path), **inputs)
    assert apart(ours, by_torch(model, inputs)[-1], inputs["attention_mask"]) < 1e-5


def test_the_model_is_valid_onnx(tmp_path):
    onnx = pytest.importorskip("onnx")
    for family, settings in (("bert", BERT), ("distilbert", DISTILBERT), ("roberta", ROBERTA)):
        folder = tmp_path / family
        random_model(family, settings, "AutoModel", folder)
        graph = graph_of(folder, layer=1)
        model = onnx.ModelProto.FromString(graph.model)
        assert len(model.SerializeToString()) == len(graph.model), "every field is known"
        for held in model.graph.initializer:
            if held.data_location == onnx.TensorProto.EXTERNAL:
                held.CopyFrom(onnx.numpy_helper.from_array(graph.weights[held.name], held.name))
        onnx.checker.check_model(model, full_check=True)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        (output,) = inferred.graph.output
        assert output.name == "hidden_states.1"


# Without PyTorch: a model written by hand, and its forward pass in NumPy

TINY = {
    "model_type": "bert",
    "vocab_size": 12,
    "type_vocab_size": 2,
    "max_position_embeddings": 8,
    "hidden_size": 6,
    "intermediate_size": 10,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
}


def tiny_weights() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(1)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (12, 6),
        "embeddings.position_embeddings.weight": (8, 6),
        "embeddings.token_type_embeddings.weight": (2, 6),
    }
    layer = "encoder.layer.0."
    for part in ("attention.self.query", "attention.self.key", "attention.self.value"):
        shapes |= {f"{layer}{part}.weight": (6, 6), f"{layer}{part}.bias": (6,)}
    shapes |= {f"{layer}attention.output.dense.weight": (6, 6), f"{layer}attention.output.dense.bias": (6,)}
    shapes |= {f"{layer}intermediate.dense.weight": (10, 6), f"{layer}intermediate.dense.bias": (10,)}
    shapes |= {f"{layer}output.dense.weight": (6, 10), f"{layer}output.dense.bias": (6,)}
    for part in ("embeddings.", f"{layer}attention.output.", f"{layer}output."):
        shapes |= {f"{part}LayerNorm.weight": (6,), f"{part}LayerNorm.bias": (6,)}
    return {name: generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def forward(weights: Mapping[str, np.ndarray], ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """BERT as its paper has it, one layer, in double precision."""
    from scipy.special import erf, softmax

    at = {name: array.astype(np.float64) for name, array in weights.items()}

    def normalised(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * at[f"{name}.LayerNorm.weight"] + at[f"{name}.LayerNorm.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ at[f"{name}.weight"].T + at[f"{name}.bias"]

    words, positions, types = (
        at[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
    )
    x = normalised(words[ids] + positions[: ids.shape[1]] + types[0], "embeddings")
    layer = "encoder.layer.0."
    query, key, value = (linear(x, f"{layer}attention.self.{name}") for name in ("query", "key", "value"))
    mixed = np.empty_like(x)
    for head in (slice(0, 3), slice(3, 6)):
        near = query[..., head] @ key[..., head].swapaxes(1, 2) / np.sqrt(3)
        near = np.where(mask[:, None, :] == 1, near, -np.inf)
        mixed[..., head] = softmax(near, axis=-1) @ value[..., head]
    x = normalised(linear(mixed, f"{layer}attention.output.dense") + x, f"{layer}attention.output")
    inner = linear(x, f"{layer}intermediate.dense")
    inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
    return normalised(linear(inner, f"{layer}output.dense") + x, f"{layer}output")


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    write_safetensors(file, tiny_weights())
    return file


def test_the_graph_computes_what_the_paper_says(tiny: Path):
    inputs = batch(vocabulary=12, length=8)
    ours = run(build_graph("it", TINY | {"pad_token_id": None}, [tiny], None), **inputs)
    expected = forward(tiny_weights(), inputs["input_ids"], inputs["attention_mask"])
    assert apart(ours, expected, inputs["attention_mask"]) < 1e-5


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"model_type": "deberta-v2"}, "is a model of type 'deberta-v2'"),
        ({"model_type": None}, "has no model_type in its config.json"),
        ({"model_type": ["bert"]}, "is a model of type"),
        ({"position_embedding_type": "relative_key"}, "has 'relative_key' positions"),
        ({"is_decoder": True}, "is a decoder"),
        ({"hidden_act": "silu"}, "has the activation 'silu'"),
        ({"hidden_act": {}}, "has the activation {}"),
    ],
)
def test_what_cannot_be_built_says_what_can_and_the_way_out(changes, fragment, tiny):
    with pytest.raises(EncoderUnavailable) as caught:
        build_graph("it", TINY | changes, [tiny], None)
    message = str(caught.value)
    assert message.startswith("it ")
    assert fragment in message
    assert 'pip install "trivium[semantic-torch]"' in message
    assert "model.onnx" in message


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"hidden_size": 0}, "states 0 as hidden_size"),
        ({"hidden_size": "6"}, "states '6' as hidden_size"),
        ({"num_attention_heads": True}, "states True as num_attention_heads"),
        ({"num_attention_heads": 4}, "a width of 6 for 4 heads"),
        ({"num_hidden_layers": 10**9}, "has no tensor encoder.layer.1.attention"),
        ({"num_hidden_layers": 10**99}, "as num_hidden_layers"),
        ({"vocab_size": None}, "states None as vocab_size"),
        ({"vocab_size": 13}, "has shape [12, 6], but config.json calls for [13, 6]"),
        ({"max_position_embeddings": 512}, "has shape [8, 6], but config.json calls for [512, 6]"),
        ({"layer_norm_eps": "tiny"}, "states 'tiny' as layer_norm_eps"),
        ({"layer_norm_eps": float("nan")}, "states nan as layer_norm_eps"),
        ({"model_type": "roberta", "pad_token_id": None}, "states None as pad_token_id"),
        ({"pad_token_id": "0"}, "states '0' as pad_token_id"),
        ({"pad_token_id": 12}, "states 12 as pad_token_id; expected a token id"),
        ({"model_type": "electra"}, "states None as embedding_size"),
    ],
)
def test_a_configuration_that_does_not_fit_the_weights_is_named(changes, fragment, tiny):
    with pytest.raises(EncoderUnavailable, match="^it cannot be loaded: ") as caught:
        build_graph("it", TINY | changes, [tiny], None)
    assert fragment in str(caught.value)


def test_a_layer_that_is_not_there_is_refused(tiny: Path):
    for layer in (-1, 2):
        with pytest.raises(EncoderUnavailable, match=f"no layer {layer}; its layers are 0 to 1"):
            build_graph("it", TINY, [tiny], layer)
