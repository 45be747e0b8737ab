"""Copies a whole store to a file and back, and verifies the copy.

A backup is itself an SQLite store, whatever database it was made from: ``trivium list --store FILE`` reads
it, and it can be restored into SQLite or PostgreSQL. Both directions read one snapshot, while others go on
writing.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from sqlalchemy import Connection, Engine, Table, func, select

from trivium.errors import StoreError
from trivium.store import schema
from trivium.store.connection import dispose, explain_errors, insert_many, open_engine

_STREAMED = {"yield_per": 500}
"""Options of a query whose rows are read in chunks."""


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a backup.

    Attributes:
        file: The file.
        bytes: Its size.
        rows: Rows of each table that has any.
        digest: Digest of all rows, in any order; equal stores have equal digests.
        left_out: Rows of the backup that were not restored, by table.
    """

    file: str
    bytes: int
    rows: dict[str, int]
    digest: str
    left_out: dict[str, int] = {}


class _Digest:
    """Number and digest of the rows of each table; rows may come in any order."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self._sum = 0
        self._encoder = msgspec.msgpack.Encoder()

    def add(self, table: str, row: tuple[object, ...]) -> None:
        """Count a row."""
        self.rows[str(table)] = self.rows.get(str(table), 0) + 1
        encoded = self._encoder.encode((str(table), row))
        self._sum = (self._sum + int.from_bytes(blake2b(encoded, digest_size=16).digest())) % 2**128

    def __str__(self) -> str:
        return f"{self._sum:032x}"


def back_up(url: str, file: Path) -> Backup:
    """Copy a store to a new file while it is in use, then read the file again and compare every row.

    Args:
        url: The store.
        file: The new file. It appears only when it is complete and verified, and only its owner may read it.

    Raises:
        StoreError: If the store cannot be read, the file exists or cannot be written, or the copy differs.
    """
    if file.exists():
        raise StoreError(f"{file}: exists already; a backup replaces nothing")
    source = open_engine(url, create=False, read_only=True)
    part = Path(f"{file}.part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        target = open_engine(f"sqlite:///{part}")
        try:
            with explain_errors(source), _snapshot(source) as reading, target.begin() as writing:
                copied = _copy(reading, writing)
            _verify(target, copied, f"{file}: the backup")
            _single_file(part)
        finally:
            dispose(target)
        size = part.stat().st_size
        part.replace(file)
    except OSError as error:
        raise StoreError(f"{file}: cannot be written: {error.strerror or error}") from error
    finally:
        dispose(source)
        for leftover in (part, Path(f"{part}-wal"), Path(f"{part}-shm")):
            with suppress(OSError):
                leftover.unlink(missing_ok=True)
    return Backup(file=str(file), bytes=size, rows=copied.rows, digest=str(copied))


def restore(file: Path, url: str, *, tokens: bool = False) -> Backup:
    """Copy a backup into an empty store, in one transaction, and compare every row before it is committed.

    Args:
        file: The backup, of this version of Trivium or an older one.
        url: The store; it is made if it does not exist.
        tokens: Also restore tokens and logins. Those that ended after the backup was made work again.

    Raises:
        StoreError: If the backup cannot be read, the store holds anything, or the copy differs. The store is
            then as it was.
    """
    source = open_engine(f"sqlite:///{file}", create=False, read_only=True)
    try:
        with explain_errors(source), _snapshot(source) as reading:
            target = open_engine(url)
            name = target.url.render_as_string()
            try:
                with explain_errors(target), target.begin() as writing:
                    held = [
                        table.name for table in schema.metadata.sorted_tables if _holds_rows(writing, table)
                    ]
                    if held:
                        raise StoreError(
                            f"{name}: holds {', '.join(held)} already; a backup needs an empty store"
                        )
                    kept = () if tokens else (schema.tokens, schema.sessions)
                    left_out = {table.name: count for table in kept if (count := _count(reading, table))}
                    copied = _copy(reading, writing, without=kept)
                    if str(_digest_of(writing)) != str(copied):
                        raise StoreError(f"{name}: what was written differs from {file}; nothing was kept")
                    _continue_numbers(writing)
            finally:
                dispose(target)
        size = file.stat().st_size
    finally:
        dispose(source)
    return Backup(file=str(file), bytes=size, rows=copied.rows, digest=str(copied), left_out=left_out)


@contextmanager
def _snapshot(engine: Engine) -> Iterator[Connection]:
    """A connection that sees the database as it is now, whatever others write meanwhile."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            connection.exec_driver_sql("BEGIN")  # Python's sqlite3 begins no transaction before a SELECT
        yield connection
        connection.rollback()


def _copy(reading: Connection, writing: Connection, *, without: Sequence[Table] = ()) -> _Digest:
    """Copy the rows of all tables but some, and return their digest."""
    digest = _Digest()
    for table in schema.metadata.sorted_tables:
        if table in without:
            continue
        names = [column.name for column in table.columns]
        for chunk in reading.execute(select(table), execution_options=_STREAMED).partitions():
            for row in chunk:
                digest.add(table.name, tuple(row))
            insert_many(writing, table, [dict(zip(names, row, strict=True)) for row in chunk])
    return digest


def _digest_of(connection: Connection) -> _Digest:
    digest = _Digest()
    for table in schema.metadata.sorted_tables:
        for row in connection.execute(select(table), execution_options=_STREAMED):
            digest.add(table.name, tuple(row))
    return digest


def _verify(engine: Engine, copied: _Digest, what: str) -> None:
    """Read a copy again, from its file, and compare."""
    engine.dispose()
    with engine.connect() as connection:
        state = connection.exec_driver_sql("PRAGMA integrity_check").scalar()
        if state != "ok" or str(_digest_of(connection)) != str(copied):
            raise StoreError(f"{what} differs from the store; try again, on another disk")
    engine.dispose()


def _single_file(file: Path) -> None:
    """Turn write-ahead logging off: one file holds everything, and can be read in a read-only folder."""
    connection = sqlite3.connect(file)
    try:
        connection.execute("PRAGMA journal_mode=DELETE").close()
    finally:
        connection.close()


def _count(connection: Connection, table: Table) -> int:
    return connection.execute(select(func.count()).select_from(table)).scalar_one()


def _holds_rows(connection: Connection, table: Table) -> bool:
    return connection.execute(select(*table.primary_key.columns).limit(1)).first() is not None


def _continue_numbers(connection: Connection) -> None:
    """Set PostgreSQL's sequences after the numbers of the restored rows."""
    if connection.dialect.name != "postgresql":
        return
    for table in schema.metadata.sorted_tables:
        column = table.autoincrement_column
        if column is None or column.autoincrement is not True:
            continue
        last = connection.execute(select(func.max(column))).scalar()
        if last is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            connection.execute(select(func.setval(sequence, last)))
