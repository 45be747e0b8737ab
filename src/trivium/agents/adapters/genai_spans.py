"""From the OpenTelemetry spans of an agent framework (GenAI conventions) to a Trace."""

from collections.abc import Container, Iterable, Mapping
from typing import Any, cast

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, StatusCode

from trivium.agents.attempt import Usage
from trivium.suites.door import clean
from trivium.traces.repair import normalise
from trivium.traces.trace import Span, SpanKind, SpanUsage, Trace

_KINDS: Mapping[str, SpanKind] = {
    "invoke_agent": "agent",
    "execute_tool": "tool",
    "retrieval": "tool",
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "embeddings": "llm",
}

_NAMES: Mapping[SpanKind, tuple[str, ...]] = {
    "agent": ("gen_ai.agent.name",),
    "tool": ("gen_ai.tool.name",),
    "llm": ("gen_ai.response.model", "gen_ai.request.model"),
    "other": (),
}

_INPUTS: Mapping[SpanKind, str] = {"tool": "gen_ai.tool.call.arguments"}
_OUTPUTS: Mapping[SpanKind, str] = {
    "agent": "final_result",
    "tool": "gen_ai.tool.call.result",
    "llm": "gen_ai.output.messages",
}
"""What is kept of the contents. The messages that go into a request repeat all earlier ones: left out."""

_NANOSECONDS = 1e9


def trace_from_spans(spans: Iterable[ReadableSpan]) -> Trace:
    """A normalised trace, its times in seconds from its first span, its spans in order of start."""
    ordered = sorted(spans, key=lambda span: span.start_time or 0)
    if not ordered:
        return Trace()
    origin = ordered[0].start_time or 0
    known = {_id(span) for span in ordered}
    trace_id = f"{_context(ordered[0]).trace_id:032x}"
    return normalise([_span(span, known, origin) for span in ordered], trace_id=trace_id)


def usage_of(trace: Trace) -> Usage | None:
    """Tokens and cost of a trace, summed over its llm spans; None when none says."""
    used = [span.usage for span in trace.spans if span.usage is not None]
    if not used:
        return None
    costs = [each.cost_usd for each in used]
    return Usage(
        input_tokens=sum(each.input_tokens or 0 for each in used),
        output_tokens=sum(each.output_tokens or 0 for each in used),
        # A sum with an unknown part is unknown.
        cost_usd=sum(cost for cost in costs if cost is not None) if None not in costs else None,
    )


def _span(span: ReadableSpan, known: Container[str], origin: int) -> Span:
    attributes = span.attributes or {}
    kind = _KINDS.get(str(attributes.get("gen_ai.operation.name")), "other")
    name = next((str(attributes[key]) for key in _NAMES[kind] if attributes.get(key)), span.name)
    failed = span.status.status_code is StatusCode.ERROR
    return Span(
        id=_id(span),
        kind=kind,
        name=name,
        parent=_parent(span, known),
        start=_seconds(span.start_time, origin),
        end=_seconds(span.end_time, origin),
        ok=None if span.end_time is None else not failed,
        input=_value(attributes.get(_INPUTS.get(kind, ""))),
        output=_value(attributes.get(_OUTPUTS.get(kind, ""))),
        usage=_usage(attributes) if kind == "llm" else None,
        attributes={"error": clean(span.status.description)[0]} if failed and span.status.description else {},
    )


def _context(span: ReadableSpan) -> SpanContext:
    return cast("SpanContext", span.get_span_context())


def _id(span: ReadableSpan) -> str:
    return f"{_context(span).span_id:016x}"


def _parent(span: ReadableSpan, known: Container[str]) -> str | None:
    """The parent's id; the span that the recording itself put above all others is none."""
    if span.parent is None:
        return None
    parent = f"{span.parent.span_id:016x}"
    return parent if parent in known else None


def _seconds(nanoseconds: int | None, origin: int) -> float | None:
    return None if nanoseconds is None else (nanoseconds - origin) / _NANOSECONDS


def _usage(attributes: Mapping[str, Any]) -> SpanUsage:
    return SpanUsage(
        input_tokens=attributes.get("gen_ai.usage.input_tokens"),
        output_tokens=attributes.get("gen_ai.usage.output_tokens"),
        cost_usd=attributes.get("operation.cost"),
    )


def _value(text: Any) -> Any:
    """Structures come as JSON texts; any other text is itself."""
    if isinstance(text, str) and text[:1] in {"{", "["}:
        try:
            return clean(msgspec.json.decode(text))[0]
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return clean(text)[0]
    return clean(text)[0]
