"""Reads the rows of Parquet files: from end to end, or any range of them.

Dates, times and decimals become texts, maps mappings. Bytes are decoded as UTF-8, because many writers leave
out the type annotation of texts. NaN and infinity are not changed.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

from trivium.errors import MissingExtra, Problem
from trivium.number_buffer import SpillFile
from trivium.records.documents import InputErrorType, check_is_file, readable
from trivium.records.lines import (
    PART_BYTES,
    PART_RECORDS,
    check_names,
    check_unchanged,
    runs,
)
from trivium.storage import is_local, open_file, stamp_of

ROWS_AT_ONCE = 4096
"""Most rows that are decoded at once; fewer where they are larger than ``PART_BYTES`` in the mean."""

LARGEST_BATCH = 1024**3
"""Largest batch in bytes of decompressed rows; 7 kB can decompress to 3 GB."""

_READ_AT_ONCE = 1 << 20
"""Bytes of each column that are read from the file at once."""

_MOST_IDLE = 2


class ParquetFile:
    """The rows of a Parquet file, each a mapping of columns to JSON values.

    Any row can be read without those of other row groups. Can be pickled, to be read in another process, and
    be read by several threads.

    Args:
        path: The file.
        error: Class of the errors raised.
        spill: Not used: the file itself says where its rows are.
        largest: Largest total size of the decompressed rows in bytes; None for no limit.

    Attributes:
        path: The file.
        names: Names of the columns.
        bytes: Size of the decompressed rows that the file states.
        word: What a row is in messages.

    Raises:
        InputError: As ``error``, if the file is not Parquet, is larger than ``largest``, or two columns have
            one name.
        MissingExtra: If PyArrow is not installed.
    """

    word = "row"

    def __init__(
        self,
        path: Path,
        *,
        error: InputErrorType,
        spill: SpillFile | None = None,
        largest: int | None = None,
    ) -> None:
        check_is_file(path, error=error)
        self.path = path
        self.error = error
        with readable(path, error):
            self._stamp = stamp_of(path)
        with self.explained(), _opened(path) as table:
            groups = [table.metadata.row_group(index) for index in range(table.metadata.num_row_groups)]
            self.names = list(table.schema_arrow.names)
            self.already = all(_is_plain(column.type) for column in table.schema_arrow)
        check_names(self.names, path, error)
        self._sizes = [group.total_byte_size for group in groups]
        self.first: list[int] = [0, *accumulate(int(group.num_rows) for group in groups)]
        self.bytes = sum(self._sizes)
        self._largest = largest
        _check_size(self.bytes, largest, path, error)
        self._start()

    def _start(self) -> None:
        self._lock = Lock()
        self._idle: list[_Cursor] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in {"_lock", "_idle"}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._start()

    def __len__(self) -> int:
        return self.first[-1]

    def parts(self) -> Iterator[range]:
        """Yield ranges of rows that cover the file in order, each bounded in number and in size."""
        for start, stop, size in zip(self.first, self.first[1:], self._sizes, strict=False):
            rows = _at_once(stop - start, size, PART_RECORDS)
            for first in range(start, stop, rows):
                yield range(first, min(first + rows, stop))

    def scan(self, *, keep: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield number, from 1, and values of each row.

        Raises:
            InputError: If the file cannot be read, or has a value without a JSON form.
        """
        cursor = _Cursor(self, 0, _at_once(len(self), self.bytes, ROWS_AT_ONCE))
        held = 0
        try:
            for batch in iter(cursor.batch, None):
                held += batch.nbytes
                _check_size(held, self._largest, self.path, self.error)
                before = cursor.row - len(batch)
                yield from enumerate(_plain_rows(batch, before, self), start=before + 1)
        finally:
            cursor.close()

    def rows(self, indices: Sequence[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield number, from 1, and values of some rows, whose indices ascend.

        Rows that follow those that were read before go on where those ended; otherwise the rows of the row
        group before them are decoded and passed over.

        Raises:
            InputError: If the file can no longer be read, or has changed.
        """
        with readable(self.path, self.error):
            check_unchanged(self.path, self._stamp, self.error)
        for run in runs(indices):
            yield from self._run(run)

    def _run(self, part: range) -> Iterator[tuple[int, dict[str, Any]]]:
        cursor = self._cursor(part.start)
        try:
            while cursor.row < part.stop:
                batch = cursor.batch(part.stop)
                if batch is None:
                    raise self.error(str(self.path), "has fewer rows than when it was checked")
                before = cursor.row - len(batch)
                yield from enumerate(_plain_rows(batch, before, self), start=before + 1)
        except BaseException:
            cursor.close()
            raise
        with self._lock:
            self._idle.append(cursor)
            if len(self._idle) > _MOST_IDLE:
                self._idle.pop(0).close()

    def named(self, number: int) -> str:
        """Place of the row with a number, for messages."""
        return f"row {number}"

    def seal(self) -> None:
        """Do nothing: the file itself says where its rows are."""

    def _cursor(self, row: int) -> "_Cursor":
        """A cursor at a row: the idle one that is the least way before it in its row group, or a new one."""
        group = bisect_right(self.first, row) - 1
        with self._lock:
            near = [each for each in self._idle if self.first[group] <= each.row <= row]
            if near:
                cursor = max(near, key=lambda each: each.row)
                self._idle.remove(cursor)
            else:
                cursor = _Cursor(self, group)
        cursor.skip_to(row)
        return cursor

    def close(self) -> None:
        """Close the file, which reading opens again."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise what PyArrow finds wrong as ``error``."""
        try:
            import pyarrow as pa
        except ImportError as missing:
            raise MissingExtra("parquet", f"reading {self.path.name}") from missing
        try:
            yield
        except (pa.ArrowException, OSError) as wrong:
            message = str(wrong).partition("\n")[0]
            raise self.error(str(self.path), f"is no Parquet file that can be read: {message}") from wrong


class _Cursor:
    """Reads a file forward from the beginning of a row group.

    Attributes:
        row: Index of the next row.
    """

    def __init__(self, file: ParquetFile, group: int, rows_at_once: int = PART_RECORDS) -> None:
        self._file = file
        self.row = file.first[group]
        with file.explained():
            self._table = _opened(file.path)
            groups = range(group, len(file.first) - 1)
            self._batches = self._table.iter_batches(batch_size=rows_at_once, row_groups=list(groups))
        self._rest: Any = None

    def skip_to(self, row: int) -> None:
        """Pass over the rows before a row."""
        while self.row < row and self._take(row) is not None:
            pass

    def batch(self, stop: int | None = None) -> Any:
        """Return the next rows, without those from ``stop`` on, as an Arrow record batch; None at the end."""
        import pyarrow as pa

        batch = self._take(stop)
        if batch is None:
            return None
        columns = [one.dictionary_decode() if pa.types.is_dictionary(one.type) else one for one in batch]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _take(self, stop: int | None) -> Any:
        while self._rest is None or not len(self._rest):
            with self._file.explained():
                self._rest = next(self._batches, None)
            if self._rest is None:
                return None
            _check_size(self._rest.nbytes, LARGEST_BATCH, self._file.path, self._file.error)
        batch = self._rest if stop is None else self._rest.slice(0, stop - self.row)
        self._rest = self._rest.slice(len(batch))
        self.row += len(batch)
        return batch

    def close(self) -> None:
        self._table.close(force=True)


def _at_once(rows: int, size: int, most: int) -> int:
    """How many rows of this size together are decoded at once."""
    return max(1, min(most, PART_BYTES * rows // max(size, 1)))


def _opened(path: Path) -> Any:
    import pyarrow.parquet as pq

    source = path if is_local(path) else open_file(path)
    return pq.ParquetFile(source, pre_buffer=False, buffer_size=_READ_AT_ONCE)


def _check_size(size: int, largest: int | None, path: Path, error: InputErrorType) -> None:
    if largest is not None and size > largest:
        hint = "use .jsonl, which is read line by line"
        raise error(str(path), f"its rows have more than the {largest:,} bytes that are held: {hint}")


def _is_plain(kind: Any) -> bool:
    """Whether PyArrow itself converts an Arrow type to JSON values, which is fast."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return False
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if pa.types.is_nested(kind):
        return all(_is_plain(kind.field(index).type) for index in range(kind.num_fields))
    of = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_floating)
    return any(test(kind) for test in (*of, pa.types.is_boolean))


def _plain_rows(batch: Any, before: int, file: ParquetFile) -> list[dict[str, Any]]:
    """The rows of a batch, whose first has the index ``before``, as JSON values."""
    _check_size(batch.nbytes, LARGEST_BATCH, file.path, file.error)
    try:
        raw: list[dict[str, Any]] = batch.to_pylist(maps_as_pydicts=None if file.already else "strict")
    except (
        ValueError,
        KeyError,
        OverflowError,
    ) as wrong:  # a duplicate key, or an unsupported time
        where = f"rows {before + 1:,} to {before + len(batch):,}"
        what = f"hold a value that cannot be read: {wrong.args[0]}"
        raise file.error(str(file.path), Problem(where, what)) from wrong
    if file.already:
        return raw
    rows: list[dict[str, Any]] = []
    for row in raw:
        try:
            rows.append(_plain(row))
        except (TypeError, ValueError) as wrong:
            where = f"row {before + len(rows) + 1:,}"
            what = f"holds a value that cannot be read: {wrong}"
            raise file.error(str(file.path), Problem(where, what)) from wrong
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
            iso = getattr(
                value, "isoformat", None
            )  # also the times of pandas, which PyArrow returns if pandas is installed
            return iso() if iso else msgspec.to_builtins(value)
