"""Reads one OpenTelemetry span: its kind, name, content, tokens and error."""

from collections.abc import Mapping, Sequence
from typing import Any

from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.contents import contents_of
from trivium.traces.opentelemetry.semconv import NANOSECONDS, PARTS_OF_TOKENS, RecordedSpan
from trivium.traces.readers.json_input import text
from trivium.traces.trace import Span, SpanKind, SpanUsage
from trivium.values import JsonObject, amount, count, sum_known

_OPERATIONS: Mapping[str, SpanKind] = {
    "invoke_agent": "agent",
    "execute_tool": "tool",
    "retrieval": "tool",
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "embeddings": "llm",
    "create_agent": "other",
    "invoke_workflow": "other",
    "plan": "other",
}
_OPENINFERENCE: Mapping[str, SpanKind] = {
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "tool",
    "RERANKER": "tool",
    "LLM": "llm",
    "EMBEDDING": "llm",
}
_RETRIEVERS = frozenset({"RETRIEVER", "RERANKER"})
_TRACELOOP: Mapping[str, SpanKind] = {"agent": "agent", "tool": "tool"}
_FRAMEWORKS: Mapping[str, SpanKind] = {
    "agent_run": "agent",  # Mastra
    "tool_call": "tool",
    "mcp_tool_call": "tool",
    "model_generation": "llm",
    "model_step": "llm",
    "model_chunk": "other",
    "usage": "other",  # AG2: it repeats the tokens of a request
    "ai.generateText": "agent",  # AI SDK, where the function has a name
    "ai.streamText": "agent",
    "ai.generateObject": "agent",
    "ai.streamObject": "agent",
}
_NAMES: Mapping[str, SpanKind] = {
    "haystack.agent.run": "agent",
    "haystack.agent.step.llm": "llm",
    "haystack.agent.step.tool": "tool",
}
"""Kinds of spans that have no attribute for it."""
_STEPS = frozenset({"workflow", "task"})
"""Kinds of OpenLLMetry that are no agents, whatever their operation says (CrewAI)."""
_SETTING_UP = frozenset({"create_agent", "workflow.build"})
"""Operations and names of spans that set agents up."""
_MERGED = "(merged"
"""How the name of the span begins that Google's ADK records for several results together."""
_MODEL_MARKS = (
    semconv.RESPONSE_MODEL,
    semconv.REQUEST_MODEL,
    semconv.REQUEST_TYPE,
    semconv.INPUT_TOKENS,
    semconv.OUTPUT_TOKENS,
)
_MODEL_NAMES = (semconv.RESPONSE_MODEL, semconv.REQUEST_MODEL)
_AGENT_NAMES = (semconv.AGENT, semconv.LEGACY_AGENT, semconv.AGENT_ID)
_HANDOFF = "handoff to "
_OUTPUT_FUNCTION = "running output function"
"""PydanticAI's span name of an output function, which it otherwise records like a tool."""


def classify(span: RecordedSpan) -> None:
    """Say what a span is by its own attributes."""
    attributes = span.attributes
    if not attributes:
        return span.classify("other", span.name)
    operation = attributes.get(semconv.OPERATION)
    if attributes.get(semconv.FRAMEWORK) is None:
        kind = _NAMES.get(span.name)
    else:
        kind = _FRAMEWORKS.get(text(attributes, semconv.FRAMEWORK) or "")
    if kind is None and isinstance(operation, str) and operation:
        kind = _OPERATIONS.get(operation) or _by_marks(span, operation)
    if kind is not None:
        return _genai(span, kind)
    kind = attributes.get(semconv.OPENINFERENCE)
    if isinstance(kind, str) and kind:
        return _openinference(span, _OPENINFERENCE.get(kind.upper(), "other"))
    kind = attributes.get(semconv.TRACELOOP)
    if isinstance(kind, str) and kind:
        entity = text(attributes, semconv.ENTITY) or span.name
        return span.classify(_TRACELOOP.get(kind.lower(), "other"), entity)
    return _legacy(span)


def sets_up(span: RecordedSpan) -> bool:
    """Whether a span sets an agent up, which is no part of an interaction."""
    return span.name in _SETTING_UP or span.attributes.get(semconv.OPERATION) == "create_agent"


def _by_marks(span: RecordedSpan, operation: str) -> SpanKind:
    """The kind of a span with an unknown operation."""
    attributes = span.attributes
    if text(attributes, semconv.TOOL):
        return "tool"
    if any(mark in attributes for mark in _MODEL_MARKS):
        return "llm"
    return "agent" if "agent" in operation and text(attributes, *_AGENT_NAMES) else "other"


def _genai(span: RecordedSpan, kind: SpanKind) -> None:
    attributes = span.attributes
    agent = text(attributes, *_AGENT_NAMES)
    if kind == "tool":
        tool = text(attributes, semconv.TOOL) or _after(span.name, "execute_tool ")
        if _is_output_function(span) or tool.startswith(_MERGED):
            return span.classify("other", tool or span.name, agent)
        return span.classify("tool", tool or text(attributes, semconv.SOURCE) or span.name, agent)
    if kind == "llm":
        return span.classify("llm", _model(span), agent)
    if kind == "agent" and text(attributes, semconv.TRACELOOP) not in _STEPS:
        return span.classify("agent", agent or _after(span.name, "invoke_agent "))
    return span.classify("other", span.name, None if sets_up(span) else agent)


def _openinference(span: RecordedSpan, kind: SpanKind) -> None:
    attributes = span.attributes
    if kind == "agent":
        name = text(attributes, semconv.AGENT, semconv.NODE)
        if name is None and span.scope.endswith(".smolagents"):
            name = span.name.removesuffix(".run")  # "boss.run" is the run of the agent "boss"
        return span.classify("agent", name or "")
    if kind == "tool":
        name = text(attributes, semconv.TOOL) or span.name
        return span.classify("tool", name, receiver=_after(name, _HANDOFF) or None)
    return span.classify(kind, _model(span) if kind == "llm" else span.name)


def _legacy(span: RecordedSpan) -> None:
    """Classify a span without a kind by the other attributes that it has."""
    attributes = span.attributes
    tool = text(attributes, semconv.TOOL)
    agent = text(attributes, semconv.AGENT, semconv.LEGACY_AGENT)
    if tool:
        return span.classify("other" if _is_output_function(span) else "tool", tool, agent)
    if any(mark in attributes for mark in _MODEL_MARKS):
        return span.classify("llm", _model(span), agent)
    legacy_agent = text(attributes, semconv.LEGACY_AGENT)
    if legacy_agent:
        return span.classify("agent", legacy_agent)
    return span.classify("other", span.name, agent)


def _is_output_function(span: RecordedSpan) -> bool:
    summary = span.attributes.get(semconv.SUMMARY)
    return span.name == _OUTPUT_FUNCTION or (
        isinstance(summary, str) and summary.startswith(_OUTPUT_FUNCTION)
    )


def _model(span: RecordedSpan) -> str:
    return text(span.attributes, *_MODEL_NAMES) or span.name


def _after(name: str, prefix: str) -> str:
    """The rest of a name after a prefix, which is in lower case; empty if the name starts otherwise."""
    return name[len(prefix) :].strip() if name.lower().startswith(prefix) else ""


_PARTS_OF_COST = (semconv.INPUT_COST, semconv.OUTPUT_COST)
_FURTHER = (semconv.COST, *_PARTS_OF_COST, *PARTS_OF_TOKENS.values())


def usage_of(attributes: Mapping[str, Any]) -> SpanUsage | None:
    """Tokens and cost of a model request, or None when it has none.

    Cached tokens are part of the input tokens (GenAI conventions). If there are more of them, the
    instrumentation did not count them in, and they are added.
    """
    input_tokens = count(attributes.get(semconv.INPUT_TOKENS))
    output_tokens = count(attributes.get(semconv.OUTPUT_TOKENS))
    if attributes.keys().isdisjoint(_FURTHER):  # as of most requests
        if input_tokens is None and output_tokens is None:
            return None
        return SpanUsage(input_tokens=input_tokens, output_tokens=output_tokens)
    cost = amount(attributes.get(semconv.COST))
    if cost is None:
        cost = sum_known(amount(attributes.get(each)) for each in _PARTS_OF_COST)
    if input_tokens is None and output_tokens is None and cost is None:
        return None
    parts = {field: count(attributes[name]) for field, name in PARTS_OF_TOKENS.items() if name in attributes}
    cached = (parts.get("cache_read_tokens") or 0) + (parts.get("cache_write_tokens") or 0)
    if input_tokens is not None and cached > input_tokens:
        input_tokens += cached
    return SpanUsage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost, **parts)


_NO_USAGE = SpanUsage()


def wrong_counts(attributes: Mapping[str, Any], usage: SpanUsage | None) -> str | None:
    """Describe what is wrong with the token counts of a model request; None if they are right.

    Args:
        attributes: Of the request.
        usage: What :func:`usage_of` makes of them.
    """
    used = usage or _NO_USAGE
    wrong = []
    if used.input_tokens is None and (stated := attributes.get(semconv.INPUT_TOKENS)) is not None:
        wrong.append(f"input tokens are {stated!r:.40}")
    if used.output_tokens is None and (stated := attributes.get(semconv.OUTPUT_TOKENS)) is not None:
        wrong.append(f"output tokens are {stated!r:.40}")
    if wrong:
        return f"its {' and its '.join(wrong)}, which is not a valid count; they are left out of all sums"
    if semconv.CONTRADICTS in attributes:
        counts = f"{used.input_tokens} input, {used.output_tokens} output"
        return f"its attributes give different token counts; used are {counts}"
    return None


def error_of(span: RecordedSpan) -> str:
    """Why a span failed: its status message, its exception or its error type."""
    if span.error:
        return span.error
    for name, attributes in span.events or ():
        if name == "exception":
            parts = [attributes.get(f"exception.{part}") for part in ("type", "message")]
            return ": ".join(part for part in parts if part and isinstance(part, str))
    return text(span.attributes, semconv.ERROR_TYPE) or ""


def spans_of(ordered: Sequence[RecordedSpan], origin: int) -> list[Span]:
    """Make the spans of a trace; a span inherits the agent of a parent listed before it.

    Args:
        ordered: The recorded spans of one trace, by start, classified.
        origin: Unix time of the trace's start, in nanoseconds.
    """
    made: list[Span] = []
    known = {span.id for span in ordered}
    callers: dict[str, str | None] = {}
    for span in ordered:
        id_, parent, start, end = span.id, span.parent, span.start, span.end
        kind, name = span.kind, span.title
        caller = None if parent is None else callers.get(parent)
        agent = name if kind == "agent" else span.agent or caller
        callers[id_] = name if kind == "agent" else caller
        failed = _failed(span)
        attributes: JsonObject = {"error": why} if failed and (why := error_of(span)) else {}
        if kind == "tool":
            retrieval = _retrieves(span)
            reranking = retrieval and text(span.attributes, semconv.OPENINFERENCE) == "RERANKER"
            marks = (("handoff", span.handoff), ("retrieval", retrieval), ("reranking", reranking))
            attributes |= {name: True for name, marked in marks if marked}
        input_, output = contents_of(span, outermost=parent not in known)
        made.append(
            Span(
                id=id_,
                kind=kind,
                name=name,
                parent=parent,
                agent=agent,
                start=None if start is None else (start - origin) / NANOSECONDS,
                end=None if end is None else (end - origin) / NANOSECONDS,
                ok=None if end is None else not failed,
                input=input_,
                output=output,
                usage=span.usage,
                attributes=attributes,
            )
        )
    return made


def _failed(span: RecordedSpan) -> bool:
    """Whether its status is an error, it states one, or an exception escaped it."""
    if span.failed or span.attributes.get(semconv.ERROR_TYPE):
        return True
    return any(
        name == "exception" and attributes.get("exception.escaped") in (True, "true", "True")
        for name, attributes in span.events or ()
    )


def _retrieves(span: RecordedSpan) -> bool:
    """Whether a call of a tool retrieves documents, or selects among retrieved ones."""
    attributes = span.attributes
    return attributes.get(semconv.OPERATION) == "retrieval" or (
        semconv.OPENINFERENCE in attributes and text(attributes, semconv.OPENINFERENCE) in _RETRIEVERS
    )
