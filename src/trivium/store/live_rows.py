"""Reads, locks and writes the rows that received spans change."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, RowMapping, bindparam, select, update

from trivium.store import schema
from trivium.store.connection import insert_many
from trivium.store.live_records import Batch, ReceivedSpan, RecordedTrace, TraceBounds
from trivium.values import batched

_ROWS_AT_ONCE = 400

_FIXED = ("number", "trace", "first")
_CHANGED = ("version", "state", "last", "opened", "due", "root", "spans", "size", "service", "late", "cut")


class TraceRow:
    """A row of ``live_traces`` that spans are being added to.

    Attributes:
        known: Span ids and digests of its spans, as far as they are among those received now.
    """

    number: int
    trace: str
    version: int
    first: float
    state: str
    last: float
    opened: float
    due: float
    root: bool
    spans: int
    size: int
    service: str | None
    late: bool
    cut: int

    def __init__(self, values: RowMapping) -> None:
        for name in _FIXED + _CHANGED:
            setattr(self, name, values[name])
        self.known: set[tuple[str, str]] = set()

    def add(self, span: ReceivedSpan) -> None:
        """Add a span."""
        self.known.add((span.span, span.digest))
        self.spans += 1
        self.size += len(span.body)
        if span.service and (span.ended_root or not self.service):
            self.service = span.service
        self.root = self.root or span.ended_root

    def touch(self, now: float, bounds: TraceBounds) -> None:
        """Note that spans came; a trace that was complete is opened again."""
        if self.state == "complete":
            self.state, self.opened, self.late = "open", now, True
        self.last = now
        self.due = self.opened + bounds.longest
        if self.root or self.cut or self.spans >= bounds.max_spans:
            self.due = min(self.due, now + bounds.quiet)

    def record(self, recorded: RecordedTrace, now: float) -> None:
        """Note that an application recorded it itself, which completes it."""
        self.late = self.version > 0
        self.version += 1
        self.state, self.root, self.last = "complete", True, now
        self.size, self.service = len(recorded.body), recorded.service


def locked_rows(connection: Connection, traces: Sequence[str], now: float) -> dict[str, TraceRow]:
    """Lock the rows of traces; rows that are missing are made.

    Args:
        connection: In a transaction.
        traces: Trace ids, sorted: all lock in one order, so that none waits for another in a circle.
        now: Unix time at which they were received.
    """
    rows = _locked(connection, traces)
    missing = [trace for trace in traces if trace not in rows]
    if missing:
        new = [_new_row(trace, now) for trace in missing]
        insert_many(connection, schema.live_traces, new, unless_there=True)
        rows |= _locked(connection, missing)
    return rows


def _locked(connection: Connection, traces: Sequence[str]) -> dict[str, TraceRow]:
    table = schema.live_traces
    found: dict[str, TraceRow] = {}
    for chunk in batched(traces, _ROWS_AT_ONCE):
        query = (
            select(*(table.c[name] for name in _FIXED + _CHANGED))
            .where(table.c.trace.in_(chunk))
            .order_by(table.c.trace)
            .with_for_update()
        )
        found |= {row["trace"]: TraceRow(row) for row in connection.execute(query).mappings()}
    return found


def _new_row(trace: str, now: float) -> dict[str, object]:
    nothing = {"state": "open", "version": 0, "spans": 0, "size": 0, "root": False, "late": False, "cut": 0}
    return {"trace": trace, **dict.fromkeys(("first", "last", "opened", "due"), now), **nothing}


def known_keys(
    connection: Connection,
    rows: Mapping[str, TraceRow],
    received: Mapping[str, Iterable[tuple[int, ReceivedSpan]]],
) -> None:
    """Fill ``known`` of rows with those of the received spans that are stored."""
    by_number = {row.number: row for row in rows.values() if row.spans}
    keys = {
        (rows[trace].number, span.span)
        for trace, spans in received.items()
        if rows[trace].spans
        for _, span in spans
    }
    for chunk in batched(sorted(keys), _ROWS_AT_ONCE):
        query = _lookup(len(chunk), connection.dialect.name)
        values = tuple(value for key in chunk for value in key)
        for number, span, digest in connection.exec_driver_sql(query, values):
            by_number[number].known.add((span, digest))


@cache
def _lookup(size: int, dialect: str) -> str:
    """Look the keys of spans up by a join: for ``IN`` with pairs, SQLite reads the whole index."""
    key = "(CAST(? AS BIGINT), ?)" if dialect == "sqlite" else "(CAST(%s AS BIGINT), %s)"
    return (
        f"WITH wanted(number, span) AS (VALUES {', '.join([key] * size)}) "  # noqa: S608 - only placeholders
        "SELECT live_spans.number, live_spans.span, live_spans.digest "
        "FROM wanted JOIN live_spans ON live_spans.number = wanted.number AND live_spans.span = wanted.span"
    )


def insert_resources(connection: Connection, batches: Iterable[Batch], used: Iterable[str]) -> None:
    """Store the resources and scopes of spans, unless they are stored already.

    Args:
        connection: In a transaction.
        batches: What holds them.
        used: The ``resource`` of each stored span.
    """
    wanted = {half for pair in used for half in (pair[:16], pair[16:])}
    bodies = {id_: body for batch in batches for id_, body in batch.resources.items() if id_ in wanted}
    rows = [{"id": id_, "body": body} for id_, body in sorted(bodies.items())]
    insert_many(connection, schema.live_resources, rows, unless_there=True)


def update_rows(
    connection: Connection, rows: Iterable[TraceRow], bodies: Mapping[str, bytes] | None = None
) -> None:
    """Store what has changed in rows, and the records of an application by trace, if there are any."""
    names = _CHANGED if bodies is None else (*_CHANGED, "body")
    values: list[dict[str, object]] = []
    for row in rows:
        values.append({f"new_{name}": getattr(row, name) for name in ("number", *_CHANGED)})
        if bodies is not None:
            values[-1]["new_body"] = bodies[row.trace]
    if values:
        connection.exec_driver_sql(_update(connection.dialect, names), values)


def earlier_jobs(connection: Connection, traces: Iterable[str]) -> dict[tuple[str, str], Mapping[Any, Any]]:
    """The most probable job of each trace and monitor so far."""
    table = schema.live_jobs
    found: dict[tuple[str, str], Mapping[Any, Any]] = {}
    for chunk in batched(traces, _ROWS_AT_ONCE):
        query = select(table.c.trace, table.c.monitor, table.c.probability, table.c.weight, table.c.rule)
        for row in connection.execute(query.where(table.c.trace.in_(chunk))).mappings():
            known = found.setdefault((row["trace"], row["monitor"]), row)
            if row["probability"] > known["probability"]:
                found[row["trace"], row["monitor"]] = row
    return found


def insert_jobs(connection: Connection, jobs: Sequence[Mapping[str, Any]]) -> None:
    """Store jobs."""
    insert_many(connection, schema.live_jobs, jobs, unless_there=True)


@lru_cache
def _update(dialect: Dialect, names: Sequence[str]) -> str:
    """Set columns of the trace with a number to parameters; as text, which SQLAlchemy need not process."""
    table = schema.live_traces
    statement = update(table).where(table.c.number == bindparam("new_number"))
    return str(statement.values({name: bindparam(f"new_{name}") for name in names}).compile(dialect=dialect))
