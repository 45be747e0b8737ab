"""Opens databases: connections, schema migrations, process leases and portable upserts."""

import logging
import os
import platform
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    create_engine,
    insert,
    inspect,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from trivium.errors import MissingExtra, StoreError, StoreLost
from trivium.store import schema as tables
from trivium.store import sqlite

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert


log = logging.getLogger(__name__)

DEFAULT_URL = "sqlite:///.trivium/store.db"
NEWEST = "0003"
"""Revision that this version of Trivium writes; the last file in ``migrations/versions``."""

REVISIONS = ("0001", "0002", NEWEST)
"""Those that it can migrate."""

_FIRST_TABLES = frozenset({"runs", "cases", "attempts", "evaluations", "case_scores"})
"""Tables of every revision."""

_POSTGRES_LOCK = "SELECT pg_advisory_xact_lock(32776894582191469)"
"""The number is "trivium" in ASCII. The lock ends with the transaction."""


def open_engine(url: str, *, create: bool = True, read_only: bool = False) -> Engine:
    """An engine on a store whose schema is the newest.

    Args:
        url: ``sqlite:///file``, ``postgresql://…``, or the bare path of an SQLite file.
        create: Make the store when it is not there.
        read_only: Make, change and migrate nothing. An SQLite file with an older schema is read from a
            migrated copy, which is deleted at the end.

    Raises:
        StoreError: If it cannot be opened, is no store, or was written by a newer Trivium.
        MissingExtra: If PostgreSQL's driver is not installed.
    """
    try:
        address = make_url(url if "://" in url else f"sqlite:///{url}")
    except ArgumentError as error:
        raise StoreError(f'"{url}" is no store: expected sqlite:///FILE or postgresql://…') from error
    backend = address.get_backend_name()
    if backend not in {"sqlite", "postgresql"}:
        raise StoreError(f"{address.render_as_string()}: expected sqlite:///FILE or postgresql://…")
    if backend == "sqlite":
        file = _prepared_file(address.database, create=create and not read_only)
        engine = sqlite.readable_engine(address, file) if read_only else sqlite.engine_on(address, file)
    else:
        engine = _postgresql_engine(address)
    try:
        with explain_errors(engine):
            return _with_newest_schema(engine) if read_only else _migrated(engine)
    except Exception:
        engine.dispose()
        raise


def _postgresql_engine(address: URL) -> Engine:
    try:
        return create_engine(address.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
    except ImportError as error:
        raise MissingExtra("postgres", "A PostgreSQL store") from error


def _prepared_file(database: str | None, *, create: bool) -> Path:
    if database in {None, "", ":memory:"}:
        raise StoreError("a store needs a file: sqlite:///FILE")
    file = Path(str(database))
    if not _is_utf8(str(file)):
        raise StoreError(f"{file}: SQLite opens files whose names are UTF-8 alone")
    try:
        if file.exists():
            if not file.is_file():
                raise StoreError(f"{file}: is no file")
        elif not create:
            raise StoreError(f"{file}: there is no store yet. `trivium run` or `trivium score` makes one.")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o644)  # the mode that SQLite gives; no connection makes a file that went away
    except OSError as error:
        hint = ". Name another store with --store." if create else ""
        raise StoreError(
            f"{file}: cannot be {'made' if create else 'read'}: {error.strerror}{hint}"
        ) from error
    return file


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes of a file's name that are no text are surrogates in Python
        return False
    return True


def _write_ahead(engine: Engine) -> None:
    """Keep readers and the writer apart. The mode stays in the file: another program's is left as it is."""
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _with_newest_schema(engine: Engine) -> Engine:
    """The engine, or one on a migrated copy of an older store."""
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
    log.info("%s has schema %s: a migrated copy is read, the store stays as it is", name, version)
    copied = sqlite.engine_on_copy(engine)
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
        elif version != NEWEST:  # nobody else was faster
            if back_up and engine.dialect.name == "sqlite":
                copy = sqlite.back_up(engine, f"schema-{version}")
                log.warning("%s is migrated from schema %s; a copy is in %s", engine.url, version, copy)
            upgrade(connection)
    return engine


def _lock(connection: Connection) -> None:
    """Let one process at a time change the schema, as a whole or not at all: a kill leaves what was there."""
    # Python's sqlite3 begins no transaction before statements that make tables; each would be kept alone.
    said = "BEGIN IMMEDIATE" if connection.dialect.name == "sqlite" else _POSTGRES_LOCK
    connection.exec_driver_sql(said)


def _make_tables(connection: Connection) -> None:
    """Create the newest schema directly, because importing Alembic takes longer."""
    tables.metadata.create_all(connection, checkfirst=False)
    version = Table(
        "alembic_version", MetaData(), Column("version_num", String(32), primary_key=True, nullable=False)
    )
    version.create(connection)
    connection.execute(insert(version).values(version_num=NEWEST))


def upgrade(connection: Connection) -> None:
    """Apply the missing migrations to a store, which may be empty."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, NEWEST)


def _version(connection: Connection, engine: Engine) -> str | None:
    """The revision of the schema; None of a database without tables.

    Raises:
        StoreError: If it is no store, or one that this version of Trivium does not know.
    """
    found = set(inspect(connection).get_table_names())
    name = engine.url.render_as_string()
    if not found:
        return None
    if "alembic_version" not in found:
        others = ", ".join(sorted(found)[:3])
        raise StoreError(
            f"{name}: is a database of something else (it has {others}). Name another store with --store."
        )
    if not found & _FIRST_TABLES:
        raise StoreError(f"{name}: is a database of another program.")
    if missing := _FIRST_TABLES - found:  # a view in their place might never end
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


_KNOWN = {
    "database or disk is full": "the disk is full. What was stored is safe; make room and resume.",
    "disk i/o error": "the disk cannot be read or written. What was stored before is safe.",
    "database is locked": f"another program holds it locked (waited {sqlite.BUSY_MS // 1000} s).",
    "file is not a database": "is no SQLite database. Name another store with --store.",
    "attempt to write a readonly database": "may not be written to.",
    "unable to open database file": "cannot be opened: may it and its folder be read and written to?",
    "malformed": "is damaged. `sqlite3 FILE .recover` may save what is in it.",
}


def check_is_there(engine: Engine) -> None:
    """Raise StoreLost if the file of an SQLite store is gone; writes to it would still succeed."""
    if not sqlite.is_there(engine):
        name = engine.url.render_as_string()
        raise StoreLost(
            f"{name}: the file was deleted or replaced while it was written: what was in it is lost"
        )


@contextmanager
def explain_errors(engine: Engine) -> Iterator[None]:
    """Turn database errors into StoreError with a remedy."""
    name = engine.url.render_as_string()
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        said = str(error.orig if isinstance(error, DBAPIError) else error)
        check_is_there(engine)
        for known, meaning in _KNOWN.items():
            if known in said.lower():
                raise StoreError(f"{name}: {meaning}") from error
        raise StoreError(f"{name}: {said.splitlines()[0] if said else type(error).__name__}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"{name}: {error}") from error
    except (UnicodeDecodeError, OverflowError) as error:  # texts and numbers that no store holds
        raise StoreError(f"{name}: {_KNOWN['malformed']}") from error
    except OSError as error:
        raise StoreError(f"{name}: {error.strerror or error}") from error
    except MemoryError as error:
        raise StoreError(f"{name}: there is not enough memory for what it holds") from error


LEASE_SECONDS = 60
"""How long a process on another machine counts as alive without writing anything."""


@cache
def _process(pid: int) -> str:
    return f"{platform.node()}:{pid}:{_started(pid)}"


def this_process() -> str:
    """Identify this process: machine, process id, and the kernel tick at which it began."""
    return _process(os.getpid())


def has_certainly_ended(owner: str) -> bool:
    """Whether the process of that name has certainly ended."""
    host, pid, started = owner.rsplit(":", 2)
    if host != platform.node() or os.name != "posix":  # elsewhere the signal 0 is one that ends a process
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """When a process began, in kernel ticks; empty where the system does not tell, or it has ended.

    One that has ended keeps its number until its parent has heard of it.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The second field is the program's name in brackets and may hold spaces itself.
    fields = status.rsplit(")", 1)[1].split()
    return "" if fields[0] in {"Z", "X"} else fields[19]


def insert_into(dialect: str, table: Table) -> "Insert":
    """An insert that knows ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert(table)
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert(table)  # type: ignore[return-value]  # alike in all that is used here


T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of ``size`` items each, the last maybe shorter (itertools.batched comes with Python 3.12)."""
    chunk: list[T] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
