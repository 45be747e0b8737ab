"""Opening a store: the engine, its pragmas, the schema's version, and errors in plain words."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from trivium.errors import MissingExtra, StoreError
from trivium.store import tables

DEFAULT_URL = "sqlite:///.trivium/store.db"
NEWEST = "0003"
"""Revision that this version of Trivium writes; the last file in ``migrations/versions``."""

_BUSY_MS = 30_000

_POSTGRES_LOCK = "SELECT pg_advisory_xact_lock(32776894582191469)"
"""The number is "trivium" in ASCII. The lock ends with the transaction."""


def open_engine(url: str, *, create: bool = True) -> Engine:
    """An engine on a store whose schema is the newest.

    Args:
        url: ``sqlite:///file``, ``postgresql://…``, or the bare path of an SQLite file.
        create: Make the store when it is not there.

    Raises:
        StoreError: If it cannot be opened, is no store, or was written by a newer Trivium.
        MissingExtra: If PostgreSQL's driver is not installed.
    """
    engine = _engine(url, create=create)
    try:
        with plain_words(engine):
            _migrate(engine)
    except Exception:
        engine.dispose()
        raise
    return engine


def _engine(url: str, *, create: bool) -> Engine:
    try:
        address = make_url(url if "://" in url else f"sqlite:///{url}")
    except ArgumentError as error:
        raise StoreError(f'"{url}" is no store: expected sqlite:///FILE or postgresql://…') from error
    backend = address.get_backend_name()
    if backend == "sqlite":
        _prepare_file(address.database, create=create)
        engine = create_engine(address, connect_args={"timeout": _BUSY_MS / 1000}, paramstyle="named")
        event.listen(engine, "connect", _sqlite_pragmas)
        return engine
    if backend == "postgresql":
        try:
            return create_engine(address.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        except ImportError as error:
            raise MissingExtra("postgres", "A PostgreSQL store") from error
    raise StoreError(f"{address.render_as_string()}: expected sqlite:///FILE or postgresql://…")


def _prepare_file(database: str | None, *, create: bool) -> None:
    if database in {None, "", ":memory:"}:
        raise StoreError("a store needs a file: sqlite:///FILE")
    file = Path(str(database))
    if not _is_utf8(str(file)):
        raise StoreError(f"{file}: SQLite opens files whose names are UTF-8 alone")
    if file.exists():
        if not file.is_file():
            raise StoreError(f"{file}: is no file")
        return
    if not create:
        raise StoreError(f"{file}: there is no store yet. `trivium run` or `trivium score` makes one.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{file}: cannot be made: {error.strerror}") from error


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # bytes of a file's name that are no text are surrogates in Python
        return False
    return True


def _sqlite_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # In WAL mode this loses nothing when the process is killed, and at most the last transactions in a
    # power cut.
    cursor.execute("PRAGMA synchronous=NORMAL")
    # Counts only while the file is empty. An attempt is often longer than the usual 4 KiB.
    cursor.execute("PRAGMA page_size=16384")
    cursor.close()


def _write_ahead(engine: Engine) -> None:
    """Keep readers and the writer apart. The mode stays in the file: another program's is left as it is."""
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")


def _migrate(engine: Engine) -> None:
    with engine.connect() as connection:
        version = _version(connection, engine)
    if version == NEWEST:
        _write_ahead(engine)
        return
    if version is not None and version > NEWEST:
        raise StoreError(
            f"{engine.url.render_as_string()}: was written by a newer Trivium (schema {version}, this one "
            f"writes {NEWEST}). Update Trivium, or name another store with --store."
        )
    _write_ahead(engine)
    with engine.begin() as connection:
        _lock(connection)
        if inspect(connection).get_table_names():
            if _version(connection, engine) != NEWEST:  # nobody else was faster
                upgrade(connection)
        else:
            _make_tables(connection)


def _lock(connection: Connection) -> None:
    """Let one process at a time change the schema, as a whole or not at all: a kill leaves what was there."""
    # Python's sqlite3 begins no transaction before statements that make tables; each would be kept alone.
    said = "BEGIN IMMEDIATE" if connection.dialect.name == "sqlite" else _POSTGRES_LOCK
    connection.exec_driver_sql(said)


def _make_tables(connection: Connection) -> None:
    """Make what the migrations would, without Alembic, which takes longer to import than this to do."""
    tables.metadata.create_all(connection, checkfirst=False)
    version = Table(
        "alembic_version", MetaData(), Column("version_num", String(32), primary_key=True, nullable=False)
    )
    version.create(connection)
    connection.execute(insert(version).values(version_num=NEWEST))


def upgrade(connection: Connection) -> None:
    """Take a store, which may be empty, through the migrations that it has not seen."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, NEWEST)


def _version(connection: Connection, engine: Engine) -> str | None:
    found = set(inspect(connection).get_table_names())
    if "alembic_version" not in found:
        if found:
            raise StoreError(
                f"{engine.url.render_as_string()}: is a database of something else (it has "
                f"{', '.join(sorted(found)[:3])}). Name another store with --store."
            )
        return None
    if found > {"alembic_version"} and "evaluations" not in found:
        raise StoreError(f"{engine.url.render_as_string()}: is a database of another program.")
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


_KNOWN = {
    "database or disk is full": "the disk is full. What was stored is safe; make room and resume.",
    "disk i/o error": "the disk cannot be read or written. What was stored before is safe.",
    "database is locked": f"another program holds it locked (waited {_BUSY_MS // 1000} s).",
    "file is not a database": "is no SQLite database. Name another store with --store.",
    "attempt to write a readonly database": "may not be written to.",
    "unable to open database file": "cannot be opened or made: is its folder there, and writable?",
    "database disk image is malformed": "is damaged. `sqlite3 FILE .recover` may save what is in it.",
}


@contextmanager
def plain_words(engine: Engine) -> Iterator[None]:
    """Turn a database's errors into StoreError, saying what to do."""
    try:
        yield
    except DBAPIError as error:
        name, said = engine.url.render_as_string(), str(error.orig)
        for known, meaning in _KNOWN.items():
            if known in said.lower():
                raise StoreError(f"{name}: {meaning}") from error
        raise StoreError(f"{name}: {said.splitlines()[0] if said else type(error.orig).__name__}") from error
    except SQLAlchemyError as error:
        raise StoreError(f"{engine.url.render_as_string()}: {error}") from error
