"""Joining: spans that ``trivium.trace`` records and those that OpenTelemetry tells make one trace."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.assembling import traces_of
from trivium.traces.opentelemetry.recorded import NANOSECONDS, RecordedSpan
from trivium.traces.repair import normalise
from trivium.traces.trace import RECORDERS, Message, Span, Trace, TraceProblem


def trace_ids(heard: Sequence[RecordedSpan]) -> list[str]:
    """The trace that each span belongs to: that of our own span around it, else OpenTelemetry's."""
    places = {(span.trace_id, span.id): span for span in heard}
    found: dict[tuple[str, str], str] = {}
    for span in heard:
        trail = []
        at: RecordedSpan | None = span
        own = span.trace_id
        while at is not None and (at.trace_id, at.id) not in found:
            key = (at.trace_id, at.id)
            found[key] = at.trace_id  # a cycle of parents ends here
            trail.append(key)
            link = _link(at)
            if link is not None:
                own, at = link[0], None
            else:
                at = None if at.parent is None else places.get((at.trace_id, at.parent))
        if at is not None:
            own = found[(at.trace_id, at.id)]
        found.update(dict.fromkeys(trail, own))
    return [found[(span.trace_id, span.id)] for span in heard]


def joined(
    own: Iterable[Span],
    messages: Iterable[Message],
    heard: Sequence[RecordedSpan],
    *,
    trace_id: str,
    problems: Sequence[TraceProblem] = (),
) -> Trace:
    """One trace of our own spans and of OpenTelemetry's, each below the one around it.

    What both record, such as a decorated function that is a tool of a framework too, is one call.

    Args:
        own: Spans that ``trivium.trace`` recorded, their times in seconds since 1970.
        messages: What was said with it.
        heard: Spans of OpenTelemetry.
        trace_id: Of the trace.
        problems: What is known to be wrong.
    """
    spans, said, found = list(own), list(messages), list(problems)
    recorders = {"trivium"} if any(span.kind == "agent" for span in spans) else set()
    ours = {span.id for span in spans}
    links = {span.id: link[1] for span in heard if (link := _link(span)) is not None}
    by_trace: dict[str, list[RecordedSpan]] = {}
    for span in heard:
        by_trace.setdefault(span.trace_id, []).append(span)
    for group in by_trace.values():
        origin = min((span.start for span in group if span.start is not None), default=0) / NANOSECONDS
        for trace in traces_of(group):
            spans += [
                msgspec.structs.replace(_later(span, origin), parent=links.get(span.id, span.parent))
                for span in trace.spans
            ]
            said += [_later(message, origin) for message in trace.messages]
            found += trace.problems
            recorders |= set(trace.recorders)
    if heard:
        spans.sort(key=_start)
        spans = _each_once(spans, ours)
    metadata = {RECORDERS: sorted(recorders)} if recorders else {}
    return normalise(spans, said, trace_id=trace_id, problems=found, metadata=metadata, nested="unsaid")


def _link(span: RecordedSpan) -> tuple[str, str] | None:
    """The trace and the id of our own span above, where a span says one."""
    value = span.attributes.get(wanted.OWN_ABOVE)
    if not isinstance(value, str):
        return None
    trace_id, _, span_id = value.partition("/")
    return (trace_id, span_id) if trace_id and span_id else None


def _each_once(spans: list[Span], ours: set[str]) -> list[Span]:
    """One span of its kind for what a decorator and an instrumentation both recorded.

    An agent or a tool right within one of its name is the same run or call, and the inner one becomes
    ``other``; of two model requests, one within the other, the inner one has the tokens.
    """
    nearest: dict[str, int | None] = {}
    result = list(spans)
    for index, span in enumerate(spans):
        above = None if span.parent is None else nearest.get(span.parent)
        nearest[span.id] = above if span.kind == "other" else index
        if above is None or (span.id in ours) == (spans[above].id in ours):
            continue
        outer = result[above]
        if span.kind != outer.kind:
            continue
        if span.kind == "llm" and span.usage is not None:
            result[above] = msgspec.structs.replace(outer, usage=None)
        elif span.kind in {"agent", "tool"} and span.name == outer.name:
            result[index] = msgspec.structs.replace(span, kind="other", agent=outer.agent)
            nearest[span.id] = above
    return result


def _start(span: Span) -> float:
    return float("inf") if span.start is None else span.start


def _later(record: Any, seconds: float) -> Any:
    """A span or a message with its times moved."""
    names = ("start", "end") if isinstance(record, Span) else ("time",)
    times = {name: getattr(record, name) for name in names}
    moved = {name: time + seconds for name, time in times.items() if time is not None}
    return msgspec.structs.replace(record, **moved)
