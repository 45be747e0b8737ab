"""Parquet files, a row at a time, as the values that JSON has."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import MissingExtra, Problem
from trivium.suites.files.reading import InputErrorType


def parquet_rows(
    path: Path,
    *,
    error: InputErrorType,
    check: Callable[[list[str]], None],
    largest: int | None = None,
    rows_at_once: int = 256,
) -> Iterator[dict[str, Any]]:
    """The rows of a file, each a mapping of columns to plain values.

    Dates and times become their ISO texts, decimals texts, maps mappings, and bytes the UTF-8 text that they
    are: many writers leave out the mark that says so. NaN and infinity stay.

    Args:
        path: The file.
        error: What is raised.
        check: Told the columns before anything is read.
        largest: Most bytes that all rows may have when unpacked; None where they are not held.
        rows_at_once: How many are read at a time.

    Raises:
        InputError: As ``error``, if it is no Parquet file, holds more than ``largest``, or a value that
            has no plain form.
        MissingExtra: If PyArrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise MissingExtra("parquet", f"reading {path.name}") from missing
    number = 0
    try:
        with pq.ParquetFile(path) as table:
            check(list(table.schema_arrow.names))
            groups = map(table.metadata.row_group, range(table.metadata.num_row_groups))
            _check_size(sum(group.total_byte_size for group in groups), largest, path, error)
            held = 0
            already = all(_is_plain(column.type) for column in table.schema_arrow)
            for batch in table.iter_batches(batch_size=rows_at_once):
                columns = [
                    one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in batch
                ]
                held += sum(column.nbytes for column in columns)
                _check_size(held, largest, path, error)
                whole = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
                rows = _plain_rows(whole, number, path, error, already=already)
                number += len(rows)
                yield from rows
    except (pa.ArrowException, OSError) as wrong:
        said = str(wrong).partition("\n")[0]
        raise error(str(path), f"is no Parquet file that can be read: {said}") from wrong


def _check_size(size: int, largest: int | None, path: Path, error: InputErrorType) -> None:
    if largest is not None and size > largest:
        hint = "use .jsonl, which is read line by line"
        raise error(str(path), f"its rows have more than the {largest:,} bytes that are held: {hint}")


def _is_plain(kind: Any) -> bool:
    """Whether PyArrow makes JSON's values of an Arrow type by itself, which is the quick way."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return False
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_nested(kind):
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    of = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating)
    return any(test(kind) for test in (*of, pa.types.is_boolean))


def _plain_rows(
    batch: Any, before: int, path: Path, error: InputErrorType, *, already: bool
) -> list[dict[str, Any]]:
    try:
        raw: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts=None if already else "strict")
    except (ValueError, KeyError, OverflowError) as wrong:  # a key twice, a time that Python does not have
        where = f"rows {before + 1:,} to {before + len(batch):,}"
        raise error(
            str(path), Problem(where, f"hold a value that cannot be read: {wrong.args[0]}")
        ) from wrong
    if already:
        return raw
    rows: list[dict[str, Any]] = []
    for row in raw:
        try:
            rows.append(_plain(row))
        except (TypeError, ValueError) as wrong:
            where = f"row {before + len(rows) + 1:,}"
            raise error(str(path), Problem(where, f"holds a value that cannot be read: {wrong}")) from wrong
    return rows


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bytes():
            return value.decode()
        case None | str() | bool() | int() | float():
            return value
        case _:
            iso = getattr(value, "isoformat", None)  # pandas' times too, which PyArrow makes where they are
            return iso() if iso else msgspec.to_builtins(value)
