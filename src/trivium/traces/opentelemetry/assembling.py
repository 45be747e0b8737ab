"""Assembling: the traces that recorded spans make up."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from trivium.traces.nesting import message_time
from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import wrong_counts
from trivium.traces.opentelemetry.handoffs import stated_messages
from trivium.traces.opentelemetry.kinds import Reading, reading
from trivium.traces.opentelemetry.langgraph import graph_runs
from trivium.traces.opentelemetry.llamaindex import SCOPES, name_workflow_agents
from trivium.traces.opentelemetry.naming import name_agents
from trivium.traces.opentelemetry.own import OwnTrace, own_messages, own_spans, own_trace
from trivium.traces.opentelemetry.recorded import NANOSECONDS, RecordedSpan
from trivium.traces.opentelemetry.repeats import settle_repeats
from trivium.traces.opentelemetry.resent import without_resent
from trivium.traces.opentelemetry.spans import spans_of
from trivium.traces.readers.langsmith.graphs import with_graph_agents
from trivium.traces.repair import normalise
from trivium.traces.trace import RECORDERS, Trace, TraceProblem

_NODE_MARKS = (wanted.METADATA, wanted.PLACE)
_LAST = 2**64


def traces_of(spans: Iterable[RecordedSpan]) -> list[Trace]:
    """The normalised traces of recorded spans, in the order in which they first appear.

    Spans of one trace id are one trace, wherever in the file they stand. Its times are seconds from its
    first span, its spans are in order of start, equal starts in the order given.
    """
    by_trace: dict[str, list[RecordedSpan]] = {}
    for span in spans:
        found = by_trace.get(span.trace_id)
        if found is None:
            by_trace[span.trace_id] = [span]
        else:
            found.append(span)
    return [_trace(trace_id, found) for trace_id, found in by_trace.items()]


def _trace(trace_id: str, spans: list[RecordedSpan]) -> Trace:
    told: set[str] = set()
    for span in spans:
        told.update(span.attributes)
    problems: list[TraceProblem] = []
    if wanted.OWN_ABOVE in told:  # what stands above these is one of our own (``joining``)
        spans = [
            msgspec.structs.replace(span, parent=None) if wanted.OWN_ABOVE in span.attributes else span
            for span in spans
        ]
    ordered = without_resent(sorted(spans, key=_when), problems, pending=wanted.SPAN_TYPE in told)
    readings = [reading(span) for span in ordered]
    if wanted.OWN_TRACE in told and (own := own_trace(ordered)) is not None:
        return _own(own, ordered, readings, problems)
    if any(span.scope in SCOPES for span in ordered):
        name_workflow_agents(ordered, readings)
    graphs = [] if told.isdisjoint(_NODE_MARKS) else graph_runs(ordered, readings)
    name_agents(ordered, readings, by_run=wanted.RUN in told)
    repeated = settle_repeats(ordered, readings)
    problems += [
        TraceProblem(kind="bad_tokens", span=span.id, what=why)
        for span, what in zip(ordered, readings, strict=True)
        if what.kind == "llm" and (why := wrong_counts(span.attributes)) is not None
    ]
    origin = min((span.start for span in ordered if span.start is not None), default=None)
    trace = normalise(
        spans_of(ordered, readings, repeated, origin or 0),
        trace_id=trace_id,
        problems=problems,
        metadata=_metadata(ordered, readings, origin),
    )
    messages = stated_messages(trace, ordered, readings, told)
    if graphs:
        return with_graph_agents(trace, graphs, messages)
    if messages:
        everything = sorted((*trace.messages, *messages), key=message_time)
        trace = msgspec.structs.replace(trace, messages=tuple(everything))
    return trace


def _metadata(ordered: list[RecordedSpan], readings: list[Reading], origin: int | None) -> dict[str, Any]:
    """When the trace began, and which instrumentations recorded its agents."""
    pairs = zip(ordered, readings, strict=True)
    recorders = sorted({span.scope for span, what in pairs if what.kind == "agent" and span.scope})
    began = {} if origin is None else {"started": _moment(origin)}
    return {**began, RECORDERS: recorders} if recorders else began


def _own(
    own: OwnTrace, ordered: list[RecordedSpan], readings: list[Reading], problems: list[TraceProblem]
) -> Trace:
    """A trace that Trivium exported, as it was."""
    return normalise(
        own_spans(spans_of(ordered, readings, set(), own.zero or 0), ordered),
        own_messages(ordered),
        trace_id=own.trace_id,
        problems=problems,
        metadata=own.metadata,
    )


def _when(span: RecordedSpan) -> int:
    if span.start is not None:
        return span.start
    return span.end if span.end is not None else _LAST


def _moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, NANOSECONDS)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return moment.isoformat().replace("+00:00", "Z")
