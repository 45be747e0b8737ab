"""A new store against one that went through every migration."""

import sqlite3

from sqlalchemy import create_engine

from trivium.store.opening import upgrade
from trivium.store.store import Store


def test_a_new_store_is_as_the_migrations_would_have_left_it(tmp_path):
    Store(str(tmp_path / "new.db")).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    with engine.begin() as connection:
        upgrade(connection)
    engine.dispose()
    new, migrated = (_all_of(tmp_path / name) for name in ("new.db", "migrated.db"))
    assert new == migrated
    assert new["alembic_version"][1]


def _all_of(path):
    """Columns, indices and rows of every table."""
    connection = sqlite3.connect(path)
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found = {}
    for (name,) in named:
        columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
        rows = connection.execute(f"SELECT * FROM {name}").fetchall()
        indices = sorted(
            (unique, origin, tuple(connection.execute(f"PRAGMA index_info({index})").fetchall()))
            for _, index, unique, origin, _ in connection.execute(f"PRAGMA index_list({name})").fetchall()
        )
        found[name] = columns, rows, indices
    connection.close()
    return found
