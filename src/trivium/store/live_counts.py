"""Counts by the hour of what happened to production traffic."""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, select

from trivium.store import schema
from trivium.store.connection import explain_errors, insert_into
from trivium.store.store import Store

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert

HOUR = 3600

Counts = Counter[tuple[str, str, str]]
"""Numbers by monitor (empty for what belongs to none), event and reason (empty for none)."""


def add_counts(connection: Connection, counts: Mapping[tuple[str, str, str], int], now: float) -> None:
    """Add to the counts of an hour; to be called last in a transaction, because others wait for these rows.

    Args:
        connection: In a transaction.
        counts: What is added.
        now: A Unix time within the hour.
    """
    rows = [
        {"monitor": monitor, "hour": int(now // HOUR), "event": event, "reason": reason, "number": number}
        for (monitor, event, reason), number in sorted(counts.items())  # always in one order: no deadlock
        if number
    ]
    if rows:
        connection.execute(_upsert(connection.dialect.name), rows)


def counts_of(store: Store, *, since: float = 0) -> Counts:
    """The sums of the counts since the hour that holds a Unix time."""
    table = schema.live_counts
    query = (
        select(table.c.monitor, table.c.event, table.c.reason, func.sum(table.c.number))
        .where(table.c.hour >= int(since // HOUR))
        .group_by(table.c.monitor, table.c.event, table.c.reason)
    )
    with explain_errors(store.engine), store.engine.connect() as connection:
        return Counter({(row[0], row[1], row[2]): int(row[3]) for row in connection.execute(query)})


@cache
def _upsert(dialect: str) -> "Insert":
    table = schema.live_counts
    statement = insert_into(dialect, table)
    return statement.on_conflict_do_update(
        index_elements=["monitor", "hour", "event", "reason"],
        set_={"number": table.c.number + statement.excluded.number},
    )
