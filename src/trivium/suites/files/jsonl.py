"""Reads the cases of a .jsonl file on access, so that a large file needs little memory."""

import os
import re
import sys
import threading
import weakref
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import msgspec

from trivium.errors import Problem, Problems, SuiteError
from trivium.number_buffer import NumberBuffer, SpillFile, ascending, repeated
from trivium.records.documents import check_is_file, parse_line, readable
from trivium.records.lines import lines_of
from trivium.records.validation import convert
from trivium.safe_text import sanitise
from trivium.storage import Stamp, local_copy, path_of
from trivium.suites.case import Case, Cases

CASES_CACHED = 64
"""Number of decoded cases that are cached."""

_NEAR = 1_000_000
_HASH_BYTES = 16
_STEP = 512
"""Keys or hashes that are read together."""

_DECODER = msgspec.json.Decoder(Case)
_SUSPECT = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
"""Escapes of NUL and of surrogates: the texts of such a line are sanitised."""


class IdIndex:
    """Finds the positions of ids by their hashes. Collisions are ignored (128 bits).

    Args:
        hashes: Hash of each id (``hash_of``), one after the other: two numbers of kind ``Q`` each.
    """

    def __init__(self, hashes: NumberBuffer[int]) -> None:
        self.hashes = hashes
        self._keys: NumberBuffer[int] = NumberBuffer("Q", hashes.file)
        """The first half of each hash, ascending."""
        self._positions: NumberBuffer[int] = NumberBuffer("Q", hashes.file)
        for keys, positions in ascending(hashes, every=2):
            self._keys.frombytes(keys.tobytes())
            self._positions.frombytes(positions.tobytes())
        self._firsts = array("Q", (self._keys[place] for place in range(0, len(self._keys), _STEP)))
        """Every ``_STEP``-th key."""
        self._latest = 0
        self._read = (0, b"")

    def seal(self) -> None:
        """Move what the index takes to the temporary file; see :meth:`NumberBuffer.seal`."""
        for numbers in (self.hashes, self._keys, self._positions):
            numbers.seal()

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_latest": 0, "_read": (0, b"")}  # what was read last would travel, too

    def __len__(self) -> int:
        return len(self._keys)

    def position(self, id: str) -> int | None:  # noqa: A002 - the name of the field
        """Position of an id, or None."""
        wanted = hash_of(id)
        # Files of outputs are mostly in the order of the cases.
        for index in (self._latest, self._latest + 1):
            if self._hash_at(index) == wanted:
                self._latest = index
                return index
        key = int.from_bytes(wanted[: _HASH_BYTES // 2], sys.byteorder)
        after = bisect_left(self._firsts, key) * _STEP
        first = max(0, after - _STEP)
        near = self._keys.read(first, min(after + 1, len(self)))
        place = first + bisect_left(near, key)
        while place < len(self) and self._keys[place] == key:
            index = self._positions[place]
            if self._hash_at(index) == wanted:
                self._latest = index
                return index
            place += 1
        return None

    def equal(self) -> list[int]:
        """Return the positions, ascending, of all ids that occur more than once."""
        return repeated(self.hashes, every=2)

    def _hash_at(self, index: int) -> bytes:
        """The hash of an id, read with those of the next ones; empty if there is no such id."""
        first, near = self._read
        at = (index - first) * _HASH_BYTES
        if not 0 <= at < len(near):
            near = self.hashes.read(2 * index, 2 * min(index + _STEP, len(self))).tobytes()
            self._read, at = (index, near), 0
        return near[at : at + _HASH_BYTES]


def check_ids(
    index: IdIndex, id_at: Callable[[int], str], place: Callable[[int], str], *, source: str = ""
) -> None:
    """Refuse ids that several cases have.

    Args:
        index: The index of the ids.
        id_at: Returns the id at a position.
        place: Returns the place of a position, for messages; may read the file up to there.
        source: The file.

    Raises:
        SuiteError: With the first ids that occur again, and the number of the others.
    """
    problems = Problems(source)
    first: dict[str, int] = {}
    for position in index.equal():
        id_ = id_at(position)
        earlier = first.setdefault(id_, position)
        if earlier != position and problems.full:
            problems.add(further=1)
        elif earlier != position:
            what = f'duplicate id "{id_}" (first in {place(earlier)})'
            problems.add(Problem(place(position), what))
    problems.check()


class CaseFile(Cases):
    """The cases of a .jsonl file.

    Opening it validates every line, and stores its offset and an index of the ids, 40 bytes per case: of many
    cases in a temporary file. Cases are decoded on access. Of a file in object storage every machine makes a
    temporary copy, because cases are read in any order.

    Args:
        path: The file; blank lines are skipped.
        spill: The temporary file for what many cases take, if it is that of many files.

    Attributes:
        ids: The index of the ids.
        notes: Notes on what was mapped.

    Raises:
        SuiteError: With every mistake in the file; on access, if the file has changed.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, path: str | Path, spill: SpillFile | None = None) -> None:
        self.path = path_of(path) if isinstance(path, str) else path
        check_is_file(self.path)
        self._one_of_many = spill is not None
        self._nothing_read()
        self._version, self._local = self._copied()
        self._starts: NumberBuffer[int] = NumberBuffer("Q", spill)
        self.ids = IdIndex(self._hashes_of_ids())
        check_ids(self.ids, lambda index: self._read(index).id, self.place, source=str(self.path))
        if spill is not None:
            self._starts.seal()
            self.ids.seal()

    def _copied(self) -> tuple[Stamp, Path]:
        with readable(self.path, SuiteError):
            return local_copy(self.path)

    def _nothing_read(self) -> None:
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._asked = -1
        self._ahead: tuple[int, list[Case]] = (0, [])
        self._cached = lru_cache(maxsize=CASES_CACHED)(self._read)

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        """The file, which stays open unless it is one of many: there may be more than a process may open."""
        with self._lock:
            if self._file is None:
                with readable(self.path, SuiteError):
                    self._file = self._local.open("rb")
                self._close = weakref.finalize(self, self._file.close)
            try:
                yield self._file
            finally:
                if self._one_of_many:
                    self._close()
                    self._file = None

    def __getstate__(self) -> dict[str, object]:
        """The index, with which another process reads the cases without validating them again."""
        own = {"_lock", "_file", "_close", "_ahead", "_cached"}
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._nothing_read()
        if self._local != self.path and not self._local.exists():  # on another machine
            version, self._local = self._copied()
            self._stamp = _stamp_of(self._local.stat()) if version == self._version else (-1, -1)

    def __len__(self) -> int:
        return len(self._starts)

    def _at(self, index: int) -> Case:
        before, self._asked = self._asked, index
        first, ahead = self._ahead
        if first <= index < first + len(ahead):
            return ahead[index - first]
        if index != before + 1:
            return self._cached(index)
        near = self._read_all(self._near(index))  # sequential access: read ahead
        self._ahead = (index, near)
        return near[0]

    def __iter__(self) -> Iterator[Case]:
        first = 0
        while first < len(self):
            near = self._near(first)
            yield from self._read_all(near)
            first = near.stop

    def _near(self, first: int) -> range:
        """Return the indices of a case and some after it, to be read together unless they are long."""
        starts = self._starts.read(first, min(first + CASES_CACHED, len(self)))
        return range(first, first + bisect_left(starts, starts[0] + _NEAR, 1))

    def position(self, id: str) -> int | None:  # noqa: A002 - the name of the field
        """Index of a case, or None."""
        return self.ids.position(id)

    def place(self, index: int) -> str:
        """Place of a case, for messages."""
        return f"line {self.line_number(index)}"

    def line_number(self, index: int) -> int:
        """Return the line number of a case, from 1. Reads the file up to there."""
        line, left = 1, self._starts[index]
        with self._local.open("rb") as file:
            while left and (block := file.read(min(left, 1 << 20))):
                line += block.count(b"\n")
                left -= len(block)
        return line

    def _hashes_of_ids(self) -> NumberBuffer[int]:
        """Validate every line, store the offset of each case, and return the hashes of the ids."""
        hashes: NumberBuffer[int] = NumberBuffer("Q", self._starts.file)
        problems = Problems(str(self.path))
        with self._opened() as file:
            self._stamp = _stamp_of(os.fstat(file.fileno()))
            for start, number, line in lines_of(file, str(self.path), error=SuiteError):
                case, wrong = _case_of(line, number, start)
                problems.add(*wrong)
                if case is not None:
                    self._starts.append(start)
                    hashes.frombytes(hash_of(case.id))
        problems.check()
        return hashes

    def _read(self, index: int) -> Case:
        (case,) = self._read_all((index,))
        return case

    def _read_all(self, indices: Sequence[int]) -> list[Case]:
        lines = []
        with self._opened() as file:
            at = -1
            for index in indices:
                start = self._starts[index]
                if start != at:
                    file.seek(start)
                lines.append(file.readline())
                at = start + len(lines[-1])
            unchanged = _stamp_of(os.fstat(file.fileno())) == self._stamp
        cases = [case for line in lines if (case := _case_of(line, 0, 0)[0]) is not None] if unchanged else []
        if len(cases) < len(lines):
            raise SuiteError(str(self.path), "has changed since it was opened: load the suite again")
        return cases


def _stamp_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def hash_of(id: str) -> bytes:  # noqa: A002
    """Hash of an id, for an :class:`IdIndex`: as two numbers of kind ``Q``, as they are in memory."""
    return blake2b(id.encode(), digest_size=_HASH_BYTES).digest()


def _case_of(line: bytes, number: int, start: int) -> tuple[Case | None, list[Problem]]:
    """Parse the case on a line, or list its mistakes."""
    if not _SUSPECT.search(line):
        try:
            return _DECODER.decode(line), []
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass  # the slower path below describes the mistakes
    raw = parse_line(line, f"line {number}", start=start)
    if isinstance(raw, Problem):
        return None, [raw]
    if is_output(raw):
        return None, [
            Problem(f"line {number}", "is an output, expected a case: are SUITE and --outputs swapped?")
        ]
    return convert(sanitise(raw)[0], Case, f"line {number}:")


def is_output(raw: Any) -> bool:
    """Whether what should be a case is a recorded output."""
    return isinstance(raw, dict) and {"case", "output"} <= raw.keys() and "input" not in raw
