"""Inserting rows that may be there already, which SQLite and PostgreSQL say alike, each in its dialect."""

from typing import TYPE_CHECKING

from sqlalchemy import Connection, Table

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert


def insert_into(connection: Connection, table: Table) -> "Insert":
    """An insert that knows ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert(table)
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert(table)  # type: ignore[return-value]  # alike in all that is used here
