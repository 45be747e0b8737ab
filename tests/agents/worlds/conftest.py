"""A store whose worlds are all removed, and a database that a world is a copy of."""

import sqlite3
import tempfile

import pytest

from trivium.store.store import Store


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Store(str(tmp_path / "store.db")) as opened:
        yield opened
    assert not list(tmp_path.glob("trivium-worlds-*"))


@pytest.fixture
def bookings(tmp_path):
    path = tmp_path / "bookings.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE seats (row INTEGER, letter TEXT, guest TEXT, PRIMARY KEY (row, letter))"
        )
        connection.execute("INSERT INTO seats VALUES (1, 'A', NULL), (1, 'B', 'Ann')")
        connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()
    return path
