"""Reads cases from the rows of CSV and Parquet files.

The columns ``expect`` and ``metadata`` contain JSON (in Parquet also structs), ``references`` a JSON list or
one text, ``tags`` a JSON list or words separated by commas. ``metadata.KEY`` and ``expect.output`` contain
one text of the mapping, and ``FIELD.json`` any field as JSON. An empty cell is a missing value.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import msgspec

from trivium.errors import Problem, SuiteError
from trivium.number_buffer import SpillFile
from trivium.storage import Stamp, temporary_copy
from trivium.suites.case import Case
from trivium.suites.columns import Columns, case_columns
from trivium.suites.files.csv_file import CSV, CsvHeader, csv_rows
from trivium.suites.files.documents import (
    LARGEST_DOCUMENT,
    InputErrorType,
    MalformedDocument,
    check_is_file,
    parse_json,
)
from trivium.suites.files.jsonl import MOST_PROBLEMS, CaseFile
from trivium.suites.files.parquet import ParquetFile, parquet_rows
from trivium.suites.sanitize import sanitise
from trivium.suites.validation import convert, unknown_key
from trivium.values import is_absent

COLUMNS = ("id", "input", "references", "source", "expect", "tags", "complexity", "group", "metadata")

LARGEST_TABLE = 4 * LARGEST_DOCUMENT
"""Largest Parquet file in bytes of decompressed rows, unless ``MOST_COMPRESSED`` allows more."""

MOST_COMPRESSED = 100
"""How many times its size a larger file of cases may decompress to; 7 kB can decompress to 3 GB."""

LARGE_FROM = 16 * 1024**2
"""Bytes above which cases are not held in memory; of Parquet those stated of its decompressed rows."""

Row = list[tuple[str, Any]]
"""Column names and cells, without empty cells."""


def read_rows(
    path: Path, first: int = 0, *, largest: int | None = None
) -> tuple[Iterator[tuple[str, Any]], tuple[str, ...]]:
    """Return place and raw case of every row of a .csv or .parquet file, and a note on what was mapped.

    Args:
        path: The file.
        first: Number of the first row, if there is no column ``id``.
        largest: Largest Parquet file in bytes of decompressed rows; None for ``LARGEST_TABLE``.

    Raises:
        SuiteError: If the file is not such a table, or a column or cell is invalid.
    """
    names, rows = table_rows(path, largest=largest)
    columns = case_columns(names)
    _check_columns(names, path, columns)
    notes = (columns.note(),) if columns is not None and columns.renamed else ()
    given = "id" in (columns.fields if columns else names)
    return _raw_cases(rows, columns, path, first=None if given else first), notes


def is_large(path: Path) -> bool:
    """Whether a .csv or .parquet file is read by :class:`TableCases`.

    Raises:
        SuiteError: If it cannot be read, or is no Parquet file.
    """
    check_is_file(path)
    if path.suffix.lower() == ".parquet":
        stated: int = ParquetFile(path, error=SuiteError).bytes
        return stated > LARGE_FROM
    try:
        return path.stat().st_size > LARGE_FROM
    except OSError as failure:
        raise SuiteError(str(path), f"cannot be read: {failure.strerror or failure}") from failure


class TableCases(CaseFile):
    """The cases of a large .csv or .parquet file.

    Cases are read in any order, which such files are slow at: every machine writes the rows to a temporary
    file of JSON lines, and reads that.

    Args:
        path: The file.
        first: Number of the first row, if the file has no column ``id``.
        spill: See :class:`CaseFile`.

    Attributes:
        notes: Notes on what was mapped.

    Raises:
        SuiteError: With the first mistakes in the file, and the number of the others.
    """

    def __init__(self, path: Path, first: int = 0, spill: SpillFile | None = None) -> None:
        self._first = first
        _, self.notes = read_rows(path, first, largest=_largest(path))
        super().__init__(path, spill)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._first, self.notes, super().__getstate__()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._first, self.notes, rest = state
        super().__setstate__(rest)

    def place(self, index: int) -> str:
        """Place of a case, for messages."""
        if self.path.suffix.lower() == ".parquet":
            return f"row {index + 1}"
        _, rows = table_rows(self.path)
        return next(islice(rows, index, None))[0]

    def _copied(self) -> tuple[Stamp, Path]:
        try:
            return temporary_copy(self.path, self._write, f"cases from {self._first}")
        except OSError as failure:
            what = f"cannot be copied to a temporary file: {failure.strerror or failure}"
            raise SuiteError(str(self.path), what) from failure

    def _write(self, target: IO[bytes]) -> None:
        encode = msgspec.json.Encoder().encode
        problems: list[Problem] = []
        left_out = 0
        rows, _ = read_rows(self.path, self._first, largest=_largest(self.path))
        for where, raw in rows:
            case, wrong = convert(sanitise(raw)[0], Case, where)
            left_out += len(wrong)
            problems += wrong[: MOST_PROBLEMS - len(problems)]
            if case is not None and not problems:
                target.write(encode(case) + b"\n")
        if problems:
            raise SuiteError(str(self.path), problems, left_out=left_out - len(problems))


def _largest(path: Path) -> int:
    return max(LARGEST_TABLE, MOST_COMPRESSED * path.stat().st_size)


def _raw_cases(
    rows: Iterator[tuple[str, Row]], columns: Columns | None, path: Path, *, first: int | None
) -> Iterator[tuple[str, Any]]:
    for number, (where, row) in enumerate(rows, first or 0):
        try:
            raw = _raw_case(row if columns is None else _renamed(row, columns))
        except MalformedDocument as malformed:
            raise SuiteError(str(path), Problem(where, malformed.problem.what)) from malformed
        yield f"{where}:", raw if first is None else {"id": str(number), **raw}


def _renamed(row: Row, columns: Columns) -> Row:
    """Give cells the names of fields, or of metadata, and drop columns that are not read."""
    names = columns.renamed | {name: f"metadata.{name}" for name in columns.metadata}
    return [(names.get(name, name), cell) for name, cell in row if name not in columns.left_out]


def table_rows(
    path: Path, *, error: InputErrorType = SuiteError, largest: int | None = None
) -> tuple[list[str], Iterator[tuple[str, Row]]]:
    """Return the columns of a .csv or .parquet file, and its rows, each with its place.

    Raises:
        InputError: As ``error``, if the file is not such a table; also while the rows are read.
    """
    names: list[str] = []
    header = CsvHeader()
    csv_file = path.suffix.lower() in CSV
    rows = _csv_rows(path, header, error) if csv_file else _parquet_rows(path, names, error, largest)
    first = next(rows, None)
    return names or header.names, rows if first is None else chain([first], rows)


def _csv_rows(path: Path, header: CsvHeader, error: InputErrorType) -> Iterator[tuple[str, Row]]:
    """Yield place and cells of each row, after filling in the column names."""
    for _, line, cells in csv_rows(path, header, error=error):
        if isinstance(cells, Problem):
            raise error(str(path), cells)
        yield f"line {line}", cells


def _parquet_rows(
    path: Path, names: list[str], error: InputErrorType, largest: int | None
) -> Iterator[tuple[str, Row]]:
    check_is_file(path, error=error)
    rows = parquet_rows(path, error=error, check=names.extend, largest=largest or LARGEST_TABLE)
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        try:
            yield where, present_cells(row)
        except MalformedDocument as malformed:
            raise error(str(path), Problem(where, malformed.problem.what)) from malformed


def present_cells(row: dict[str, Any]) -> Row:
    """Names and cells of a row of Parquet, without those that are missing."""
    return [(name, _without_absent(cell)) for name, cell in row.items() if not is_absent(cell)]


def _without_absent(value: Any) -> Any:
    """Remove the missing parts of a cell."""
    if isinstance(value, dict):
        return {key: _without_absent(item) for key, item in value.items() if not is_absent(item)}
    if isinstance(value, float) and math.isinf(value):
        raise MalformedDocument("", "holds infinity, expected a finite number")
    return [_without_absent(item) for item in value] if isinstance(value, list) else value


def _check_columns(names: Sequence[str], path: Path, columns: Columns | None) -> None:
    problems = []
    for index, name in enumerate(names):
        field, dot, _ = name.partition(".")
        if name in names[:index]:
            problems.append(Problem("", f'duplicate column "{name}"'))
        elif (
            dot
            and field in Case.__struct_fields__
            and (not name.endswith(".json") and field not in {"metadata", "expect"})
        ):
            problems.append(Problem("", unknown_key(name, COLUMNS).replace("key", "column", 1)))
    problems += columns.problems if columns is not None else ()
    if problems:
        raise SuiteError(str(path), problems)


def _raw_case(row: Row) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for name, cell in row:
        field, dot, rest = name.partition(".")
        if dot and rest != "json":
            below = raw.setdefault(field, {})
            if isinstance(below, dict):
                below[rest] = cell
        elif not isinstance(cell, str):
            raw[field] = cell
        elif rest == "json" or field in {"expect", "metadata"}:
            value = _json(name, cell)
            both = isinstance(value, dict) and isinstance(raw.get(field), dict)
            raw[field] = {**value, **raw[field]} if both else value
        elif field in {"references", "tags"}:
            raw[field] = _texts(field, cell)
        else:
            raw[field] = cell
    return raw


def _texts(field: str, cell: str) -> Any:
    if cell.lstrip().startswith("["):
        try:
            value = parse_json(cell)
        except MalformedDocument:
            value = None
        if isinstance(value, list):
            return value
    return [cell] if field == "references" else [word.strip() for word in cell.split(",") if word.strip()]


def _json(name: str, cell: str) -> Any:
    try:
        return parse_json(cell)
    except MalformedDocument as malformed:
        raise MalformedDocument("", f"{name}: {malformed.problem.what}") from malformed
