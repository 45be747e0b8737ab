"""Starts a PostgreSQL server for the tests on loopback, and stops it at the end."""

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

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


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of an empty database, or a skip where there is no server to start."""
    initdb, pg_ctl = binary("initdb"), binary("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip("needs PostgreSQL's server binaries (Debian: postgresql)")
    pytest.importorskip("psycopg", reason="needs the extra postgres")
    with server(initdb, pg_ctl) as url:
        yield url


@contextmanager
def server(initdb: str, pg_ctl: str) -> Iterator[str]:
    """A server with an empty database, until the end; gives its URL."""
    user = _as_server_user()
    with TemporaryDirectory() as folder:
        if user:
            os.chown(folder, user["user"], user["group"])
        data = f"{folder}/data"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        quiet = {"check": True, "cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([initdb, "-D", data, "-U", "trivium", "-A", "trust", "-N"], **quiet, **user)
        options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
        subprocess.run([pg_ctl, "-D", data, "-w", "-o", options, "start"], **quiet, **user)
        try:
            yield f"postgresql://trivium@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([pg_ctl, "-D", data, "-m", "immediate", "stop"], **quiet, **user)
