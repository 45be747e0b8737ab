"""Writes attempts and evaluations of a run to partitions.

A partition is a Parquet file with up to ``PARTITION_ROWS`` attempts, their scores and evaluations. Once it is
complete, rows that point at it are written to the database in one transaction: a run that is killed repeats
the attempts of its last partition only. ``manifest.json`` beside the partitions lists those of the run.
"""

import errno
import io
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import delete, or_

from trivium._version import __version__
from trivium.errors import InputError, MissingExtra, StoreError
from trivium.storage import is_local, is_remote, path_of
from trivium.store import schema
from trivium.store.connection import explain_errors
from trivium.store.partitions.reader import POINTER, Partition, new_digest
from trivium.store.records import Rows, RunRecord
from trivium.store.store import Store
from trivium.values import batched

log = logging.getLogger(__name__)

PARTITION_ROWS = 10_000
PARTITION_BYTES = 128 * 1024**2
PARTITION_SECONDS = 30.0
"""A partition ends at any of these limits; its bytes are those of the bodies, before they are compressed."""

_LOST_AT_ONCE = 100
"""Lost partitions whose rows are deleted in one transaction."""

MANIFEST = "manifest.json"
PREFIX, SUFFIX = "part-", ".parquet"
"""Of the names of partitions; while one is being written, a dot comes first."""


def check_folder(folder: str) -> None:
    """Make a folder for partitions, before a run begins.

    Raises:
        InputError: If it cannot be made or written to.
        MissingExtra: If PyArrow is not installed, or what opens such an address.
    """
    _check_installed()
    path = path_of(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        if is_local(path) and not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InputError(folder, f"cannot be written to: {error.strerror or error}") from error


class PartitionWriter:
    """Writes what a run scored to partitions in a folder of the run.

    Args:
        store: The store of the run.
        run: The run, owned by this process.
        folder: Path or address of the folder in which the run's folder is made.

    Raises:
        InputError: If the folder cannot be written to.
        MissingExtra: If PyArrow is not installed, or what opens such an address.
    """

    def __init__(self, store: Store, run: RunRecord, folder: str) -> None:
        _check_installed()
        self._store = store
        self._run = run
        self.folder = folder
        self._folder = path_of(folder) / run.id
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(folder, f"cannot be written to: {error.strerror or error}") from error
        stored = store.partitions(run.number)
        self._delete_others(stored)
        self._number = 1 + max((each.number for each in stored), default=-1)
        self._file: PartitionFile | None = None

    def reserve(self, count: int) -> int:
        """Return the first of so many numbers, for partitions that other processes write."""
        self.flush()
        first = self._number
        self._number += count
        return first

    def write(self, rows: Rows) -> None:
        """Add attempts and evaluations to the partition; they are stored once it is complete.

        Raises:
            StoreError: If writing fails; what was stored before stays.
        """
        if not rows.evaluations:
            return
        try:
            if self._file is None:
                self._file = PartitionFile(self._run, self.folder, self._number)
            self._file.write(rows)
            if self._file.is_full:
                self.flush()
        except OSError as error:
            self._abandon()
            raise StoreError(
                f"{self._folder}: cannot be written to: {error.strerror or error}. What was stored before is "
                "safe; make room and resume."
            ) from error

    def flush(self) -> None:
        """Complete the partition, and store the rows that point at it."""
        if self._file is None:
            return
        partition = self._file.completed()
        file, self._file = self._file, None
        self._store.write(file.pointers, partition=partition)
        self._number += 1

    def add(self, rows: Rows, partition: Partition) -> None:
        """Store a partition that another process has written, and the rows that point at it.

        Raises:
            StoreError: If writing fails.
        """
        self._store.write(rows, partition=partition)

    def finish(self) -> None:
        """Complete the last partition, and write the manifest.

        Raises:
            StoreError: If writing fails.
        """
        try:
            self.flush()
            stored = self._store.partitions(self._run.number)
            write_manifest(self._folder, self._run, stored)
        except OSError as error:
            self._abandon()
            raise StoreError(f"{self._folder}: cannot be written to: {error.strerror or error}") from error
        self._delete_others(stored)

    def _delete_others(self, stored: Sequence[Partition]) -> None:
        """Delete partitions to which no row points: their process ended before that, or they are replaced."""
        names = {Path(each.url).name for each in stored}
        with suppress(OSError):
            for pattern in (f"{PREFIX}*{SUFFIX}", f".{PREFIX}*{SUFFIX}"):
                for file in self._folder.glob(pattern):
                    if file.name not in names:
                        file.unlink()

    def _abandon(self) -> None:
        if self._file is not None:
            self._file.abandon()
            self._file = None


def forget_lost(store: Store, run: RunRecord) -> None:
    """Delete what points at partitions of a run that are missing or damaged, to score it again."""
    lost = [each for each in store.partitions(run.number) if not each.is_whole]
    for each in lost:
        log.warning("%s is missing or damaged: its %d attempts are scored again", each.url, each.rows)
    for some in batched(lost, _LOST_AT_ONCE):  # each time, all rows of the run are looked at
        numbers = [each.number for each in some]
        with explain_errors(store.engine), store.engine.begin() as connection:
            for table in (schema.attempts, schema.evaluations):
                pointing = or_(*[table.c.body.startswith(f"{POINTER}{number}:") for number in numbers])
                connection.execute(delete(table).where(table.c.run == run.number, pointing))
            of_run = schema.partitions.c.run == run.number
            connection.execute(
                delete(schema.partitions).where(of_run, schema.partitions.c.number.in_(numbers))
            )


def write_manifest(folder: Path, run: RunRecord, partitions: list[Partition]) -> None:
    """Write ``manifest.json``: the run, and name, rows, size and digest of each partition.

    One that is in another folder, because the run was resumed with this one, has its path or address as name.
    """
    listed = [
        {"file": _listed_as(each, folder), "rows": each.rows, "bytes": each.bytes, "blake2b": each.digest}
        for each in partitions
    ]
    manifest = {
        "format": "trivium partitions 1",
        "trivium": __version__,
        "run": run.id,
        "suite": run.suite_name,
        "cases": run.suite,
        "rows": sum(each.rows for each in partitions),
        "partitions": listed,
    }
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1))


def _listed_as(partition: Partition, folder: Path) -> str:
    name = Path(partition.url).name
    return name if _url(folder / name) == partition.url else partition.url


def _check_installed() -> None:
    """Check for PyArrow without importing it, because the workers of a run may write all partitions."""
    if find_spec("pyarrow") is None:
        raise MissingExtra("parquet", "--partitions")


def _schema() -> Any:
    """The columns of a partition."""
    import pyarrow as pa

    return pa.schema(
        [
            ("case", pa.string()),
            ("position", pa.int32()),
            ("repeat", pa.int32()),
            ("composite", pa.float64()),
            ("passed", pa.bool_()),
            ("scores", pa.map_(pa.string(), pa.float64())),
            ("attempt", pa.string()),
            ("evaluation", pa.string()),
        ]
    )


class PartitionFile:
    """A partition that is being written, under another name until it is complete.

    Args:
        run: The run.
        folder: Path or address of the folder that holds the run's folder.
        number: Number of the partition in the run.

    Attributes:
        pointers: Rows of the database that point at it.

    Raises:
        OSError: If the file cannot be written.
    """

    def __init__(self, run: RunRecord, folder: str, number: int) -> None:
        self._schema = _schema()
        import pyarrow.parquet as pq

        self._number = number
        self._path = path_of(folder) / run.id / _name(number)
        # An object becomes visible when it is complete; a file when it gets its name.
        is_object = is_remote(folder)
        self._written = self._path if is_object else self._path.with_name(f".{self._path.name}")
        self.pointers = Rows(run)
        self._bytes = 0
        self._began = time.monotonic()
        self._hashed = _Hashed(self._written.open("wb"))
        try:
            self._writer = pq.ParquetWriter(
                self._hashed,
                self._schema,
                compression="zstd",
                write_page_checksum=True,
                use_dictionary=["case"],
            )
        except BaseException:
            self.abandon()
            raise

    @property
    def is_full(self) -> bool:
        """Whether another one should be begun."""
        return (
            len(self.pointers.evaluations) >= PARTITION_ROWS
            or self._bytes >= PARTITION_BYTES
            or time.monotonic() - self._began >= PARTITION_SECONDS
        )

    def write(self, rows: Rows) -> None:
        """Write a row group."""
        import pyarrow as pa

        none: list[dict[str, Any] | None] = [None] * len(rows.evaluations)
        attempts: Sequence[dict[str, Any] | None] = rows.attempts or none
        table: list[dict[str, Any]] = []
        for attempt, scored, outline in zip(attempts, rows.evaluations, rows.outlines(), strict=True):
            body = None if attempt is None else attempt["body"]
            table.append(
                {
                    "case": outline.case,
                    "position": scored["position"],
                    "repeat": scored["repeat"],
                    "composite": scored["composite"],
                    "passed": scored["passed"],
                    "scores": [(name, score.value) for name, score in outline.scores.items()],
                    "attempt": body,
                    "evaluation": scored["body"],
                }
            )
            pointer = {"body": f"{POINTER}{self._number}:{len(self.pointers.evaluations)}"}
            if attempt is not None:
                self.pointers.attempts.append(attempt | pointer)
            self.pointers.evaluations.append(scored | pointer)
            self._bytes += len(body or "") + len(scored["body"])
        self.pointers.failed += rows.failed
        self._writer.write_batch(pa.RecordBatch.from_pylist(table, schema=self._schema))

    def completed(self) -> Partition:
        """Complete the file."""
        self._writer.close()
        self._hashed.close()
        if self._written != self._path:
            self._written.rename(self._path)
        return Partition(
            number=self._number,
            url=_url(self._path),
            rows=len(self.pointers.evaluations),
            bytes=self._hashed.size,
            digest=self._hashed.digest,
        )

    def abandon(self) -> None:
        """Delete the file."""
        with suppress(OSError, ValueError):
            self._hashed.close()
        with suppress(OSError):
            self._written.unlink(missing_ok=True)


class _Hashed(io.RawIOBase):
    """A file that is written from end to end, with the digest and size of what was written."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._hash = new_digest()
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._file.write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            super().close()

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _url(path: Path) -> str:
    return str(path if is_remote(str(path)) else path.resolve())


def _name(number: int) -> str:
    return f"{PREFIX}{number:09}{SUFFIX}"
