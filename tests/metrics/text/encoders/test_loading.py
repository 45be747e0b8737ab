import shutil
from pathlib import Path

import pytest

from tests.encoders import ONNX, TORCH, only_installed, onnx_export
from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders import loading
from trivium.metrics.text.encoders.loading import encoder_name, installed_backends, load


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIVIUM_ENCODER", raising=False)
    monkeypatch.setattr(loading, "_loaded", {})


@pytest.mark.parametrize(
    ("modules", "backends", "default"),
    [
        (ONNX, ("onnx",), "sentence-transformers/all-MiniLM-L6-v2"),
        (TORCH, ("torch",), "distilbert-base-uncased"),
        ((*ONNX, *TORCH), ("onnx", "torch"), "distilbert-base-uncased"),
    ],
)
def test_the_default_encoder_follows_what_is_installed(modules, backends, default, monkeypatch):
    only_installed(monkeypatch, *modules)
    assert installed_backends() == backends
    assert encoder_name() == default


def test_pytorch_is_preferred_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch):
    only_installed(monkeypatch, *ONNX, *TORCH)
    monkeypatch.setattr(loading, "_has_gpu", lambda: True)
    assert installed_backends() == ("torch", "onnx")


def test_what_is_asked_for_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch):
    only_installed(monkeypatch, *ONNX)
    monkeypatch.setenv("TRIVIUM_ENCODER", "from/environment")
    assert encoder_name() == "from/environment"
    assert encoder_name("from/suite") == "from/suite"


def test_without_any_backend_the_reason_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    only_installed(monkeypatch)
    with pytest.raises(EncoderUnavailable, match=r'pip install "trivium\[semantic\]"'):
        load()


def test_a_folder_that_is_not_there_is_named_before_what_to_install(monkeypatch: pytest.MonkeyPatch):
    only_installed(monkeypatch)
    with pytest.raises(EncoderUnavailable, match="nofolder is not a folder here, and no encoder backend"):
        load("nofolder")


def test_a_name_on_the_hub_needs_the_library_that_fetches_it(monkeypatch: pytest.MonkeyPatch):
    only_installed(monkeypatch, *TORCH)
    with pytest.raises(EncoderUnavailable, match="fetching it needs an extra"):
        load("someone/something")


def test_an_encoder_is_loaded_once(tiny_onnx_folder: Path):
    assert load(str(tiny_onnx_folder)) is load(str(tiny_onnx_folder))


def test_a_failure_is_remembered(tiny_onnx_folder: Path, tmp_path: Path):
    folder = tmp_path / "later"
    for _ in range(2):
        with pytest.raises(EncoderUnavailable, match="is not a folder here"):
            load(str(folder))
        if not folder.exists():
            shutil.copytree(tiny_onnx_folder, folder)
    loading._loaded.clear()
    assert load(str(folder)).name == "later"


def test_an_export_needs_the_backend_that_runs_it(tiny_onnx_folder: Path, monkeypatch: pytest.MonkeyPatch):
    only_installed(monkeypatch, *TORCH)
    with pytest.raises(EncoderUnavailable, match=r"trivium\[semantic\]"):
        load(str(tiny_onnx_folder))


def test_safetensors_are_run_by_pytorch_where_it_is_installed_and_else_by_onnx(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    for modules, backend in (((*ONNX, *TORCH), "torch"), (TORCH, "torch"), (ONNX, "onnx")):
        only_installed(monkeypatch, *modules)
        loading._loaded.clear()
        assert load(str(tiny_folder)).backend == backend


def test_a_layer_that_is_not_there_is_refused(
    tiny_folder: Path, tiny_onnx_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(EncoderUnavailable, match="its layers are 0 to 2"):
        load(str(tiny_folder), layer=3)
    with pytest.raises(EncoderUnavailable, match="does not give layer 3; it gives last_hidden_state"):
        load(str(tiny_onnx_folder), layer=3)
    loading._loaded.clear()
    only_installed(monkeypatch, *ONNX)
    with pytest.raises(EncoderUnavailable, match="its layers are 0 to 2"):
        load(str(tiny_folder), layer=3)


def test_a_broken_export_is_a_reason_not_a_crash(tiny_onnx_folder: Path, tmp_path: Path):
    folder = tmp_path / "broken"
    shutil.copytree(tiny_onnx_folder, folder)
    (folder / "onnx" / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EncoderUnavailable, match="broken cannot be loaded"):
        load(str(folder))


def test_an_export_without_tokeniser_is_a_reason(tiny_onnx_folder: Path, tmp_path: Path):
    folder = tmp_path / "mute"
    shutil.copytree(tiny_onnx_folder, folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(EncoderUnavailable, match="mute has no tokenizer.json"):
        load(str(folder))


def test_an_export_that_asks_for_more_than_tokens_is_a_reason(tiny_folder: Path, tmp_path: Path):
    folder = onnx_export(tiny_folder, tmp_path, inputs=("input_ids", "attention_mask", "pixel_values"))
    with pytest.raises(EncoderUnavailable, match="asks for pixel_values"):
        load(str(folder))


@pytest.mark.parametrize("modules", [ONNX, TORCH])
def test_broken_safetensors_are_a_reason(
    modules: tuple[str, ...], tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    only_installed(monkeypatch, *modules)
    folder = tmp_path / "broken"
    shutil.copytree(tiny_folder, folder)
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(EncoderUnavailable, match="broken cannot be loaded"):
        load(str(folder))
