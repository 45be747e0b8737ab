"""Opens SQLite stores for reading or writing, copies them, and backs them up."""

import os
import shutil
import sqlite3
import stat
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.util import LRUCache

from trivium.errors import StoreError

BUSY_MS = 30_000
"""How long a connection waits for a lock that another one holds."""

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


def writable_engine(address: URL, file: Path) -> Engine:
    """Open an existing file for reading and writing; connections never create a file."""
    status = file.stat()
    engine = _engine(address, file, "mode=rw")
    event.listen(engine, "connect", _set_up_new_file)
    _FILES[engine] = file, status.st_dev, status.st_ino
    return engine


def readable_engine(address: URL, file: Path) -> Engine:
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
        engine = _engine(address, file, mode)
        event.listen(engine, "connect", lambda opened, _: opened.execute("PRAGMA query_only=ON"))
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").fetchone()
            return engine
        except Exception as error:
            engine.dispose()
            errors.append(error)
            if not _is_permission_error(error):
                break
    if len(errors) == len(modes) and _size(log):
        raise StoreError(
            f"{file}: {log.name} beside it holds changes that can be read only where both files are "
            "writable: copy both to a writable folder"
        ) from errors[-1]
    return writable_engine(address, file)  # its first use raises the error, which explain_errors explains


def copy_engine(engine: Engine) -> Engine:
    """Open a temporary copy of the database, which :func:`dispose` deletes."""
    folder = tempfile.mkdtemp(prefix="trivium-")
    file = Path(folder) / "store.db"
    try:
        _copy(engine, file)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    copied = _engine(engine.url, file, "mode=rw")
    _COPIES[copied] = weakref.finalize(copied, shutil.rmtree, folder, ignore_errors=True)
    return copied


def dispose(engine: Engine) -> None:
    """Close an engine's connections, and delete its file if that is a temporary copy."""
    engine.dispose()
    if engine in _COPIES:
        _COPIES[engine]()


def back_up(engine: Engine, label: str) -> Path:
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


def file_exists(engine: Engine) -> bool:
    """Whether the file of a writable engine still exists and is the same file; True for other engines."""
    if engine not in _FILES:
        return True
    file, device, number = _FILES[engine]
    try:
        status = file.stat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (device, number)


def _engine(address: URL, file: Path, mode: str) -> Engine:
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


def _is_permission_error(error: Exception) -> bool:
    message = str(error).lower()
    return "readonly" in message or "unable to open" in message


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
