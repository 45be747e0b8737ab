"""Cases in tables: CSV and Parquet, a row a case and a column a field (spec: files, cases).

``expect`` and ``metadata`` hold JSON (in Parquet also structs), ``references`` a JSON list or one text,
``tags`` a JSON list or words with commas between. ``metadata.KEY`` and ``expect.output`` hold one text of the
mapping, and ``FIELD.json`` holds any field as JSON. Empty cells say nothing.
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from trivium.errors import Problem, SuiteError
from trivium.suites.case import Case
from trivium.suites.files.parquet import parquet_rows
from trivium.suites.files.reading import (
    LARGEST_DOCUMENT,
    Malformed,
    check_is_file,
    parse_json,
    read_text,
)
from trivium.suites.validation import unknown_key

COLUMNS = ("id", "input", "references", "source", "expect", "tags", "complexity", "group", "metadata")

LARGEST_TABLE = 4 * LARGEST_DOCUMENT
"""Bytes of the rows of a Parquet file; 7 kB can stand for 3 GB."""

Row = list[tuple[str, Any]]
"""Columns with their cells, empty ones left out."""


def read_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Place and raw case of every row of a .csv or .parquet file.

    Raises:
        SuiteError: If the file is no such table, or a column or cell means nothing.
    """
    rows = _csv_rows if path.suffix.lower() == ".csv" else _parquet_rows
    for where, row in rows(path):
        try:
            yield f"{where}:", _raw_case(row)
        except Malformed as malformed:
            raise SuiteError(str(path), Problem(where, malformed.problem.what)) from malformed


def _csv_rows(path: Path) -> Iterator[tuple[str, Row]]:
    csv.field_size_limit(LARGEST_DOCUMENT)  # the default is too short for the source of a case
    lines = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    start = 1
    try:
        header = header_of(lines)
        _check_columns(header, path)
        start = lines.line_num + 1
        for cells in lines:
            where = f"line {start}"
            start = lines.line_num + 1
            if not cells:
                continue
            if len(cells) != len(header):
                found = f"has {len(cells)} cells, expected {len(header)} as in the first line"
                raise SuiteError(str(path), Problem(where, found))
            yield where, [(name, cell) for name, cell in zip(header, cells, strict=True) if cell]
    except csv.Error as wrong:
        raise SuiteError(str(path), Problem(f"line {start}", f"broken CSV: {wrong}")) from wrong


def _parquet_rows(path: Path) -> Iterator[tuple[str, Row]]:
    check_is_file(path)
    rows = parquet_rows(
        path, error=SuiteError, check=lambda names: _check_columns(names, path), largest=LARGEST_TABLE
    )
    for number, row in enumerate(rows, start=1):
        where = f"row {number}"
        try:
            yield where, [(name, _said(cell)) for name, cell in row.items() if not _is_absent(cell)]
        except Malformed as malformed:
            raise SuiteError(str(path), Problem(where, malformed.problem.what)) from malformed


def _is_absent(value: Any) -> bool:
    """Whether a value is null, by which Parquet says "absent", or NaN, by which frames of pandas do."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _said(value: Any) -> Any:
    """A cell without what is absent in it."""
    if isinstance(value, dict):
        return {key: _said(item) for key, item in value.items() if not _is_absent(item)}
    if isinstance(value, float) and math.isinf(value):
        raise Malformed("", "holds infinity, expected a finite number")
    return [_said(item) for item in value] if isinstance(value, list) else value


def header_of(lines: Iterator[list[str]]) -> list[str]:
    """The columns, which the first line that is not blank names."""
    return [name.strip() for name in next(filter(None, lines), [])]


def other_separator(names: Sequence[str]) -> str:
    """The message for a first line in which another separator than the comma is used; empty for any other."""
    found = [word for sign, word in ((";", "';'"), ("\t", "tabs")) if len(names) == 1 and sign in names[0]]
    return f"uses {found[0]} as separator, expected ','" if found else ""


def _check_columns(names: Sequence[str], path: Path) -> None:
    if other := other_separator(names):
        raise SuiteError(str(path), other)
    problems = []
    for index, name in enumerate(names):
        field, dot, _ = name.partition(".")
        if name in names[:index]:
            problems.append(Problem("", f'the column "{name}" stands twice'))
        elif field not in Case.__struct_fields__ or (
            dot and not name.endswith(".json") and field not in {"metadata", "expect"}
        ):
            problems.append(Problem("", unknown_key(name, COLUMNS).replace("key", "column", 1)))
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
        except Malformed:
            value = None
        if isinstance(value, list):
            return value
    return [cell] if field == "references" else [word.strip() for word in cell.split(",") if word.strip()]


def _json(name: str, cell: str) -> Any:
    try:
        return parse_json(cell)
    except Malformed as malformed:
        raise Malformed("", f"{name}: {malformed.problem.what}") from malformed
