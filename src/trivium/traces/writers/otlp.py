"""Writes traces as OTLP spans, in JSON and protobuf.

``invoke_agent``, ``execute_tool`` and ``chat`` spans carry the attributes of the conventions; everything else
is added as ``trivium.*``, so that a trace that is read back equals the one that was written.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Literal

import msgspec

from trivium.errors import MissingExtra
from trivium.traces.opentelemetry import semconv, trivium_attributes
from trivium.traces.opentelemetry.semconv import NANOSECONDS
from trivium.traces.outcome import clock_zero
from trivium.traces.trace import Span, Trace, start_time
from trivium.values import JsonObject, json_text, text_or_json

Since = Literal["recorded", "run", "1970"]

_LATEST = 2**63
_LONGEST = _LATEST / NANOSECONDS


class Clock(msgspec.Struct, frozen=True):
    """Converts the times of a trace to Unix time.

    Attributes:
        zero: Unix time, in nanoseconds, at which the clock shows 0; None if its times cannot be absolute.
        since: ``recorded`` if the trace states it; ``run`` if the start of its run is used; ``1970`` if
            nothing is known, so that only differences are meaningful.
    """

    zero: int | None
    since: Since

    def at(self, seconds: float | None) -> int | None:
        """A time of the trace in nanoseconds since 1970; None if it is missing or out of range."""
        if seconds is None or self.zero is None:
            return None
        if abs(seconds) > _LONGEST:
            return None
        moment = self.zero + round(seconds * NANOSECONDS)
        return moment if 0 < moment < _LATEST else None


def clock_of(trace: Trace, started_at: float | None) -> Clock:
    """The clock of a trace.

    Args:
        trace: The trace.
        started_at: Unix time of the trace's start, in seconds; used if the trace does not state it.
    """
    starts = [span.start for span in trace.spans if span.start is not None]
    times = starts + [span.end for span in trace.spans if span.end is not None]
    times += [message.time for message in trace.messages if message.time is not None]
    zero = clock_zero(trace)
    earliest = min(starts or times, default=0.0)
    if abs(earliest) > _LONGEST:
        return Clock(None, "1970")
    if zero is not None:
        return Clock(round(zero * 1e6) * 1000, "recorded")
    if started_at is not None:
        return Clock(round(started_at * NANOSECONDS) - round(earliest * NANOSECONDS), "run")
    return Clock(NANOSECONDS - round(max(min(times, default=0.0), -_LONGEST) * NANOSECONDS), "1970")


class TraceToExport(msgspec.Struct, frozen=True, kw_only=True):
    """A trace to export, with its attempt, scores and resource attributes.

    Attributes:
        trace: The trace; without spans if none was recorded.
        key: Source of derived ids: equal for the same trace, different for any other.
        started_at: Unix time of the trace's start, in seconds; used if the trace does not state it.
        seconds: Wall time of the attempt, for a trace without spans.
        input: The input of the attempt, for a trace without spans.
        output: The output of the attempt, for a trace without spans.
        error: Why the attempt failed, or None.
        name: Name of the span that stands for an attempt without spans.
        resource: Resource attributes of all spans.
        attributes: Further attributes of the first span.
        events: Name and attributes of events on the first span.
    """

    trace: Trace
    key: str
    started_at: float | None = None
    seconds: float | None = None
    input: Any = None
    output: Any = None
    error: str | None = None
    name: str = "attempt"
    resource: JsonObject = {}
    attributes: JsonObject = {}
    events: list[tuple[str, JsonObject]] = []


def traces_to_export(traces: Iterable[Trace]) -> Iterator[TraceToExport]:
    """Prepare the traces of a file for export; keys come from their content and position."""
    for number, trace in enumerate(traces):
        digest = sha256(msgspec.json.encode(trace)).hexdigest()
        yield TraceToExport(
            trace=trace,
            key=f"{number} {digest}",
            name=trace.trace_id or f"trace {number + 1}",
            resource=resource(),
        )


def resource(**further: Any) -> JsonObject:
    """Resource attributes of exported traces."""
    return {"service.name": "trivium", "service.version": version("trivium"), **further}


ResourceSpans = JsonObject

_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_INTERNAL, _CLIENT = 1, 3
_FAILED = 2
_OPERATIONS = {"agent": "invoke_agent", "tool": "execute_tool", "llm": "chat"}
_UNKNOWN_ERROR = "_OTHER"
"""The conventions' error type for an error without a type."""


def resource_spans(exports: Iterable[TraceToExport]) -> Iterator[ResourceSpans]:
    """Make one entry of ``resourceSpans`` for each trace, in OTLP JSON.

    A trace keeps its id if that is a valid OpenTelemetry id and no earlier trace has it; otherwise its id is
    derived from its key. A trace without spans becomes one placeholder span for the attempt. A span without
    times has none in the export.
    """
    used_ids: set[str] = set()
    for each in exports:
        trace_id = each.trace.trace_id.lower()
        if not _TRACE_ID.fullmatch(trace_id) or not trace_id.strip("0") or trace_id in used_ids:
            trace_id = sha256(each.key.encode()).hexdigest()[:32]
        used_ids.add(trace_id)
        yield {
            "resource": {"attributes": _attributes(each.resource)},
            "scopeSpans": [{"scope": {"name": "trivium"}, "spans": _spans(each, trace_id)}],
        }


def request(entries: Sequence[ResourceSpans]) -> bytes:
    """An ExportTraceServiceRequest as JSON."""
    return msgspec.json.encode({"resourceSpans": entries})


def _spans(export: TraceToExport, trace_id: str) -> list[JsonObject]:
    trace = export.trace
    clock = clock_of(trace, export.started_at)
    spans = trace.spans or (_placeholder(export),)
    ids = _span_ids(spans, trace_id)
    made = [_span(span, trace_id, ids, clock, original=bool(trace.spans)) for span in spans]
    root = made[_first_root(spans)]
    stated = trivium_attributes.TriviumTrace(
        trace_id=trace.trace_id, zero=clock.zero, metadata=trace.metadata
    )
    facts = {
        **export.attributes,
        "trivium.clock": clock.since,
        semconv.TRIVIUM_TRACE: json_text(stated),
    }
    root["attributes"] += _attributes(facts)
    moment = root.get("endTimeUnixNano") or root.get("startTimeUnixNano") or "0"
    events = [
        _event(
            trivium_attributes.MESSAGE,
            {trivium_attributes.MESSAGE: json_text(message)},
            _digits(clock.at(message.time)) or moment,
        )
        for message in trace.messages
    ]
    events += [_event(name, attributes, moment) for name, attributes in export.events]
    if events:
        root["events"] = events
    return made


def _placeholder(export: TraceToExport) -> Span:
    """A span that stands for an attempt without spans."""
    return Span(
        id="",
        kind="other",
        name=export.name,
        start=0.0,
        end=export.seconds or 0.0,
        ok=export.error is None,
        input=export.input,
        output=export.output,
        attributes={"error": export.error},
    )


def _first_root(spans: Sequence[Span]) -> int:
    roots = [position for position, span in enumerate(spans) if span.parent is None]
    return min(roots, key=lambda position: start_time(spans[position]))


def _span_ids(spans: Sequence[Span], trace_id: str) -> dict[str, str]:
    """A valid OpenTelemetry id for each span: its own if valid, else a derived one."""
    ids: dict[str, str] = {}
    for span in spans:
        if _SPAN_ID.fullmatch(span.id) and span.id.strip("0"):
            ids[span.id] = span.id
        else:
            ids[span.id] = sha256(f"{trace_id}/{span.id}".encode()).hexdigest()[:16]
    return ids


def _span(span: Span, trace_id: str, ids: Mapping[str, str], clock: Clock, *, original: bool) -> JsonObject:
    attributes = _convention_attributes(span)
    stated = trivium_attributes.TriviumSpan(span=None)
    if original:
        rest = msgspec.structs.replace(span, parent=None, start=None, end=None, input=None, output=None)
        rest = msgspec.structs.replace(rest, usage=None) if span.kind == "llm" else rest
        stated = trivium_attributes.TriviumSpan(span=rest, input=_as(span.input), output=_as(span.output))
    attributes[semconv.TRIVIUM_SPAN] = json_text(stated)
    made = {
        "traceId": trace_id,
        "spanId": ids[span.id],
        "parentSpanId": None if span.parent is None else ids[span.parent],
        "name": f"{_OPERATIONS[span.kind]} {span.name}" if span.kind in _OPERATIONS else span.name,
        "kind": _CLIENT if span.kind == "llm" else _INTERNAL,
        "startTimeUnixNano": _digits(clock.at(span.start)),
        "endTimeUnixNano": _digits(clock.at(span.end)),
        "attributes": _attributes(attributes),
        "status": _failure(span.attributes.get("error")) if span.ok is False else None,
    }
    return {key: value for key, value in made.items() if value is not None}


def _convention_attributes(span: Span) -> JsonObject:
    kind = span.kind
    attributes: JsonObject = {}
    if kind in _OPERATIONS:
        attributes[semconv.OPERATION] = _OPERATIONS[kind]
    agent = span.agent or (span.name if kind == "agent" else None)
    if agent:
        attributes[semconv.AGENT] = agent
    if kind == "tool":
        attributes[semconv.TOOL] = span.name
    of_input, of_output = semconv.CONTENTS[kind]
    if kind in {"agent", "llm"}:
        _put(attributes, of_input, _conversation(span.input, "user"))
        _put(attributes, of_output, _conversation(span.output, "assistant"))
    else:
        _put(attributes, of_input, span.input)
        _put(attributes, of_output, span.output)
    if kind == "llm":
        attributes |= {semconv.REQUEST_MODEL: span.name, semconv.RESPONSE_MODEL: span.name}
        attributes |= {name: getattr(span.usage, field, None) for field, name in semconv.USAGE.items()}
    if span.ok is False:
        attributes[semconv.ERROR_TYPE] = _UNKNOWN_ERROR
    return attributes


def _failure(message: Any) -> JsonObject:
    return {"code": _FAILED} | ({"message": message} if isinstance(message, str) else {})


def _event(name: str, attributes: Mapping[str, Any], moment: str) -> JsonObject:
    return {"timeUnixNano": moment, "name": name, "attributes": _attributes(attributes)}


def _conversation(value: Any, role: str) -> str | None:
    if value is None:
        return None
    if not trivium_attributes.is_conversation(value):
        value = trivium_attributes.wrapped(text_or_json(value), role)
    return json_text(value)


def _as(value: Any) -> trivium_attributes.As | None:
    return None if value is None else "text" if isinstance(value, str) else "json"


def _put(attributes: JsonObject, key: str, value: Any) -> None:
    if value is not None:
        attributes[key] = text_or_json(value)


def _digits(moment: int | None) -> str | None:
    return None if moment is None else str(moment)


def _attributes(named: Mapping[str, Any]) -> list[JsonObject]:
    return [
        {"key": key, "value": semconv.tagged_value(value)}
        for key, value in named.items()
        if value is not None
    ]


_LENGTH_BYTES = 4
_IDS = ("traceId", "spanId", "parentSpanId")


def delimited(entry: ResourceSpans) -> bytes:
    """Encode a request with one entry in protobuf, preceded by its length.

    Raises:
        MissingExtra: If OpenTelemetry's protobufs are not installed.
    """
    try:
        from google.protobuf.json_format import ParseDict
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise MissingExtra("otel", "OTLP in protobuf") from error
    message = ParseDict({"resourceSpans": [_with_ids_in_base64(entry)]}, ExportTraceServiceRequest())
    content: bytes = message.SerializeToString()
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content


def _with_ids_in_base64(entry: ResourceSpans) -> JsonObject:
    """Convert ids from hex, as in OTLP JSON, to base64, as protobuf's JSON expects."""
    scopes = [
        {**scope, "spans": [span | _ids(span) for span in scope["spans"]]} for scope in entry["scopeSpans"]
    ]
    return {**entry, "scopeSpans": scopes}


def _ids(span: JsonObject) -> dict[str, str]:
    return {key: base64.b64encode(bytes.fromhex(span[key])).decode() for key in _IDS if key in span}
