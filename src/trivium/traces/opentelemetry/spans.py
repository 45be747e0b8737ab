"""Spans: from what was recorded, and what it is read as, to the normalised record."""

from collections.abc import Sequence
from typing import Any

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import error_of, escaped, first, parsed, said, usage_of
from trivium.traces.opentelemetry.kinds import Reading
from trivium.traces.opentelemetry.recorded import NANOSECONDS, RecordedSpan
from trivium.traces.trace import Span

_INPUTS = (wanted.OI_INPUT, wanted.TL_INPUT)
_OUTPUTS = (wanted.OI_OUTPUT, wanted.TL_OUTPUT)
_TOOL_INPUTS = (*wanted.ARGUMENTS, *_INPUTS, wanted.QUERY)
_TOOL_OUTPUTS = (*wanted.RESULTS, *_OUTPUTS, wanted.DOCUMENTS)
_ANSWERS = (*wanted.ANSWERS, *_OUTPUTS)


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
    for span, (kind, name, stated, receiver) in zip(ordered, readings, strict=True):
        caller = None if span.parent is None else callers.get(span.parent)
        agent = name if kind == "agent" else stated or caller
        callers[span.id] = name if kind == "agent" else caller
        failed = _failed(span)
        end = span.end
        goes_in, comes_out = _contents(span, kind)
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
                attributes=_extra(span, failed, receiver) if failed or receiver else {},
            )
        )
    return made


def _failed(span: RecordedSpan) -> bool:
    return span.failed or bool(span.attributes.get(wanted.ERROR_TYPE)) or bool(span.events and escaped(span))


def _contents(span: RecordedSpan, kind: str) -> tuple[Any, Any]:
    """What went in and out. What goes into a model request repeats all before it, and is left out."""
    attributes = span.attributes
    if kind == "tool":
        return parsed(first(attributes, _TOOL_INPUTS)), parsed(first(attributes, _TOOL_OUTPUTS))
    if kind == "llm":
        answer = said(span)
        return None, parsed(first(attributes, _OUTPUTS)) if answer is None else answer
    if kind == "agent":
        return parsed(first(attributes, _INPUTS)), parsed(first(attributes, _ANSWERS))
    return None, None


def _extra(span: RecordedSpan, failed: bool, receiver: str | None) -> dict[str, Any]:
    extra: dict[str, Any] = {}
    if failed and (why := error_of(span)):
        extra["error"] = why
    if receiver is not None:
        extra["handoff"] = True
    return extra
