"""Recorded outputs in many files: a folder, or a pattern such as ``logs/*.jsonl``."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from pathlib import Path

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.mistakes import Mistakes
from trivium.agents.recorded.outputs import RecordedOutputs, Together, equal_hashes, open_outputs
from trivium.errors import OutputsError, Problem
from trivium.number_buffer import NumberBuffer
from trivium.records.source import TABLES, files_of, is_pattern
from trivium.suites.case import Case
from trivium.suites.suite import Suite
from trivium.traces.readers.collection import first_object


def files_of_outputs(source: str) -> list[Path] | None:
    """The files that a folder of outputs or a pattern names, sorted; None if the source is neither.

    Raises:
        OutputsError: If a pattern matches no file.
    """
    files = files_of(source, error=OutputsError)
    return files if files and (is_pattern(source) or _hold_outputs(files)) else None


def _hold_outputs(files: Sequence[Path]) -> bool:
    """Whether files of a folder hold outputs rather than traces: what the first says that is not damaged."""
    lines = [each for each in files if each.suffix.lower() not in TABLES]
    found = next(filter(None, map(first_object, lines)), None)
    return len(lines) < len(files) if found is None else "case" in found


class OutputsFiles:
    """The attempts of many files, file after file; see :class:`RecordedOutputs`.

    Args:
        files: The files.
        suite: The suite with the cases.
        skip_invalid: Leave out outputs with mistakes, and files that cannot be read, as long as there are
            others.

    Attributes:
        mistakes: What is left out.

    Raises:
        OutputsError: With the first twenty mistakes of all files and the number of further ones.
    """

    def __init__(self, files: Sequence[Path], suite: Suite, *, skip_invalid: bool = False) -> None:
        self._files: list[RecordedOutputs] = []
        self.mistakes = Mistakes(skip=skip_invalid)
        together = Together()
        for path in files:
            try:
                records = open_outputs(path, spill=together.spill)
                self._files.append(
                    RecordedOutputs(records, suite, together=together, skip_invalid=skip_invalid)
                )
            except OutputsError as error:
                self.mistakes.lose(error)
        self._first = [0, *accumulate(map(len, self._files))]
        if self._files and (skip_invalid or not self.mistakes.found):
            self._check_duplicates(together.hashes)
        for each in self._files:
            self.mistakes.include(each.mistakes)
        self.mistakes.settle(len(self))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run says of these outputs."""
        mapped = dict.fromkeys(chain.from_iterable(each.mapped for each in self._files))
        return (*mapped, *self.mistakes.notes())

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
        number, within = self._within(part.start)
        return self._files[number].read(range(within, within + len(part)))

    def _check_duplicates(self, hashes: Sequence[NumberBuffer[int]]) -> None:
        """Find attempts that are in two files: compare hashes first, then the attempts with equal ones."""
        first: dict[tuple[str, int], int] = {}
        for index in equal_hashes(hashes):
            for _, attempt in self.read(range(index, index + 1)):
                earlier = first.setdefault((attempt.case, attempt.repeat), index)
                if earlier != index:
                    what = (
                        f'duplicate of {self._place(earlier)}: case "{attempt.case}", repeat {attempt.repeat}'
                    )
                    number, within = self._within(index)
                    file = self._files[number]
                    file.mistakes.add_output(within, [Problem(file.place(within), what)])

    def _within(self, index: int) -> tuple[int, int]:
        """Number of the file that holds an output, and the index of the output in it."""
        number = bisect_right(self._first, index) - 1
        return number, index - self._first[number]

    def _place(self, index: int) -> str:
        number, within = self._within(index)
        file = self._files[number]
        return f"{file.path}: {file.place(within)}"
