"""Reads run trees that LangSmith exports."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from trivium.traces.langgraph import GraphRun, is_handoff
from trivium.traces.outcome import total_usage
from trivium.traces.readers.json_input import at, decoded, dollars, moment, read_usage, snake, text
from trivium.traces.readers.span_records import Record, RecordFormat, SpanRecord, unwrapped
from trivium.traces.trace import Span, SpanKind, SpanUsage, nearest
from trivium.values import JsonObject, dict_, dicts, list_

_KINDS: dict[str, SpanKind] = {"llm": "llm", "embedding": "llm", "tool": "tool", "retriever": "tool"}
"""Kinds of span by run type; chain, prompt, parser and unknown types are other."""

_CONTROL = re.compile(r"(ParentCommand|GraphInterrupt|NodeInterrupt|GraphDrained|GraphBubbleUp)\(")
"""Exceptions with which LangGraph hands over or pauses; the tracer logs them as errors, although they are
not."""

_PENDING = frozenset({"pending", "interrupted"})


def metadata_of(record: Record) -> JsonObject:
    """The metadata of a run."""
    return dict_(at(record, "extra", "metadata")) or dict_(record.get("metadata"))


def graph_run(record: Record) -> GraphRun:
    """LangGraph's metadata of a run."""
    answer = dict_(at(record, "outputs", "output"))
    call = text(dict_(record.get("extra")), "tool_call_id") or text(_fields(answer), "tool_call_id")
    requested = _requested_calls(record) if record.get("run_type") == "llm" else ()
    return GraphRun.of(metadata_of(record), requested=requested, call=call)


def _fields(message: JsonObject) -> JsonObject:
    """The fields of a message, which LangChain's serialiser keeps under ``kwargs``."""
    return dict_(message.get("kwargs")) or message


def _requested_calls(record: Record) -> Iterator[str]:
    for message in messages_of(record):
        for call in dicts(message.get("tool_calls")):
            name = text(call, "id")
            if name is not None:
                yield name


def messages_of(record: Record) -> Iterator[JsonObject]:
    """The output messages of a model's run, one for each prompt."""
    for choices in list_(at(record, "outputs", "generations")):
        first = dicts(choices)[:1] if isinstance(choices, list) else dicts([choices])
        for generation in first:
            yield _fields(dict_(generation.get("message")))


def _read(record: Record, _: Record) -> SpanRecord:
    """What a run says of its span; agents among LangGraph's chains are inferred later."""
    metadata = metadata_of(record)
    type_ = text(record, "run_type") or "chain"
    name = text(record, "name") or text(dict_(record.get("serialized")), "name") or type_
    kind = _kind(type_, record, metadata)
    ok, error = _outcome(record)
    span = Span(
        id="",
        kind=kind,
        name=_model(record, metadata) or name if kind == "llm" else name,
        agent=name if kind == "agent" else None,
        ok=ok,
        input=_input(record) if kind == "tool" else record.get("inputs"),
        output=_output(record) if kind == "tool" else record.get("outputs"),
        usage=usage_of(record, list(messages_of(record))) if kind == "llm" else None,
        attributes=_attributes(type_, name, kind, metadata, record),
    )
    states = dict_(record.get("inputs")) if kind == "other" and name.lower() == "handoff" else None
    return SpanRecord(span, error, states, graph_run(record))


def _kind(type_: str, record: Record, metadata: JsonObject) -> SpanKind:
    kind = _KINDS.get(type_, "other")
    if kind == "tool" and (metadata.get("ls_agent_type") == "middleware" or "triggered" in metadata):
        return "other"  # a guardrail
    if kind == "other" and _is_agent(type_, record, metadata):
        return "agent"
    return kind


def _is_agent(type_: str, record: Record, metadata: JsonObject) -> bool:
    """Whether a chain is marked as an agent's run; LangGraph's chains are not."""
    if type_ == "agent" or record.get("name") == "AgentExecutor":
        return True
    if "langgraph_node" in metadata or text(metadata, "ls_integration") in {"langgraph", "deepagents"}:
        return False
    params = dict_(at(record, "extra", "invocation_params"))
    if {"tools", "handoffs"} <= params.keys():  # of the OpenAI Agents SDK
        return True
    agent_type = metadata.get("ls_agent_type")
    root = text(record, "parent_run_id") is None
    return agent_type == "subagent" or (agent_type == "root" and root and type_ == "chain")


def _outcome(record: Record) -> tuple[bool | None, Any]:
    """Whether the run succeeded (None: unknown), and its error."""
    error, status = record.get("error"), text(record, "status")
    if isinstance(error, str) and (control := _CONTROL.match(error)):
        return (True if control[1] == "ParentCommand" else None), None
    if error or status == "error":
        return False, error
    if moment(record.get("end_time")) is None or status in _PENDING:
        return None, None
    answer = _fields(dict_(at(record, "outputs", "output")))
    failed = record.get("run_type") == "tool" and answer.get("status") == "error"
    return not failed, answer.get("content") if failed else None


def _model(record: Record, metadata: JsonObject) -> str | None:
    params = dict_(at(record, "extra", "invocation_params"))
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


_METADATA_KEYS = ("langgraph_node", "langgraph_step", "langgraph_triggers")


def _attributes(type_: str, name: str, kind: SpanKind, metadata: JsonObject, record: Record) -> JsonObject:
    attributes = {"run_type": type_} | {key: metadata[key] for key in _METADATA_KEYS if key in metadata}
    if kind == "llm":
        attributes["run_name"] = name
    if kind == "tool" and is_handoff(name, metadata):
        attributes["handoff"] = True
    if type_ == "retriever":
        attributes["retrieval"] = True
    if record.get("tags"):
        attributes["tags"] = record["tags"]
    return attributes


_HOLDERS = ("runs", "post", "patch")
_THREADS = ("thread_id", "conversation_id")


def _is_run(record: Record) -> bool:
    return "run_type" in record or "dotted_order" in record


def _runs(documents: Sequence[Any]) -> list[tuple[int, Record]]:
    """Every run with its trace: as stated, else that of the nearest run above, else the topmost run."""
    placed = list(_flat(documents))
    known: dict[str, str] = {}
    above: dict[str, str | None] = {}
    for _, record in placed:
        name, trace = text(record, "id"), text(record, "trace_id")
        if name is not None:
            above.setdefault(name, text(record, "parent_run_id"))
            if trace is not None:
                known.setdefault(name, trace)
    for name, parent in above.items():
        if parent not in above:  # the topmost run, in the file or not
            known.setdefault(parent or name, parent or name)
    for _, record in placed:
        record["trace_id"] = text(record, "trace_id") or nearest(text(record, "id"), above, known, "")
    return placed


def _flat(documents: Sequence[Any]) -> Iterator[tuple[int, Record]]:
    """Every run, parents before their nested children, with its position; no run for anything else."""
    for position, item in enumerate(unwrapped(documents, *_HOLDERS), start=1):
        top = snake(item) if isinstance(item, dict) else {}
        if not _is_run(top) and "child_runs" not in top:
            yield position, {}
            continue
        stack: list[tuple[Record, str | None, str | None]] = [(top, None, None)]
        while stack:
            value, parent, trace = stack.pop()
            record = {"run_type": None} | {key: field for key, field in value.items() if key != "child_runs"}
            _complete(record, parent, trace)
            yield position, record
            name, inner = text(record, "id"), text(record, "trace_id")
            nested = [snake(child) for child in reversed(dicts(value.get("child_runs")))]
            stack += [(child, name, inner) for child in nested]


def _complete(record: Record, parent: str | None, trace: str | None) -> None:
    """Fill in the parent, the trace and the start from the nesting and the ``dotted_order``."""
    dotted = text(record, "dotted_order") or ""
    segments = [segment.partition("Z") for segment in ("", *dotted.split("."))]  # 20230914T223155647Z<id>
    listed = [each for each in list_(record.get("parent_run_ids"))[-1:] if isinstance(each, str)]
    known = {
        "parent_run_id": parent or segments[-2][2] or next(iter(listed), None),
        "id": segments[-1][2],
        "trace_id": trace or segments[1][2],
        "start_time": _start(segments[-1][0]),
    }
    record |= {key: value for key, value in known.items() if value and text(record, key) is None}


def _start(stamp: str) -> float | None:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def _metadata(_: Record, records: list[Record]) -> JsonObject:
    """Metadata of the trace from its first root: name, tags and thread."""
    for record in records:
        if text(record, "parent_run_id") is None:
            sources = (
                (record, ("name", "session_id", "tags", "feedback_stats")),
                (metadata_of(record), _THREADS),
            )
            found = {key: source[key] for source, keys in sources for key in keys if source.get(key)}
            session = metadata_of(record).get("session_id")  # that of a run is its project
            return {"conversation_id": session} | found if session else found
    return {}


_OF_MESSAGES = (
    ("usage_metadata",),
    ("response_metadata", "token_usage"),
    ("response_metadata", "usage"),
    ("response_metadata", "tokenUsage"),
)
_OF_RUNS = (
    ("outputs", "usage_metadata"),
    ("extra", "metadata", "usage_metadata"),
    ("outputs", "llm_output", "token_usage"),
    ("outputs", "llm_output", "usage"),
    ("outputs", "llm_output", "tokenUsage"),
    ("outputs", "usage"),
    (),
)
"""Where a message and a run may state tokens; the first that does is read."""


def usage_of(record: Record, messages: list[JsonObject]) -> SpanUsage | None:
    """Usage of a run: of its messages, else as in its outputs, its metadata or the run itself."""
    usages = [usage for message in messages if (usage := _first_usage(message, _OF_MESSAGES)) is not None]
    usage = total_usage(usages) if usages else _first_usage(record, _OF_RUNS)
    if usage is None or usage.cost_usd is not None:
        return usage
    return msgspec.structs.replace(usage, cost_usd=dollars(record.get("total_cost")))


def _first_usage(holder: Record, paths: Sequence[tuple[str, ...]]) -> SpanUsage | None:
    """The tokens and the cost that are stated at the first of the paths that states tokens."""
    for path in paths:
        fields = dict_(at(holder, *path))
        if (usage := read_usage(fields)) is not None:
            return msgspec.structs.replace(usage, cost_usd=dollars(fields.get("total_cost")))
    return None


_FORMAT = RecordFormat(
    what="run of LangSmith",
    marked="an object with a run_type",
    holders=_HOLDERS,
    parent="parent_run_id",
    start="start_time",
    end="end_time",
    is_span=_is_run,
    listed=_runs,
    read=_read,
    metadata=_metadata,
)
sniff, read_traces = _FORMAT.sniff, _FORMAT.read_traces
