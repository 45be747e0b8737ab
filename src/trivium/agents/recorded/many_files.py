"""Recorded outputs in many files: a folder, or a pattern such as ``logs/*.jsonl``."""

import glob
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.in_memory import OutputsInMemory
from trivium.agents.recorded.outputs import MOST_PROBLEMS, OutputsFile, equal_hashes
from trivium.agents.recorded.table_outputs import TableOutputs
from trivium.agents.recorded.tables import TABLES, rows_of_file
from trivium.errors import OutputsError, Problem
from trivium.storage import is_remote, path_of
from trivium.suites.case import Case
from trivium.suites.files.documents import placed
from trivium.suites.files.many_files import files_in, matching_files
from trivium.suites.suite import Suite
from trivium.traces.readers.collection import first_object

SUFFIXES = frozenset({".jsonl", *TABLES})


def files_of(source: str) -> list[Path] | None:
    """The files that a folder of outputs or a pattern names, sorted; None if the source is neither.

    Raises:
        OutputsError: If a pattern matches no file.
    """
    if is_remote(source) and glob.has_magic(source):
        return matching_files(source, error=OutputsError)
    path = path_of(source)
    if path.is_dir():
        files = files_in(path, SUFFIXES)
        lines = [each for each in files if each.suffix.lower() not in TABLES]
        found = first_object(lines[0]) if lines else None
        return files if files and (found is None or "case" in found) else None
    return matching_files(source, error=OutputsError)


def open_file(
    path: Path, suite: Suite, *, keep_hashes: "list[array[int]] | None" = None
) -> "OutputsFile | TableOutputs | OutputsInMemory":
    """Open the attempts of one file; all are validated before this returns.

    Tables, and lines with Trivium's own keys, are read a part at a time, others into memory.

    Args:
        path: The file.
        suite: The suite with the cases.
        keep_hashes: Receives the hashes of case and repeat, to be compared with those of other files.

    Raises:
        OutputsError: With the first twenty mistakes and the number of further ones.
    """
    if path.suffix.lower() in TABLES:
        return TableOutputs(path, suite, keep_hashes=keep_hashes)
    rows = rows_of_file(path, suite)
    if rows is None:
        return OutputsFile(path, suite, keep_hashes=keep_hashes)
    return OutputsInMemory(rows, suite, source=str(path), keep_hashes=keep_hashes)


class OutputsFiles:
    """The attempts of many files, file after file; see :func:`open_file` for what is in memory.

    Args:
        files: The files.
        suite: The suite with the cases.

    Attributes:
        notes: What was mapped.

    Raises:
        OutputsError: With the first twenty mistakes of all files and the number of further ones.
    """

    def __init__(self, files: Sequence[Path], suite: Suite) -> None:
        self._files: list[OutputsFile | TableOutputs | OutputsInMemory] = []
        hashes: list[array[int]] = []
        problems: list[Problem] = []
        left_out = 0
        for path in files:
            try:
                self._files.append(open_file(path, suite, keep_hashes=hashes))
            except OutputsError as error:
                problems += placed(error)
                left_out += error.left_out
        self.notes = tuple(dict.fromkeys(chain.from_iterable(each.notes for each in self._files)))
        if not problems:
            self._first = [0, *accumulate(map(len, self._files))]
            problems = self._duplicates(hashes)
        if problems:
            left_out += max(0, len(problems) - MOST_PROBLEMS)
            raise OutputsError("", problems[:MOST_PROBLEMS], left_out=left_out)

    def __len__(self) -> int:
        return self._first[-1]

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Yield each attempt with its case."""
        return chain.from_iterable(self._files)

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices, none of which extends over two files; see ``Partitioned``."""
        for first, file in zip(self._first, self._files, strict=False):
            for part in file.parts():
                yield range(first + part.start, first + part.stop)

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a part, or of some of its indices; see ``Partitioned``."""
        number = bisect_right(self._first, part.start) - 1
        first = self._first[number]
        return self._files[number].read(range(part.start - first, part.stop - first))

    def _duplicates(self, hashes: Sequence["array[int]"]) -> list[Problem]:
        """Find attempts that are in two files: compare hashes first, then the attempts with equal ones."""
        first: dict[tuple[str, int], int] = {}
        problems = []
        for index in equal_hashes(hashes):
            ((_, attempt),) = self.read(range(index, index + 1))
            earlier = first.setdefault((attempt.case, attempt.repeat), index)
            if earlier != index:
                what = f'duplicate of {self._place(earlier)}: case "{attempt.case}", repeat {attempt.repeat}'
                problems.append(Problem(self._place(index), what))
        return problems

    def _place(self, index: int) -> str:
        number = bisect_right(self._first, index) - 1
        file = self._files[number]
        return f"{file.path}: {file.place(index - self._first[number])}"
