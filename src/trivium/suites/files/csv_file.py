"""Reads the rows of CSV files, also those of Excel and pandas: from end to end, or any range of them."""

import csv
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

from trivium.errors import Problem
from trivium.number_buffer import NumberBuffer, SpillFile
from trivium.suites.files.documents import LARGEST_DOCUMENT, InputErrorType, read_lines
from trivium.suites.files.parquet import PART_BYTES, ROWS_AT_ONCE

CSV = frozenset({".csv", ".tsv"})
"""Suffixes of files whose cells have a separator between them, which their first line tells."""


class CsvHeader:
    """Columns and separator of a file, read from its first line that is not blank.

    Attributes:
        columns: The name of each cell; empty where the file states none, as for the index of pandas.
        separator: Comma, semicolon, tab or bar; what a line ``sep=;`` of Excel says.
    """

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.separator = ","

    @property
    def names(self) -> list[str]:
        """Names of the columns that have one. The others are not read."""
        return list(filter(None, self.columns))

    def read(self, lines: Iterator[str]) -> Iterator[str]:
        """Find the separator, and yield the line with the names, the first that is not blank."""
        written = filter(str.strip, lines)
        for first in islice(written, 1):
            if stated := _STATED_SEPARATOR.fullmatch(first):
                self.separator = stated[1]
                yield from islice(written, 1)
                return
            cells = {each: len(next(csv.reader([first], delimiter=each), [])) for each in SEPARATORS}
            self.separator = "," if cells[","] > 1 else max(SEPARATORS, key=cells.__getitem__)
            yield first


SEPARATORS = (",", ";", "\t", "|")
"""Separators of cells: the comma if the first line has one, else what separates most there."""

_STATED_SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE | re.DOTALL)


def csv_rows(
    path: Path, header: CsvHeader, *, error: InputErrorType, start: int = 0, first: int = 1
) -> Iterator[tuple[int, int, list[tuple[str, str]] | Problem]]:
    """Yield offset in bytes, number of the first line, and columns and cells of each row.

    Blank lines, rows of empty cells, empty cells and cells of columns without a name are left out. A row with
    more or fewer cells than columns is a Problem, unless what it has more is empty.

    Args:
        path: The file.
        header: The columns; filled in from the file if there are none.
        error: Class of the errors raised.
        start: Offset at which a row begins, in bytes.
        first: Number of its first line, from 1.

    Raises:
        InputError: As ``error``, if the file cannot be read or is no CSV.
    """
    csv.field_size_limit(LARGEST_DOCUMENT)  # the default is too small for the source of a case
    end, line = start, first

    def texts() -> Iterator[str]:
        nonlocal end, line
        for end, text in read_lines(path, error=error, start=start, first=first):  # noqa: B007
            line += 1
            yield text

    begin, number, lines = end, line, texts()
    try:
        head = [] if header.columns else [*header.read(lines)]
        for cells in csv.reader(chain(head, lines), strict=True, delimiter=header.separator):
            offset, row = begin, number
            begin, number = end, line
            columns = header.columns
            if not columns:
                columns += [name.strip() for name in cells]
                while columns and not columns[-1]:
                    columns.pop()
            elif not any(cells):
                continue
            elif len(cells) < len(columns) or any(cells[len(columns) :]):
                found = f"has {len(cells)} cells, expected {len(columns)} as in the first line"
                yield offset, row, Problem(f"line {row}", found)
            else:
                yield offset, row, [(name, cell) for name, cell in zip(columns, cells) if name and cell]  # noqa: B905
    except csv.Error as wrong:
        raise error(str(path), Problem(f"line {number}", f"broken CSV: {wrong}")) from wrong


class CsvFile:
    """The rows of a CSV file, any range of which can be read by itself; 16 bytes of each are stored.

    Can be pickled, to be read in another process, and be read by several threads.

    Args:
        path: The file.
        error: Class of the errors raised.
        spill: The temporary file for what many rows take, if it is that of many files.

    Attributes:
        path: The file.
        header: Its columns.

    Raises:
        InputError: As ``error``, if the file cannot be read or is no CSV.
    """

    def __init__(self, path: Path, *, error: InputErrorType, spill: SpillFile | None = None) -> None:
        self.path = path
        self.header = CsvHeader()
        self._error = error
        self._starts: NumberBuffer[int] = NumberBuffer("Q", spill)
        self._lines: NumberBuffer[int] = NumberBuffer("Q", self._starts.file)
        for start, line, _ in csv_rows(path, self.header, error=error):
            self._starts.append(start)
            self._lines.append(line)
        if spill is not None:
            self._starts.seal()
            self._lines.seal()

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.header.names

    def __len__(self) -> int:
        return len(self._starts)

    def parts(self) -> Iterator[range]:
        """Yield ranges of rows that cover the file in order, each bounded in number and in size."""
        first = 0
        while first < len(self):
            most = min(first + ROWS_AT_ONCE, len(self))
            last = bisect_left(self._starts, self._starts[first] + PART_BYTES, first + 1, most)
            yield range(first, last)
            first = last

    def rows(self, part: range) -> Iterator[tuple[int, dict[str, str] | Problem]]:
        """Yield number of the line, from 1, and cells of each row of a range, without empty ones.

        A row with more or fewer cells than columns is a Problem.

        Raises:
            InputError: If the file can no longer be read.
        """
        if not part:
            return
        start, first = self._starts[part.start], self._lines[part.start]
        found = csv_rows(self.path, self.header, error=self._error, start=start, first=first)
        for _, line, cells in islice(found, len(part)):
            yield line, cells if isinstance(cells, Problem) else dict(cells)

    def place(self, index: int) -> str:
        """Place of a row, for messages."""
        return f"line {self._lines[index]}"

    def close(self) -> None:
        """Do nothing: the file is open only while it is read."""
