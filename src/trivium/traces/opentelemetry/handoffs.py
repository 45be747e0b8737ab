"""Hand-offs stated by attributes, LangChain, LangGraph.

A tool whose one argument is a text has that text alone as its input, without the argument's name, and a
message as its output. The model that asked for the call says with what arguments, under the id that the
message answers.
"""

from bisect import bisect_left
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

import msgspec

from trivium.traces.langgraph import GraphRun, is_handoff
from trivium.traces.opentelemetry import semconv as wanted
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.opentelemetry.spans import Reading, named, parsed
from trivium.traces.readers.json_input import dict_, dicts, text
from trivium.traces.readers.langsmith import messages_of
from trivium.traces.trace import Message, Span, Trace, message_time

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


_MESSAGE_KEYS = ("data", "kwargs")
"""Where LangChain's ways to write a message keep its fields."""


class Call(NamedTuple):
    """A call that a model asked for."""

    tool: str | None
    arguments: Any


def asked_by(span: RecordedSpan) -> dict[str, Call]:
    """The calls that a model's answer asks for, by their ids."""
    answer = parsed(span.attributes.get(wanted.OUTPUT))
    if not isinstance(answer, dict):
        return {}
    return {
        name: Call(text(call, "name"), call.get("args"))
        for message in messages_of({"outputs": answer})
        for call in dicts(message.get("tool_calls"))
        if (name := text(call, "id")) is not None
    }


def answered(span: RecordedSpan, asked: dict[str, Call], tool: str) -> tuple[RecordedSpan, str | None]:
    """A tool's span with arguments and a result in place of messages, and the id of the call that it answers.

    Args:
        span: Of a tool.
        asked: What models asked for before, by ids.
        tool: Its name; ids are no keys, so that it has to be the one that was asked for.
    """
    message = _message(parsed(span.attributes.get(wanted.OUTPUT)))
    if message is None:
        return span, None
    call = text(message, "tool_call_id")
    attributes = {**span.attributes, wanted.OUTPUT: message.get("content")}
    wish = asked.get(call) if call is not None else None
    given = parsed(span.attributes.get(wanted.INPUT))
    named = wish is not None and wish.tool == tool and isinstance(wish.arguments, dict)
    if wish is not None and named and not isinstance(given, dict):
        attributes[wanted.INPUT] = wish.arguments
    failed = message.get("status") == "error"
    why = span.error or (text(message, "content") or "" if failed else "")
    return msgspec.structs.replace(span, attributes=attributes, failed=span.failed or failed, error=why), call


def _message(output: Any) -> dict[str, Any] | None:
    """The fields of a tool's message, however it is written."""
    fields = dict_(output)
    for key in _MESSAGE_KEYS:
        fields = dict_(fields.get(key)) or fields
    return fields if fields.get("type") == "tool" and "content" in fields else None


_PREFIX = "langgraph_"


def graph_runs(spans: list[RecordedSpan], readings: list[Reading]) -> list[GraphRun]:
    """What LangGraph says of each span; empty where it says nothing of any.

    Args:
        spans: Of one trace, by start; changed, for tools have messages where others have results.
        readings: What each is by itself; changed, for OpenInference takes whatever has "agent" in its name
            for one, and tools that hand over are no calls.
    """
    metadata = [_metadata(span) for span in spans]
    if not any(key.startswith(_PREFIX) for each in metadata for key in each):
        return []
    asked: dict[str, Call] = {}
    runs = []
    for index, (span, what, told) in enumerate(zip(spans, readings, metadata, strict=True)):
        calls: dict[str, Call] = {}
        answers = None
        if what.kind == "agent" and (told or not what.name):
            readings[index] = Reading("other", span.name)
        elif what.kind == "llm":
            calls = asked_by(span)
            asked |= calls
        elif what.kind == "tool":
            spans[index], answers = answered(span, asked, what.name)
            if is_handoff(what.name, told):
                readings[index] = msgspec.structs.replace(what, handoff=True)
        runs.append(GraphRun.of(told, asked=calls, call=answers))
    return runs


def _metadata(span: RecordedSpan) -> dict[str, Any]:
    attributes = span.attributes
    path = attributes.get(wanted.PLACE)
    if isinstance(path, str):
        node = path.rpartition("|")[2].partition(":")[0]
        step = attributes.get(wanted.STEP)
        return {"langgraph_checkpoint_ns": path, "langgraph_node": node, "langgraph_step": step}
    metadata = parsed(attributes.get(wanted.METADATA))
    return metadata if isinstance(metadata, dict) else {}
