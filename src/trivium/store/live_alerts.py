"""Alerts, their messages on the way to channels, marks, and the state of watchers in the store."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, func, select, update

from trivium.store import schema
from trivium.store.audit import add_audit
from trivium.store.connection import explain_errors, fetched, insert_many, writing
from trivium.store.store import Store
from trivium.values import json_text


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment or reset of a monitor.

    Attributes:
        number: Rises with every mark.
        time: Unix time.
        kind: ``deployment`` or ``reset``.
        version: The version that was deployed.
        note: What somebody wrote about it.
    """

    number: int
    time: float
    kind: str
    version: str | None = None
    note: str | None = None


WATCH = "watch"
"""Name under which the store keeps the state of a watcher."""


class OpenTraffic(msgspec.Struct, frozen=True, kw_only=True):
    """What was received of traces that are not complete.

    Attributes:
        traces: Number of traces.
        spans: Number of their spans.
        due: Unix time at which the first of them is complete if nothing more comes; None without any.
    """

    traces: int = 0
    spans: int = 0
    due: float | None = None


class StoredAlert(msgspec.Struct, frozen=True, kw_only=True):
    """An alert.

    Attributes:
        number: Rises with every alert.
        monitor: Name of the monitor.
        cause: ``quality``, ``stalled`` or ``no_data``.
        state: ``firing`` or ``resolved``.
        status: Its status, such as ``warning`` or ``critical``.
        opened: Unix time.
        changed: Unix time of its last change.
        resolved: Unix time, or None.
        body: Its latest message.
    """

    number: int
    monitor: str
    cause: str
    state: str
    status: str
    opened: float
    changed: float
    resolved: float | None
    body: dict[str, object]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A message to one channel.

    Attributes:
        number: Its row.
        alert: Number of its alert.
        channel: Its channel's place among the monitor's channels.
        key: The same at every try, and different for every other message.
        tries: How often it has been tried.
        body: The message as JSON.
    """

    number: int
    alert: int
    channel: int
    key: str
    tries: int
    body: str


class StateTransaction:
    """A state of a monitor, in a transaction in which one process at a time has it.

    Args:
        connection: In the transaction.
        monitor: Name of the monitor.
        name: Name of the state.
        body: The state.

    Attributes:
        body: The state as JSON, as it was when the transaction began; empty at first.
    """

    def __init__(self, connection: Connection, monitor: str, name: str, body: str) -> None:
        self._connection, self._monitor, self._name = connection, monitor, name
        self.body = body

    def save(self, body: str, now: float) -> None:
        """Store the state."""
        table = schema.live_states
        own = (table.c.monitor == self._monitor, table.c.name == self._name)
        self._connection.execute(update(table).where(*own).values(body=body, touched=now))

    def marks(self) -> list[Mark]:
        """The marks of the monitor, newest first."""
        return _marks(self._connection, self._monitor, 20)

    def open_alert(self, *, cause: str, status: str, body: Mapping[str, Any], now: float) -> int:
        """Store a new alert; returns its number."""
        values = {
            "monitor": self._monitor,
            "cause": cause,
            "state": "firing",
            "status": status,
            "opened": now,
            "changed": now,
            "resolved": None,
            "body": json_text(body),
        }
        return _inserted(self._connection, schema.live_alerts, values)

    def change_alert(
        self,
        number: int,
        *,
        status: str,
        body: Mapping[str, Any],
        changed: float | None = None,
        resolved: float | None = None,
    ) -> None:
        """Store the latest message about an alert, and since when its status is what it is.

        One that somebody resolved by hand fires again.
        """
        table = schema.live_alerts
        values: dict[str, object] = {"state": "firing", "resolved": None}
        values |= {"status": status, "body": json_text(body)}
        if changed is not None:
            values["changed"] = changed
        if resolved is not None:
            values |= {"state": "resolved", "resolved": resolved}
        self._connection.execute(update(table).where(table.c.number == number).values(values))

    def add_deliveries(
        self, alert: int, key: str, body: Mapping[str, Any], channels: Iterable[int], now: float
    ) -> None:
        """Store a message about an alert for each channel."""
        rows = [
            {
                "alert": alert,
                "channel": channel,
                "key": f"{key}:{channel}"[:64],
                "state": "waiting",
                "tries": 0,
                "due": now,
                "body": json_text(body),
                "reason": None,
            }
            for channel in channels
        ]
        insert_many(self._connection, schema.live_deliveries, rows, unless_there=True)

    def audit(self, action: str, body: Mapping[str, Any], now: float) -> None:
        """Add an entry of the monitor to the audit log."""
        add_audit(self._connection, f"monitor {self._monitor}", action, body, now=now)


@contextmanager
def locked_state(store: Store, monitor: str, name: str, now: float) -> Iterator[StateTransaction]:
    """Open a transaction in which one process at a time has a state; it commits when the block ends."""
    table = schema.live_states
    with writing(store.engine) as connection:
        new = {"monitor": monitor, "name": name, "touched": now, "body": ""}
        insert_many(connection, table, [new], unless_there=True)
        query = select(table.c.body).where(table.c.monitor == monitor, table.c.name == name).with_for_update()
        yield StateTransaction(connection, monitor, name, connection.execute(query).scalar_one())


def state_of(store: Store, monitor: str, name: str) -> str:
    """A state as JSON; empty without one."""
    table = schema.live_states
    query = select(table.c.body).where(table.c.monitor == monitor, table.c.name == name)
    return fetched(store.engine, query).scalar() or ""


# Alerts


def alerts_of(
    store: Store, monitor: str | None = None, *, firing: bool = False, since: float = 0, limit: int = 100
) -> list[StoredAlert]:
    """Alerts, newest first.

    Args:
        store: The store.
        monitor: Only those of this monitor.
        firing: Only those that are not resolved.
        since: Only those that changed at this Unix time or later.
        limit: Most alerts.
    """
    table = schema.live_alerts
    query = select(table).where(table.c.changed >= since).order_by(table.c.number.desc()).limit(limit)
    if monitor is not None:
        query = query.where(table.c.monitor == monitor)
    if firing:
        query = query.where(table.c.state == "firing")
    return [_stored(row) for row in fetched(store.engine, query).mappings()]


def alert_of(store: Store, number: int) -> StoredAlert | None:
    """The alert with a number."""
    query = select(schema.live_alerts).where(schema.live_alerts.c.number == number)
    row = fetched(store.engine, query).mappings().first()
    return None if row is None else _stored(row)


def _stored(row: Mapping[Any, Any]) -> StoredAlert:
    return StoredAlert(**{**row, "body": msgspec.json.decode(row["body"])})


def resolve_alert(store: Store, number: int, *, actor: str, now: float) -> None:
    """Note that somebody resolved an alert by hand."""
    table = schema.live_alerts
    values = {"state": "resolved", "status": "healthy", "changed": now, "resolved": now}
    with explain_errors(store.engine), store.engine.begin() as connection:
        connection.execute(update(table).where(table.c.number == number).values(values))
        add_audit(connection, actor, "alert resolved by hand", {"alert": number}, now=now)


# Deliveries


def lease_delivery(store: Store, monitor: str, *, channel: int, now: float, lease: float) -> Delivery | None:
    """Take the first message to a channel that is due; it is due again when the lease ends.

    Args:
        store: The store.
        monitor: Name of the monitor.
        channel: Place of the channel.
        now: Unix time.
        lease: How long nobody else takes it, in seconds.
    """
    table, alerts = schema.live_deliveries, schema.live_alerts
    query = (
        select(*(table.c[name] for name in Delivery.__struct_fields__))
        .join(alerts, alerts.c.number == table.c.alert)
        .where(
            table.c.state == "waiting",
            table.c.due <= now,
            table.c.channel == channel,
            alerts.c.monitor == monitor,
        )
        .order_by(table.c.number)
        .limit(1)
        .with_for_update(skip_locked=True, of=table)
    )
    with writing(store.engine) as connection:
        row = connection.execute(query).mappings().first()
        if row is None:
            return None
        found = Delivery(**{**row, "tries": row["tries"] + 1})
        leased = {"due": now + lease, "tries": found.tries}
        connection.execute(update(table).where(table.c.number == found.number).values(leased))
    return found


def count_deliveries(store: Store) -> dict[str, int]:
    """Number of messages by state; those without any are left out."""
    table = schema.live_deliveries.c
    query = select(table.state, func.count()).group_by(table.state)
    return {row[0]: row[1] for row in fetched(store.engine, query)}


def settle_delivery(
    store: Store, delivery: Delivery, *, state: str, due: float, reason: str | None = None
) -> None:
    """Store what became of a try: ``sent``, ``failed``, or ``waiting`` until a Unix time.

    Earlier messages about the alert that wait for another try are ``superseded`` by one that is sent: they
    would say that it fires when it is resolved.
    """
    table = schema.live_deliveries
    with explain_errors(store.engine), store.engine.begin() as connection:
        connection.execute(
            update(table)
            .where(table.c.number == delivery.number)
            .values(state=state, due=due, reason=None if reason is None else reason[:500])
        )
        if state == "sent":
            connection.execute(
                update(table)
                .where(
                    table.c.alert == delivery.alert,
                    table.c.channel == delivery.channel,
                    table.c.number < delivery.number,
                    table.c.state == "waiting",
                )
                .values(state="superseded", reason="a later message about the alert was sent")
            )


# Marks


def add_mark(
    store: Store,
    monitor: str,
    *,
    now: float,
    kind: str = "deployment",
    version: str | None = None,
    note: str | None = None,
) -> Mark:
    """Store a deployment or reset."""
    with explain_errors(store.engine), store.engine.begin() as connection:
        values = {"monitor": monitor, "time": now, "kind": kind, "version": version, "note": note}
        number = _inserted(connection, schema.live_marks, values)
    return Mark(number=number, time=now, kind=kind, version=version, note=note)


def marks_of(store: Store, monitor: str, *, limit: int = 20) -> list[Mark]:
    """The marks of a monitor, newest first."""
    with explain_errors(store.engine), store.engine.connect() as connection:
        return _marks(connection, monitor, limit)


def _marks(connection: Connection, monitor: str, limit: int) -> list[Mark]:
    table = schema.live_marks
    query = (
        select(*(table.c[name] for name in Mark.__struct_fields__))
        .where(table.c.monitor == monitor)
        .order_by(table.c.time.desc(), table.c.number.desc())
        .limit(limit)
    )
    return [Mark(**row) for row in connection.execute(query).mappings()]


# Traffic


def last_interaction(store: Store, services: Sequence[str] = ()) -> float | None:
    """Unix time at which the last span or record of traffic came; None without any.

    Args:
        store: The store.
        services: Only of these services; of all if empty.
    """
    table = schema.live_traces
    query = select(func.max(table.c.last))
    if services:
        query = query.where(table.c.service.in_(services))
    found = fetched(store.engine, query).scalar()
    return None if found is None else float(found)


def open_traffic(store: Store, services: Sequence[str] = ()) -> OpenTraffic:
    """What was received of traces that are not complete.

    Args:
        store: The store.
        services: Only of these services; of all if empty.
    """
    table = schema.live_traces
    query = select(func.count(), func.coalesce(func.sum(table.c.spans), 0), func.min(table.c.due))
    query = query.where(table.c.state == "open")
    if services:
        query = query.where(table.c.service.in_(services))
    traces, spans, due = fetched(store.engine, query).one()
    return OpenTraffic(traces=traces, spans=int(spans), due=due)


def monitors_of(store: Store) -> list[str]:
    """Names of the monitors that are or were watched, or have seen or scored traffic, sorted."""
    queries = (
        select(schema.live_states.c.monitor).where(schema.live_states.c.name == WATCH).distinct(),
        select(schema.runs.c.suite_name).where(schema.runs.c.kind == "live").distinct(),
        select(schema.live_counts.c.monitor)
        .where(schema.live_counts.c.monitor != "", schema.live_counts.c.hour > 0)
        .distinct(),
    )
    return sorted({str(row[0]) for query in queries for row in fetched(store.engine, query)})


def _inserted(connection: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row and return its number."""
    return int(connection.execute(table.insert().values(values).returning(table.c.number)).scalar_one())
