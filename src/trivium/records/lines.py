"""Reads records that follow one another in a text file, such as lines of JSON: in order, or any of them."""

from abc import abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from trivium.errors import Problem
from trivium.number_buffer import NumberBuffer, SpillFile
from trivium.records.documents import BYTE_ORDER_MARK, InputErrorType, check_is_file, readable
from trivium.storage import Stamp, open_file, stamp_of
from trivium.values import TOO_MANY_VALUES, holds_too_many_values

LONGEST_LINE = 256 * 1024**2
"""Bytes; a line is held in memory as a whole."""

PART_RECORDS = 256
PART_BYTES = 8_000_000
"""A part of a file that is read by itself ends at either limit, unless a single record is longer."""


class RecordFile:
    """The records of a text file: all in order, and any of them by itself once it is known where they begin.

    Where each record begins takes 8 bytes, and the number of its line 16 bytes more where it is not the next
    one; those of many records are in a temporary file. Can be pickled, to be read in another process, and be
    read by several threads.

    Args:
        path: The file.
        error: Class of the errors raised.
        spill: The temporary file for what many records take, if it is that of many files.

    Attributes:
        path: The file.
        names: Names of the columns; empty if each record names its fields.
        word: What a record is in messages.

    Raises:
        InputError: As ``error``, if the file cannot be read.
    """

    word = "line"

    def __init__(self, path: Path, *, error: InputErrorType, spill: SpillFile | None = None) -> None:
        check_is_file(path, error=error)
        self.path = path
        self.names: list[str] = []
        self._error = error
        self._starts: NumberBuffer[int] = NumberBuffer("Q", spill)
        self._jumps: NumberBuffer[int] = NumberBuffer("Q", self._starts.file)
        """Indices of the records whose line does not follow that in which the one before begins."""
        self._numbers: NumberBuffer[int] = NumberBuffer("Q", self._starts.file)
        """Numbers of the lines in which these begin."""
        self._begin = (0, 1)
        """Offset and number of the line at which the records begin."""
        with readable(path, error):
            self._stamp = stamp_of(path)

    @abstractmethod
    def records(self, file: IO[bytes], start: int, number: int) -> Iterator[tuple[int, int, Any]]:
        """Yield offset, number of the line and content of each record, from those of a first one on."""

    def scan(self, *, keep: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield number of the line, from 1, and content of each record.

        A record that cannot be read is a Problem.

        Args:
            keep: Note where each record begins, which the other methods need.

        Raises:
            InputError: If the file cannot be read.
        """
        starts, expected = self._starts, 0
        with readable(self.path, self._error), open_file(self.path) as file:
            file.seek(self._begin[0])
            for start, number, content in self.records(file, *self._begin):
                if keep:
                    if number != expected:
                        self._jumps.append(len(starts))
                        self._numbers.append(number)
                    starts.append(start)
                    expected = number + 1
                yield number, content

    def seal(self) -> None:
        """Keep what is known of the records in the temporary file; see :meth:`NumberBuffer.seal`."""
        for numbers in (self._starts, self._jumps, self._numbers):
            numbers.seal()

    def __len__(self) -> int:
        return len(self._starts)

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices that cover the records in order, each bounded in number and in size."""
        return parts_of(self._starts)

    def rows(self, indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield number and content of some records, as :meth:`scan`; those that follow one another faster.

        Raises:
            InputError: If the file can no longer be read, or has changed.
        """
        with readable(self.path, self._error), open_file(self.path) as file:
            check_unchanged(self.path, self._stamp, self._error)
            for run in runs(indices):
                start = self._starts[run.start]
                file.seek(start)
                found = self.records(file, start, self._number(run.start))
                for _, number, content in islice(found, len(run)):
                    yield number, content

    def _number(self, index: int) -> int:
        """Number of the line in which a record begins."""
        jump = bisect_right(self._jumps, index) - 1
        return self._numbers[jump] + index - self._jumps[jump]

    def named(self, number: int) -> str:
        """Place of the record that begins in a line, for messages."""
        return f"{self.word} {number}"

    def close(self) -> None:
        """Do nothing: the file is open only while it is read."""


def check_unchanged(path: Path, stamp: Stamp, error: InputErrorType) -> None:
    """Raise ``error`` if a file is another one than when its stamp was taken."""
    if stamp_of(path) != stamp:
        raise error(str(path), "has changed since it was checked")


def check_names(names: Sequence[str], path: Path, error: InputErrorType) -> None:
    """Raise ``error`` if two columns of a table have one name."""
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise error(str(path), [Problem("", f'duplicate column "{name}"') for name in twice])


def runs(indices: Sequence[int]) -> Iterator[range]:
    """Yield the ranges of indices that follow one another; those given ascend."""
    first = 0
    for place in range(1, len(indices) + 1):
        if place == len(indices) or indices[place] != indices[place - 1] + 1:
            yield range(indices[first], indices[place - 1] + 1)
            first = place


class JsonLines(RecordFile):
    """A file with a JSON value on each line, as the bytes of the line; blank lines are skipped."""

    def records(self, file: IO[bytes], start: int, number: int) -> Iterator[tuple[int, int, bytes]]:
        """Yield offset, number and bytes of each line."""
        return lines_of(file, str(self.path), error=self._error, start=start, first=number)

    def first(self, noun: str) -> bytes:
        """Return the first line, empty if there is none.

        Raises:
            InputError: If it begins a list, which is no file with one ``noun`` a line.
        """
        number, line = next(self.scan(), (1, b""))
        if line.lstrip().startswith(b"["):
            what = f"found a list, expected one {noun} a line; a JSON list goes into a .json file"
            raise self._error(str(self.path), Problem(f"line {number}", what))
        return line


def lines_of(
    file: IO[bytes], source: str, *, error: InputErrorType, start: int = 0, first: int = 1
) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, number and bytes of every line that is not blank.

    Args:
        file: The file, at the beginning of a line.
        source: Its name, for messages.
        error: Class of the errors raised.
        start: Offset of the line in bytes.
        first: Its number.

    Raises:
        InputError: As ``error``, if a line is too long or holds too many values.
    """
    number = first - 1
    while line := file.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            what = f"is longer than {LONGEST_LINE:,} bytes: one record a line"
            raise error(source, Problem(f"line {number}", what))
        if holds_too_many_values(line):
            raise error(source, Problem(f"line {number}", TOO_MANY_VALUES))
        mark = len(BYTE_ORDER_MARK) if not start and line.startswith(BYTE_ORDER_MARK) else 0
        text = line[mark:]
        if text and not text.isspace():
            yield start + mark, number, text
        start += len(line)


def parts_of(starts: "NumberBuffer[int] | array[int]") -> Iterator[range]:
    """Yield ranges of indices that cover records of a file in order, each bounded in number and size.

    Args:
        starts: The offset of each record in bytes.
    """
    first = 0
    while first < len(starts):
        most = min(first + PART_RECORDS, len(starts))
        last = bisect_left(starts, starts[first] + PART_BYTES, first + 1, most)
        yield range(first, last)
        first = last
