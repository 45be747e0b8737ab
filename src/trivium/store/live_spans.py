"""Reads the trace of received spans from the store."""

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from trivium.store import schema
from trivium.traces.opentelemetry.assemble import traces_of
from trivium.traces.opentelemetry.deployment import READ_OF_SPANS, deployment_metadata
from trivium.traces.readers.otlp.protobuf import attribute_value, recorded_span
from trivium.traces.trace import Trace


def assembled(connection: Connection, number: int, trace_id: str) -> Trace:
    """The trace of the spans that are stored of it.

    Its metadata also hold the service, version and environment, the tags and the conversation (see
    :mod:`trivium.traces.opentelemetry.deployment`).

    Args:
        connection: To the store.
        number: Number of the trace.
        trace_id: Id of the trace.

    Raises:
        MissingExtra: If the protobuf messages are not installed.
    """
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    table = schema.live_spans
    query = (
        select(table.c.body, table.c.resource)
        .where(table.c.number == number)
        .order_by(table.c.received, table.c.span, table.c.digest)
    )
    rows = connection.execute(query).all()
    if not rows:
        return Trace(trace_id=trace_id)
    resources, scopes = _shared(connection, {row.resource for row in rows})
    spans = [(Span.FromString(row.body), row.resource) for row in rows]
    trace = traces_of([recorded_span(span, scopes.get(pair[16:], "")) for span, pair in spans])[0]
    spans.sort(key=_roots_first)
    metadata = deployment_metadata(
        [resources.get(id_, {}) for id_ in dict.fromkeys(pair[:16] for _, pair in spans)],
        [_read(span.attributes) for span, _ in spans],
    )
    # What the trace says of itself is more precise: an export of Trivium's holds the metadata it had.
    return msgspec.structs.replace(trace, metadata=metadata | trace.metadata)


def _roots_first(item: tuple[Any, str]) -> tuple[bool, int]:
    span, _ = item
    return any(span.parent_span_id), span.start_time_unix_nano


def _read(attributes: Any) -> dict[str, Any]:
    return {pair.key: attribute_value(pair.value) for pair in attributes if pair.key in READ_OF_SPANS}


def _shared(connection: Connection, pairs: set[str]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Attributes of the resources, and names of the scopes, by id."""
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource

    table = schema.live_resources
    halves = {half for pair in pairs for half in (pair[:16], pair[16:])}
    query = select(table.c.id, table.c.body).where(table.c.id.in_(sorted(halves)))
    bodies = {row.id: row.body for row in connection.execute(query)}
    resources = {
        id_: {each.key: attribute_value(each.value) for each in Resource.FromString(bodies[id_]).attributes}
        for id_ in {pair[:16] for pair in pairs} & bodies.keys()
    }
    scopes = {
        id_: InstrumentationScope.FromString(bodies[id_]).name
        for id_ in {pair[16:] for pair in pairs} & bodies.keys()
    }
    return resources, scopes
