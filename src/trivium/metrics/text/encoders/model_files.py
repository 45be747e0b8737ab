"""Finds an encoder's files in a local folder, in the hub's cache or on the hub."""

import json
import logging
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple

from trivium.errors import EncoderUnavailable
from trivium.metrics.text.encoders.bert_graph import check_architecture

log = logging.getLogger(__name__)

Backend = Literal["onnx", "torch"]
"""Library that runs a model."""

HUB_SECONDS = 10.0
"""Timeout of a request to the hub; short, so that a machine without network fails soon."""

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")

_BESIDE_WEIGHTS = frozenset(
    {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.txt",
        "vocab.json",
        "merges.txt",
        "spiece.model",
        "sentencepiece.bpe.model",
        "model.safetensors.index.json",
    }
)

_EXTRAS: dict[Backend, str] = {"onnx": "semantic", "torch": "semantic-torch"}


class Source(NamedTuple):
    """An encoder's files and the backend to run them.

    Attributes:
        name: Name on the hub, or of the folder.
        revision: Commit on the hub, or a digest of the weights.
        folder: Folder with the files.
        backend: Library that runs the model.
        weights: Weight files for that backend, relative to the folder.
    """

    name: str
    revision: str
    folder: Path
    backend: Backend
    weights: tuple[str, ...]

    def config(self, file: str) -> dict[str, Any]:
        """Read a JSON file of the folder; empty if the file does not exist.

        Raises:
            EncoderUnavailable: If the file is not a JSON object.
        """
        path = self.folder / file
        if not path.is_file():
            return {}
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EncoderUnavailable(f"{path} cannot be read: {error}") from error
        if not isinstance(found, dict):
            raise EncoderUnavailable(f"{path} holds no JSON object")
        return found


def is_path(name: str) -> bool:
    """Whether a name is a local path rather than a name on the hub."""
    return Path(name).expanduser().exists() or not _HUB_NAME.fullmatch(name)


def find(name: str, backends: Sequence[Backend]) -> Source:
    """Find the files of an encoder; download them from the hub if they are not cached.

    Args:
        name: A local folder, or a name on the Hugging Face hub.
        backends: Installed backends, preferred first.

    Raises:
        EncoderUnavailable: If the files are not available, or no installed backend can run them.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _local(folder.resolve(), backends)
    if folder.exists() or not _HUB_NAME.fullmatch(name):
        what = "is a file" if folder.exists() else "is not a folder here"
        raise EncoderUnavailable(f"{name} {what}; an encoder is a folder or a name on the Hugging Face hub")
    return _from_hub(name, backends)


def _local(folder: Path, backends: Sequence[Backend]) -> Source:
    files = [path.relative_to(folder).as_posix() for path in _near_top(folder)]
    backend, weights = choose(str(folder), files, backends)
    digest = sha256()
    for file in weights:
        with (folder / file).open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return Source(folder.name, digest.hexdigest(), folder, backend, weights)


def _near_top(folder: Path) -> list[Path]:
    return sorted(path for pattern in ("*", "onnx/*") for path in folder.glob(pattern) if path.is_file())


def choose(name: str, files: Iterable[str], backends: Sequence[Backend]) -> tuple[Backend, tuple[str, ...]]:
    """Choose the backend that can run an encoder's files.

    Args:
        name: The encoder's name in messages.
        files: Its files, relative to its folder.
        backends: Installed backends, preferred first.

    Returns:
        The backend and its weight files.

    Raises:
        EncoderUnavailable: If no backend can; the message says which files exist and what to install.
    """
    files = sorted(files)
    safetensors = tuple(file for file in files if "/" not in file and file.endswith(".safetensors"))
    weights: dict[Backend, tuple[str, ...]] = {"onnx": _onnx_files(files), "torch": safetensors}
    if "torch" not in backends and not weights["onnx"]:
        weights["onnx"] = safetensors  # of which PyTorch runs more families
    for backend in backends:
        if weights[backend]:
            return backend, weights[backend]
    there = [backend for backend, found in weights.items() if found]
    if there:
        extra = _EXTRAS[there[0]]
        raise EncoderUnavailable(
            f"{name} holds {weights[there[0]][0]} alone, which the {backends[0]} backend cannot run: "
            f'pip install "trivium[{extra}]", or name another encoder (--encoder)'
        )
    pickled = [file for file in files if file.endswith((".bin", ".pt", ".pth", ".ckpt"))]
    if pickled:
        raise EncoderUnavailable(
            f"{name} holds pickled weights alone ({pickled[0]}), which can run code when they are loaded; "
            "expected model.safetensors or model.onnx"
        )
    raise EncoderUnavailable(f"{name} holds no model.onnx, onnx/model.onnx or model.safetensors")


def _onnx_files(files: Sequence[str]) -> tuple[str, ...]:
    """Choose the plain (not quantised) export, with its external data file."""
    exports = [file for file in files if file.endswith(".onnx")]
    plain = [file for file in exports if file in {"model.onnx", "onnx/model.onnx"}]
    if not plain and len(exports) != 1:
        return ()
    model = (plain or exports)[0]
    beside = [file for file in files if file in {f"{model}_data", f"{model}.data"}]
    return (model, *beside)


def _from_hub(name: str, backends: Sequence[Backend]) -> Source:
    if find_spec("huggingface_hub") is None:
        raise EncoderUnavailable(
            f'{name} is not a folder here, and fetching it needs an extra: pip install "trivium[semantic]"'
        )
    from huggingface_hub import HfApi, constants, errors, snapshot_download

    try:
        return _snapshot(name, Path(snapshot_download(name, local_files_only=True)), backends)
    except errors.HFValidationError as error:
        raise EncoderUnavailable(f"{name} is not a name on the Hugging Face hub") from error
    except (EncoderUnavailable, errors.LocalEntryNotFoundError) as error:
        log.debug("%s is not in the cache as it is needed: %s", name, error)
    how = f'run "hf download {name}" where there is a network, or name a folder (--encoder FOLDER)'
    if constants.is_offline_mode():
        raise EncoderUnavailable(f"{name} is not in the local cache, and HF_HUB_OFFLINE is set; {how}")
    try:
        info = HfApi().model_info(name, timeout=HUB_SECONDS)
    except errors.RepositoryNotFoundError as error:
        raise EncoderUnavailable(f"the hub has no public model called {name}") from error
    except Exception as error:  # network errors have many types
        raise EncoderUnavailable(
            f"{name} is not in the local cache and the hub cannot be reached; {how}"
        ) from error
    backend, weights = choose(name, [each.rfilename for each in info.siblings or ()], backends)
    if backend == "onnx" and weights[0].endswith(".safetensors") and info.config:
        check_architecture(name, info.config)  # before a gigabyte is fetched in vain
    wanted = [*weights, *_BESIDE_WEIGHTS]
    log.info("fetching %s from the hub", name)
    try:
        folder = snapshot_download(name, allow_patterns=wanted, etag_timeout=HUB_SECONDS)
    except Exception as error:  # network errors have many types
        raise EncoderUnavailable(f"fetching {name} failed: {type(error).__name__}; {how}") from error
    return _snapshot(name, Path(folder), backends)


def _snapshot(name: str, folder: Path, backends: Sequence[Backend]) -> Source:
    """Return the encoder in a snapshot folder of the cache, whose name is the commit."""
    files = [PurePosixPath(path.relative_to(folder)).as_posix() for path in _near_top(folder)]
    backend, weights = choose(name, files, backends)
    return Source(name, folder.name, folder, backend, weights)
