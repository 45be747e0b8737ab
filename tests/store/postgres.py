"""Starts a PostgreSQL server for the tests on loopback, empties it for each test, and stops it at the end."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from trivium.store import schema

_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def binary(name: str) -> str | None:
    """Path of one of PostgreSQL's programs; None if it is not installed."""
    return next((str(f / name) for f in _FOLDERS if (f / name).exists()), shutil.which(name))


def _as_server_user() -> dict[str, int]:
    """The server refuses to run as root: then it runs as the user that its package made."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("postgres")
    return {"user": user.pw_uid, "group": user.pw_gid}


_HASTY = "-c synchronous_commit=off -c full_page_writes=off -c autovacuum=off -c jit=off"
"""Nothing of a test has to outlive it, and its tables hold few rows."""


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of an empty database, or a skip where there is no server to start."""
    initdb, pg_ctl = binary("initdb"), binary("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("needs PostgreSQL's server binaries (Debian: postgresql)")
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    with server(initdb, pg_ctl, more=_HASTY) as url:
        yield url


@contextmanager
def server(initdb: str, pg_ctl: str, kept: str | None = None, *, more: str = "") -> Iterator[str]:
    """A server until the end, its database empty or as it was left in a folder to keep; gives its URL.

    ``more`` are further options of the server.
    """
    user = _as_server_user()
    with TemporaryDirectory() if kept is None else nullcontext(kept) as folder:
        if user:
            os.chown(folder, user["user"], user["group"])
        data = f"{folder}/data"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        quiet = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if not Path(data).exists():
            subprocess.run([initdb, "-D", data, "-U", "trivium", "-A", "trust", "-N"], **quiet, **user)
        options = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off {more}"
        )
        subprocess.run([pg_ctl, "-D", data, "-w", "-o", options, "start"], **quiet, **user)
        try:
            yield f"postgresql://trivium@127.0.0.1:{port}/postgres"
        finally:
            how = "immediate" if kept is None else "fast"
            subprocess.run([pg_ctl, "-D", data, "-m", how, "stop"], **quiet, **user)


on_sqlite = pytest.mark.parametrize("any_url", ["sqlite"], indirect=True)
"""For a test of what is computed from a store, whose queries other tests send to both databases."""


@pytest.fixture(params=["sqlite", "postgresql"], name="any_url")
def any_made_url(request: pytest.FixtureRequest, url: str) -> str:
    """URL of an empty SQLite store, then of a PostgreSQL store, which may have its tables already.

    For packages that use stores; the tests of the store itself begin without tables.
    """
    if request.param == "sqlite":
        return url
    address: str = request.getfixturevalue("postgres_url")
    if not _emptied_tables(address):
        empty(address)
    return address


def empty(url: str) -> None:
    """Leave no table, and nothing else, in a database."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


def _emptied_tables(url: str) -> bool:
    """Delete all rows and number anew, a tenth of the work; False for other tables than a store's."""
    import psycopg

    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        if {name for (name,) in tables} != {*schema.metadata.tables, "alembic_version"}:
            return False
        emptied = [f'DELETE FROM "{table.name}"' for table in reversed(schema.metadata.sorted_tables)]
        emptied.append(
            "SELECT setval(format('%I', sequencename)::regclass, 1, false) FROM pg_sequences "
            "WHERE schemaname = 'public' AND last_value IS NOT NULL"
        )
        connection.execute("; ".join(emptied))  # as one message
    return True
