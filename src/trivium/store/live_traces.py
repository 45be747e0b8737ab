"""Stores received spans, marks traces complete, and reads traces.

**Durability.** When :meth:`LiveTraces.add` or :meth:`LiveTraces.record` returns, its spans are on disk. On
SQLite they commit with ``synchronous=FULL``, which syncs the write-ahead log at each commit; with ``NORMAL``,
the setting of all other writes, a power cut may undo the last commits
(https://www.sqlite.org/pragma.html#pragma_synchronous). On PostgreSQL they commit with
``synchronous_commit=on``. Either survives a killed process and a power cut, if the disk keeps what it syncs.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import Connection, Dialect, RowMapping, bindparam, select, update

from trivium.store import schema
from trivium.store.connection import begin_writing, check_file_exists, explain_errors, fetched, insert_many
from trivium.store.live_counts import Counts, add_counts
from trivium.store.live_records import (
    Accepted,
    Batch,
    Choice,
    CompleteTrace,
    Decide,
    ReceivedSpan,
    RecordedTrace,
    TraceBounds,
)
from trivium.store.live_rows import (
    earlier_jobs,
    insert_jobs,
    insert_resources,
    known_keys,
    locked_rows,
    update_rows,
)
from trivium.store.store import Store
from trivium.traces.opentelemetry.assemble import traces_of
from trivium.traces.opentelemetry.deployment import READ_OF_SPANS, deployment_metadata
from trivium.traces.readers.otlp.protobuf import attribute_value, recorded_span
from trivium.traces.trace import Trace, cut_trace

_MOST_SHARED = 1_000
"""Maximum number of cached resources and scopes; most services have one resource and ten scopes."""


class SharedParts:
    """A cache of resources and scopes by id; an id is a digest of its content, so no entry ever changes."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def read(self, connection: Connection, ids: Iterable[str]) -> dict[str, bytes]:
        """Return the resources and scopes with these ids, in protobuf, without ids that the store lacks."""
        wanted, bodies = set(ids), self._bodies
        missing = wanted - bodies.keys()
        if missing:
            table = schema.live_resources
            query = select(table.c.id, table.c.body).where(table.c.id.in_(sorted(missing)))
            read = {row.id: row.body for row in connection.execute(query)}
            if len(bodies) + len(read) > _MOST_SHARED:
                bodies = {id_: bodies[id_] for id_ in wanted & bodies.keys()}
            self._bodies = bodies = bodies | read
        return {id_: bodies[id_] for id_ in wanted & bodies.keys()}


def assembled(connection: Connection, number: int, trace_id: str, shared: SharedParts) -> Trace:
    """Assemble a trace from its stored spans.

    Its metadata include the service, version, environment, tags and conversation (see
    :mod:`trivium.traces.opentelemetry.deployment`).

    Args:
        connection: A connection to the store.
        number: Number of the trace.
        trace_id: Id of the trace.
        shared: The cache of resources and scopes.

    Raises:
        MissingExtra: If the protobuf messages are not installed.
    """
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    rows = connection.exec_driver_sql(_query(connection.dialect), {"wanted": number}).all()
    if not rows:
        return Trace(trace_id=trace_id)
    pairs = {pair for _, pair in rows}
    bodies = shared.read(connection, (half for pair in pairs for half in (pair[:16], pair[16:])))
    scopes = {pair: InstrumentationScope.FromString(bodies.get(pair[16:], b"")).name for pair in pairs}
    spans = [(Span.FromString(body), pair) for body, pair in rows]
    trace = traces_of([recorded_span(span, scopes[pair]) for span, pair in spans])[0]
    spans.sort(key=_roots_first)
    resources = [
        Resource.FromString(bodies.get(id_, b"")) for id_ in dict.fromkeys(pair[:16] for _, pair in spans)
    ]
    metadata = deployment_metadata(
        [{each.key: attribute_value(each.value) for each in resource.attributes} for resource in resources],
        filter(None, (_read(span.attributes) for span, _ in spans)),
    )
    # The trace's own metadata are more precise: an export by Trivium holds the original ones.
    return msgspec.structs.replace(trace, metadata=metadata | trace.metadata)


@lru_cache
def _query(dialect: Dialect) -> str:
    """Return the query as text: SQLAlchemy takes longer to process it than the database."""
    table = schema.live_spans
    query = (
        select(table.c.body, table.c.resource)
        .where(table.c.number == bindparam("wanted"))
        .order_by(table.c.received, table.c.span, table.c.digest)
    )
    return str(query.compile(dialect=dialect))


def _roots_first(item: tuple[Any, str]) -> tuple[bool, int]:
    span, _ = item
    return any(span.parent_span_id), span.start_time_unix_nano


def _read(attributes: Any) -> dict[str, object]:
    return {pair.key: attribute_value(pair.value) for pair in attributes if pair.key in READ_OF_SPANS}


SECONDS_BEFORE = 86_400
"""How long before a trace the earlier ones of its conversation are looked for."""

MOST_BEFORE = 2_000
"""How many traces are looked through for them."""

_EXCEEDED = {"spans": "too_many_spans", "bytes": "trace_too_large"}
"""Reasons for refusing a span, by the bound that it exceeds."""


class TraceState(msgspec.Struct, frozen=True):
    """Whether a trace is complete, and when it will be.

    Attributes:
        state: ``open`` or ``complete``.
        due: Unix time at which the trace becomes complete if no more spans arrive.
        root: Whether its root span has ended.
    """

    state: str
    due: float
    root: bool


def state_of_trace(store: Store, trace: str) -> TraceState | None:
    """Return the state of the trace with an id; None if the store has no such trace."""
    table = schema.live_traces.c
    query = select(table.state, table.due, table.root).where(table.trace == trace)
    row = fetched(store.engine, query).one_or_none()
    return None if row is None else TraceState(*row)


class LiveTraces:
    """The traces of production traffic.

    Several processes may use one store; on PostgreSQL they complete different traces at the same time.

    Args:
        store: The store.
        bounds: The waits after which a trace is complete, and its size limits.
    """

    def __init__(self, store: Store, bounds: TraceBounds | None = None) -> None:
        self._store = store
        self._engine = store.engine
        self.bounds = bounds or TraceBounds()
        self._shared = SharedParts()

    def add(self, batch: Batch, now: float) -> Accepted:
        """Store the spans of one request (see :meth:`add_all`)."""
        return self.add_all([batch], now)[0]

    def add_all(
        self, batches: Sequence[Batch], now: float, *, counts: Counts | None = None
    ) -> list[Accepted]:
        """Store the spans of several requests in one transaction, which is on disk on return.

        Args:
            batches: The spans of each request.
            now: Unix time at which they were received; the spans' own times are not used.
            counts: Further counts to add.

        Returns:
            For each request, how many of its spans were stored and refused.

        Raises:
            StoreError: If storing fails; then no span is stored.
        """
        with self._durable() as connection:
            accepted = self._add(connection, batches, now)
            add_counts(connection, _counted(accepted) + (counts or Counter()), now)
        return accepted

    def _add(self, connection: Connection, batches: Sequence[Batch], now: float) -> list[Accepted]:
        received: dict[str, list[tuple[int, ReceivedSpan]]] = defaultdict(list)
        for index, batch in enumerate(batches):
            for span in batch.spans:
                received[span.trace].append((index, span))
        lost = sum((Counter(batch.lost) for batch in batches), Counter())
        rows = locked_rows(connection, sorted(received.keys() | lost.keys()), now)
        known_keys(connection, rows, received)
        new, again = [0] * len(batches), [0] * len(batches)
        refused = [Counter(batch.refused) for batch in batches]
        inserted, changed, used = [], [], set()
        for trace, row in rows.items():
            before, cut_before = row.spans, row.cut
            row.cut += lost[trace]
            for index, span in received.get(trace, ()):
                exceeded = self.bounds.exceeded(span, spans=row.spans, size=row.size)
                if (span.span, span.digest) in row.known:
                    again[index] += 1
                elif exceeded is not None:
                    refused[index][_EXCEEDED[exceeded]] += 1
                    row.cut += 1
                else:
                    new[index] += 1
                    row.add(span)
                    used.add(span.resource)
                    inserted.append(_span_values(row.number, span, now))
            if row.spans > before or (row.cut and not cut_before):
                row.touch(now, self.bounds)
            if row.spans > before or row.cut > cut_before:
                changed.append(row)
        insert_resources(connection, batches, used)
        insert_many(connection, schema.live_spans, inserted)
        update_rows(connection, changed)
        return [Accepted(new=n, again=a, refused=r) for n, a, r in zip(new, again, refused, strict=True)]

    # Completion

    def complete(self, now: float, decide: Decide, *, limit: int = 100) -> int:
        """Mark due traces as complete and, in the same transaction, store the scoring jobs of sampled ones.

        Args:
            now: Unix time.
            decide: Called with each trace, without a lock on SQLite; a trace that receives a span meanwhile
                stays open.
            limit: Maximum number of traces to complete.

        Returns:
            Number of due traces; if it equals ``limit``, more may be due.

        Raises:
            StoreError: If the store fails; then no trace is marked.
        """
        table = schema.live_traces
        query = (
            select(table)
            .where(table.c.state == "open", table.c.due <= now)
            .order_by(table.c.due)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        with explain_errors(self._engine), self._engine.connect() as connection:
            due = connection.execute(query).mappings().all()
            if not due:
                return 0
            decided = [(row, decide(self._complete_trace(connection, row))) for row in due]
            begin_writing(connection)
            unchanged = self._unchanged(connection, due)
            earlier = earlier_jobs(connection, [row["trace"] for row in due if row["version"]])
            jobs, counts = [], Counts()
            for row, choices in decided:
                if row["number"] in unchanged:
                    counts["", "failed", "unreadable"] += choices is None
                    kept = _kept(row["trace"], choices or (), earlier)
                    jobs += _jobs(row["trace"], row["version"] + 1, kept, now, counts)
            completed = update(table).where(table.c.number.in_(unchanged))
            connection.execute(completed.values(state="complete", version=table.c.version + 1))
            insert_jobs(connection, jobs)
            add_counts(connection, counts, now)
            connection.commit()
        return len(due)

    def _complete_trace(self, connection: Connection, row: RowMapping) -> CompleteTrace:
        def read() -> Trace:
            with explain_errors(self._engine):
                trace = assembled(connection, row["number"], row["trace"], self._shared)
            return cut_trace(trace, row["cut"])

        return _trace_of_row(row, row["version"] + 1, read)

    @staticmethod
    def _unchanged(connection: Connection, due: Sequence[Any]) -> set[int]:
        """Return the numbers of the traces that have not changed since they were read."""
        table = schema.live_traces
        query = select(table.c.number, table.c.version, table.c.spans).where(
            table.c.number.in_([row["number"] for row in due]), table.c.state == "open"
        )
        as_read = {(row["number"], row["version"], row["spans"]) for row in due}
        return {row.number for row in connection.execute(query) if tuple(row) in as_read}

    def record(self, recorded: Sequence[RecordedTrace], now: float, *, counts: Counts | None = None) -> None:
        """Store complete traces that an application recorded itself, and their jobs, in one transaction.

        If the store has a trace already, it gets a new version.

        Args:
            recorded: The traces.
            now: Unix time.
            counts: Further counts to add.

        Raises:
            StoreError: If storing fails; then no trace is stored.
        """
        latest = {each.trace_id: each for each in recorded}
        with self._durable() as connection:
            rows = locked_rows(connection, sorted(latest), now)
            earlier = earlier_jobs(connection, [trace for trace, row in rows.items() if row.version])
            jobs, counted = [], Counts(counts or {})
            for trace, each in latest.items():
                kept = _kept(trace, each.choices, earlier)
                jobs += _jobs(trace, rows[trace].version + 1, kept, now, counted)
                rows[trace].record(each, now)
            update_rows(connection, rows.values(), {trace: each.body for trace, each in latest.items()})
            insert_jobs(connection, jobs)
            add_counts(connection, counted, now)

    # Reading

    def trace(self, trace_id: str) -> Trace | None:
        """Return a trace with the spans received so far; None if the store has no trace with this id."""
        found = self.found(trace_id)
        return None if found is None else found.read()

    def found(self, trace_id: str) -> CompleteTrace | None:
        """Return a trace with its times of receipt; None if the store has no trace with this id."""
        table = schema.live_traces
        with explain_errors(self._engine), self._engine.connect() as connection:
            query = select(table).where(table.c.trace == trace_id)
            row = connection.execute(query).mappings().one_or_none()
            if row is None:
                return None
            trace = cut_trace(assembled(connection, row["number"], trace_id, self._shared), row["cut"])
        return _trace_of_row(row, row["version"], lambda: trace)

    def before(self, found: CompleteTrace, naming: str) -> Iterator[str]:
        """Yield the ids of traces received up to a day before another one, the latest first.

        Args:
            found: The later trace.
            naming: A text that each of them holds: of its spans, or of what the application recorded.
        """
        table, spans, wanted = schema.live_traces, schema.live_spans, naming.encode()
        query = (
            select(table.c.number, table.c.trace, table.c.body)
            .where(table.c.first <= found.first, table.c.first >= found.first - SECONDS_BEFORE)
            .where(table.c.trace != found.trace_id)
            .order_by(table.c.first.desc(), table.c.number.desc())
            .limit(MOST_BEFORE)
        )
        with explain_errors(self._engine), self._engine.connect() as connection:
            for number, trace, recorded in connection.execute(query).all():
                held = connection.execute(select(spans.c.body).where(spans.c.number == number)).scalars()
                if wanted in (recorded or b"") or any(wanted in body for body in held):
                    yield trace

    @contextmanager
    def _durable(self) -> Iterator[Connection]:
        """Open a transaction that is on disk when the block has ended."""
        with explain_errors(self._engine), self._engine.connect() as connection:
            sqlite = connection.dialect.name == "sqlite"
            if sqlite:
                connection.exec_driver_sql("PRAGMA synchronous=FULL")
            try:
                begin_writing(connection)
                if not sqlite:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit TO on")
                yield connection
                connection.commit()
            finally:
                if sqlite:
                    connection.rollback()  # after a failure: the setting cannot change within a transaction
                    connection.exec_driver_sql("PRAGMA synchronous=NORMAL")
        check_file_exists(self._engine)


def _counted(accepted: Sequence[Accepted]) -> Counts:
    counts = Counts()
    for each in accepted:
        counts["", "received", ""] += each.new
        counts["", "again", ""] += each.again
        for reason, number in each.refused.items():
            counts["", "refused", reason] += number
    return counts


def _span_values(number: int, span: ReceivedSpan, now: float) -> dict[str, object]:
    return {
        "number": number,
        "span": span.span,
        "digest": span.digest,
        "resource": span.resource,
        "received": now,
        "body": span.body,
    }


def _trace_of_row(row: RowMapping, version: int, read: Callable[[], Trace]) -> CompleteTrace:
    as_stored = {name: row[name] for name in ("first", "last", "late", "service", "body", "cut")}
    return CompleteTrace(trace_id=row["trace"], version=version, read=read, **as_stored)


def _kept(
    trace: str, choices: Iterable[Choice], earlier: Mapping[tuple[str, str], Mapping[Any, Any]]
) -> Iterator[Choice]:
    """Yield the choices for a new version of a trace: once sampled, it stays so, at its highest probability.

    Otherwise a trace whose probability has fallen would have a chance with each of its versions, and would
    count more than once on average.
    """
    for choice in choices:
        job = earlier.get((trace, choice.monitor))
        if job is None or (choice.sampled and choice.probability >= job["probability"]):
            yield choice
        else:
            fields = {name: job[name] for name in ("probability", "weight", "rule")}
            yield msgspec.structs.replace(choice, sampled=True, **fields)


def _jobs(
    trace: str, version: int, choices: Iterable[Choice], now: float, counts: Counts
) -> list[dict[str, object]]:
    """Return the job rows of a trace, and count the choice of each monitor."""
    jobs = []
    for choice in choices:
        counts[choice.monitor, "complete", ""] += 1
        if not choice.sampled:
            counts[choice.monitor, "unsampled", ""] += 1
            continue
        counts[choice.monitor, "sampled", choice.rule] += 1
        counts[choice.monitor, "unscaled", ""] += choice.unscaled
        job = {
            "monitor": choice.monitor,
            "trace": trace,
            "version": version,
            "rule": choice.rule,
            "probability": choice.probability,
            "weight": choice.weight,
            "state": "waiting",
            "created": now,
            "due": now,
            "owner": None,
            "tries": 0,
            "reason": None,
        }
        jobs.append(job)
    return jobs
