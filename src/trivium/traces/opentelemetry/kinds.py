"""Kinds: what a recorded span is, by the convention that its attributes follow."""

from collections.abc import Mapping

import msgspec

from trivium.traces.opentelemetry import wanted
from trivium.traces.opentelemetry.contents import named
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
_MODEL_MARKS = (
    wanted.ANSWERING_MODEL,
    wanted.ASKED_MODEL,
    wanted.REQUEST_TYPE,
    wanted.TOKENS_IN,
    wanted.TOKENS_OUT,
)
_HANDOFF = "handoff to "
_OUTPUT_FUNCTION = "running output function"
"""What PydanticAI says of a function that makes an agent's answer, as if it were one of its tools."""


class Reading(msgspec.Struct, frozen=True, gc=False):
    """What a span is.

    Attributes:
        kind: Of the span.
        name: Of the agent, tool or model; an empty one is an agent that has none.
        agent: Who did it, where the span itself says so.
        receiver: The agent that a hand-off dressed as a tool goes to, where it says so.
        handoff: Whether it is such a hand-off.
    """

    kind: SpanKind
    name: str
    agent: str | None = None
    receiver: str | None = None
    handoff: bool = False


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
        entity = named(attributes.get(wanted.ENTITY)) or span.name
        return Reading(_TRACELOOP.get(kind.lower(), "other"), entity)
    return _legacy(span)


def _genai(span: RecordedSpan, kind: SpanKind) -> Reading:
    attributes = span.attributes
    agent = named(attributes.get(wanted.AGENT)) or _other_name(span)
    if kind == "tool":
        tool = named(attributes.get(wanted.TOOL)) or _after(span.name, "execute_tool ")
        if _makes_the_answer(span):
            return Reading("other", tool or span.name, agent)
        return Reading("tool", tool or named(attributes.get(wanted.SOURCE)) or span.name, agent)
    if kind == "llm":
        return Reading("llm", _model(span), agent)
    if kind == "agent":
        return Reading("agent", agent or _after(span.name, "invoke_agent ") or span.name)
    return Reading("other", span.name, agent)


def _openinference(span: RecordedSpan, kind: SpanKind) -> Reading:
    attributes = span.attributes
    if kind == "agent":
        name = named(attributes.get(wanted.AGENT)) or named(attributes.get(wanted.NODE))
        if name is None and span.scope.endswith(".smolagents"):
            name = span.name.removesuffix(".run")  # "boss.run" is the run of the agent "boss"
        return Reading("agent", name or "")
    if kind == "tool":
        name = named(attributes.get(wanted.TOOL)) or span.name
        receiver = _after(name, _HANDOFF) or None
        return Reading("tool", name, None, receiver, receiver is not None)
    return Reading(kind, _model(span) if kind == "llm" else span.name)


def _legacy(span: RecordedSpan) -> Reading:
    """A span without any kind: what it carries tells."""
    attributes = span.attributes
    tool = named(attributes.get(wanted.TOOL))
    runs = named(attributes.get(wanted.AGENT_BEFORE))
    agent = named(attributes.get(wanted.AGENT)) or runs
    if tool:
        return Reading("other" if _makes_the_answer(span) else "tool", tool, agent)
    if any(mark in attributes for mark in _MODEL_MARKS):
        return Reading("llm", _model(span), agent)
    return Reading("agent", runs) if runs else Reading("other", span.name, agent)


def _makes_the_answer(span: RecordedSpan) -> bool:
    summary = span.attributes.get(wanted.SUMMARY)
    return span.name == _OUTPUT_FUNCTION or (
        isinstance(summary, str) and summary.startswith(_OUTPUT_FUNCTION)
    )


def _other_name(span: RecordedSpan) -> str | None:
    attributes = span.attributes
    return named(attributes.get(wanted.AGENT_BEFORE)) or named(attributes.get(wanted.AGENT_ID))


def _model(span: RecordedSpan) -> str:
    attributes = span.attributes
    model = named(attributes.get(wanted.ANSWERING_MODEL)) or named(attributes.get(wanted.ASKED_MODEL))
    return model or span.name


def _after(text: str, prefix: str) -> str:
    """What follows a prefix, or nothing where it does not start so."""
    return text[len(prefix) :].strip() if text.lower().startswith(prefix) else ""
