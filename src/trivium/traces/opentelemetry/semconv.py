"""The attributes that are read, of the GenAI, OpenInference and Traceloop conventions and of frameworks.

Attributes that mean the same in different conventions, or in versions of one, are read as the first of them;
other attributes are ignored. ``docs/trace-formats.md#otlp`` says the same in the words of its readers.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from trivium.any_object import encode, plain_text
from trivium.traces.trace import SpanKind, SpanUsage
from trivium.values import JsonObject

READ_AS: Final[dict[str, str]] = {}
"""The name under which the other modules of this package find each attribute."""


def _attribute(*names: str) -> str:
    """Have attributes read as the first of them."""
    READ_AS.update(dict.fromkeys(names, names[0]))
    return names[0]


# The kind of a span: in the words of the conventions, then of frameworks.
OPERATION: Final = _attribute("gen_ai.operation.name")
OPENINFERENCE: Final = _attribute("openinference.span.kind")
TRACELOOP: Final = _attribute("traceloop.span.kind")
FRAMEWORK: Final = _attribute("mastra.span.type", "ag2.span.type", "ai.operationId")
REQUEST_TYPE: Final = _attribute("llm.request.type")
MCP_METHOD: Final = _attribute("mcp.method.name")

# The conversation that a trace is a turn of.
CONVERSATION: Final = _attribute("gen_ai.conversation.id")
SESSION: Final = _attribute(
    "session.id", "langfuse.session.id", "traceloop.association.properties.session_id"
)

# Names.
AGENT: Final = _attribute("gen_ai.agent.name", "agent.name", "ai.telemetry.functionId")
LEGACY_AGENT: Final = _attribute("agent_name")
"""From before the conventions had agents; a span that has it and no operation is that agent's run."""
AGENT_ID: Final = _attribute("gen_ai.agent.id")
NODE: Final = _attribute("graph.node.id")
ENTITY: Final = _attribute("traceloop.entity.name")
RUN: Final = _attribute("gen_ai.agent.call.id")
"""PydanticAI's id of an agent's run, on all of its spans."""
TOOL: Final = _attribute("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "haystack.tool.name")
CALL_ID: Final = _attribute("gen_ai.tool.call.id")
SOURCE: Final = _attribute("gen_ai.data_source.id")
RESPONSE_MODEL: Final = _attribute("gen_ai.response.model")
REQUEST_MODEL: Final = _attribute("gen_ai.request.model", "llm.model_name", "embedding.model_name")

# What a model or an agent received; it repeats the whole conversation.
INPUT_MESSAGES: Final = _attribute(
    "gen_ai.input.messages",
    "gen_ai.prompt",
    "ai.prompt.messages",
    "haystack.agent.step.llm.input",
    "gcp.vertex.agent.llm_request",
)
MESSAGE_ROLE: Final = "message role"
MESSAGE_TEXT: Final = "message text"
"""Role and text of a message of a model's input that has attributes of its own; its number follows."""
MOST_MESSAGES: Final = 128
"""Messages of a model's input that are read if each has attributes of its own."""
for _index in range(MOST_MESSAGES):
    for _name, _prefix, _part in (
        (MESSAGE_ROLE, "llm.input_messages", "message.role"),
        (MESSAGE_TEXT, "llm.input_messages", "message.content"),
        (MESSAGE_TEXT, "llm.input_messages", "message.contents.0.message_content.text"),
        (MESSAGE_ROLE, "gen_ai.prompt", "role"),
        (MESSAGE_TEXT, "gen_ai.prompt", "content"),
    ):
        READ_AS[f"{_prefix}.{_index}.{_part}"] = f"{_name} {_index}"
INPUT: Final = _attribute("input.value", "gen_ai.retrieval.query.text")
INPUT_TYPE: Final = _attribute("input.mime_type")
JSON_INPUT: Final = _attribute("ai.toolCall.args", "traceloop.entity.input")
"""Always JSON, as ``JSON_OUTPUT`` is: a text is in quotes."""
ASKED: Final = _attribute("ai.prompt", "haystack.agent.input", "input")
ALL_MESSAGES: Final = _attribute("pydantic_ai.all_messages", "all_messages_events")
"""Input and output of an agent in one conversation."""

# What a model or an agent returned.
FINAL_RESULT: Final = _attribute("final_result")
OUTPUT_MESSAGES: Final = _attribute(
    "gen_ai.output.messages",
    "gen_ai.completion",
    "gen_ai.completion.0.content",
    "haystack.agent.step.llm.output",
    "gcp.vertex.agent.llm_response",
)
ANSWER_ROLE: Final = _attribute("llm.output_messages.0.message.role")
ANSWER_TEXT: Final = _attribute("llm.output_messages.0.message.content")
MESSAGE_EVENTS: Final = _attribute("events")
"""PydanticAI before its format 2: the events of a request as one JSON text."""
OUTPUT: Final = _attribute("output.value", "gen_ai.retrieval.documents")
OUTPUT_TYPE: Final = _attribute("output.mime_type")
DOCUMENT: Final = "document"
"""How the names begin of the parts of a retrieved document that have attributes of their own."""
DOCUMENT_PARTS: Final = ("id", "content", "score", "metadata")
MOST_DOCUMENTS: Final = 256
"""Documents of a call that are read if each has attributes of its own; one more is noticed."""
for _index in range(MOST_DOCUMENTS + 1):
    for _prefix in ("retrieval.documents", "reranker.output_documents"):
        for _part in DOCUMENT_PARTS:
            READ_AS[f"{_prefix}.{_index}.document.{_part}"] = f"{DOCUMENT} {_part} {_index}"
JSON_OUTPUT: Final = _attribute("ai.toolCall.result", "traceloop.entity.output")
ANSWERED: Final = _attribute(
    "ai.response.text", "ai.response.object", "haystack.agent.output", "crewai.crew.result", "output"
)

# Arguments and result of a tool.
ARGUMENTS: Final = _attribute(
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "gen_ai.tool.input",
    "haystack.agent.step.tool.input",
    "gcp.vertex.agent.tool_call_args",
)
RESULT: Final = _attribute(
    "gen_ai.tool.call.result",
    "tool_response",
    "gen_ai.tool.output",
    "haystack.agent.step.tool.output",
    "gcp.vertex.agent.tool_response",
)

# Tokens, and the classes of tokens that are parts of the input tokens or of the output tokens.
INPUT_TOKENS: Final = _attribute(
    "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"
)
OUTPUT_TOKENS: Final = _attribute(
    "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"
)
CACHE_READ: Final = _attribute(
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.cached_input_tokens",
    "gen_ai.usage.input_tokens.cached",
    "gen_ai.usage.details.cache_read_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
    "ai.usage.inputTokenDetails.cacheReadTokens",
)
CACHE_WRITE: Final = _attribute(
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
    "gen_ai.usage.input_tokens.cache_write",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
)
INPUT_AUDIO: Final = _attribute(
    "gen_ai.usage.details.input_audio_tokens", "llm.token_count.prompt_details.audio"
)
REASONING: Final = _attribute(
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.thinking_tokens",
    "gen_ai.usage.output_tokens.reasoning",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "ai.usage.reasoningTokens",
    "ai.usage.outputTokenDetails.reasoningTokens",
)
OUTPUT_AUDIO: Final = _attribute(
    "gen_ai.usage.details.output_audio_tokens", "llm.token_count.completion_details.audio"
)

# Cost, or the parts of it for spans that do not state their sum.
COST: Final = _attribute(
    "operation.cost",
    "gen_ai.cost.total_cost",
    "gen_ai.cost.total_tokens",
    "gen_ai.usage.cost",
    "llm.cost.total",
)
INPUT_COST: Final = _attribute("gen_ai.cost.input_cost", "gen_ai.cost.input_tokens", "llm.cost.prompt")
OUTPUT_COST: Final = _attribute("gen_ai.cost.output_cost", "gen_ai.cost.output_tokens", "llm.cost.completion")

ERROR_TYPE: Final = _attribute("error.type", "haystack.tool.error")

# Messages between agents.
TRANSFER: Final = _attribute("gen_ai.transfer.target.name")
CALLER: Final = _attribute("gen_ai.caller.name")
CALLER_TYPE: Final = _attribute("gen_ai.caller.type")
HANDOFF_FROM: Final = _attribute("gen_ai.handoff.from_agent")
HANDOFF_TO: Final = _attribute("gen_ai.handoff.to_agent")
PARENT_NODE: Final = _attribute("graph.node.parent_id")

# LangChain's metadata of a run as a JSON text; LangGraph's namespace and step of a node's run.
METADATA: Final = _attribute("metadata")
CHECKPOINT_NAMESPACE: Final = _attribute("traceloop.association.properties.langgraph_checkpoint_ns")
STEP: Final = _attribute("traceloop.association.properties.langgraph_step")

SUMMARY: Final = _attribute("logfire.msg")
"""The text that Logfire displays for a span."""
SPAN_TYPE: Final = _attribute("logfire.span_type")
PENDING_PARENT: Final = _attribute("logfire.pending_parent_id")

TRIVIUM_SPAN: Final = _attribute("trivium.span")
TRIVIUM_TRACE: Final = _attribute("trivium.trace")
TRIVIUM_CASE: Final = _attribute("trivium.case.id")
TRIVIUM_PARENT: Final = _attribute("trivium.above")
"""Attribute that recording adds: trace and id of the parent, a span of ``trivium.trace``."""

CONTRADICTS: Final = "contradicts"
"""Set when two attributes give different counts of the same tokens; not part of any convention."""

_COUNTS: Final = frozenset({INPUT_TOKENS, OUTPUT_TOKENS})

PARTS_OF_TOKENS: Final[Mapping[str, str]] = {
    "cache_read_tokens": CACHE_READ,
    "cache_write_tokens": CACHE_WRITE,
    "input_audio_tokens": INPUT_AUDIO,
    "reasoning_tokens": REASONING,
    "output_audio_tokens": OUTPUT_AUDIO,
}
USAGE: Final[Mapping[str, str]] = {
    "input_tokens": INPUT_TOKENS,
    "output_tokens": OUTPUT_TOKENS,
    **PARTS_OF_TOKENS,
    "cost_usd": COST,
}
"""The attribute of each field of ``SpanUsage``."""

CONTENTS: Final[Mapping[SpanKind, tuple[str, str]]] = {
    "agent": (INPUT_MESSAGES, OUTPUT_MESSAGES),
    "llm": (INPUT_MESSAGES, OUTPUT_MESSAGES),
    "tool": (ARGUMENTS, RESULT),
    "other": (INPUT, OUTPUT),
}
"""The attributes under which Trivium writes the input and the output of a span."""


def recognised(attributes: Iterable[tuple[str, Any]]) -> JsonObject:
    """The attributes that are read, each under the name that it is read as; others are dropped."""
    recognized: JsonObject = {}
    for key, value in attributes:
        if key in READ_AS:
            add_attribute(recognized, READ_AS[key], value)
    return recognized


def add_attribute(recognized: JsonObject, name: str, value: Any) -> None:
    """Add an attribute; note it if two token counts contradict each other."""
    if name in _COUNTS and recognized.get(name, value) != value:
        recognized[CONTRADICTS] = True
    recognized[name] = value


NANOSECONDS = 10**9


class RecordedSpan(msgspec.Struct, kw_only=True, gc=False):
    """One span as it was recorded, and what it is understood to be.

    Attributes:
        trace_id: Hexadecimal; spans with the same id form one trace.
        id: Hexadecimal, unique in its trace.
        parent: Id of the parent span, or None.
        name: Its name.
        start: Nanoseconds since 1970, or None.
        end: Nanoseconds since 1970; None if it did not end.
        attributes: JSON values, each under the name that ``READ_AS`` gives it.
        failed: Whether its status is an error.
        error: The message of its status.
        events: Name and attributes of each; None where there are none.
        scope: Name of the instrumentation that recorded it, or empty.
        remote: Whether its parent is in another process.
        kind: The kind of the span.
        title: The agent, tool or model; empty for an agent without a name.
        agent: The agent that did the work, if the span names one.
        receiver: The receiving agent of a hand-off recorded as a tool call, if named.
        handoff: Whether it is a hand-off recorded as a tool call.
        usage: Tokens and cost, as far as they are counted here.
    """

    trace_id: str
    id: str
    parent: str | None = None
    name: str = ""
    start: int | None = None
    end: int | None = None
    attributes: JsonObject = {}
    failed: bool = False
    error: str = ""
    events: list[tuple[str, JsonObject]] | None = None
    scope: str = ""
    remote: bool = False
    kind: SpanKind = "other"
    title: str = ""
    agent: str | None = None
    receiver: str | None = None
    handoff: bool = False
    usage: SpanUsage | None = None

    def classify(
        self, kind: SpanKind, title: str, agent: str | None = None, receiver: str | None = None
    ) -> None:
        """Say what it is; with a receiver, a hand-off."""
        self.kind, self.title, self.agent = kind, title, agent
        self.receiver, self.handoff = receiver, receiver is not None


IS_REMOTE: Final = 0x300
"""Bits of the flags of a span: whether its parent is in another process is known, and it is."""


def is_remote(flags: Any) -> bool:
    """Whether the flags of a span say that its parent is in another process."""
    return isinstance(flags, int) and flags & IS_REMOTE == IS_REMOTE


def tagged_value(value: Any, text: Callable[[str], str] = plain_text) -> JsonObject:
    """The value of an attribute as OTLP/JSON has it; values of other types are converted first.

    Args:
        value: Any object.
        text: Makes the text that is written of one.
    """
    kind = type(value)
    if kind is str:
        return {"stringValue": text(value)}
    if kind is bool:
        return {"boolValue": value}
    if kind is int and value.bit_length() < 64:  # the range of OTLP's integers
        return {"intValue": str(value)}
    if kind is float:
        return {"doubleValue": value}
    if kind is list or kind is tuple:
        return {"arrayValue": {"values": [tagged_value(each, text) for each in value]}}
    if kind is dict:
        values = [{"key": plain_text(key), "value": tagged_value(each, text)} for key, each in value.items()]
        return {"kvlistValue": {"values": values}}
    if kind is int or value is None:
        return {"stringValue": "" if value is None else plain_text(value)}
    return tagged_value(msgspec.json.decode(encode(value)), text)
