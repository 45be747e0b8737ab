"""One process at a time, by the lock that SQLite takes on a file: on every system, gone with its holder."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_PATIENCE_SECONDS = 0.5
"""How long Ctrl-C may go unheard while another process is waited for."""


@contextmanager
def one_at_a_time(file: Path) -> Iterator[None]:
    """Wait until no other process holds the file, and hold it."""
    with closing(sqlite3.connect(file, timeout=_PATIENCE_SECONDS, isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
        yield
        connection.execute("ROLLBACK")
