"""Opens stores: SQLite files and PostgreSQL databases, with the newest schema; copies, errors, upserts."""

import logging
import os
import shutil
import sqlite3
import stat
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Dialect,
    Engine,
    Executable,
    MetaData,
    Result,
    String,
    Table,
    create_engine,
    create_mock_engine,
    event,
    insert,
    inspect,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.util import LRUCache

from trivium.errors import MissingExtra, StoreError, StoreLost
from trivium.store import schema as tables
from trivium.store.migrations import NEWEST, REVISIONS, upgrade

log = logging.getLogger(__name__)

DEFAULT_URL = "sqlite:///.trivium/store.db"
_FIRST_TABLES = frozenset({"runs", "cases", "attempts", "evaluations", "case_scores"})
"""Tables that every revision has."""

_POSTGRES_LOCK = "SELECT pg_advisory_xact_lock(32776894582191469)"
"""The number is "trivium" in ASCII. The lock ends with the transaction."""

LEASE_SECONDS = 60
"""A process on another machine that has written nothing for this long counts as ended."""

BUSY_MS = 30_000
"""How long a connection waits for a lock that another one holds."""

_KNOWN_ERRORS = {
    "database or disk is full": "the disk is full. What was stored is safe; make room and resume.",
    "disk i/o error": "the disk cannot be read or written. What was stored before is safe.",
    "database is locked": f"another program holds it locked (waited {BUSY_MS // 1000} s).",
    "file is not a database": "is not an SQLite database. Name another store with --store.",
    "attempt to write a readonly database": "is read-only.",
    "unable to open database file": "cannot be opened: may it and its folder be read and written to?",
    "malformed": "is damaged. `sqlite3 FILE .recover` may save what is in it.",
}
"""Texts in the messages of database drivers, and the message shown for each."""


_FILES: "weakref.WeakKeyDictionary[Engine, tuple[Path, int, int]]" = weakref.WeakKeyDictionary()
"""The file of each writable engine, with its device and inode number."""


class _Statements(LRUCache[Any, Any]):
    """A cache of compiled statements that all engines share: it ignores the dialect, the same for all."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(key[1:], default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key[1:], value)


_STATEMENTS = {"compiled_cache": _Statements(500)}

_COPIES: "weakref.WeakKeyDictionary[Engine, Callable[[], object]]" = weakref.WeakKeyDictionary()
"""For each engine on a copy, the function that deletes the copy; called at exit at the latest."""


def open_engine(url: str, *, create: bool = True, read_only: bool = False) -> Engine:
    """Open a store and migrate it to the newest schema.

    Args:
        url: ``sqlite:///file``, ``postgresql://…``, or the bare path of an SQLite file.
        create: Create the store if it does not exist.
        read_only: Create, change and migrate nothing. An SQLite file with an older schema is read from a
            migrated copy, which is deleted when the engine is disposed.

    Raises:
        StoreError: If it cannot be opened, is not a store, or was written by a newer Trivium.
        MissingExtra: If PostgreSQL's driver is not installed.
    """
    try:
        address = make_url(url if "://" in url else f"sqlite:///{url}")
    except ArgumentError as error:
        raise StoreError(f'"{url}" is not a store: expected sqlite:///FILE or postgresql://…') from error
    backend = address.get_backend_name()
    if backend not in {"sqlite", "postgresql"}:
        raise StoreError(f"{address.render_as_string()}: expected sqlite:///FILE or postgresql://…")
    if backend == "sqlite":
        file = _prepared_file(address.database, create=create and not read_only)
        engine = _readable_file(address, file) if read_only else _writable_file(address, file)
    else:
        engine = _postgresql_engine(address)
    try:
        with explain_errors(engine):
            return _with_newest_schema(engine) if read_only else _migrated(engine)
    except Exception:
        engine.dispose()
        raise


_READ_AHEAD = (
    "SELECT set_config(name, '64', false) FROM pg_settings "
    "WHERE name = 'effective_io_concurrency' AND setting::integer BETWEEN 1 AND 63"
)
"""What a search finds lies all over a table: 64 pages are asked of the disk at once, not one after another.

A server that cannot do so has 0 here, and refuses any other number.
"""


def _postgresql_engine(address: URL) -> Engine:
    try:
        engine = create_engine(address.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ImportError as error:
        raise MissingExtra("postgres", "A PostgreSQL store") from error
    event.listen(engine, "connect", _read_ahead)
    return engine


def _read_ahead(opened: Any, _record: object) -> None:
    opened.execute(_READ_AHEAD).close()
    opened.commit()


def _prepared_file(database: str | None, *, create: bool) -> Path:
    if database in {None, "", ":memory:"}:
        raise StoreError("a store needs a file: sqlite:///FILE")
    file = Path(str(database))
    if str(file).encode(errors="ignore").decode() != str(file):  # invalid bytes are surrogates in it
        raise StoreError(f"{file}: SQLite opens only files whose names are UTF-8")
    try:
        if file.exists():
            if not file.is_file():
                raise StoreError(f"{file}: is not a file")
        elif not create:
            raise StoreError(
                f"{file}: there is no store yet. `trivium run`, `trivium score` or a monitor makes one."
            )
        else:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Its log gets the same mode. Connections do not create files, so a deleted store stays deleted.
            file.touch(mode=0o600)
    except OSError as error:
        hint = ". Name another store with --store." if create else ""
        raise StoreError(
            f"{file}: cannot be {'made' if create else 'read'}: {error.strerror}{hint}"
        ) from error
    return file


def _writable_file(address: URL, file: Path) -> Engine:
    """Open an existing file for reading and writing; connections never create a file."""
    status = file.stat()
    engine = _file_engine(address, file, "mode=rw")
    event.listen(engine, "connect", _set_up_new_file)
    _FILES[engine] = file, status.st_dev, status.st_ino
    return engine


def _readable_file(address: URL, file: Path) -> Engine:
    """Open a file for reading only; its folder may be read-only.

    Raises:
        StoreError: If it cannot be opened.
    """
    log = Path(f"{file}-wal")
    # SQLite creates two small files beside a store while reading it. In a read-only folder, "immutable"
    # reads without them; that is safe, because nobody can write there and the log is empty.
    modes = ["mode=rw", "mode=ro"] if _size(log) else ["mode=rw", "mode=ro&immutable=1"]
    errors = []
    for mode in modes:
        engine = _file_engine(address, file, mode)
        event.listen(engine, "connect", lambda opened, _: opened.execute("PRAGMA query_only=ON"))
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").fetchone()
            return engine
        except Exception as error:
            engine.dispose()
            errors.append(error)
            if not any(said in str(error).lower() for said in ("readonly", "unable to open")):
                break
    if len(errors) == len(modes) and _size(log):
        raise StoreError(
            f"{file}: {log.name} beside it holds changes that can be read only where both files are "
            "writable: copy both to a writable folder"
        ) from errors[-1]
    return _writable_file(address, file)  # its first use raises the error, which explain_errors explains


def _copied_file(engine: Engine) -> Engine:
    """Open a temporary copy of the database, which :func:`dispose` deletes."""
    folder = tempfile.mkdtemp(prefix="trivium-")
    file = Path(folder) / "store.db"
    try:
        _copy(engine, file)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    copied = _file_engine(engine.url, file, "mode=rw")
    _COPIES[copied] = weakref.finalize(copied, shutil.rmtree, folder, ignore_errors=True)
    return copied


def dispose(engine: Engine) -> None:
    """Close an engine's connections, and delete its file if that is a temporary copy."""
    engine.dispose()
    if engine in _COPIES:
        _COPIES[engine]()


def _back_up(engine: Engine, label: str) -> Path:
    """Copy the database to a new file ``FILE.LABEL.bak`` beside it and return the new path."""
    file = Path(str(engine.url.database))
    number, backup = 1, Path(f"{file}.{label}.bak")
    while backup.exists():
        number += 1
        backup = Path(f"{file}.{label}.{number}.bak")
    part = Path(f"{backup}.part")
    part.unlink(missing_ok=True)
    try:
        _copy(engine, part)
        part.replace(backup)
    finally:
        part.unlink(missing_ok=True)
    return backup


def readable_by_others(engine: Engine) -> Path | None:
    """The file of a database if other users of the machine may read it; None for other databases."""
    if engine.dialect.name != "sqlite" or os.name != "posix":
        return None
    file = Path(str(engine.url.database))
    return file if stat.S_IMODE(file.stat().st_mode) & 0o077 else None


def _file_engine(address: URL, file: Path, mode: str) -> Engine:
    return create_engine(
        address, creator=lambda: _connect(file, mode), paramstyle="named", execution_options=_STATEMENTS
    )


def _connect(file: Path, mode: str) -> sqlite3.Connection:
    """Connect; while other parts of this process hold every file handle, wait until they close some.

    Raises:
        StoreError: If they have closed none after ``BUSY_MS``.
    """
    last = time.monotonic() + BUSY_MS / 1000
    had_handles = False
    while True:
        try:
            return _opened(file, mode)
        except sqlite3.OperationalError as error:
            if "unable to open" not in str(error):
                raise
            if _has_handles():
                if had_handles:  # too few handles were not the cause
                    raise
                had_handles = True
            elif time.monotonic() > last:
                raise StoreError(f"{file}: this process has no file handle left (ulimit -n)") from error
        time.sleep(0.01)


def _opened(file: Path, mode: str) -> sqlite3.Connection:
    uri = f"{file.absolute().as_uri()}?{mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_MS / 1000, check_same_thread=False)
    try:
        connection.execute("PRAGMA page_count").fetchone()  # opens the write-ahead log, too
        # In WAL mode a killed process loses nothing; a power cut may lose the last transactions.
        connection.execute("PRAGMA synchronous=NORMAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _has_handles() -> bool:
    """Whether this process can open another file."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True


def _set_up_new_file(connection: Any, _record: Any) -> None:
    """Set page size and vacuum mode of a new file; in an old one, auto_vacuum would wait for the write lock.

    The default page of 4 KiB is shorter than many attempts. Retention returns the pages that it frees to the
    disk (``PRAGMA incremental_vacuum``).
    """
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        connection.execute("PRAGMA page_size=16384")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _copy(engine: Engine, file: Path) -> None:
    """Copy the database, including its write-ahead log, to a new file."""
    connection = engine.raw_connection()
    copy = sqlite3.connect(file)
    try:
        source: Any = connection.driver_connection
        source.backup(copy)
    finally:
        copy.close()
        connection.close()


def _write_ahead(engine: Engine) -> None:
    """Turn on write-ahead logging, so that readers and the writer do not block each other.

    SQLite refuses at once if another connection is using the file, however long it may wait.
    """
    if engine.dialect.name != "sqlite":
        return
    last = time.monotonic() + BUSY_MS / 1000
    with engine.connect() as connection:
        while True:
            try:
                # It answers with a row: while one is unread, the connection can commit nothing.
                connection.exec_driver_sql("PRAGMA journal_mode=WAL").close()
            except OperationalError as error:
                if "locked" not in str(error.orig) or time.monotonic() > last:
                    raise
                time.sleep(0.01)
            else:
                return


def _with_newest_schema(engine: Engine) -> Engine:
    """Return the engine, or an engine on a migrated copy if the store has an older schema."""
    with engine.connect() as connection:
        version = _version(connection, engine)
    name = engine.url.render_as_string()
    if version == NEWEST:
        return engine
    if version is None:
        raise StoreError(f"{name}: holds no run yet")
    if engine.dialect.name != "sqlite":
        raise StoreError(
            f"{name}: was written by an older Trivium (schema {version}, this one reads {NEWEST}). "
            "`trivium run` and `trivium score` migrate it; make a copy first."
        )
    log.info("%s has schema %s: reading a migrated copy; the store itself is not changed", name, version)
    copied = _copied_file(engine)
    engine.dispose()
    _migrated(copied, back_up=False)
    return copied


def _migrated(engine: Engine, *, back_up: bool = True) -> Engine:
    with engine.connect() as connection:
        version = _version(connection, engine)
    _write_ahead(engine)
    if version == NEWEST:
        return engine
    with engine.begin() as connection:
        _lock(connection)
        version = _version(connection, engine)
        if version is None:
            _make_tables(connection)
        elif version != NEWEST:  # no other process has migrated it meanwhile
            if back_up and engine.dialect.name == "sqlite":
                copy = _back_up(engine, f"schema-{version}")
                log.warning("migrating %s from schema %s; a copy is in %s", engine.url, version, copy)
            upgrade(connection, version)
    return engine


def _lock(connection: Connection) -> None:
    """Let one process at a time change the schema, in one transaction: a killed process changes nothing."""
    # Python's sqlite3 begins no transaction before CREATE TABLE; each statement would be committed alone.
    statement = "BEGIN IMMEDIATE" if connection.dialect.name == "sqlite" else _POSTGRES_LOCK
    connection.exec_driver_sql(statement)


def _make_tables(connection: Connection) -> None:
    backend, driver = connection.dialect.name, connection.connection.driver_connection
    execute = driver.execute if driver is not None and backend == "sqlite" else connection.exec_driver_sql
    for statement in _definitions(backend):
        execute(statement)


@cache
def _definitions(backend: str) -> tuple[str, ...]:
    """The statements that create the newest schema: once for a process, which may open many stores."""
    made: list[str] = []
    version = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))

    def keep(statement: Any, *_: Any, **__: Any) -> None:
        made.append(str(statement.compile(dialect=recorder.dialect)))

    recorder = create_mock_engine(
        f"{backend}+psycopg://" if backend == "postgresql" else f"{backend}://", keep
    )
    tables.metadata.create_all(recorder, checkfirst=False)
    version.create(recorder, checkfirst=False)
    stated = insert(version).values(version_num=NEWEST)
    return (*made, str(stated.compile(dialect=recorder.dialect, compile_kwargs={"literal_binds": True})))


def _version(connection: Connection, engine: Engine) -> str | None:
    """Return the revision of the schema, or None for a database without tables.

    Raises:
        StoreError: If it is not a store, is damaged, or has a revision that this version does not know.
    """
    table_names = set(inspect(connection).get_table_names())
    name = engine.url.render_as_string()
    if not table_names:
        return None
    if "alembic_version" not in table_names:
        others = ", ".join(sorted(table_names)[:3])
        raise StoreError(
            f"{name}: is a database of something else (it has {others}). Name another store with --store."
        )
    if not table_names & _FIRST_TABLES:
        raise StoreError(f"{name}: is a database of another program.")
    if missing := _FIRST_TABLES - table_names:  # views do not count: reading a hostile one might never end
        raise StoreError(f"{name}: is damaged: it lacks the tables {', '.join(sorted(missing))}")
    version = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if version is None:
        raise StoreError(f"{name}: is damaged: its table alembic_version, which names the schema, is empty")
    if version in REVISIONS:
        return str(version)
    if isinstance(version, str) and version > NEWEST:
        raise StoreError(
            f"{name}: was written by a newer Trivium (schema {version}, this one writes {NEWEST}). Update "
            "Trivium, or name another store with --store."
        )
    raise StoreError(f'{name}: is damaged: no schema is called "{version}"')


def begin_writing(connection: Connection) -> None:
    """Begin a transaction that reads and then writes.

    SQLite lets a transaction that has begun by reading write only if no other has written meanwhile. What is
    read must be locked on PostgreSQL (``with_for_update``).
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def check_file_exists(engine: Engine) -> None:
    """Raise StoreLost if the file of an SQLite store is gone; writes to it would still succeed."""
    if engine not in _FILES:
        return
    file, *place = _FILES[engine]
    with suppress(OSError):
        status = file.stat()
        if [status.st_dev, status.st_ino] == place:
            return
    name = engine.url.render_as_string()
    raise StoreLost(
        f"{name}: the file was deleted or replaced while it was being written: what was in it is lost"
    )


@contextmanager
def explain_errors(engine: Engine) -> Iterator[None]:
    """Re-raise database errors as StoreError with a remedy."""
    name = engine.url.render_as_string()
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        message = str(error.orig if isinstance(error, DBAPIError) else error)
        check_file_exists(engine)
        for known, explanation in _KNOWN_ERRORS.items():
            if known in message.lower():
                raise StoreError(f"{name}: {explanation}") from error
        raise StoreError(f"{name}: {message.splitlines()[0] if message else type(error).__name__}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"{name}: {error}") from error
    except (UnicodeDecodeError, OverflowError) as error:  # text or numbers that a store never contains
        raise StoreError(f"{name}: {_KNOWN_ERRORS['malformed']}") from error
    except OSError as error:
        raise StoreError(f"{name}: {error.strerror or error}") from error
    except MemoryError as error:
        raise StoreError(f"{name}: there is not enough memory for what it holds") from error


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that reads and then writes; an error in the block undoes it (see begin_writing)."""
    with explain_errors(engine), engine.begin() as connection:
        begin_writing(connection)
        yield connection


def fetched(engine: Engine, query: Executable) -> Result[*tuple[Any, ...]]:
    """The result of a query, read whole, so that the connection is free again."""
    with explain_errors(engine), engine.connect() as connection:
        return connection.execute(query).freeze()()


def insert_many(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    *,
    unless_there: bool = False,
    adding: Sequence[str] = (),
) -> None:
    """Insert rows that have values for the same columns, in types that the driver accepts.

    The driver is called directly: SQLAlchemy processes each value, which takes longer than storing it.

    Args:
        connection: The connection.
        table: The table.
        rows: Values by column; a column that they lack gets what the database gives it.
        unless_there: Leave out rows whose key is in the table, also if another process has just written it.
        adding: Columns that are added to those of the row with the same primary key, if it is there.
    """
    if rows:
        statement = _insert_into(table, tuple(rows[0]), connection.dialect)
        statement += " ON CONFLICT DO NOTHING" * unless_there
        if adding:
            sums = ", ".join(f"{name} = {table.name}.{name} + excluded.{name}" for name in adding)
            statement += f" ON CONFLICT ({', '.join(table.primary_key.columns.keys())}) DO UPDATE SET {sums}"
        connection.exec_driver_sql(statement, rows)


@lru_cache
def _insert_into(table: Table, columns: Sequence[str], dialect: Dialect) -> str:
    return str(insert(table).inline().compile(dialect=dialect, column_keys=columns))
