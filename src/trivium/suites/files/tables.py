"""Cases in tables: CSV and Parquet, a row a case and a column a field (spec: files, cases).

``expect`` and ``metadata`` hold JSON (in Parquet also structs), ``references`` a JSON list or one text,
``tags`` a JSON list or words with commas between. ``metadata.KEY`` and ``expect.output`` hold one text of the
mapping, and ``FIELD.json`` holds any field as JSON. Empty cells say nothing.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import MissingExtra, Problem, SuiteError
from trivium.suites.case import Case
from trivium.suites.files.reading import (
    LARGEST_DOCUMENT,
    Malformed,
    check_is_file,
    parse_json,
    read_text,
)
from trivium.suites.validation import unknown_key

COLUMNS = ("id", "input", "references", "source", "expect", "tags", "complexity", "group", "metadata")

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
        header = [name.strip() for name in next(lines, [])]
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
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise MissingExtra("parquet", f"reading {path.name}") from missing
    check_is_file(path)
    number = 0
    try:
        with pq.ParquetFile(path) as table:
            _check_columns(table.schema_arrow.names, path)
            for batch in table.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    plain = _without_nulls(msgspec.to_builtins(row))
                    yield f"row {number}", list(plain.items())
    except (pa.ArrowException, OSError) as wrong:
        said = str(wrong).partition("\n")[0]
        raise SuiteError(str(path), f"is no Parquet file that can be read: {said}") from wrong


def _without_nulls(value: Any) -> Any:
    """A cell without the nulls by which Parquet says "absent", and its maps as mappings."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        return {key: _without_nulls(item) for key, item in value}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _check_columns(names: Sequence[str], path: Path) -> None:
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
