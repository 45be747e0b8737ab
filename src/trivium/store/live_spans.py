"""Reads the trace of received spans from the store."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import Connection, Dialect, bindparam, select

from trivium.store import schema
from trivium.traces.opentelemetry.assemble import traces_of
from trivium.traces.opentelemetry.deployment import READ_OF_SPANS, deployment_metadata
from trivium.traces.readers.otlp.protobuf import attribute_value, recorded_span
from trivium.traces.trace import Trace

_MOST_SHARED = 1_000
"""Resources and scopes that are kept in memory; most services have one and ten."""


class SharedParts:
    """The resources and scopes that were read before, by id, which is a digest: what it stands for stays."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def read(self, connection: Connection, ids: Iterable[str]) -> dict[str, bytes]:
        """The resources and scopes with these ids, as protobuf; those that are not stored are left out."""
        wanted, bodies = set(ids), self._bodies
        missing = wanted - bodies.keys()
        if missing:
            table = schema.live_resources
            query = select(table.c.id, table.c.body).where(table.c.id.in_(sorted(missing)))
            found = {row.id: row.body for row in connection.execute(query)}
            if len(bodies) + len(found) > _MOST_SHARED:
                bodies = {id_: bodies[id_] for id_ in wanted & bodies.keys()}
            self._bodies = bodies = bodies | found
        return {id_: bodies[id_] for id_ in wanted & bodies.keys()}


def assembled(connection: Connection, number: int, trace_id: str, shared: SharedParts) -> Trace:
    """The trace of the spans that are stored of it.

    Its metadata also hold the service, version and environment, the tags and the conversation (see
    :mod:`trivium.traces.opentelemetry.deployment`).

    Args:
        connection: To the store.
        number: Number of the trace.
        trace_id: Id of the trace.
        shared: The resources and scopes that were read before.

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
    # What the trace says of itself is more precise: an export of Trivium's holds the metadata it had.
    return msgspec.structs.replace(trace, metadata=metadata | trace.metadata)


@lru_cache
def _query(dialect: Dialect) -> str:
    """The query as text: SQLAlchemy takes longer to process it than the database."""
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


def _read(attributes: Any) -> dict[str, Any]:
    return {pair.key: attribute_value(pair.value) for pair in attributes if pair.key in READ_OF_SPANS}
