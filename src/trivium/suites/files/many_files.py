"""Cases in many files: a folder, or a pattern such as ``cases/*.jsonl``."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

from trivium.errors import Problems, SuiteError
from trivium.number_buffer import NumberBuffer, SpillFile
from trivium.suites.case import Case, Cases, CaseTuple
from trivium.suites.files.jsonl import CaseFile, IdIndex, check_ids, hash_of


class CasesRead(NamedTuple):
    """The cases of a file.

    Attributes:
        cases: The cases.
        notes: Notes on what was mapped.
        places: Place of each case in memory, for messages.
    """

    cases: CaseFile | CaseTuple
    notes: tuple[str, ...] = ()
    places: Sequence[str] = ()


Read = Callable[[Path, int, SpillFile], CasesRead]
"""Reads the cases of a file, which are numbered from the second argument if they have no ids; what many cases
take is kept in the third."""


class CaseFiles(Cases):
    """The cases of many files as one sequence, file after file.

    Args:
        files: The files.
        read: Reads the cases of a file; cases without an id are numbered on from file to file.

    Attributes:
        notes: Notes on what was mapped.

    Raises:
        SuiteError: With the mistakes of all files, and the ids that are in two of them.
    """

    def __init__(self, files: Sequence[Path], read: Read) -> None:
        self._files = files
        self._parts: list[CaseFile | CaseTuple] = []
        problems = Problems()
        notes: dict[str, None] = {}
        places: list[Sequence[str]] = []
        count = 0
        spill = SpillFile()
        for file in files:
            try:
                cases, found, where = read(file, count + 1, spill)
            except SuiteError as error:
                problems.add_file(error)
                continue
            self._parts.append(cases)
            places.append(where)
            count += len(cases)
            notes |= dict.fromkeys(found)
        self.notes = tuple(notes)
        problems.check()
        self._first = [0, *accumulate(map(len, self._parts))]
        self._ids = IdIndex(_hashes(self._parts, spill))
        check_ids(self._ids, lambda index: self[index].id, lambda index: self._place(index, places))

    def __len__(self) -> int:
        return self._first[-1]

    def _at(self, index: int) -> Case:
        number, inside = self._where(index)
        return self._parts[number][inside]

    def __iter__(self) -> Iterator[Case]:
        return chain.from_iterable(self._parts)

    def position(self, id: str) -> int | None:  # noqa: A002 - the name of the field
        """Index of a case, or None."""
        return self._ids.position(id)

    def _where(self, index: int) -> tuple[int, int]:
        """The file of a case, and its index there."""
        number = bisect_right(self._first, index) - 1
        return number, index - self._first[number]

    def _place(self, index: int, places: Sequence[Sequence[str]]) -> str:
        number, inside = self._where(index)
        part = self._parts[number]
        where = part.place(inside) if isinstance(part, CaseFile) else places[number][inside]
        return f"{self._files[number]}: {where}"


def _hashes(parts: Iterable[CaseFile | CaseTuple], spill: SpillFile) -> NumberBuffer[int]:
    """The hashes of all ids, for an index of them."""
    hashes: NumberBuffer[int] = NumberBuffer("Q", spill)
    for cases in parts:
        if isinstance(cases, CaseFile):
            for block in cases.ids.hashes.blocks():
                hashes.frombytes(block.tobytes())
        else:
            for case in cases:
                hashes.frombytes(hash_of(case.id))
    return hashes
