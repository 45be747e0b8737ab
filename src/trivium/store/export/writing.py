"""Writing rows as JSONL, CSV or Parquet, a few at a time."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import msgspec

from trivium.errors import MissingExtra
from trivium.store.export.rows import Row

Writer = Callable[[Iterable[Row], Sequence[str], BinaryIO], None]

_ROWS_AT_ONCE = 2_000
_TYPES = dict.fromkeys(("value", "seconds", "reward", "mean", "coverage", "verdict", "confidence"), "float64")
_TYPES |= dict.fromkeys(("repeat", "n", "groups"), "int64")


def write_jsonl(rows: Iterable[Row], _columns: Sequence[str], file: BinaryIO) -> None:
    """One JSON object a line, keys in the order of the row."""
    encoder = msgspec.json.Encoder()
    file.writelines(encoder.encode(row) + b"\n" for row in rows)


def write_csv(rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    """A header, then a line a row; what is no text or number is JSON.

    A text that a spreadsheet would run as a formula gets an apostrophe before it, as does one that has
    apostrophes before it already: who reads it takes one away.
    """
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row.get(column)) for column in columns])
    text.detach()


def write_parquet(rows: Iterable[Row], columns: Sequence[str], file: BinaryIO) -> None:
    """Typed columns; what is no text or number is JSON.

    Raises:
        MissingExtra: If PyArrow is not installed.
    """
    schema = arrow_schema(columns)
    import pyarrow.parquet as pq

    with pq.ParquetWriter(file, schema) as writer:
        for batch in arrow_batches(rows, columns):
            writer.write_batch(batch)


def arrow_schema(columns: Sequence[str]) -> Any:
    """The types of columns, a ``pyarrow.Schema``.

    Raises:
        MissingExtra: If PyArrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingExtra("parquet", "A table in columns") from error
    return pa.schema([(column, getattr(pa, _TYPES.get(column, "string"))()) for column in columns])


def arrow_batches(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[Any]:
    """Rows in columns, a few at a time, each a ``pyarrow.RecordBatch``; what is no text or number is JSON."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    rest = iter(rows)
    while chunk := [
        {column: _typed(column, row.get(column)) for column in columns} for row in islice(rest, _ROWS_AT_ONCE)
    ]:
        yield pa.RecordBatch.from_pylist(chunk, schema=schema)


_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
"""How a text starts that a spreadsheet takes for a formula, or that was made none."""


def no_formula(text: str) -> str:
    """A text as a cell that no spreadsheet runs; :func:`without_guard` undoes it."""
    return f"'{text}" if _FORMULA.match(text) else text


def without_guard(cell: str) -> str:
    """What a cell was before :func:`no_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return no_formula(value)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return msgspec.json.encode(value).decode()


def _typed(column: str, value: Any) -> Any:
    if value is None or column in _TYPES:
        return value
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


WRITERS: dict[str, Writer] = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}
