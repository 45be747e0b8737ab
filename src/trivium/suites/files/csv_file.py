"""Reads the rows of CSV files: from end to end, or any range of them."""

import csv
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from trivium.errors import Problem
from trivium.number_buffer import NumberBuffer, SpillFile
from trivium.suites.files.documents import LARGEST_DOCUMENT, InputErrorType, read_lines
from trivium.suites.files.parquet import PART_BYTES, ROWS_AT_ONCE


def csv_rows(
    path: Path, names: list[str], *, error: InputErrorType, start: int = 0, first: int = 1
) -> Iterator[tuple[int, int, list[tuple[str, str]] | Problem]]:
    """Yield offset in bytes, number of the first line, and columns and cells of each row.

    Blank lines and empty cells are left out. A row with more or fewer cells than columns is a Problem.

    Args:
        path: The file.
        names: The columns; filled in from the first line that is not blank if the list is empty.
        error: Class of the errors raised.
        start: Offset at which a row begins, in bytes.
        first: Number of its first line, from 1.

    Raises:
        InputError: As ``error``, if the file cannot be read or is no CSV.
    """
    csv.field_size_limit(LARGEST_DOCUMENT)  # the default is too small for the source of a case
    begin, number = start, first
    end = start

    def texts() -> Iterator[str]:
        nonlocal end
        for end, text in read_lines(path, error=error, start=start, first=first):  # noqa: B007
            yield text

    lines = csv.reader(texts(), strict=True)
    try:
        for cells in lines:
            offset, line = begin, number
            begin, number = end, first + lines.line_num
            if not cells:
                continue
            if not names:
                names += _header(cells)
                if other := other_separator(names):
                    raise error(str(path), other)
            elif len(cells) != len(names):
                found = f"has {len(cells)} cells, expected {len(names)} as in the first line"
                yield offset, line, Problem(f"line {line}", found)
            else:
                yield offset, line, [(name, cell) for name, cell in zip(names, cells, strict=True) if cell]
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
        names: Names of the columns.

    Raises:
        InputError: As ``error``, if the file cannot be read or is no CSV.
    """

    def __init__(self, path: Path, *, error: InputErrorType, spill: SpillFile | None = None) -> None:
        self.path = path
        self.names: list[str] = []
        self._error = error
        self._starts: NumberBuffer[int] = NumberBuffer("Q", spill)
        self._lines: NumberBuffer[int] = NumberBuffer("Q", self._starts.file)
        for start, line, _ in csv_rows(path, self.names, error=error):
            self._starts.append(start)
            self._lines.append(line)
        if spill is not None:
            self._starts.seal()
            self._lines.seal()

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
        found = csv_rows(self.path, self.names, error=self._error, start=start, first=first)
        for _, line, cells in islice(found, len(part)):
            yield line, cells if isinstance(cells, Problem) else dict(cells)

    def place(self, index: int) -> str:
        """Place of a row, for messages."""
        return f"line {self._lines[index]}"

    def close(self) -> None:
        """Do nothing: the file is open only while it is read."""


def header_of(lines: Iterator[list[str]]) -> list[str]:
    """Return the column names from the first line that is not blank."""
    return _header(next(filter(None, lines), []))


def _header(cells: Sequence[str]) -> list[str]:
    return [name.strip() for name in cells]


def other_separator(names: Sequence[str]) -> str:
    """The message for a first line whose separator is not the comma; empty if it is."""
    found = [word for sign, word in ((";", "';'"), ("\t", "tabs")) if len(names) == 1 and sign in names[0]]
    return f"uses {found[0]} as separator, expected ','" if found else ""
