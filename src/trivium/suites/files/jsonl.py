"""Reads the cases of files of JSON lines on access, so that large ones need little memory."""

import os
import re
import sys
import threading
import weakref
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import IO, Any

import msgspec

from trivium.errors import Problem, Problems, SuiteError
from trivium.number_buffer import NumberBuffer, ascending, repeated
from trivium.records.documents import check_is_file, parse_line, readable
from trivium.records.lines import lines_of
from trivium.records.validation import convert
from trivium.safe_text import sanitise
from trivium.storage import Stamp, local_copy
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


class CaseLines:
    """A file with a case on each line, which are read in any order.

    Of a file in object storage every machine makes a temporary copy.

    Args:
        path: The file; blank lines are skipped.
        first: Number of its first case, if cases are numbered.
        alone: Whether the file stays open; of many, there may be more than a process may open.

    Attributes:
        notes: Notes on what was mapped.

    Raises:
        SuiteError: If it cannot be read.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, path: Path, first: int, alone: bool) -> None:
        self.path, self.first, self._alone = path, first, alone
        self._not_open()
        check_is_file(path)
        self._version, self._local = self._copied()

    def _copied(self) -> tuple[Stamp, Path]:
        with readable(self.path, SuiteError):
            return local_copy(self.path)

    def _not_open(self) -> None:
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        with self._lock:
            if self._file is None:
                with readable(self.path, SuiteError):
                    self._file = self._local.open("rb")
                self._close = weakref.finalize(self, self._file.close)
            try:
                yield self._file
            finally:
                if not self._alone:
                    self._close()
                    self._file = None

    def __getstate__(self) -> dict[str, object]:
        """What is known of the file, with which another process reads it without validating it again."""
        return {name: value for name, value in vars(self).items() if name not in {"_lock", "_file", "_close"}}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._not_open()
        if self._local != self.path and not self._local.exists():  # on another machine
            version, self._local = self._copied()
            self._stamp = _stamp_of(self._local.stat()) if version == self._version else (-1, -1)

    def cases(self) -> Iterator[tuple[int, Case]]:
        """Yield offset and case of each line.

        Raises:
            SuiteError: At the end, with every mistake in the file.
        """
        problems = Problems(str(self.path))
        with self._opened() as file:
            self._stamp = _stamp_of(os.fstat(file.fileno()))
            for start, number, line in lines_of(file, str(self.path), error=SuiteError):
                case, wrong = _case_of(line, number, start)
                problems.add(*wrong)
                if case is not None:
                    yield start, case
        problems.check()

    def read(self, starts: Sequence[int]) -> list[Case]:
        """Return the cases at these offsets, which follow one another but for blank lines.

        Raises:
            SuiteError: If the file has changed.
        """
        with self._opened() as file:
            file.seek(starts[0])
            following = filter(bytes.strip, iter(file.readline, b""))
            lines = list(islice(following, len(starts)))
            unchanged = _stamp_of(os.fstat(file.fileno())) == self._stamp
        cases = [case for line in lines if (case := _case_of(line, 0, 0)[0]) is not None] if unchanged else []
        if len(cases) < len(starts):
            raise SuiteError(str(self.path), "has changed since it was opened: load the suite again")
        return cases

    def place(self, index: int, start: int) -> str:
        """Place of the case at an offset, for messages; reads the file up to there."""
        line, left = 1, start
        with self._local.open("rb") as file:
            while left and (block := file.read(min(left, 1 << 20))):
                line += block.count(b"\n")
                left -= len(block)
        return f"line {line}"


class CaseFiles(Cases):
    """The cases of files as one sequence, file after file, with an index of the ids.

    They are decoded on access. What is known of them takes 40 bytes per case: of many cases in a temporary
    file.

    Args:
        files: The files.
        opens: Opens a file, from the arguments of :class:`CaseLines`; cases without an id are numbered on
            from file to file.

    Attributes:
        ids: The index of the ids.
        notes: Notes on what was mapped.

    Raises:
        SuiteError: With the mistakes of all files, and the ids that are there twice; on access, if a file has
            changed.
    """

    def __init__(
        self, files: Sequence[Path], opens: Callable[[Path, int, bool], CaseLines] = CaseLines
    ) -> None:
        hashes: NumberBuffer[int] = NumberBuffer("Q")
        self._starts: NumberBuffer[int] = NumberBuffer("Q", hashes.file)
        """Offset of each case in its file."""
        self._files: list[CaseLines] = []
        self._first = [0]
        """Index of the first case of each file, and the number of all."""
        self._nothing_read()
        problems, alone = Problems(), len(files) == 1
        for path in files:
            try:
                self._files.append(opens(path, len(self) + 1, alone))
                for start, case in self._files[-1].cases():
                    self._starts.append(start)
                    hashes.frombytes(hash_of(case.id))
                self._first.append(len(self._starts))
            except SuiteError as error:
                if alone:
                    raise
                problems.add_file(error)
        problems.check()
        self.notes = tuple(dict.fromkeys(note for file in self._files for note in file.notes))
        self.ids = IdIndex(hashes)
        self._check_ids(Problems(str(files[0]) if alone else ""))

    def _check_ids(self, problems: Problems) -> None:
        """Refuse ids that several cases have: tell the first that occur again, and count the others."""
        first: dict[str, int] = {}
        for position in self.ids.equal():
            id_ = self[position].id
            earlier = first.setdefault(id_, position)
            if earlier != position and problems.full:
                problems.add(further=1)
            elif earlier != position:
                what = f'duplicate id "{id_}" (first in {self.place(earlier)})'
                problems.add(Problem(self.place(position), what))
        problems.check()

    def _nothing_read(self) -> None:
        self._asked = -1
        self._ahead: tuple[int, list[Case]] = (0, [])
        self._cached = lru_cache(maxsize=CASES_CACHED)(lambda index: self._read(range(index, index + 1))[0])

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if name not in {"_ahead", "_cached"}}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._nothing_read()

    def __len__(self) -> int:
        return self._first[-1]

    def _at(self, index: int) -> Case:
        before, self._asked = self._asked, index
        first, ahead = self._ahead
        if first <= index < first + len(ahead):
            return ahead[index - first]
        if index != before + 1:
            return self._cached(index)
        near = self._read(self._near(index))  # sequential access: read ahead
        self._ahead = (index, near)
        return near[0]

    def __iter__(self) -> Iterator[Case]:
        first = 0
        while first < len(self):
            near = self._near(first)
            yield from self._read(near)
            first = near.stop

    def position(self, id: str) -> int | None:  # noqa: A002 - the name of the field
        """Index of a case, or None."""
        return self.ids.position(id)

    def _near(self, first: int) -> range:
        """Indices of a case and some after it in its file, to be read together unless they are long."""
        end = self._first[bisect_right(self._first, first)]
        starts = self._starts.read(first, min(first + CASES_CACHED, end))
        return range(first, first + bisect_left(starts, starts[0] + _NEAR, 1))

    def _read(self, indices: range) -> list[Case]:
        """Read cases that follow one another in a file."""
        file = self._files[bisect_right(self._first, indices.start) - 1]
        return file.read(self._starts.read(indices.start, indices.stop))

    def place(self, index: int) -> str:
        """Place of a case, for messages; may read its file up to there."""
        number = bisect_right(self._first, index) - 1
        file = self._files[number]
        place = file.place(index - self._first[number], self._starts[index])
        return place if len(self._files) == 1 else f"{file.path}: {place}"


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
