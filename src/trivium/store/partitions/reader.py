"""Reads bodies of attempts and evaluations from partitions.

Where a row of the database has no body of its own, ``@NUMBER:ROW`` in its place names the partition of the
run and the row in it. Bodies of JSON begin with a brace.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, groupby, islice
from threading import Lock
from typing import Literal, TypeVar

from sqlalchemy import Connection, Engine, select

from trivium.errors import MissingExtra, StoreError
from trivium.storage import path_of
from trivium.store import schema
from trivium.store.connection import explain_errors
from trivium.store.partitions.file import POINTER, Partition

MOST_OPEN = 8
"""Partitions that are kept open."""

FEWEST_AT_ONCE, MOST_AT_ONCE = 256, 16_384
CHARACTERS_AT_ONCE = 1 << 26
"""Bodies that are read at once: as many as have this many characters, by the mean of those before."""

BodyColumn = Literal["attempt", "evaluation"]

T = TypeVar("T")


def partitions_of(connection: Connection, run: int) -> list[Partition]:
    """The partitions of the run with this number, in order."""
    table = schema.partitions
    columns = (table.c[name] for name in Partition.__struct_fields__)
    query = select(*columns).where(table.c.run == run).order_by(table.c.number)
    return [Partition(**row) for row in connection.execute(query).mappings()]


def partitions_in(engine: Engine, run: int) -> list[Partition]:
    """The partitions of the run with this number in a store."""
    with explain_errors(engine), engine.connect() as connection:
        return partitions_of(connection, run)


class Bodies:
    """Bodies of attempts and evaluations, some of which are in partitions; for any thread.

    Args:
        partitions: Returns the partitions of the run with a number.
        store: Name of the store, for errors.
    """

    def __init__(self, partitions: Callable[[int], Iterable[Partition]], *, store: str) -> None:
        self._partitions = partitions
        self._store = store
        self._known: dict[tuple[int, int], Partition] = {}
        self._open: OrderedDict[str, _PartitionFile] = OrderedDict()
        self._lock = Lock()

    def read(self, run: int, column: BodyColumn, rows: Iterable[tuple[T, str]]) -> Iterator[tuple[T, str]]:
        """Replace what names a row of a partition by the body there.

        Args:
            run: Number of the run that the bodies were stored with.
            column: Which bodies they are.
            rows: Anything with a body, or with what names one. Many are read at once, so that each part of a
                partition is decoded a few times at most, in whatever order its rows are wanted.

        Raises:
            StoreError: If a body is in a partition that is missing or damaged.
        """
        left, size = iter(rows), FEWEST_AT_ONCE
        while chunk := list(islice(left, size)):
            named = [index for index, (_, text) in enumerate(chunk) if text.startswith(POINTER)]
            if not named:
                yield from chunk
                continue
            bodies = [text for _, text in chunk]
            with self._lock:
                for index, body in self._read(run, column, [(index, bodies[index]) for index in named]):
                    bodies[index] = body
            yield from zip([key for key, _ in chunk], bodies, strict=True)
            mean = sum(map(len, bodies)) // len(bodies) + 1
            size = max(FEWEST_AT_ONCE, min(MOST_AT_ONCE, CHARACTERS_AT_ONCE // mean))

    def _read(
        self, run: int, column: BodyColumn, named: Iterable[tuple[int, str]]
    ) -> Iterator[tuple[int, str]]:
        wanted: dict[int, list[tuple[int, int]]] = {}
        for index, text in named:
            place, _, row = text[len(POINTER) :].partition(":")
            with suppress(ValueError):  # decoding it says that it is damaged
                wanted.setdefault(int(place), []).append((int(row), index))
        for number in sorted(wanted):
            partition = self._partition(run, number)
            try:
                file = self._file(partition)
                yield from file.bodies(column, sorted(wanted[number]))
            except (OSError, ValueError, IndexError) as error:  # Arrow's errors are among them
                message = str(error).partition("\n")[0]
                raise StoreError(
                    f"{self._store}: the {partition.rows:,} attempts in {partition.url} cannot be read "
                    f"({message}). The others are unaffected; `--resume` scores these again."
                ) from error

    def _partition(self, run: int, number: int) -> Partition:
        if (run, number) not in self._known:
            self._known |= {(run, each.number): each for each in self._partitions(run)}
        if (run, number) not in self._known:
            raise StoreError(f"{self._store}: names partition {number} of a run, of which it has no address")
        return self._known[run, number]

    def _file(self, partition: Partition) -> "_PartitionFile":
        if partition.url not in self._open:
            self._open[partition.url] = _PartitionFile(partition)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(partition.url)
        return self._open[partition.url]

    def close(self) -> None:
        """Close the files, of which others may be read now."""
        with self._lock:
            self._known.clear()
            while self._open:
                self._open.popitem()[1].close()


class _PartitionFile:
    """An open partition.

    Attributes:
        first: Number of the first row of each row group, and the number of rows.
    """

    def __init__(self, partition: Partition) -> None:
        try:
            import pyarrow.parquet as pq
        except ImportError as error:
            raise MissingExtra("parquet", "reading a run's partitions") from error
        self._file = path_of(partition.url).open("rb")
        try:
            self._table = pq.ParquetFile(self._file, page_checksum_verification=True)
        except BaseException:
            self.close()
            raise
        metadata = self._table.metadata
        rows = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
        self.first: Sequence[int] = [0, *accumulate(rows)]

    def bodies(self, column: BodyColumn, rows: Iterable[tuple[int, int]]) -> Iterator[tuple[int, str]]:
        """Yield what comes with a row, and its body; the rows are in order."""
        for group, places in groupby(rows, lambda each: bisect_right(self.first, each[0]) - 1):
            found, first = list(places), self.first[group]
            bodies = self._table.read_row_group(group, columns=[column]).column(0)
            for row, index in found:
                yield index, bodies[row - first].as_py()  # take() would import pandas, where it is installed

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
