"""Hand-offs that no nesting tells: siblings with a span between, stated callers."""

from collections.abc import Sequence, Set

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import named
from trivium.traces.opentelemetry.kinds import Reading
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.trace import Message, Span, Trace

_STATING = frozenset({wanted.TRANSFER, wanted.CALLER, wanted.HANDOFF_TO, wanted.NODE_ABOVE})
"""Attributes that state a message."""


def stated_messages(
    trace: Trace, recorded: Sequence[RecordedSpan], readings: Sequence[Reading], told: Set[str]
) -> list[Message]:
    """Messages that spans state, without those that the nesting tells already.

    Args:
        trace: The trace as its nesting tells it.
        recorded: The spans that it is made of, one for one.
        readings: What those are.
        told: Every attribute that any of them has.
    """
    if told.isdisjoint(_STATING) and not any(what.receiver for what in readings):
        return []
    nested = [(m.sender, m.receiver, m.time) for m in trace.messages if m.type == "task_request"]
    pairs = {(sender, receiver) for sender, receiver, _ in nested}
    agents = {span.agent or span.name for span in trace.spans if span.kind == "agent"}
    nodes = {
        str(span.attributes[wanted.NODE]): what.name
        for span, what in zip(recorded, readings, strict=True)
        if what.kind == "agent" and wanted.NODE in span.attributes
    }
    found: list[Message] = []
    followed: list[tuple[str, Span]] = []
    for span, source, what in zip(trace.spans, recorded, readings, strict=True):
        attributes = source.attributes
        receiver = what.receiver or named(attributes.get(wanted.HANDOFF_TO))
        if receiver is not None:
            sender = named(attributes.get(wanted.HANDOFF_FROM)) or span.agent
            sender = sender or named(attributes.get(wanted.INPUT))
            _add(found, sender, receiver, "handoff", span.start)
            continue
        target = named(attributes.get(wanted.TRANSFER))
        if target is not None and not _within(nested, span, target):
            _add(found, span.agent, target, "handoff", span.start)
        caller = named(attributes.get(wanted.CALLER))
        if caller is not None and span.kind == "agent" and (caller, span.name) not in pairs:
            called_by = attributes.get(wanted.CALLER_TYPE)
            if called_by == "agent" or (called_by is None and caller in agents):
                _add(found, caller, span.name, "task_request", span.start)
        above = named(attributes.get(wanted.NODE_ABOVE))
        if above is not None and span.kind == "agent":
            followed.append((nodes.get(above, above), span))
    pairs |= {(message.sender, message.receiver) for message in found}
    for sender, span in followed:
        if (sender, span.name) not in pairs:
            _add(found, sender, span.name, "handoff", span.start)
    return found


def _within(nested: list[tuple[str, str, float | None]], tool: Span, receiver: str) -> bool:
    """Whether the agent that a tool transfers to ran below that tool."""
    start = float("-inf") if tool.start is None else tool.start
    end = float("inf") if tool.end is None else tool.end
    return any(to == receiver and (time is None or start <= time <= end) for _, to, time in nested)


def _add(found: list[Message], sender: str | None, receiver: str, kind: str, time: float | None) -> None:
    if sender and sender != receiver:
        found.append(Message(sender=sender, receiver=receiver, type=kind, time=time))
