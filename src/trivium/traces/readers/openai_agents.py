"""Reads the items that trace processors of the OpenAI Agents SDK export.

Items are traces and spans, one on each line or in a list. Spans are listed as they end, children first, and
a span that never ended may be missing; a turn still names its agent. After a hand-off the two agents are
siblings, and a handoff span names both; an agent used as a tool lies below its function span. Usage is taken
from the spans that called a model: ``task`` and ``turn`` repeat it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trivium.traces.readers.json_input import at, decoded, read_usage, snake, text
from trivium.traces.readers.span_records import Record, RecordFormat, SpanRecord, unwrapped
from trivium.traces.trace import Span, SpanKind
from trivium.values import JsonObject, dict_

_HOLDERS = ("data", "items", "spans")
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


def _items(documents: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """The items; a trace that contains its spans is an item too."""
    holders = [item for item in documents if isinstance(item, dict) and isinstance(item.get("trace"), dict)]
    return enumerate([*(item["trace"] for item in holders), *unwrapped(documents, *_HOLDERS)], start=1)


def _is_trace(record: Record) -> bool:
    return record.get("object") == "trace" or ("workflow_name" in record and "span_data" not in record)


def _is_span(record: Record) -> bool:
    return isinstance(record.get("span_data"), dict)


def _read(record: Record, above: Record) -> SpanRecord:
    fields = snake(record["span_data"])
    kind = _KINDS.get(str(fields.get("type")), "other")
    attributes = {key: value for key, value in fields.items() if key not in _OWN_FIELDS and value is not None}
    if isinstance(record.get("metadata"), dict):
        attributes["metadata"] = record["metadata"]
    name = _name(fields)
    usage = dict_(fields.get("usage")) or dict_(at(fields, "response", "usage"))
    span = Span(
        id="",
        kind=kind,
        name=name,
        agent=name if kind == "agent" else _turn(snake(dict_(above.get("span_data")))),
        input=decoded(fields.get("input")) if kind == "tool" else fields.get("input"),
        output=fields.get("output"),
        usage=read_usage(snake(usage)) if kind == "llm" else None,
        attributes=attributes,
    )
    return SpanRecord(span, record.get("error"), fields if fields.get("type") == "handoff" else None)


def _turn(fields: Record) -> str | None:
    """The agent of a turn; None if the span is not a turn."""
    return text(dict_(fields.get("data")), "agent_name", "agentName") or text(fields, "agent_name")


def _name(fields: Record) -> str:
    type_ = text(fields, "type") or "span"
    if type_ == "handoff":
        return f"handoff to {text(fields, 'to_agent') or 'nobody'}"
    if type_ == "mcp_tools":
        return f"tools of {text(fields, 'server') or 'a server'}"
    return text(fields, "name", "model") or type_


def _metadata(item: Record, _: list[Record]) -> JsonObject:
    return {key: value for key, value in item.items() if key not in {"object", "id"} and value}


_FORMAT = RecordFormat(
    what="trace or span of the OpenAI Agents SDK",
    holders=_HOLDERS,
    parent="parent_id",
    start="started_at",
    end="ended_at",
    is_span=_is_span,
    is_trace=_is_trace,
    listed=_items,
    read=_read,
    metadata=_metadata,
)
sniff, read_traces = _FORMAT.sniff, _FORMAT.read_traces
