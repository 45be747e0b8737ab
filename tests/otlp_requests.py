"""Makes export requests of OTLP for tests."""

import os
from collections.abc import Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

SECOND = 10**9
BEGAN = 1_700_000_000 * SECOND

_OF_RESOURCE = {
    "service": "service.name",
    "version": "service.version",
    "environment": "deployment.environment.name",
}


def pair(key: str, value: str | int | Sequence[str]) -> KeyValue:
    if isinstance(value, str):
        return KeyValue(key=key, value=AnyValue(string_value=value))
    if isinstance(value, int):
        return KeyValue(key=key, value=AnyValue(int_value=value))
    made = KeyValue(key=key)
    made.value.array_value.values.extend(AnyValue(string_value=each) for each in value)
    return made


def span(
    trace: bytes, *, id: bytes | None = None, parent: bytes = b"", start: int = BEGAN, **attributes: Any
):
    """A span of two seconds; ``operation="execute_tool"`` stands for ``gen_ai.operation.name``."""
    made = Span(
        trace_id=trace, span_id=id or os.urandom(8), parent_span_id=parent, name="work",
        start_time_unix_nano=start, end_time_unix_nano=start + 2 * SECOND,
    )  # fmt: skip
    names = {"operation": "gen_ai.operation.name", "agent": "gen_ai.agent.name", "tool": "gen_ai.tool.name"}
    made.attributes.extend(pair(names.get(key, key), value) for key, value in attributes.items())
    return made


def agent_trace(trace: bytes | None = None, *, tools: int = 2, start: int = BEGAN) -> list[Span]:
    """The run of an agent that calls tools, the root first."""
    trace, root = trace or os.urandom(16), os.urandom(8)
    named = {"operation": "invoke_agent", "agent": "writer", "session.id": "chat 7"}
    spans = [span(trace, id=root, start=start, **named)]
    for number in range(tools):
        at = start + (number + 1) * SECOND // 10
        spans.append(span(trace, parent=root, start=at, operation="execute_tool", tool=f"search {number}"))
    return spans


def request(spans: Sequence[Span], **resource: str) -> ExportTraceServiceRequest:
    """A request with these spans; ``service`` and ``version`` stand for attributes of the resource."""
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    names = {
        "service": "service.name",
        "version": "service.version",
        "environment": "deployment.environment.name",
    }
    group.resource.attributes.extend(pair(names.get(key, key), value) for key, value in resource.items())
    scope = group.scope_spans.add()
    scope.scope.name = "tests"
    scope.spans.extend(spans)
    return made


def body(spans: Sequence[Span], **resource: str) -> bytes:
    return request(spans, **resource).SerializeToString()
