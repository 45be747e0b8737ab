"""Reads the rows of CSV files, also those of Excel and pandas: from end to end, or any of them."""

import csv
import io
import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import IO

from trivium.errors import Problem
from trivium.number_buffer import SpillFile
from trivium.records.documents import InputErrorType, MalformedDocument, decode, not_utf_8, readable
from trivium.records.lines import LONGEST_LINE, RecordFile, check_names
from trivium.storage import open_file

SEPARATORS = (",", ";", "\t", "|")
"""Separators of cells: the comma if the first line has one, else what separates most there."""

_STATED_SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE | re.DOTALL)
"""A line of Excel before that with the names."""


class CsvFile(RecordFile):
    """The rows of a CSV file, each a mapping of columns to texts.

    The first line that is not blank has the names of the columns, and tells what separates cells. Blank
    lines, rows of empty cells, empty cells and cells of columns without a name, such as the index of pandas,
    are left out. A row with more or fewer cells than columns is a Problem, unless what it has more is empty.

    Raises:
        InputError: If the file cannot be read or is no CSV, or two columns have one name.
    """

    def __init__(self, path: Path, *, error: InputErrorType, spill: SpillFile | None = None) -> None:
        super().__init__(path, error=error, spill=spill)
        csv.field_size_limit(LONGEST_LINE)  # the default is too small for the source of a case
        self._separator = ","
        with readable(path, error), open_file(path) as file:
            lines = _Lines(file, path, error)
            try:
                head = [*self._separated(lines.texts)]
                rows = csv.reader(chain(head, lines.texts), strict=True, delimiter=self._separator)
                found = ([name.strip() for name in cells] for cells in rows)
                self._columns = next(filter(any, found), [])
            except csv.Error as wrong:
                raise error(str(path), Problem("line 1", f"broken CSV: {wrong}")) from wrong
        while self._columns and not self._columns[-1]:
            self._columns.pop()
        self._begin = lines.end, lines.number
        self.names = list(filter(None, self._columns))
        check_names(self.names, path, error)

    def _separated(self, lines: Iterator[str]) -> Iterator[str]:
        """Find the separator, and yield the line with the names, the first that is not blank."""
        written = filter(str.strip, lines)
        for first in islice(written, 1):
            if stated := _STATED_SEPARATOR.fullmatch(first):
                self._separator = stated[1]
                yield from islice(written, 1)
                return
            cells = {each: len(next(csv.reader([first], delimiter=each), [])) for each in SEPARATORS}
            self._separator = "," if cells[","] > 1 else max(SEPARATORS, key=cells.__getitem__)
            yield first

    def records(
        self, file: IO[bytes], start: int, number: int
    ) -> Iterator[tuple[int, int, dict[str, str] | Problem]]:
        """Yield offset, number of the first line, and cells of each row."""
        lines = _Lines(file, self.path, self._error, start, number)
        width = len(self._columns)
        try:
            for cells in csv.reader(lines.texts, strict=True, delimiter=self._separator):
                offset, row = start, number
                start, number = lines.end, lines.number
                if not any(cells):
                    continue
                if len(cells) < width or any(cells[width:]):
                    found = f"has {len(cells)} cells, expected {width} as in the first line"
                    yield offset, row, Problem(f"line {row}", found)
                else:
                    named = zip(self._columns, cells)  # noqa: B905 - further cells are empty
                    yield offset, row, {name: cell for name, cell in named if name and cell}
        except csv.Error as wrong:
            raise self._error(str(self.path), Problem(f"line {number}", f"broken CSV: {wrong}")) from wrong


class _Lines:
    """The lines of a text file, which keep their ends, those of any system.

    Attributes:
        texts: The lines.
        end: Offset in bytes at which the latest line ends.
        number: Number of the next line.
    """

    def __init__(
        self, file: IO[bytes], path: Path, error: InputErrorType, start: int = 0, number: int = 1
    ) -> None:
        self.end = start
        self.number = number
        self._source = str(path)
        self._error = error
        self.texts = self._read(file)

    def _read(self, file: IO[bytes]) -> Iterator[str]:
        start = self.end
        while line := file.readline(LONGEST_LINE + 1):
            text = self._decoded(line, start)
            end = start + len(line)
            self.end = end - len(text.encode())  # after a byte order mark
            for part in io.StringIO(text, newline=""):
                self.end += len(part.encode())
                self.number += 1
                yield part
            start = end

    def _decoded(self, line: bytes, start: int) -> str:
        if len(line) > LONGEST_LINE:
            what = f"is longer than {LONGEST_LINE:,} bytes: one record a line"
            raise self._error(self._source, Problem(f"line {self.number}", what))
        try:
            return line.decode() if start else decode(line)
        except UnicodeDecodeError as wrong:
            what = not_utf_8(line[wrong.start], start + wrong.start)
            raise self._error(self._source, Problem(f"line {self.number}", what)) from wrong
        except MalformedDocument as malformed:
            raise self._error(self._source, malformed.problem) from malformed
