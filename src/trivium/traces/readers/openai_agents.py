"""Reads the items that trace processors of the OpenAI Agents SDK export.

Items are traces and spans, one on each line or in a list. Spans are listed as they end, children first, and
a span that never ended may be missing; a turn still names its agent. After a hand-off the two agents are
siblings, and a handoff span names both; an agent used as a tool lies below its function span. Usage is taken
from the spans that called a model: ``task`` and ``turn`` repeat it.
"""

from collections.abc import Sequence
from typing import Any

from trivium.traces.normalize import normalise
from trivium.traces.readers.json_input import at, decoded, moment, read_usage, snake, text
from trivium.traces.readers.span_records import (
    Record,
    RecordsByTrace,
    first_record,
    merge_span_records,
    stated_handoff,
    unwrapped,
)
from trivium.traces.trace import Message, Span, SpanKind, SpanUsage, Trace
from trivium.values import dict_

_WRAPPERS = ("data", "items", "spans")
_KINDS: dict[str, SpanKind] = {
    "agent": "agent",
    "function": "tool",
    "generation": "llm",
    "response": "llm",
    "transcription": "llm",
    "speech": "llm",
}
"""Kinds by type; handoff, guardrail, mcp_tools, custom (task, turn) and all further types are other."""

_OWN_FIELDS = frozenset({"name", "input", "output", "usage"})


def sniff(document: Any) -> bool:
    """Whether a JSON value is a trace or span of the SDK, or a list of them."""
    record = first_record(document, *_WRAPPERS)
    return record is not None and (_is_trace(record) or _is_span(record))


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in the order in which they are first named."""
    records = RecordsByTrace("trace or span of the OpenAI Agents SDK")
    for position, item in enumerate(_items(documents), start=1):
        record = snake(item) if isinstance(item, dict) else {}
        if _is_span(record):
            records.add_span(record, text(record, "trace_id"))
        elif _is_trace(record):
            records.add_trace(text(record, "id", "trace_id"), record)
        else:
            records.skip(position)
    return records.traces(_trace, source)


def _items(documents: Sequence[Any]) -> list[Any]:
    """The items; a trace that contains its spans is an item too."""
    holders = [item for item in documents if isinstance(item, dict) and isinstance(item.get("trace"), dict)]
    return [holder["trace"] for holder in holders] + list(unwrapped(documents, *_WRAPPERS))


def _is_trace(record: Record) -> bool:
    return record.get("object") == "trace" or ("workflow_name" in record and "span_data" not in record)


def _is_span(record: Record) -> bool:
    return isinstance(record.get("span_data"), dict)


def _trace(name: str, item: Record, records: list[Record]) -> Trace:
    records, repeats = merge_span_records(records, end_key="ended_at")
    data = [snake(record["span_data"]) for record in records]
    turns = {text(record, "id"): _turn(fields) for record, fields in zip(records, data, strict=True)}
    spans: list[Span] = []
    messages: list[Message] = []
    for record, fields in zip(records, data, strict=True):
        span = _span(f"span-{len(spans)}", record, fields, turns)
        spans.append(span)
        if fields.get("type") == "handoff":
            messages += stated_handoff(fields, span.start, sender=span.agent)
    return normalise(
        spans,
        messages,
        trace_id=name,
        problems=repeats,
        metadata={key: value for key, value in item.items() if key not in {"object", "id"} and value},
        nested=True,
    )


def _turn(fields: Record) -> str | None:
    """The agent of a turn; None if the span is not a turn."""
    return text(dict_(fields.get("data")), "agent_name", "agentName") or text(fields, "agent_name")


def _span(nameless: str, record: Record, fields: Record, turns: dict[str | None, str | None]) -> Span:
    kind = _KINDS.get(str(fields.get("type")), "other")
    name = _name(fields)
    parent = text(record, "parent_id")
    end = moment(record.get("ended_at"))
    error = record.get("error")
    attributes = {key: value for key, value in fields.items() if key not in _OWN_FIELDS and value is not None}
    if isinstance(record.get("metadata"), dict):
        attributes["metadata"] = record["metadata"]
    if error:
        attributes["error"] = error
    return Span(
        id=text(record, "id", "span_id") or nameless,
        kind=kind,
        name=name,
        parent=parent,
        agent=name if kind == "agent" else turns.get(parent),
        start=moment(record.get("started_at")),
        end=end,
        ok=False if error else None if end is None else True,
        input=decoded(fields.get("input")) if kind == "tool" else fields.get("input"),
        output=fields.get("output"),
        usage=_usage(fields) if kind == "llm" else None,
        attributes=attributes,
    )


def _name(fields: Record) -> str:
    type_ = text(fields, "type") or "span"
    if type_ == "handoff":
        return f"handoff to {text(fields, 'to_agent') or 'nobody'}"
    if type_ == "mcp_tools":
        return f"tools of {text(fields, 'server') or 'a server'}"
    return text(fields, "name", "model") or type_


def _usage(fields: Record) -> SpanUsage | None:
    usage = dict_(fields.get("usage")) or dict_(at(fields, "response", "usage"))
    keys = ("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens")
    return read_usage(snake(usage), *keys)
