"""Finds hand-offs that attributes of spans or names of tools state, rather than the nesting of spans."""

from bisect import bisect_left
from collections.abc import Sequence, Set

import msgspec

from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.contents import arguments_of
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.opentelemetry.spans import SpanRole
from trivium.traces.readers.json_input import text
from trivium.traces.trace import Message, Span, Trace, message_time
from trivium.values import dict_

_HANDOFF_ATTRIBUTES = frozenset({semconv.TRANSFER, semconv.CALLER, semconv.HANDOFF_TO, semconv.PARENT_NODE})
"""Attributes that imply a message between agents."""


def stated_messages(
    trace: Trace, recorded: Sequence[RecordedSpan], roles: Sequence[SpanRole], names: Set[str]
) -> list[Message]:
    """Messages that attributes of spans state, without those that the nesting already implies.

    Args:
        trace: The trace, with the messages implied by its nesting.
        recorded: The recorded span of each of its spans.
        roles: The classification of each.
        names: Names of all attributes on these spans.
    """
    if names.isdisjoint(_HANDOFF_ATTRIBUTES) and not any(role.receiver for role in roles):
        return []
    nested = [message for message in trace.messages if message.type == "task_request"]
    pairs = {(message.sender, message.receiver) for message in nested}
    starts = _start_times(nested)
    agents = {span.agent or span.name for span in trace.spans if span.kind == "agent"}
    nodes = {
        str(span.attributes[semconv.NODE]): role.name
        for span, role in zip(recorded, roles, strict=True)
        if role.kind == "agent" and semconv.NODE in span.attributes
    }
    messages: list[Message] = []
    successors: list[tuple[str, Span]] = []
    for span, source, role in zip(trace.spans, recorded, roles, strict=True):
        attributes = source.attributes
        receiver = role.receiver or text(attributes, semconv.HANDOFF_TO)
        if receiver is not None:
            sender = text(attributes, semconv.HANDOFF_FROM) or span.agent or text(attributes, semconv.INPUT)
            _add(messages, sender, receiver, "handoff", span.start)
            continue
        target = text(attributes, semconv.TRANSFER)
        if target is not None and not _started_during(starts.get(target, ()), span):
            _add(messages, span.agent, target, "handoff", span.start)
        caller = text(attributes, semconv.CALLER)
        if caller is not None and span.kind == "agent" and (caller, span.name) not in pairs:
            called_by = attributes.get(semconv.CALLER_TYPE)
            if called_by == "agent" or (called_by is None and caller in agents):
                _add(messages, caller, span.name, "task_request", span.start)
        above = text(attributes, semconv.PARENT_NODE)
        if above is not None and span.kind == "agent":
            successors.append((nodes.get(above, above), span))
    pairs |= {(message.sender, message.receiver) for message in messages}
    for sender, span in successors:
        if (sender, span.name) not in pairs:
            _add(messages, sender, span.name, "handoff", span.start)
    return messages


_TRANSFER = "transfer_to_"
_TO_AGENT = "agent"
"""``transfer_to_agent`` of Google's ADK names the receiver in its arguments."""


def mark_handoffs(recorded: Sequence[RecordedSpan], roles: list[SpanRole]) -> None:
    """Mark tools that hand over to an agent of the trace, such as ``transfer_to_writer``, as hand-offs.

    A tool during which that agent runs is a call of the agent. Without arguments, ``transfer_to_agent`` hands
    over to the next agent that starts.

    Args:
        recorded: The spans of one trace, by start.
        roles: The classification of each; changed in place.
    """
    transfers = [
        index
        for index, role in enumerate(roles)
        if role.kind == "tool" and not role.handoff and role.name.startswith(_TRANSFER)
    ]
    if not transfers:
        return
    runs = [(span, role.name) for span, role in zip(recorded, roles, strict=True) if role.kind == "agent"]
    for index in transfers:
        span, target = recorded[index], roles[index].name.removeprefix(_TRANSFER)
        later = [name for run, name in runs if (run.start or 0) >= (span.end or span.start or 0)]
        if target == _TO_AGENT:
            target = text(dict_(arguments_of(span)), "agent_name") or next(iter(later), "")
        receiver = next((name for _, name in runs if _same_name(name, target)), None)
        during = any(_same_name(name, target) and _within(run, span) for run, name in runs)
        if receiver is not None and not during:
            roles[index] = msgspec.structs.replace(roles[index], receiver=receiver, handoff=True)


def _same_name(agent: str, target: str) -> bool:
    return agent.lower().replace(" ", "_") == target.lower().replace(" ", "_")


def _within(run: RecordedSpan, span: RecordedSpan) -> bool:
    return span.start is not None and span.start <= (run.start or 0) < (span.end or span.start)


def _start_times(nested: Sequence[Message]) -> dict[str, list[float]]:
    """The times at which each agent was called, sorted."""
    starts: dict[str, list[float]] = {}
    for message in sorted(nested, key=message_time):
        starts.setdefault(message.receiver, []).append(message_time(message))
    return starts


def _started_during(starts: Sequence[float], tool: Span) -> bool:
    """Whether any of the sorted start times lies within the tool's span."""
    if tool.start is None:
        return bool(starts)
    at = bisect_left(starts, tool.start)
    return at < len(starts) and (tool.end is None or starts[at] <= tool.end)


def _add(messages: list[Message], sender: str | None, receiver: str, kind: str, time: float | None) -> None:
    if sender and sender != receiver:
        messages.append(Message(sender=sender, receiver=receiver, type=kind, time=time))
