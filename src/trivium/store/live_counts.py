"""Hourly counts of events in production traffic.

Counts of hours that are not kept are summed in hour 0: the total of a count never falls. Prometheus would
take a fall for a restart, and count everything anew.
"""

import math
from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, delete, func, select

from trivium.store import schema
from trivium.store.connection import explain_errors, fetched, insert_many
from trivium.store.store import Store

HOUR = 3600

_SPENT = "spent_micro_usd"
"""Event of hour 0: what judges cost in runs that are deleted."""

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
    insert_many(connection, schema.live_counts, rows, adding=("number",))


def counts_of(store: Store, *, since: float = 0) -> Counts:
    """The sums of the counts since the hour that holds a Unix time."""
    table = schema.live_counts
    query = (
        select(table.c.monitor, table.c.event, table.c.reason, func.sum(table.c.number))
        .where(table.c.hour >= int(since // HOUR), table.c.event != _SPENT)
        .group_by(table.c.monitor, table.c.event, table.c.reason)
    )
    return Counter({(row[0], row[1], row[2]): int(row[3]) for row in fetched(store.engine, query)})


def count_in_hour(store: Store, monitor: str, event: str, hour: int) -> int:
    """The count of an event of a monitor, whatever its reason, in an hour: Unix time divided by 3,600."""
    table = schema.live_counts.c
    query = select(func.sum(table.number)).where(
        table.monitor == monitor, table.hour == hour, table.event == event
    )
    return int(fetched(store.engine, query).scalar() or 0)


def sum_old_counts(connection: Connection, before: float) -> None:
    """Sum the counts of hours that ended before a Unix time, and delete those hours."""
    table = schema.live_counts
    old = (table.c.hour > 0) & (table.c.hour < int(before // HOUR))
    deleted = (
        delete(table).where(old).returning(table.c.monitor, table.c.event, table.c.reason, table.c.number)
    )
    sums = Counts()
    for monitor, event, reason, number in connection.execute(deleted):
        sums[monitor, event, reason] += number
    add_counts(connection, sums, 0)


def keep_spent(connection: Connection, monitor: str, usd: float) -> None:
    """Remember what judges cost in a run that is deleted."""
    # Rounded up: the sum must not fall, by however little.
    add_counts(connection, Counts({(monitor, _SPENT, ""): math.ceil(usd * 1e6)}), 0)


def spent_usd(store: Store) -> dict[str, float]:
    """What judges cost, in US dollars, by monitor; also in runs that are deleted."""
    runs, spending, counts = schema.runs.c, schema.spending.c, schema.live_counts.c
    stored = (
        select(runs.suite_name, func.sum(spending.cost_usd))
        .join(schema.spending, spending.run == runs.number)
        .where(runs.kind == "live")
        .group_by(runs.suite_name)
    )
    deleted = select(counts.monitor, counts.number).where(counts.hour == 0, counts.event == _SPENT)
    with explain_errors(store.engine), store.engine.connect() as connection:
        spent = {str(monitor): float(usd) for monitor, usd in connection.execute(stored)}
        for monitor, micro_usd in connection.execute(deleted):
            spent[monitor] = spent.get(monitor, 0.0) + micro_usd / 1e6
    return spent
