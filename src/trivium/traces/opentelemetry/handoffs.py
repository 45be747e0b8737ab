"""Finds hand-offs stated by attributes rather than by span nesting, and reads LangGraph's tool calls.

LangChain records a tool with one text argument as that text alone, without the argument's name, and with a
message as output. The model call that requested it has the arguments, under the id that the message
answers.
"""

from bisect import bisect_left
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import msgspec

from trivium.traces.langgraph import GraphRun, is_handoff
from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.contents import arguments_of, parsed
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.opentelemetry.spans import SpanRole
from trivium.traces.readers.json_input import text
from trivium.traces.readers.langsmith import messages_of
from trivium.traces.trace import Message, Span, Trace, message_time
from trivium.values import dict_, dicts

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


_MESSAGE_KEYS = ("data", "kwargs")
"""Keys under which LangChain's serialisers put the fields of a message."""


class Call(NamedTuple):
    """A tool call that a model requested."""

    tool: str | None
    arguments: Any


def requested_calls(span: RecordedSpan) -> dict[str, Call]:
    """The tool calls that a model's response requests, by id."""
    answer = parsed(span.attributes.get(semconv.OUTPUT))
    if not isinstance(answer, dict):
        return {}
    return {
        name: Call(text(call, "name"), call.get("args"))
        for message in messages_of({"outputs": answer})
        for call in dicts(message.get("tool_calls"))
        if (name := text(call, "id")) is not None
    }


def as_tool_call(
    span: RecordedSpan, requested: dict[str, Call], tool: str
) -> tuple[RecordedSpan, str | None]:
    """Replace the messages on a tool's span by its arguments and result; also return the call's id.

    Args:
        span: A tool span.
        requested: The calls that models requested before, by id.
        tool: Name of the tool; it must match the request, because ids alone are not unique.
    """
    message = _message(parsed(span.attributes.get(semconv.OUTPUT)))
    if message is None:
        return span, None
    call = text(message, "tool_call_id")
    attributes = {**span.attributes, semconv.OUTPUT: message.get("content")}
    call_requested = requested.get(call) if call is not None else None
    recorded_input = parsed(span.attributes.get(semconv.INPUT))
    matches = (
        call_requested is not None
        and call_requested.tool == tool
        and isinstance(call_requested.arguments, dict)
    )
    if call_requested is not None and matches and not isinstance(recorded_input, dict):
        attributes[semconv.INPUT] = call_requested.arguments
    failed = message.get("status") == "error"
    why = span.error or (text(message, "content") or "" if failed else "")
    return msgspec.structs.replace(span, attributes=attributes, failed=span.failed or failed, error=why), call


def _message(output: Any) -> dict[str, Any] | None:
    """The fields of a tool's message, whichever serialiser wrote it."""
    fields = dict_(output)
    for key in _MESSAGE_KEYS:
        fields = dict_(fields.get(key)) or fields
    return fields if fields.get("type") == "tool" and "content" in fields else None


_PREFIX = "langgraph_"


def graph_runs(spans: list[RecordedSpan], roles: list[SpanRole]) -> list[GraphRun]:
    """LangGraph's metadata of each span; an empty list where no span has any.

    Args:
        spans: The spans of one trace, by start; changed in place where a tool has a message instead of a
            result.
        roles: The classification of each; changed in place, because OpenInference marks everything with
            "agent" in its name as an agent, and because tools that hand over are hand-offs, not calls.
    """
    metadata = [_metadata(span) for span in spans]
    if not any(key.startswith(_PREFIX) for each in metadata for key in each):
        return []
    requested: dict[str, Call] = {}
    runs = []
    for index, (span, role, fields) in enumerate(zip(spans, roles, metadata, strict=True)):
        calls: dict[str, Call] = {}
        answers = None
        if role.kind == "agent" and (fields or not role.name):
            roles[index] = SpanRole("other", span.name)
        elif role.kind == "llm":
            calls = requested_calls(span)
            requested |= calls
        elif role.kind == "tool":
            spans[index], answers = as_tool_call(span, requested, role.name)
            if is_handoff(role.name, fields):
                roles[index] = msgspec.structs.replace(role, handoff=True)
        runs.append(GraphRun.of(fields, requested=calls, call=answers))
    return runs


def _metadata(span: RecordedSpan) -> dict[str, Any]:
    attributes = span.attributes
    path = attributes.get(semconv.CHECKPOINT_NAMESPACE)
    if isinstance(path, str):
        node = path.rpartition("|")[2].partition(":")[0]
        step = attributes.get(semconv.STEP)
        return {"langgraph_checkpoint_ns": path, "langgraph_node": node, "langgraph_step": step}
    metadata = parsed(attributes.get(semconv.METADATA))
    return metadata if isinstance(metadata, dict) else {}
