"""Reads tensors of safetensors files as float32 arrays; those stored as such are mapped, not copied."""

import json
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trivium.errors import EncoderUnavailable

_LONGEST_HEADER = 100_000_000
"""Bytes of the longest header that the safetensors library itself accepts."""

_ITEM_SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes of one number, of the types that weights are read from."""


class Entry(NamedTuple):
    """The position of a tensor as the header states it, not checked yet.

    Attributes:
        file: The file that holds it.
        start: Offset in the file at which the tensors of that file begin.
        stated: What the header says of the tensor.
    """

    file: Path
    start: int
    stated: Any


class Tensors:
    """The tensors of an encoder's files, by name.

    Args:
        files: Safetensors files, read as one.

    Raises:
        EncoderUnavailable: If a file is not in the safetensors format.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self._entries: dict[str, Entry] = {}
        self._mapped: dict[Path, NDArray[np.uint8]] = {}
        for file in files:
            start, header = _read_header(file)
            self._entries |= {name: Entry(file, start, stated) for name, stated in header.items()}
            self._mapped[file] = np.memmap(file, dtype=np.uint8, mode="r")

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def read(self, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """A tensor in single precision; no copy is made of one that is stored so.

        Args:
            name: As in the file.
            shape: The shape that it must have.

        Raises:
            EncoderUnavailable: If there is none of that name and shape, or the header does not fit the file.
        """
        if name not in self._entries:
            held = ", ".join(sorted({file.name for file in self._mapped}))
            raise EncoderUnavailable(f"{held} has no tensor {name}, which config.json calls for")
        file, start, stated = self._entries[name]
        where = f"{file.name}: tensor {name}"
        if not isinstance(stated, dict):
            raise EncoderUnavailable(f"{where} is not described by an object")
        dtype, found, offsets = (stated.get(key) for key in ("dtype", "shape", "data_offsets"))
        if not isinstance(dtype, str) or dtype not in _ITEM_SIZES:
            raise EncoderUnavailable(f"{where} is of type {dtype!r}; expected {', '.join(_ITEM_SIZES)}")
        if found != list(shape):
            raise EncoderUnavailable(f"{where} has shape {found!r}, but config.json calls for {list(shape)}")
        data = self._mapped[file][start:]
        span = _span(offsets, len(data))
        if span is None or span.stop - span.start != prod(shape) * _ITEM_SIZES[dtype]:
            raise EncoderUnavailable(
                f"{where} lies at {offsets!r} of {len(data)} bytes, which does not fit its type and shape"
            )
        return _as_float32(data[span], dtype).reshape(shape)


def _read_header(file: Path) -> tuple[int, dict[str, Any]]:
    """Offset at which the tensors begin, and what the header says of each."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise EncoderUnavailable(f"{file.name} is no safetensors file, or was cut short")
            header = json.loads(stream.read(length))
    except (OSError, ValueError, RecursionError) as error:
        raise EncoderUnavailable(f"{file.name} has no readable header: {error}") from error
    if not isinstance(header, dict):
        raise EncoderUnavailable(f"{file.name} has a header that is no JSON object")
    header.pop("__metadata__", None)
    return 8 + length, header


def _span(offsets: Any, size: int) -> slice | None:
    """Convert a pair [begin, end] to a slice; None if it is invalid or outside the given number of bytes."""
    if not (isinstance(offsets, list) and len(offsets) == 2 and all(type(each) is int for each in offsets)):
        return None
    begin, end = offsets
    return slice(begin, end) if 0 <= begin <= end <= size else None


def _as_float32(data: NDArray[np.uint8], dtype: str) -> NDArray[np.float32]:
    if dtype == "BF16":  # the upper half of a float32
        return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)
    stored = data.view({"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype])
    # The format does not promise that a tensor begins at a multiple of its item size.
    return np.require(stored, dtype=np.float32, requirements="A")
