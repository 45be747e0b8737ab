"""Spans: from what was recorded, and what it is read as, to the normalised record."""

from collections.abc import Sequence
from typing import Any

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import error_of, escaped, parsed, said, usage_of
from trivium.traces.opentelemetry.kinds import Reading
from trivium.traces.opentelemetry.recorded import NANOSECONDS, RecordedSpan
from trivium.traces.trace import Span, SpanKind


def spans_of(
    ordered: Sequence[RecordedSpan], readings: Sequence[Reading], repeated: set[str], origin: int
) -> list[Span]:
    """The spans, with the agent that each is of as far as its parent stands before it.

    Args:
        ordered: Of one trace, by start.
        readings: What each is.
        repeated: Ids of those whose tokens are counted elsewhere.
        origin: Nanoseconds from which times are counted.
    """
    made: list[Span] = []
    callers: dict[str, str | None] = {}
    for span, what in zip(ordered, readings, strict=True):
        kind, name, handoff = what.kind, what.name, what.handoff
        caller = None if span.parent is None else callers.get(span.parent)
        agent = name if kind == "agent" else what.agent or caller
        callers[span.id] = name if kind == "agent" else caller
        failed = _failed(span)
        end = span.end
        goes_in, comes_out = (None, None) if kind == "other" else _contents(span, kind)
        made.append(
            Span(
                id=span.id,
                kind=kind,
                name=name,
                parent=span.parent,
                agent=agent,
                start=None if span.start is None else (span.start - origin) / NANOSECONDS,
                end=None if end is None else (end - origin) / NANOSECONDS,
                ok=None if end is None else not failed,
                input=goes_in,
                output=comes_out,
                usage=usage_of(span.attributes) if kind == "llm" and span.id not in repeated else None,
                attributes=_extra(span, failed=failed, handoff=handoff) if failed or handoff else {},
            )
        )
    return made


def _failed(span: RecordedSpan) -> bool:
    return (
        span.failed or bool(span.attributes.get(wanted.ERROR_TYPE)) or (bool(span.events) and escaped(span))
    )


def _contents(span: RecordedSpan, kind: SpanKind) -> tuple[Any, Any]:
    """What went in and out. What goes into a model request repeats all before it, and is left out."""
    attributes = span.attributes
    if kind == "llm":
        return None, said(span)
    if kind == "tool":
        goes_in, comes_out = attributes.get(wanted.ARGUMENTS), attributes.get(wanted.RESULT)
    else:
        goes_in, comes_out = None, attributes.get(wanted.FINAL_RESULT, attributes.get(wanted.SAID))
    return (
        parsed(attributes.get(wanted.INPUT) if goes_in is None else goes_in),
        parsed(attributes.get(wanted.OUTPUT) if comes_out is None else comes_out),
    )


def _extra(span: RecordedSpan, *, failed: bool, handoff: bool) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if failed and (why := error_of(span)):
        extra["error"] = why
    if handoff:
        extra["handoff"] = True
    return extra
