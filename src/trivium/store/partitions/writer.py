"""Writes attempts and evaluations of a run to partitions.

A partition is a Parquet file with up to ``PARTITION_ROWS`` attempts, their scores and evaluations. Once it is
complete, rows that point at it are written to the database in one transaction: a run that is killed repeats
the attempts of its last partition only. ``manifest.json`` beside the partitions lists those of the run.
"""

import errno
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import delete, or_

from trivium._version import __version__
from trivium.errors import InputError, MissingExtra, StoreError
from trivium.storage import is_local, path_of
from trivium.store import schema
from trivium.store.connection import explain_errors
from trivium.store.partitions.file import POINTER, PREFIX, SUFFIX, Partition, PartitionFile, url_of
from trivium.store.records import Rows, RunRecord
from trivium.store.store import Store
from trivium.values import batched, json_document

log = logging.getLogger(__name__)

_LOST_AT_ONCE = 100
"""Lost partitions whose rows are deleted in one transaction."""

MANIFEST = "manifest.json"


def check_folder(folder: str) -> None:
    """Make a folder for partitions, before a run begins.

    Raises:
        InputError: If it cannot be made or written to.
        MissingExtra: If PyArrow is not installed, or what opens such an address.
    """
    _check_installed()
    path = path_of(folder)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
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
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    (folder / MANIFEST).write_bytes(json_document(manifest))


def _listed_as(partition: Partition, folder: Path) -> str:
    name = Path(partition.url).name
    return name if url_of(folder / name) == partition.url else partition.url


def _check_installed() -> None:
    """Check for PyArrow without importing it, because the workers of a run may write all partitions."""
    if find_spec("pyarrow") is None:
        raise MissingExtra("parquet", "--partitions")
