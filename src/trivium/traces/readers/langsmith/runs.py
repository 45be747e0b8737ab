"""Runs: one run of a tree as a span, and what its metadata says."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trivium.traces.readers.fields import decoded, dict_, dicts, moment, text
from trivium.traces.readers.langsmith.graphs import GraphRun, is_handoff
from trivium.traces.readers.langsmith.usage import usage_of
from trivium.traces.readers.records import Record
from trivium.traces.trace import Message, Span, SpanKind

_KINDS: dict[str, SpanKind] = {"llm": "llm", "embedding": "llm", "tool": "tool", "retriever": "tool"}
"""Kinds by run type; chain, prompt, parser and the unknown are other."""

_CONTROL = re.compile(r"(ParentCommand|GraphInterrupt|NodeInterrupt|GraphDrained|GraphBubbleUp)\(")
"""Exceptions by which LangGraph hands over or pauses; no failures, though the tracer notes them as errors."""

_PENDING = frozenset({"pending", "interrupted"})


def metadata_of(record: Record) -> dict[str, Any]:
    """The metadata of a run."""
    return dict_(dict_(record.get("extra")).get("metadata")) or dict_(record.get("metadata"))


def graph_run(record: Record) -> GraphRun:
    """What a run's metadata says of LangGraph."""
    answer = dict_(dict_(record.get("outputs")).get("output"))
    call = text(dict_(record.get("extra")), "tool_call_id") or text(_fields(answer), "tool_call_id")
    asked = _asked(record) if record.get("run_type") == "llm" else ()
    return GraphRun.of(metadata_of(record), asked=asked, call=call)


def _fields(message: dict[str, Any]) -> dict[str, Any]:
    """The fields of a message, which LangChain's serialiser keeps under ``kwargs``."""
    return dict_(message.get("kwargs")) or message


def _asked(record: Record) -> Iterator[str]:
    for message in messages_of(record):
        for call in dicts(message.get("tool_calls")):
            name = text(call, "id")
            if name is not None:
                yield name


def messages_of(record: Record) -> Iterator[dict[str, Any]]:
    """The messages that a model's run put out, one a prompt."""
    generations = dict_(record.get("outputs")).get("generations")
    for choices in generations if isinstance(generations, list) else []:
        first = dicts(choices)[:1] if isinstance(choices, list) else dicts([choices])
        for generation in first:
            yield _fields(dict_(generation.get("message")))


def span_of(nameless: str, record: Record) -> Span:
    """A run as a span; which chains are agents' is seen to afterwards."""
    metadata = metadata_of(record)
    type_ = text(record, "run_type") or "chain"
    name = text(record, "name") or text(dict_(record.get("serialized")), "name") or type_
    kind = _kind(type_, record, metadata)
    ok, error = _outcome(record)
    return Span(
        id=text(record, "id") or nameless,
        kind=kind,
        name=_model(record, metadata) or name if kind == "llm" else name,
        parent=text(record, "parent_run_id"),
        agent=name if kind == "agent" else None,
        start=moment(record.get("start_time")),
        end=moment(record.get("end_time")),
        ok=ok,
        input=_input(record) if kind == "tool" else record.get("inputs"),
        output=_output(record) if kind == "tool" else record.get("outputs"),
        usage=usage_of(record, list(messages_of(record))) if kind == "llm" else None,
        attributes=_attributes(type_, name, kind, metadata, error, record),
    )


def _kind(type_: str, record: Record, metadata: dict[str, Any]) -> SpanKind:
    kind = _KINDS.get(type_, "other")
    if kind == "tool" and (metadata.get("ls_agent_type") == "middleware" or "triggered" in metadata):
        return "other"  # a guardrail
    if kind == "other" and _is_agent(type_, record, metadata):
        return "agent"
    return kind


def _is_agent(type_: str, record: Record, metadata: dict[str, Any]) -> bool:
    """Whether a chain says that it is an agent's run (LangGraph's do not)."""
    if type_ == "agent" or record.get("name") == "AgentExecutor":
        return True
    if "langgraph_node" in metadata or text(metadata, "ls_integration") in {"langgraph", "deepagents"}:
        return False
    params = dict_(dict_(record.get("extra")).get("invocation_params"))
    if {"tools", "handoffs"} <= params.keys():  # of the OpenAI Agents SDK
        return True
    agent_type = metadata.get("ls_agent_type")
    root = text(record, "parent_run_id") is None
    return agent_type == "subagent" or (agent_type == "root" and root and type_ == "chain")


def _outcome(record: Record) -> tuple[bool | None, Any]:
    """Whether it went well (None: not known yet), and the error."""
    error, status = record.get("error"), text(record, "status")
    if isinstance(error, str) and (control := _CONTROL.match(error)):
        return (True if control[1] == "ParentCommand" else None), None
    if error or status == "error":
        return False, error
    if moment(record.get("end_time")) is None or status in _PENDING:
        return None, None
    answer = _fields(dict_(dict_(record.get("outputs")).get("output")))
    failed = record.get("run_type") == "tool" and answer.get("status") == "error"
    return not failed, answer.get("content") if failed else None


def _model(record: Record, metadata: dict[str, Any]) -> str | None:
    params = dict_(dict_(record.get("extra")).get("invocation_params"))
    return text(metadata, "ls_model_name") or text(params, "model", "model_name")


def _input(record: Record) -> Any:
    inputs = record.get("inputs")
    if isinstance(inputs, dict) and inputs.keys() == {"input"}:
        return decoded(inputs["input"])
    return inputs


def _output(record: Record) -> Any:
    outputs = record.get("outputs")
    if isinstance(outputs, dict) and outputs.keys() == {"output"}:
        answer = outputs["output"]
        return _fields(answer).get("content", answer) if isinstance(answer, dict) else answer
    return outputs


_KEPT = ("langgraph_node", "langgraph_step", "langgraph_triggers")


def _attributes(
    type_: str, name: str, kind: SpanKind, metadata: dict[str, Any], error: Any, record: Record
) -> dict[str, Any]:
    attributes = {"run_type": type_} | {key: metadata[key] for key in _KEPT if key in metadata}
    if kind == "llm":
        attributes["run_name"] = name
    if kind == "tool" and is_handoff(name, metadata):
        attributes["handoff"] = True
    if error:
        attributes["error"] = error
    if record.get("tags"):
        attributes["tags"] = record["tags"]
    return attributes


def handoffs(spans: Sequence[Span], records: Sequence[Record]) -> list[Message]:
    """The hand-offs that runs of the OpenAI Agents SDK state."""
    messages = []
    for span, record in zip(spans, records, strict=True):
        inputs = dict_(record.get("inputs"))
        sender, receiver = text(inputs, "from_agent"), text(inputs, "to_agent")
        if span.kind == "other" and span.name.lower() == "handoff" and sender and receiver:
            messages.append(Message(sender=sender, receiver=receiver, type="handoff", time=span.start))
    return messages
