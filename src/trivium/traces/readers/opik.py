"""Reads traces of Opik: files of its export command (one trace each) and rows of search results (JSONL).

A span's type marks tools, models and guardrails; the metadata, tags or name of a general span show whether it
is an agent or a chain. The integrations of LangGraph and of the OpenAI Agents SDK write their own metadata,
which is read as in those readers. The usage of a trace repeats that of its spans. Feedback scores stay with
the trace (``metadata``) and with the span (``attributes``).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trivium.traces.langgraph import GraphRun, is_handoff
from trivium.traces.readers.json_input import decoded, dollars, read_usage, snake, text
from trivium.traces.readers.span_records import Record, RecordFormat, SpanRecord, unwrapped
from trivium.traces.trace import Span, SpanKind, Trace
from trivium.values import JsonObject, dict_

_HOLDERS = ("spans", "traces", "content")
_KINDS: dict[str, SpanKind] = {"tool": "tool", "llm": "llm"}
_TYPES = frozenset({"general", "tool", "llm", "guardrail"})
_AGENT_NAMES = ("agent", "agent_name", "gen_ai.agent.name", "adk_agent_name")
_AGENT_KIND_KEYS = ("type", "object_type", "kind", "span_type", "openinference.span.kind")
_NAMED_AGENT = re.compile(r"(?:^|[^a-zA-Z])(?:[aA]gent|AGENT)$|(?:^|[a-z0-9])Agent(?:Executor)?$")
_TRACE_METADATA = (
    *("name", "input", "output", "metadata", "tags", "thread_id", "usage", "feedback_scores"),
    *("error_info", "total_estimated_cost", "project_name", "guardrails_validations"),
)
_SPAN_METADATA = ("type", "tags", "metadata", "provider", "feedback_scores", "ttft")


def sniff(document: Any) -> bool:
    """Whether a JSON value is a trace with its spans, a row, or a list of rows."""
    return (isinstance(document, dict) and _is_export(document)) or _FORMAT.sniff(document)


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in the order in which they are first named."""
    return _FORMAT.read_traces(documents, source)


def _is_export(document: JsonObject) -> bool:
    trace = document.get("trace")
    return isinstance(trace, dict) and "spans" in document and "object" not in trace


def _is_span(record: Record) -> bool:
    if "run_type" in record or "kind" in record or "span_data" in record or record.get("row") == "trace":
        return False
    named = record.get("row") == "span" or "parent_span_id" in record or text(record, "type") in _TYPES
    return named and "start_time" in record and "trace_id" in record


def _is_trace(record: Record) -> bool:
    if "run_type" in record or "start_time" not in record:
        return record.get("row") == "trace"
    return record.get("row") == "trace" or ("project_id" in record and "input" in record)


def _rows(documents: Sequence[Any]) -> Iterator[Any]:
    """The rows; the spans of an export get the id of its trace if they have none."""
    for document in documents:
        if not isinstance(document, dict) or not _is_export(document):
            yield from unwrapped([document], *_HOLDERS)
            continue
        trace = dict_(document["trace"])
        name = text(trace, "id") or ""
        project = {key: document[key] for key in ("project_name",) if document.get(key)}
        yield {**trace, **project, "id": name, "trace_id": name, "row": "trace"}
        for span in unwrapped([document["spans"]]):
            whole = isinstance(span, dict) and "trace_id" not in span and "traceId" not in span
            yield {"trace_id": name, "type": "general"} | span if whole else span


def _read(record: Record, above: Record) -> SpanRecord:
    metadata = _metadata(record)
    name = text(record, "name") or text(record, "type") or "span"
    stated = _stated_agent(record)
    kind = _kind(name, record, metadata)
    if kind == "agent" and stated not in {None, name} and _stated_agent(above) == stated:
        kind = "other"  # a step within the run of the agent that it names
    title = (stated if kind == "agent" else text(record, "model") if kind == "llm" else None) or name
    attributes = {key: record[key] for key in _SPAN_METADATA if record.get(key)}
    if kind == "tool" and is_handoff(name, metadata):
        attributes["handoff"] = True
    cost = dollars(record.get("total_estimated_cost"))
    span = Span(
        id="",
        kind=kind,
        name=title,
        agent=title if kind == "agent" else stated,
        input=record.get("input"),
        output=record.get("output"),
        usage=read_usage(snake(dict_(record.get("usage"))), cost=cost) if kind == "llm" else None,
        attributes=attributes,
    )
    states = metadata if metadata.get("type") == "handoff" else None
    return SpanRecord(span, record.get("error_info"), states, GraphRun.of(metadata))


def _metadata(record: Record) -> Record:
    return dict_(decoded(record.get("metadata")))


def _stated_agent(record: Record) -> str | None:
    return text(_metadata(record), *_AGENT_NAMES)


def _kind(name: str, record: Record, metadata: Record) -> SpanKind:
    type_ = record.get("type")
    inner = text(metadata, "type")
    if type_ == "guardrail" or inner in {"guardrail", "handoff", "mcp_tools"}:
        return "other"
    if isinstance(type_, str) and type_ in _KINDS:
        return _KINDS[type_]
    return "agent" if _is_agent(name, record, metadata) else "other"


def _is_agent(name: str, record: Record, metadata: Record) -> bool:
    """Whether a general span is an agent's run, by its metadata, tags or name."""
    if metadata.get("langgraph_node") is not None:
        return False  # ``with_graph_agents`` decides
    if any(str(metadata.get(key)).lower() == "agent" for key in _AGENT_KIND_KEYS):
        return True
    if (
        any(key in metadata for key in _AGENT_KIND_KEYS if key != "kind")
        and text(metadata, *_AGENT_NAMES) is None
    ):
        return False  # its metadata states another kind
    tags = record.get("tags")
    tagged = isinstance(tags, list) and any(isinstance(tag, str) and tag.lower() == "agent" for tag in tags)
    return text(metadata, *_AGENT_NAMES) is not None or tagged or _NAMED_AGENT.search(name) is not None


_FORMAT = RecordFormat(
    what="trace or span of Opik",
    holders=_HOLDERS,
    parent="parent_span_id",
    start="start_time",
    end="end_time",
    is_span=_is_span,
    is_trace=_is_trace,
    listed=lambda documents: enumerate(_rows(documents), start=1),
    read=_read,
    metadata=lambda item, _: {key: item[key] for key in _TRACE_METADATA if item.get(key)},
)
