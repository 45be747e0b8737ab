"""Reads recorded outputs from a CSV or Parquet file, a part at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trivium.agents.attempt import Attempt
from trivium.agents.recorded.mistakes import Mistakes
from trivium.agents.recorded.outputs import Together, equal_hashes, stamp_of
from trivium.agents.recorded.record import Output, attempt_from
from trivium.agents.recorded.tables import output_columns_of, raw_output, read_row, row_problems
from trivium.errors import OutputsError, Problem
from trivium.number_buffer import NumberBuffer, SpillFile
from trivium.suites.case import Case
from trivium.suites.files.csv_file import CSV, CsvFile
from trivium.suites.files.documents import MalformedDocument, check_is_file
from trivium.suites.files.parquet import ParquetFile
from trivium.suites.files.tables import present_cells
from trivium.suites.suite import Suite

Read = tuple[int, str, Output | None, list[Problem], tuple[str, ...]]
"""Index and place of a row, its output, its mistakes, and flags for what was replaced."""


class TableOutputs:
    """The attempts of a .csv or .parquet file.

    The file is read twice, like lines of JSON (``OutputsFile``); 8 bytes a row are stored meanwhile, those of
    many rows in a temporary file. Of CSV, 16 bytes a row stay.

    Args:
        path: The file.
        suite: The suite with the cases; its ``limits.output_bytes`` bounds each output.
        together: What it shares with other files, if it is one of several.
        skip_invalid: Leave out rows with mistakes, as long as there are others.

    Attributes:
        path: The file.
        mapped: What was mapped.
        mistakes: The rows that are left out.

    Raises:
        OutputsError: With the first twenty mistakes of the file and the number of further ones.
        MissingExtra: If PyArrow is not installed.
    """

    def __init__(
        self,
        path: Path,
        suite: Suite,
        *,
        together: Together | None = None,
        skip_invalid: bool = False,
    ) -> None:
        check_is_file(path, error=OutputsError)
        self.path = path
        self.mistakes = Mistakes(str(path), skip=skip_invalid)
        self._suite = suite
        self._stamp = stamp_of(path)
        spill = None if together is None else together.spill
        self._file: CsvFile | ParquetFile
        if path.suffix.lower() in CSV:
            self._file = CsvFile(path, error=OutputsError, spill=spill)
        else:
            self._file = ParquetFile(path, error=OutputsError)
        names = self._file.names
        if twice := [name for index, name in enumerate(names) if name in names[:index]]:
            raise OutputsError(str(path), [Problem("", f'duplicate column "{name}"') for name in twice])
        if not len(self._file):
            raise OutputsError(str(path), "holds no output")
        self._columns = output_columns_of(names, suite, source=str(path))
        self.mapped = self._columns.notes
        try:
            hashes = self._check(spill)
            self._check_duplicates(hashes)
        finally:
            self._file.close()
        if together is not None:
            together.keep(hashes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a run says of these outputs."""
        return (*self.mapped, *self.mistakes.notes())

    def __len__(self) -> int:
        return len(self._file)

    def __iter__(self) -> Iterator[tuple[Case, Attempt]]:
        """Yield each attempt with its case, in the order of the file."""
        for part in self.parts():
            yield from self.read(part)

    def parts(self) -> Iterator[range]:
        """Yield ranges of rows of bounded number and size; see ``Partitioned``."""
        return self._file.parts()

    def read(self, part: range) -> Iterator[tuple[Case, Attempt]]:
        """Yield the attempts of a range of rows; see ``Partitioned``."""
        if stamp_of(self.path) != self._stamp:
            raise OutputsError(str(self.path), "has changed since it was checked")
        limit = self._suite.settings.limits.output_bytes
        for index, _, output, problems, flags in self._rows(part):
            if index in self.mistakes.left_out:
                continue
            if output is None:  # it was valid when it was checked
                raise OutputsError(str(self.path), problems)
            yield (
                self._suite.case(output.case),
                attempt_from(output, flags, folder=self.path.parent, limit=limit),
            )

    def place(self, index: int) -> str:
        """The place of an attempt in the file, for messages."""
        return self._file.place(index)

    def _rows(self, part: range) -> Iterator[Read]:
        rows: list[Any] = []
        places = []
        for (_, row), index in zip(self._file.rows(part), part, strict=False):
            places.append(self.place(index))
            if isinstance(row, Problem):
                rows.append(row)
                continue
            try:
                rows.append(raw_output(present_cells(row)))
            except MalformedDocument as malformed:
                rows.append(Problem(places[-1], malformed.problem.what))
        for index, place, row in zip(part, places, self._columns.rows(rows, places), strict=False):
            yield index, place, *read_row(row, place)

    def _check(self, spill: SpillFile | None) -> NumberBuffer[int]:
        """Validate every row on its own; return a hash of case and repeat of each."""
        hashes: NumberBuffer[int] = NumberBuffer("q", spill)
        for part in self.parts():
            for index, place, output, unread, _ in self._rows(part):
                wrong = unread
                if output is not None:
                    wrong = row_problems(
                        output,
                        self._suite,
                        folder=self.path.parent,
                        place=place,
                        look_for_nearest=self.mistakes.few,
                    )
                self.mistakes.add(index, wrong)
                key = ("", index) if wrong or output is None else (output.case, output.repeat)
                hashes.append(hash(key))
        self.mistakes.settle(len(self))
        return hashes

    def _check_duplicates(self, hashes: NumberBuffer[int]) -> None:
        """Find duplicate attempts: compare the hashes first, then the rows with equal hashes."""
        first: dict[tuple[str, int], str] = {}
        for index in equal_hashes([hashes]):
            for _, place, output, _, _ in self._rows(range(index, index + 1)):
                if output is not None and index not in self.mistakes.left_out:
                    earlier = first.setdefault((output.case, output.repeat), place)
                    if earlier != place:
                        what = f'duplicate of {earlier}: case "{output.case}", repeat {output.repeat}'
                        self.mistakes.add(index, [Problem(place, what)])
        self.mistakes.settle(len(self))
