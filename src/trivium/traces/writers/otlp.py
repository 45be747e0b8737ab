"""OTLP: traces as spans of the GenAI semantic conventions, for anything that takes OpenTelemetry.

``invoke_agent``, ``execute_tool`` and ``chat`` spans carry what the conventions name; what they have no word
for goes along as ``trivium.*``, so that a trace read back is the trace that was written.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from trivium.traces.opentelemetry import own
from trivium.traces.opentelemetry.recorded import NANOSECONDS
from trivium.traces.trace import Span, SpanUsage, Trace
from trivium.traces.writers.clock import Clock, clock_of
from trivium.traces.writers.told import Told

ResourceSpans = dict[str, Any]

_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_INTERNAL, _CLIENT = 1, 3
_FAILED = 2
_OPERATIONS = {"agent": "invoke_agent", "tool": "execute_tool", "llm": "chat"}
_UNKNOWN_ERROR = "_OTHER"
"""What the conventions call an error of no type."""
_WHOLE = 2**63


def resource_spans(told: Iterable[Told]) -> Iterator[ResourceSpans]:
    """Each trace as one entry of ``resourceSpans``, in the JSON of OTLP.

    A trace keeps its id where that is one of OpenTelemetry's and no trace before had it; else it gets one
    that depends on its key alone. A trace without spans is one span that stands for the attempt. A span
    without times has none there either.
    """
    taken: set[str] = set()
    for each in told:
        trace_id = each.trace.trace_id.lower()
        if not _TRACE_ID.fullmatch(trace_id) or not trace_id.strip("0") or trace_id in taken:
            trace_id = sha256(each.key.encode()).hexdigest()[:32]
        taken.add(trace_id)
        yield {
            "resource": {"attributes": _attributes(each.resource)},
            "scopeSpans": [{"scope": {"name": "trivium"}, "spans": _spans(each, trace_id)}],
        }


def request(entries: Sequence[ResourceSpans]) -> bytes:
    """An ExportTraceServiceRequest as JSON."""
    return msgspec.json.encode({"resourceSpans": entries})


def _spans(told: Told, trace_id: str) -> list[dict[str, Any]]:
    trace = told.trace
    clock = clock_of(trace, told.begun)
    ids = _span_ids(trace, trace_id)
    made = [_span(span, trace_id, ids, clock) for span in trace.spans]
    if not made:
        made = [_standing_for(told, trace_id, clock)]
    first = _first_root(trace) if trace.spans else 0
    root = made[first]
    facts = {**told.attributes, "trivium.clock": clock.since, own.TRACE: _own(trace, clock)}
    root["attributes"] += _attributes(facts)
    moment = root.get("endTimeUnixNano") or root.get("startTimeUnixNano") or "0"
    events = [
        _event(own.MESSAGE, {own.MESSAGE: _json(message)}, _digits(clock.at(message.time)) or moment)
        for message in trace.messages
    ]
    events += [_event(name, attributes, moment) for name, attributes in told.events]
    if events:
        root["events"] = events
    return made


def _first_root(trace: Trace) -> int:
    roots = [place for place, span in enumerate(trace.spans) if span.parent is None]
    return min(roots, key=lambda place: _or_last(trace.spans[place].start))


def _or_last(start: float | None) -> float:
    return float("inf") if start is None else start


def _span_ids(trace: Trace, trace_id: str) -> dict[str, str]:
    """An id of OpenTelemetry's for each span: its own, where that is one."""
    ids: dict[str, str] = {}
    for span in trace.spans:
        if _SPAN_ID.fullmatch(span.id) and span.id.strip("0"):
            ids[span.id] = span.id
        else:
            ids[span.id] = sha256(f"{trace_id}/{span.id}".encode()).hexdigest()[:16]
    return ids


def _span(span: Span, trace_id: str, ids: Mapping[str, str], clock: Clock) -> dict[str, Any]:
    start, end = _digits(clock.at(span.start)), _digits(clock.at(span.end))
    attributes = _told_by_conventions(span)
    told = own.OwnSpan(
        id=None if ids[span.id] == span.id else span.id,
        kind=span.kind,
        name=span.name,
        agent=span.agent,
        ok=span.ok,
        input=_as(span.input),
        output=_as(span.output),
        attributes=span.attributes,
    )
    attributes[own.SPAN] = _json(told)
    made: dict[str, Any] = {"traceId": trace_id, "spanId": ids[span.id]}
    if span.parent is not None:
        made["parentSpanId"] = ids[span.parent]
    made["name"] = f"{_OPERATIONS[span.kind]} {span.name}" if span.kind in _OPERATIONS else span.name
    made["kind"] = _CLIENT if span.kind == "llm" else _INTERNAL
    if start is not None:
        made["startTimeUnixNano"] = start
    if end is not None:
        made["endTimeUnixNano"] = end
    made["attributes"] = _attributes(attributes)
    if span.ok is False:
        made["status"] = _failure(span.attributes.get("error"))
    return made


def _told_by_conventions(span: Span) -> dict[str, Any]:
    kind = span.kind
    told: dict[str, Any] = {}
    if kind in _OPERATIONS:
        told["gen_ai.operation.name"] = _OPERATIONS[kind]
    agent = span.agent or (span.name if kind == "agent" else None)
    if agent:
        told["gen_ai.agent.name"] = agent
    if kind == "tool":
        told["gen_ai.tool.name"] = span.name
        _put(told, "gen_ai.tool.call.arguments", _text(span.input))
        _put(told, "gen_ai.tool.call.result", _text(span.output))
    elif kind == "other":
        _put(told, "input.value", _text(span.input))
        _put(told, "output.value", _text(span.output))
    else:
        _put(told, "gen_ai.input.messages", _conversation(span.input, "user"))
        _put(told, "gen_ai.output.messages", _conversation(span.output, "assistant"))
    if kind == "llm":
        told |= {"gen_ai.request.model": span.name, "gen_ai.response.model": span.name}
        told |= _usage(span.usage)
    if span.ok is False:
        told["error.type"] = _UNKNOWN_ERROR
    return told


def _usage(usage: SpanUsage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    named = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "operation.cost": usage.cost_usd,
    }
    return {key: value for key, value in named.items() if value is not None}


def _standing_for(told: Told, trace_id: str, clock: Clock) -> dict[str, Any]:
    """The span of an attempt that recorded none."""
    start = clock.zero if clock.zero is not None and clock.zero > 0 else None
    attributes: dict[str, Any] = {}
    _put(attributes, "input.value", _text(told.input))
    _put(attributes, "output.value", _text(told.output))
    if told.error is not None:
        attributes["error.type"] = _UNKNOWN_ERROR
    attributes[own.SPAN] = _json(own.OwnSpan(kind=None))
    made: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": sha256(f"{trace_id}/".encode()).hexdigest()[:16],
        "name": told.name,
        "kind": _INTERNAL,
        "attributes": _attributes(attributes),
    }
    if start is not None:
        made["startTimeUnixNano"] = str(start)
        made["endTimeUnixNano"] = str(start + round((told.seconds or 0.0) * NANOSECONDS))
    if told.error is not None:
        made["status"] = _failure(told.error)
    return made


def _failure(message: Any) -> dict[str, Any]:
    return {"code": _FAILED} | ({"message": message} if isinstance(message, str) else {})


def _event(name: str, attributes: Mapping[str, Any], moment: str) -> dict[str, Any]:
    return {"timeUnixNano": moment, "name": name, "attributes": _attributes(attributes)}


def _own(trace: Trace, clock: Clock) -> str:
    return _json(own.OwnTrace(trace_id=trace.trace_id, zero=clock.zero, metadata=trace.metadata))


def _conversation(value: Any, role: str) -> str | None:
    if value is None:
        return None
    return _json(value if own.is_conversation(value) else own.wrapped(_text(value) or "", role))


def _as(value: Any) -> own.As | None:
    return None if value is None else "text" if isinstance(value, str) else "json"


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _put(told: dict[str, Any], key: str, text: str | None) -> None:
    if text is not None:
        told[key] = text


def _digits(moment: int | None) -> str | None:
    return None if moment is None else str(moment)


def _attributes(named: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in named.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -_WHOLE <= value < _WHOLE:
        return {"intValue": str(value)}
    if isinstance(value, int | float):
        return {"doubleValue": float(value)}
    return {"stringValue": _json(value)}
