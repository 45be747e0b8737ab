"""Opens sources of records: files of lines or rows, folders and patterns of them, and rows in memory.

A kind of file is a class with the members of :class:`Records`, and one line in ``FILES``.
"""

import glob
import math
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from trivium.any_object import is_absent
from trivium.errors import Problem, SuiteError
from trivium.number_buffer import SpillFile
from trivium.records.csv_file import CsvFile
from trivium.records.documents import InputErrorType, MalformedDocument, check_is_file
from trivium.records.lines import PART_RECORDS, JsonLines
from trivium.records.parquet import ParquetFile
from trivium.storage import is_local, is_named_file, is_remote, joined, matching


class Records(Protocol):
    """The records of a file or of a list: all in order, or any of them.

    A record is the bytes of a line of JSON, a mapping of the columns of a table to its cells, an object in
    memory, or a Problem in place of one that cannot be read. Can be pickled.

    Attributes:
        path: The file; of a list in memory that which it stands for.
        names: Names of the columns; empty if each record names its fields.
        word: What a record is in messages, such as ``line``.
    """

    path: Path
    names: list[str]
    word: str

    def scan(self, *, keep: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield number and content of each record; ``keep`` notes what the following methods need."""

    def __len__(self) -> int: ...

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices that cover the records in order, each bounded in number and in size."""

    def rows(self, indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield number and content of some records, whose indices ascend."""

    def named(self, number: int) -> str:
        """Place of the record with a number, for messages."""

    def seal(self) -> None:
        """Keep nothing in memory that the temporary file can hold."""

    def close(self) -> None:
        """Close the file, which reading opens again."""


FILES: dict[str, Any] = {
    ".jsonl": JsonLines,
    ".csv": CsvFile,
    ".tsv": CsvFile,
    ".parquet": ParquetFile,
}
"""Kinds of files by suffix."""

TABLES = frozenset(suffix for suffix, kind in FILES.items() if kind is not JsonLines)
"""Suffixes of files with columns."""

WORKBOOKS = frozenset({".xlsx", ".xls", ".xlsm", ".ods"})

WORKBOOK_REFUSED = (
    "is a workbook, which Trivium does not read: save the sheet as CSV (UTF-8), or in Python pass "
    "pandas.read_excel(…)"
)


def open_records(
    path: Path, *, error: InputErrorType, spill: SpillFile | None = None, other: type[JsonLines] | None = None
) -> Records:
    """Open a file by its suffix.

    Args:
        path: The file.
        error: Class of the errors raised.
        spill: The temporary file for what many records take, if it is that of many files.
        other: How files with other suffixes are read; None refuses them.

    Raises:
        InputError: As ``error``, if the file is missing, or is not what its suffix says.
        MissingExtra: If what reads it is not installed.
    """
    check_is_file(path, error=error)
    suffix = path.suffix.lower()
    if suffix in WORKBOOKS:
        raise error(str(path), WORKBOOK_REFUSED)
    kind = FILES.get(suffix, other)
    if kind is None:
        raise error(str(path), f'cannot tell the format from "{path.suffix}": expected {", ".join(FILES)}')
    records: Records = kind(path, error=error, spill=spill)
    return records


def files_of(source: str, *, folder: Path = Path(), error: InputErrorType = SuiteError) -> list[Path] | None:
    """Return the files of records in a folder or that a pattern names, sorted; None if the source is neither.

    Args:
        source: A path, an address or a pattern; a name that no file can have is neither, either.
        folder: Base folder of a relative source; its own name is no pattern.
        error: Class of the errors raised.

    Raises:
        InputError: As ``error``, if a pattern matches no file, or a folder in the folder cannot be read.
    """
    try:
        if not is_pattern(source, folder):
            path = joined(folder, source)
            return _files_in(path, error) if path.is_dir() else None
        files = matching(source, folder)
    except OSError:
        return None
    if not files:
        raise error(source if is_remote(source) else str(folder / source), "no file has such a name")
    return files


def is_pattern(source: str, folder: Path = Path()) -> bool:
    """Whether a source is a pattern, and no file or folder of that name is there."""
    return glob.has_magic(source) and (is_remote(source) or not (folder / source).exists())


def _files_in(folder: Path, error: InputErrorType) -> list[Path]:
    if not is_local(folder):
        return sorted(each for each in folder.rglob("*") if each.suffix.lower() in FILES and each.is_file())

    def refuse(failure: OSError) -> None:
        what = f"cannot be read: {failure.strerror}; a pattern such as {folder}/*.jsonl leaves it out"
        raise error(str(failure.filename), what)

    found = (Path(at, name) for at, _, names in os.walk(folder, onerror=refuse) for name in names)
    return sorted(each for each in found if each.suffix.lower() in FILES and is_named_file(each))


def name_of(source: str) -> str:
    """The name of a folder, or of the last folder before the first ``*``, ``?`` or ``[`` of a pattern."""
    if is_remote(source):
        parts = source.rstrip("/").split("/")
        return next((part for part in reversed(parts) if not glob.has_magic(part)), source)
    folder = Path(source)
    while glob.has_magic(str(folder)) and not folder.exists():
        folder = folder.parent
    return folder.resolve().name


class Listed:
    """Records in memory.

    Args:
        rows: The records.
        path: The file that they are from; else an empty path.
        places: The place of the record with number ``{}``, from 0.
    """

    word = "row"

    def __init__(self, rows: Sequence[Any], *, path: Path = Path(), places: str = "[{}]") -> None:
        self.path = path
        self.names: list[str] = []
        self._places = places
        self._rows = list(rows)

    def convert(self, function: Callable[[Any, str], Any]) -> None:
        """Put in place of each record what a function makes of it and its place, as plain JSON values."""
        placed = ((row, self.named(index)) for index, row in enumerate(self._rows))
        self._rows = [_plain_value(function(row, place), place) for row, place in placed]

    def scan(self, *, keep: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield number and content of each record."""
        return iter(enumerate(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def parts(self) -> Iterator[range]:
        """Yield ranges of indices that cover the records in order."""
        for first in range(0, len(self), PART_RECORDS):
            yield range(first, min(first + PART_RECORDS, len(self)))

    def rows(self, indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield number and content of some records."""
        return ((index, self._rows[index]) for index in indices)

    def named(self, number: int) -> str:
        """Place of the record with a number, for messages."""
        return self._places.format(number)

    def seal(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def _plain_value(value: Any, place: str) -> Any:
    if isinstance(value, Problem):
        return value
    try:
        return msgspec.to_builtins(dict(value) if isinstance(value, Mapping) else value)
    except (TypeError, ValueError, RecursionError) as wrong:
        return Problem(place, f"is no JSON value: {wrong}")


def rows_of_table(table: Any) -> list[Any] | None:
    """Return the rows of a data frame of pandas or polars, or of an Arrow table; None for any other object.

    Missing cells (None, NaN, NA, NaT) are left out of the rows.
    """
    if isinstance(table, type | Mapping):
        return None
    rows: Any = None
    if callable(getattr(table, "to_pylist", None)):  # Arrow
        rows = table.to_pylist()
    elif callable(getattr(table, "to_dicts", None)):  # polars
        rows = table.to_dicts()
    elif callable(getattr(table, "to_dict", None)) and not isinstance(
        getattr(table, "column_names", None), list
    ):
        try:
            rows = table.to_dict("records")
        except TypeError:  # the method of something else
            return None
    if not isinstance(rows, list):
        return None
    gaps = _whole_with_gaps(rows)
    return [_without_missing(row, gaps) if isinstance(row, Mapping) else row for row in rows]


def _whole_with_gaps(rows: Sequence[Any]) -> set[Any]:
    """Columns of whole numbers that are floats because a cell is missing, as pandas has them."""
    gaps, others = set(), set()
    for row in rows:
        for name, cell in row.items() if isinstance(row, Mapping) else ():
            if is_absent(cell):
                gaps.add(name)
            elif not (isinstance(cell, float) and cell.is_integer()):
                others.add(name)
    return gaps - others


def _without_missing(row: Mapping[Any, Any], whole: Container[Any]) -> dict[str, Any]:
    return {
        str(name): int(cell) if name in whole else _plain(cell)
        for name, cell in row.items()
        if not is_absent(cell)
    }


def _plain(cell: Any) -> Any:
    """Convert NumPy's types to Python's."""
    return cell.tolist() if hasattr(cell, "tolist") else cell


def present_cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """The cells of a row of a table, without what is missing, also in them.

    Raises:
        MalformedDocument: If one is infinite.
    """
    return {name: _without_absent(cell) for name, cell in row.items() if not is_absent(cell)}


def _without_absent(value: Any) -> Any:
    """Remove the missing parts of a cell."""
    if isinstance(value, dict):
        return {key: _without_absent(item) for key, item in value.items() if not is_absent(item)}
    if isinstance(value, float) and math.isinf(value):
        raise MalformedDocument("", "holds infinity, expected a finite number")
    return [_without_absent(item) for item in value] if isinstance(value, list) else value
