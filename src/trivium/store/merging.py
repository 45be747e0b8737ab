"""Inserting rows that may be there already, which SQLite and PostgreSQL say alike, each in its dialect."""

from typing import TYPE_CHECKING

from sqlalchemy import Table

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert


def insert_into(dialect: str, table: Table) -> "Insert":
    """An insert that knows ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert(table)
    from sqlalchemy.dialects.sqlite import insert as sqlite_insert

    return sqlite_insert(table)  # type: ignore[return-value]  # alike in all that is used here
