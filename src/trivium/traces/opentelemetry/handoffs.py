"""Hand-offs that no nesting tells: siblings with a span between, stated callers."""

from bisect import bisect_left
from collections.abc import Sequence, Set

from trivium.traces.nesting import message_time
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
    nested = [message for message in trace.messages if message.type == "task_request"]
    pairs = {(message.sender, message.receiver) for message in nested}
    begun = _beginnings(nested)
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
        if target is not None and not _within(begun.get(target, ()), span):
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


def _beginnings(nested: Sequence[Message]) -> dict[str, list[float]]:
    """When each agent was asked, in order."""
    begun: dict[str, list[float]] = {}
    for message in sorted(nested, key=message_time):
        begun.setdefault(message.receiver, []).append(message_time(message))
    return begun


def _within(begun: Sequence[float], tool: Span) -> bool:
    """Whether a run that began at one of some times, in order, began while a tool ran."""
    if tool.start is None:
        return bool(begun)
    at = bisect_left(begun, tool.start)
    return at < len(begun) and (tool.end is None or begun[at] <= tool.end)


def _add(found: list[Message], sender: str | None, receiver: str, kind: str, time: float | None) -> None:
    if sender and sender != receiver:
        found.append(Message(sender=sender, receiver=receiver, type=kind, time=time))
