"""Kinds: what a recorded span is, by the convention that its attributes follow."""

from collections.abc import Mapping
from typing import NamedTuple

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import first, name_of
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.trace import SpanKind

_OPERATIONS: Mapping[str, SpanKind] = {
    "invoke_agent": "agent",
    "execute_tool": "tool",
    "retrieval": "tool",
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "embeddings": "llm",
}
_OPENINFERENCE: Mapping[str, SpanKind] = {
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "tool",
    "RERANKER": "tool",
    "LLM": "llm",
    "EMBEDDING": "llm",
}
_TRACELOOP: Mapping[str, SpanKind] = {"agent": "agent", "tool": "tool"}

_HANDOFF = "handoff to "


class Reading(NamedTuple):
    """What a span is.

    Attributes:
        kind: Of the span.
        name: Of the agent, tool or model; an empty one is an agent that has none.
        agent: Who did it, where the span itself says so.
        receiver: The agent that a hand-off dressed as a tool goes to.
    """

    kind: SpanKind
    name: str
    agent: str | None = None
    receiver: str | None = None


def reading(span: RecordedSpan) -> Reading:
    """What a span is, by itself."""
    attributes = span.attributes
    if not attributes:
        return Reading("other", span.name)
    operation = attributes.get(wanted.OPERATION)
    if isinstance(operation, str) and operation:
        return _genai(span, _OPERATIONS.get(operation, "other"))
    kind = attributes.get(wanted.OPENINFERENCE)
    if isinstance(kind, str) and kind:
        return _openinference(span, _OPENINFERENCE.get(kind.upper(), "other"))
    kind = attributes.get(wanted.TRACELOOP)
    if isinstance(kind, str) and kind:
        entity = name_of(attributes, (wanted.TL_NAME,)) or span.name
        return Reading(_TRACELOOP.get(kind.lower(), "other"), entity)
    return _legacy(span)


def _genai(span: RecordedSpan, kind: SpanKind) -> Reading:
    attributes = span.attributes
    agent = name_of(attributes, wanted.AGENT_NAMES)
    if kind == "tool":
        name = name_of(attributes, wanted.TOOL_NAMES) or _after(span.name, "execute_tool ")
        name = name or name_of(attributes, (wanted.SOURCE,)) or span.name
        return Reading("tool", name, agent)
    if kind == "llm":
        return Reading("llm", name_of(attributes, wanted.MODELS) or span.name, agent)
    if kind == "agent":
        name = agent or _after(span.name, "invoke_agent ") or span.name
        return Reading("agent", name)
    return Reading("other", span.name, agent)


def _openinference(span: RecordedSpan, kind: SpanKind) -> Reading:
    attributes = span.attributes
    if kind == "agent":
        return Reading("agent", name_of(attributes, wanted.OI_AGENT) or "")
    if kind == "tool":
        name = name_of(attributes, (wanted.OI_TOOL,)) or span.name
        receiver = _after(name, _HANDOFF)
        return Reading("tool", name, None, receiver or None)
    if kind == "llm":
        return Reading("llm", name_of(attributes, wanted.OI_MODELS) or span.name)
    return Reading("other", span.name)


def _legacy(span: RecordedSpan) -> Reading:
    """A span without any kind: what it carries tells."""
    attributes = span.attributes
    tool = name_of(attributes, wanted.TOOL_NAMES)
    agent = name_of(attributes, wanted.AGENT_NAMES)
    if tool:
        return Reading("tool", tool, agent)
    model = name_of(attributes, wanted.MODELS)
    if first(attributes, (*wanted.TOKENS_IN, *wanted.TOKENS_OUT, wanted.LLM_REQUEST)) is not None or model:
        return Reading("llm", model or span.name, agent)
    if agent and attributes.get("agent_name") is not None:
        return Reading("agent", agent)
    return Reading("other", span.name, agent)


def _after(text: str, prefix: str) -> str:
    """What follows a prefix, or nothing where it does not start so."""
    return text[len(prefix) :].strip() if text.lower().startswith(prefix) else ""
