"""Opens SQLite files for reading or writing, and copies them."""

import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event

from trivium.errors import StoreError

BUSY_MS = 30_000
"""How long a connection waits for another one's lock."""


def engine_on(address: URL, file: Path) -> Engine:
    """An engine that reads and writes a file which is there; no connection makes a new one."""
    status = file.stat()
    engine = _engine(address, file, "mode=rw")
    _FILES[engine] = file, status.st_dev, status.st_ino
    return engine


def readable_engine(address: URL, file: Path) -> Engine:
    """An engine that only reads a file, in a folder or on a mount that may be read-only.

    Raises:
        StoreError: If it cannot be opened.
    """
    log = Path(f"{file}-wal")
    # SQLite makes two small files beside the store while it is read. Where it may not, "immutable" reads
    # without them: nobody writes there, and nothing is left in the log.
    ways = ["mode=rw", "mode=ro"] if _size(log) else ["mode=rw", "mode=ro&immutable=1"]
    refusals = []
    for way in ways:
        engine = _engine(address, file, way)
        event.listen(engine, "connect", _forbid_writing)
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").fetchone()
            return engine
        except Exception as error:
            engine.dispose()
            refusals.append(error)
            if not _is_refused(error):
                break
    if len(refusals) == len(ways) and _size(log):
        raise StoreError(
            f"{file}: {log.name} beside it holds changes that can be read only where both files may be "
            "written to: copy both to such a folder"
        ) from refusals[-1]
    return engine_on(address, file)  # whoever uses it meets the error, in plain words


def engine_on_copy(engine: Engine) -> Engine:
    """An engine on a copy of the database, which goes with the engine."""
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
    """Close an engine's connections; the copy that it was on is deleted."""
    engine.dispose()
    if engine in _COPIES:
        _COPIES[engine]()


def back_up(engine: Engine, label: str) -> Path:
    """Copy the database to a new file beside it, whose name has the label; returns where it is."""
    file = Path(str(engine.url.database))
    number, kept = 1, Path(f"{file}.{label}.bak")
    while kept.exists():
        number += 1
        kept = Path(f"{file}.{label}.{number}.bak")
    part = Path(f"{kept}.part")
    part.unlink(missing_ok=True)
    try:
        _copy(engine, part)
        part.replace(kept)
    finally:
        part.unlink(missing_ok=True)
    return kept


def is_there(engine: Engine) -> bool:
    """Whether the file that an engine writes is still where it was; True of other databases."""
    if engine not in _FILES:
        return True
    file, device, number = _FILES[engine]
    try:
        status = file.stat()
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (device, number)


_FILES: "weakref.WeakKeyDictionary[Engine, tuple[Path, int, int]]" = weakref.WeakKeyDictionary()
"""The file of each engine that writes one, with its device and its number there."""


_COPIES: "weakref.WeakKeyDictionary[Engine, Callable[[], object]]" = weakref.WeakKeyDictionary()
"""What deletes the copy that an engine is on; at the latest when the process ends."""


def _engine(address: URL, file: Path, how: str) -> Engine:
    uri = f"{file.absolute().as_uri()}?{how}"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, timeout=BUSY_MS / 1000, check_same_thread=False)

    engine = create_engine(address, creator=connect, paramstyle="named")
    event.listen(engine, "connect", _pragmas)
    return engine


def _pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    # In WAL mode this loses nothing when the process is killed, and at most the last transactions in a
    # power cut.
    cursor.execute("PRAGMA synchronous=NORMAL")
    # Counts only while the file is empty. An attempt is often longer than the usual 4 KiB.
    cursor.execute("PRAGMA page_size=16384")
    cursor.close()


def _forbid_writing(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA query_only=ON")


def _is_refused(error: Exception) -> bool:
    said = str(error).lower()
    return "readonly" in said or "unable to open" in said


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _copy(engine: Engine, file: Path) -> None:
    """Copy the database, with what its log holds, to a new file."""
    connection = engine.raw_connection()
    copy = sqlite3.connect(file)
    try:
        source: Any = connection.driver_connection
        source.backup(copy)
    finally:
        copy.close()
        connection.close()
