"""Growing sequences of numbers that keep little in memory, and the rest in a temporary file."""

import errno
import io
import os
import tempfile
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Generic, Literal, TypeVar

from trivium.errors import TriviumError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Number = TypeVar("Number", int, float)
Kind = Literal["d", "q", "Q", "I"]

BLOCK = 16_384
"""Most numbers of a sequence that are in memory; shorter ones need no file."""

_FEW = 256
"""Fewer numbers than this are left in memory when a sequence is complete."""

_NEAR = 512
"""Number of values read at once, because access is mostly sequential."""

_RESTORED_AT_ONCE = 8 * BLOCK
_SORTED_AT_ONCE = 1 << 16
_MOST_PARTS = 64
"""Size and maximum number of the parts in which numbers are sorted. Each part takes a pass over all numbers,
so the parts grow beyond four million."""


class NoRoom(TriviumError):
    """A temporary file cannot be made, written or read."""

    def __init__(self, failure: OSError) -> None:
        full = failure.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        hint = ": make room there, or name another folder in TMPDIR" if full else ""
        folder = tempfile.gettempdir()
        super().__init__(f"{folder}: no temporary file can be kept here ({failure.strerror}){hint}")


class SpillFile:
    """A temporary file for the blocks of any number of buffers, made when the first one is written.

    It has no name where the platform allows that, so that it goes with its process, however that ends.
    """

    def __init__(self) -> None:
        self._file: io.RawIOBase | None = None
        self._end = 0
        self._lock = threading.Lock()

    def append(self, block: bytes) -> int:
        """Write a block, and return its offset in bytes.

        Raises:
            NoRoom: If it cannot be written; then the file is as before.
        """
        with self._lock:
            try:
                if self._file is None:
                    self._keep(tempfile.TemporaryFile(prefix="trivium-", buffering=0))  # noqa: SIM115
                file = self._opened()
                file.seek(self._end)
                left = memoryview(block)
                while left:
                    left = left[file.write(left) or 0 :]
            except OSError as failure:
                raise NoRoom(failure) from failure
            offset, self._end = self._end, self._end + len(block)
            return offset

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes that were written.

        Raises:
            NoRoom: If they cannot be read.
        """
        with self._lock:
            try:
                file = self._opened()
                file.seek(offset)
                found = file.read(size) or b""
                while len(found) < size and (more := file.read(size - len(found))):
                    found += more
            except OSError as failure:
                raise NoRoom(failure) from failure
        if len(found) < size:
            raise NoRoom(OSError(errno.EIO, os.strerror(errno.EIO)))
        return found

    @classmethod
    def opened(cls, path: Path) -> "SpillFile":
        """Open a file that :meth:`NumberBuffer.save` has written to, for reading.

        Raises:
            NoRoom: If it cannot be opened.
        """
        made = cls()
        try:
            made._keep(path.open("rb", buffering=0))
        except OSError as failure:
            raise NoRoom(failure) from failure
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        """Buffers that are pickled together share a new file, as they shared this one."""
        return SpillFile, ()

    def _keep(self, file: Any) -> None:
        self._file = file
        weakref.finalize(self, file.close)

    def _opened(self) -> io.RawIOBase:
        assert self._file is not None  # noqa: S101 - whoever reads has written
        return self._file


class NumberBuffer(Generic[Number]):
    """A growing sequence of numbers; all but the last ones, at most ``BLOCK``, are in a file.

    A pickled one contains its numbers; see also :meth:`save`. Of many sequences, share a file, of which a
    process may open only so many, and :meth:`seal` each.

    Args:
        kind: Type code of :mod:`array`: ``d`` (8 bytes), ``q`` (8), ``Q`` (8, without
            sign) or ``I`` (4, without sign).
        file: The file; by default one of its own.
    """

    def __init__(self, kind: Kind, file: SpillFile | None = None) -> None:
        self.kind = kind
        self.file = file or SpillFile()
        self._latest: array[Number] = array(kind)
        self._size = self._latest.itemsize
        self._offsets = array("Q")
        """Offset of each block in the file."""
        self._in_file = 0
        """Number of numbers in the file."""
        self._near: tuple[int, array[Number]] = (0, array(kind))

    def __len__(self) -> int:
        return self._in_file + len(self._latest)

    def seal(self) -> None:
        """Move the last numbers to the file, too, unless they are few; none can be added any more."""
        if len(self._latest) >= _FEW:
            self._write(self._latest)

    @property
    def spilled(self) -> bool:
        """Whether any of the numbers are in the file."""
        return bool(self._in_file)

    def __getitem__(self, index: int) -> Number:
        """A number, by an index from 0."""
        if index >= self._in_file:
            return self._latest[index - self._in_file]
        first, near = self._near
        if not first <= index < first + len(near):
            first, near = self._near = (index, self.read(index, min(index + _NEAR, self._in_file)))
        return near[index - first]

    def append(self, number: Number) -> None:
        """Add a number at the end."""
        self._latest.append(number)
        if len(self._latest) >= BLOCK:
            self._spill()

    def extend(self, numbers: Iterable[Number]) -> None:
        """Add numbers at the end."""
        self._latest.extend(array(self.kind, numbers))
        self._spill()

    def frombytes(self, content: bytes) -> None:
        """Add numbers at the end, as they are in memory."""
        self._latest.frombytes(content)
        if len(self._latest) >= BLOCK:
            self._spill()

    def join(self, other: "NumberBuffer[Number]") -> None:
        """Add the numbers of another buffer, of the same kind, at the end."""
        for first in range(0, len(other), BLOCK):
            self.frombytes(other.read(first, min(first + BLOCK, len(other))).tobytes())

    def read(self, first: int, last: int) -> "array[Number]":
        """Return a copy of the numbers from ``first`` up to ``last``, which is left out."""
        found: array[Number] = array(self.kind)
        while first < min(last, self._in_file):
            block, inside = divmod(first, BLOCK)
            count = min(BLOCK - inside, last - first)
            found.frombytes(self.file.read(self._offsets[block] + inside * self._size, count * self._size))
            first += count
        if first < last:
            found.extend(self._latest[first - self._in_file : last - self._in_file])
        return found

    def blocks(self) -> "Iterator[npt.NDArray[Any]]":
        """Yield all numbers in order, in arrays of shape (``BLOCK``,) of which the last may be shorter."""
        import numpy as np

        for first in range(0, len(self), BLOCK):
            # str: of a dtype of a Literal, mypy tries every overload for every kind, which takes seconds.
            yield np.frombuffer(self.read(first, min(first + BLOCK, len(self))), np.dtype(str(self.kind)))

    def all(self) -> "npt.NDArray[Any]":
        """Return a copy of all numbers, shape (n,)."""
        import numpy as np

        numbers = np.empty(len(self), np.dtype(str(self.kind)))
        for number, block in enumerate(self.blocks()):
            numbers[number * BLOCK : number * BLOCK + len(block)] = block
        return numbers

    def save(self, file: IO[bytes]) -> int:
        """Write all numbers at the end of a file, with which processes of this machine can share them.

        Returns:
            Their offset in bytes.

        Raises:
            NoRoom: If they cannot be written.
        """
        try:
            offset = file.seek(0, os.SEEK_END)
            for first in range(0, len(self), BLOCK):
                file.write(self.read(first, min(first + BLOCK, len(self))))
        except OSError as failure:
            raise NoRoom(failure) from failure
        return offset

    @classmethod
    def opened(cls, file: SpillFile, offset: int, kind: Kind, length: int) -> "NumberBuffer[Any]":
        """The numbers that :meth:`save` has written, which are read when they are needed."""
        made: NumberBuffer[Any] = NumberBuffer(kind, file)
        made._in_file = length
        made._offsets.extend(range(offset, offset + length * made._size, BLOCK * made._size))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.kind, self.read(0, len(self)).tobytes(), self.file)

    def _spill(self) -> None:
        while len(self._latest) >= BLOCK:
            self._write(self._latest[:BLOCK])

    def _write(self, block: "array[Number]") -> None:
        self._offsets.append(self.file.append(block.tobytes()))
        self._in_file += len(block)
        del self._latest[: len(block)]


def _restored(kind: Kind, content: bytes, file: SpillFile) -> NumberBuffer[Any]:
    made: NumberBuffer[Any] = NumberBuffer(kind, file)
    for first in range(0, len(content), _RESTORED_AT_ONCE):
        made.frombytes(content[first : first + _RESTORED_AT_ONCE])
    return made


def ranges(numbers: NumberBuffer[int], *, every: int = 1) -> "Iterator[tuple[Any, Any]]":
    """Yield the first and the last number of ranges that cover whole numbers, each with a part of them.

    Args:
        numbers: The numbers, spread evenly, as hashes are; else the parts are not of equal size.
        every: Step from each to the next one; those between are left out.
    """
    import numpy as np

    ends = [(int(block[::every].min()), int(block[::every].max())) for block in numbers.blocks()]
    if not ends:
        return
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    parts = min(-(-len(numbers) // every // _SORTED_AT_ONCE), _MOST_PARTS)
    number = np.dtype(str(numbers.kind)).type
    for first, after in pairwise(low + (high - low + 1) * part // parts for part in range(parts + 1)):
        if first < after:
            yield number(first), number(after - 1)


def ascending(
    numbers: NumberBuffer[int], *, every: int = 1
) -> "Iterator[tuple[npt.NDArray[Any], npt.NDArray[np.int64]]]":
    """Yield whole numbers in ascending order, some ten thousand at a time, with their indices.

    Equal ones come together, in the order of their indices. The numbers are read once for each part, so that
    no more than a part is in memory.

    Args:
        numbers: See :func:`ranges`.
        every: See :func:`ranges`; those between are not counted by the indices.
    """
    import numpy as np

    for first, last in ranges(numbers, every=every):
        values, indices, counted = [], [], 0
        for block in numbers.blocks():
            some = block[::every]
            found = np.flatnonzero((some >= first) & (some <= last))
            values.append(some[found])
            indices.append(found + counted)
            counted += len(some)
        value, index = np.concatenate(values), np.concatenate(indices)
        order = np.argsort(value, kind="stable")
        yield value[order], index[order]


def repeated(numbers: NumberBuffer[int], *, every: int = 1) -> list[int]:
    """Indices of the numbers that are there more than once, in order; arguments as of :func:`ascending`."""
    found: set[int] = set()
    for values, indices in ascending(numbers, every=every):
        same = (values[1:] == values[:-1]).nonzero()[0]
        found.update(indices[same].tolist(), indices[same + 1].tolist())
    return sorted(found)
