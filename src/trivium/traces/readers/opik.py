"""Reads traces of Opik: files of its export command (one trace each) and rows of search results (JSONL).

A span's type marks tools, models and guardrails; the metadata, tags or name of a general span show whether it
is an agent or a chain. The integrations of LangGraph and of the OpenAI Agents SDK write their own metadata,
which is read as in those readers. The usage of a trace repeats that of its spans. Feedback scores stay with
the trace (``metadata``) and with the span (``attributes``).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from trivium.traces.langgraph import GraphRun, is_handoff, with_graph_agents
from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import decoded, dollars, moment, read_usage, snake, text
from trivium.traces.readers.span_records import (
    Record,
    RecordsByTrace,
    count_usage_once,
    first_record,
    merge_span_records,
    stated_handoff,
    unwrapped,
)
from trivium.traces.trace import Span, SpanKind, SpanUsage, Trace
from trivium.values import JsonObject, dict_

_WRAPPERS = ("spans", "traces", "content")
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
    if isinstance(document, dict) and _is_export(document):
        return True
    record = first_record(document, *_WRAPPERS)
    return record is not None and (_is_span(record) or _is_trace(record))


def _is_export(document: JsonObject) -> bool:
    trace = document.get("trace")
    return isinstance(trace, dict) and "spans" in document and "object" not in trace


def _is_span(record: Record) -> bool:
    if "run_type" in record or "kind" in record or "span_data" in record:
        return False
    named = record.get("row") == "span" or "parent_span_id" in record or text(record, "type") in _TYPES
    return named and "start_time" in record and "trace_id" in record


def _is_trace(record: Record) -> bool:
    if _is_span(record) or "start_time" not in record or "run_type" in record:
        return False
    return record.get("row") == "trace" or ("project_id" in record and "input" in record)


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in the order in which they are first named."""
    records = RecordsByTrace("trace or span of Opik")
    for position, (trace, item) in enumerate(_rows(documents), start=1):
        record = snake(item) if isinstance(item, dict) else {}
        if trace is not None or _is_trace(record):
            records.add_trace(text(record, "id") if trace is None else trace, record)
        elif _is_span(record):
            records.add_span(record, text(record, "trace_id"))
        else:
            records.skip(position)
    return records.traces(_trace, source)


def _rows(documents: Sequence[Any]) -> Iterator[tuple[str | None, Any]]:
    """The rows; the trace of an export comes with its id, and its spans get that id if they have none."""
    for document in documents:
        if not isinstance(document, dict) or not _is_export(document):
            yield from ((None, item) for item in unwrapped([document], *_WRAPPERS))
            continue
        trace = dict_(document["trace"])
        name = text(trace, "id") or ""
        yield name, trace | {key: document[key] for key in ("project_name",) if document.get(key)}
        for span in unwrapped([document["spans"]]):
            whole = isinstance(span, dict) and "trace_id" not in span and "traceId" not in span
            yield None, {"trace_id": name, "type": "general"} | span if whole else span


def _trace(name: str, item: Record, records: list[Record]) -> Trace:
    records, repeats = merge_span_records(records, end_key="end_time")
    owners = {text(record, "id"): _stated_agent(record) for record in records}
    spans = [_span(f"span-{index}", record, owners) for index, record in enumerate(records)]
    stated = [
        message
        for span, record in zip(spans, records, strict=True)
        if (fields := _metadata(record)).get("type") == "handoff"
        for message in stated_handoff(fields, span.start)
    ]
    trace = normalise(
        spans,
        stated,
        trace_id=name,
        problems=repeats,
        metadata={key: item[key] for key in _TRACE_METADATA if item.get(key)},
        nested=True,
    )
    runs = [GraphRun.of(_metadata(record)) for record in records]
    return count_usage_once(with_graph_agents(trace, runs, stated, title=text(item, "name")))


def _metadata(record: Record) -> Record:
    return dict_(decoded(record.get("metadata")))


def _stated_agent(record: Record) -> str | None:
    return text(_metadata(record), *_AGENT_NAMES)


def _span(nameless: str, record: Record, owners: dict[str | None, str | None]) -> Span:
    metadata = _metadata(record)
    name = text(record, "name") or text(record, "type") or "span"
    parent = text(record, "parent_span_id")
    stated = _stated_agent(record)
    kind = _kind(name, record, metadata)
    if kind == "agent" and stated not in {None, name} and owners.get(parent) == stated:
        kind = "other"  # a step within the run of the agent that it names
    title = (stated if kind == "agent" else text(record, "model") if kind == "llm" else None) or name
    end = moment(record.get("end_time"))
    error = record.get("error_info")
    attributes = {key: record[key] for key in _SPAN_METADATA if record.get(key)}
    if error:
        attributes["error"] = error
    if kind == "tool" and is_handoff(name, metadata):
        attributes["handoff"] = True
    return Span(
        id=text(record, "id") or nameless,
        kind=kind,
        name=title,
        parent=parent,
        agent=title if kind == "agent" else stated,
        start=moment(record.get("start_time")),
        end=end,
        ok=False if error else None if end is None else True,
        input=record.get("input"),
        output=record.get("output"),
        usage=_usage(record) if kind == "llm" else None,
        attributes=attributes,
    )


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


def _usage(record: Record) -> SpanUsage | None:
    keys = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")
    cost = dollars(record.get("total_estimated_cost"))
    return read_usage(snake(dict_(record.get("usage"))), *keys, cost=cost)
