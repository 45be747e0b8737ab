"""Maps attribute names of GenAI, OpenInference and Traceloop conventions to one internal name each.

Names that mean the same in different conventions, or in versions of one, get the same internal name; other
attributes are ignored. The other modules of this package use internal names only.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

OPERATION: Final = "operation"
AGENT: Final = "agent"
LEGACY_AGENT: Final = "legacy agent"
"""Agent name from before the conventions had agents; a span that has it and no operation is that agent's
run."""
AGENT_ID: Final = "agent id"
RUN: Final = "run"
"""PydanticAI's id of an agent's run, on all of its spans."""
TOOL: Final = "tool"
MCP_METHOD: Final = "mcp method"
SOURCE: Final = "source"
RESPONSE_MODEL: Final = "response model"
REQUEST_MODEL: Final = "request model"
REQUEST_TYPE: Final = "request type"
INPUT: Final = "input"
OUTPUT: Final = "output"
ARGUMENTS: Final = "arguments"
RESULT: Final = "result"
FINAL_RESULT: Final = "final result"
INPUT_MESSAGES: Final = "input messages"
"""Input of a model or an agent; it repeats the whole conversation."""
OUTPUT_MESSAGES: Final = "output messages"
ALL_MESSAGES: Final = "all messages"
"""Input and output of an agent in one conversation."""
ASKED: Final = "asked"
ANSWERED: Final = "answered"
"""Input and output of an agent in attributes of one framework."""
JSON_INPUT: Final = "input as json"
JSON_OUTPUT: Final = "output as json"
"""Input and output that are always JSON: a text is in quotes."""
MESSAGE_ROLE: Final = "message role"
MESSAGE_TEXT: Final = "message text"
"""Role and text of a message of a model's input that has attributes of its own; its number follows."""
MOST_MESSAGES: Final = 128
"""Messages of a model's input that are read if each has attributes of its own."""
ANSWER_ROLE: Final = "answer role"
ANSWER_TEXT: Final = "answer text"
INPUT_TYPE: Final = "input type"
OUTPUT_TYPE: Final = "output type"
MESSAGE_EVENTS: Final = "message events"
"""PydanticAI before its format 2: the events of a request as one JSON text."""
INPUT_TOKENS: Final = "tokens in"
OUTPUT_TOKENS: Final = "tokens out"
CACHE_READ: Final = "cache read"
CACHE_WRITE: Final = "cache write"
INPUT_AUDIO: Final = "audio in"
REASONING: Final = "reasoning"
OUTPUT_AUDIO: Final = "audio out"
"""Classes of tokens, which are parts of the input tokens or of the output tokens."""
COST: Final = "cost"
INPUT_COST: Final = "cost in"
OUTPUT_COST: Final = "cost out"
"""Parts of the cost, for spans that do not state their sum."""
ERROR_TYPE: Final = "error type"
TRANSFER: Final = "transfer"
CALLER: Final = "caller"
CALLER_TYPE: Final = "caller type"
HANDOFF_FROM: Final = "handoff from"
HANDOFF_TO: Final = "handoff to"
OPENINFERENCE: Final = "openinference"
NODE: Final = "node"
PARENT_NODE: Final = "parent node"
METADATA: Final = "metadata"
"""LangChain's metadata of a run as a JSON text."""
CHECKPOINT_NAMESPACE: Final = "checkpoint namespace"
"""LangGraph's namespace of a node's run."""
STEP: Final = "step"
TRACELOOP: Final = "traceloop"
FRAMEWORK: Final = "framework"
"""Kind of a span in the words of one framework."""
CALL_ID: Final = "call id"
ENTITY: Final = "entity"
SUMMARY: Final = "summary"
"""The text that Logfire displays for a span."""
SPAN_TYPE: Final = "span type"
PENDING_PARENT: Final = "pending parent"
TRIVIUM_SPAN: Final = "trivium span"
TRIVIUM_TRACE: Final = "trivium trace"
TRIVIUM_PARENT: Final = "trivium parent"
PARENT_ATTRIBUTE: Final = "trivium.above"
"""Attribute that recording adds: trace and id of the parent, a span of ``trivium.trace``."""

CONTRADICTS: Final = "contradicts"
"""Set when two attributes give different counts of the same tokens; not part of any convention."""

_COUNTS: Final = frozenset({INPUT_TOKENS, OUTPUT_TOKENS})

INTERNAL_NAMES: Final[Mapping[str, str]] = {
    "gen_ai.operation.name": OPERATION,
    "gen_ai.agent.name": AGENT,
    "ai.telemetry.functionId": AGENT,
    "agent_name": LEGACY_AGENT,
    "agent.name": AGENT,
    "gen_ai.agent.id": AGENT_ID,
    "gen_ai.agent.call.id": RUN,
    "gen_ai.tool.name": TOOL,
    "ai.toolCall.name": TOOL,
    "tool.name": TOOL,
    "haystack.tool.name": TOOL,
    "gen_ai.tool.call.id": CALL_ID,
    "mcp.method.name": MCP_METHOD,
    "gen_ai.data_source.id": SOURCE,
    "gen_ai.response.model": RESPONSE_MODEL,
    "gen_ai.request.model": REQUEST_MODEL,
    "llm.model_name": REQUEST_MODEL,
    "embedding.model_name": REQUEST_MODEL,
    "llm.request.type": REQUEST_TYPE,
    "input.value": INPUT,
    "input.mime_type": INPUT_TYPE,
    "traceloop.entity.input": JSON_INPUT,
    "ai.toolCall.args": JSON_INPUT,
    "gen_ai.retrieval.query.text": INPUT,
    "output.value": OUTPUT,
    "output.mime_type": OUTPUT_TYPE,
    "traceloop.entity.output": JSON_OUTPUT,
    "ai.toolCall.result": JSON_OUTPUT,
    "gen_ai.retrieval.documents": OUTPUT,
    "gen_ai.tool.call.arguments": ARGUMENTS,
    "tool_arguments": ARGUMENTS,
    "gen_ai.tool.input": ARGUMENTS,
    "haystack.agent.step.tool.input": ARGUMENTS,
    "gcp.vertex.agent.tool_call_args": ARGUMENTS,
    "gen_ai.tool.call.result": RESULT,
    "tool_response": RESULT,
    "gen_ai.tool.output": RESULT,
    "haystack.agent.step.tool.output": RESULT,
    "gcp.vertex.agent.tool_response": RESULT,
    "final_result": FINAL_RESULT,
    "gen_ai.input.messages": INPUT_MESSAGES,
    "gen_ai.prompt": INPUT_MESSAGES,
    "ai.prompt.messages": INPUT_MESSAGES,
    "haystack.agent.step.llm.input": INPUT_MESSAGES,
    "gcp.vertex.agent.llm_request": INPUT_MESSAGES,
    "pydantic_ai.all_messages": ALL_MESSAGES,
    "all_messages_events": ALL_MESSAGES,
    "ai.prompt": ASKED,
    "haystack.agent.input": ASKED,
    "input": ASKED,
    "ai.response.text": ANSWERED,
    "ai.response.object": ANSWERED,
    "haystack.agent.output": ANSWERED,
    "crewai.crew.result": ANSWERED,
    "output": ANSWERED,
    "gen_ai.output.messages": OUTPUT_MESSAGES,
    "gen_ai.completion.0.content": OUTPUT_MESSAGES,
    "gen_ai.completion": OUTPUT_MESSAGES,
    "haystack.agent.step.llm.output": OUTPUT_MESSAGES,
    "gcp.vertex.agent.llm_response": OUTPUT_MESSAGES,
    "events": MESSAGE_EVENTS,
    "gen_ai.usage.input_tokens": INPUT_TOKENS,
    "gen_ai.usage.prompt_tokens": INPUT_TOKENS,
    "llm.token_count.prompt": INPUT_TOKENS,
    "gen_ai.usage.output_tokens": OUTPUT_TOKENS,
    "gen_ai.usage.completion_tokens": OUTPUT_TOKENS,
    "llm.token_count.completion": OUTPUT_TOKENS,
    "gen_ai.usage.cache_read.input_tokens": CACHE_READ,
    "gen_ai.usage.cache_read_input_tokens": CACHE_READ,
    "gen_ai.usage.cached_input_tokens": CACHE_READ,
    "gen_ai.usage.input_tokens.cached": CACHE_READ,
    "gen_ai.usage.details.cache_read_tokens": CACHE_READ,
    "llm.token_count.prompt_details.cache_read": CACHE_READ,
    "ai.usage.cachedInputTokens": CACHE_READ,
    "ai.usage.inputTokenDetails.cacheReadTokens": CACHE_READ,
    "gen_ai.usage.cache_creation.input_tokens": CACHE_WRITE,
    "gen_ai.usage.cache_creation_input_tokens": CACHE_WRITE,
    "gen_ai.usage.cache_write_input_tokens": CACHE_WRITE,
    "gen_ai.usage.input_tokens.cache_write": CACHE_WRITE,
    "gen_ai.usage.details.cache_write_tokens": CACHE_WRITE,
    "llm.token_count.prompt_details.cache_write": CACHE_WRITE,
    "ai.usage.inputTokenDetails.cacheWriteTokens": CACHE_WRITE,
    "gen_ai.usage.details.input_audio_tokens": INPUT_AUDIO,
    "llm.token_count.prompt_details.audio": INPUT_AUDIO,
    "gen_ai.usage.reasoning.output_tokens": REASONING,
    "gen_ai.usage.reasoning_tokens": REASONING,
    "gen_ai.usage.thinking_tokens": REASONING,
    "gen_ai.usage.output_tokens.reasoning": REASONING,
    "gen_ai.usage.details.reasoning_tokens": REASONING,
    "llm.token_count.completion_details.reasoning": REASONING,
    "ai.usage.reasoningTokens": REASONING,
    "ai.usage.outputTokenDetails.reasoningTokens": REASONING,
    "gen_ai.usage.details.output_audio_tokens": OUTPUT_AUDIO,
    "llm.token_count.completion_details.audio": OUTPUT_AUDIO,
    "operation.cost": COST,
    "gen_ai.cost.total_cost": COST,
    "gen_ai.cost.total_tokens": COST,
    "gen_ai.cost.input_cost": INPUT_COST,
    "gen_ai.cost.input_tokens": INPUT_COST,
    "gen_ai.cost.output_cost": OUTPUT_COST,
    "gen_ai.cost.output_tokens": OUTPUT_COST,
    "llm.cost.prompt": INPUT_COST,
    "llm.cost.completion": OUTPUT_COST,
    "gen_ai.usage.cost": COST,
    "llm.cost.total": COST,
    "error.type": ERROR_TYPE,
    "haystack.tool.error": ERROR_TYPE,
    "gen_ai.transfer.target.name": TRANSFER,
    "gen_ai.caller.name": CALLER,
    "gen_ai.caller.type": CALLER_TYPE,
    "gen_ai.handoff.from_agent": HANDOFF_FROM,
    "gen_ai.handoff.to_agent": HANDOFF_TO,
    "openinference.span.kind": OPENINFERENCE,
    "graph.node.id": NODE,
    "graph.node.parent_id": PARENT_NODE,
    "metadata": METADATA,
    "traceloop.association.properties.langgraph_checkpoint_ns": CHECKPOINT_NAMESPACE,
    "traceloop.association.properties.langgraph_step": STEP,
    "traceloop.span.kind": TRACELOOP,
    "mastra.span.type": FRAMEWORK,
    "ag2.span.type": FRAMEWORK,
    "ai.operationId": FRAMEWORK,
    "traceloop.entity.name": ENTITY,
    "logfire.msg": SUMMARY,
    "logfire.span_type": SPAN_TYPE,
    "logfire.pending_parent_id": PENDING_PARENT,
    PARENT_ATTRIBUTE: TRIVIUM_PARENT,
    "trivium.span": TRIVIUM_SPAN,
    "trivium.trace": TRIVIUM_TRACE,
    **{
        f"{prefix}.{index}.{part}": f"{name} {index}"
        for index in range(MOST_MESSAGES)
        for prefix, part, name in (
            ("llm.input_messages", "message.role", MESSAGE_ROLE),
            ("llm.input_messages", "message.content", MESSAGE_TEXT),
            ("llm.input_messages", "message.contents.0.message_content.text", MESSAGE_TEXT),
            ("gen_ai.prompt", "role", MESSAGE_ROLE),
            ("gen_ai.prompt", "content", MESSAGE_TEXT),
        )
    },
    "llm.output_messages.0.message.role": ANSWER_ROLE,
    "llm.output_messages.0.message.content": ANSWER_TEXT,
}


def recognised(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that Trivium reads, by internal name; others are dropped."""
    recognized: dict[str, Any] = {}
    for key, value in attributes.items():
        if key in INTERNAL_NAMES:
            add_attribute(recognized, INTERNAL_NAMES[key], value)
    return recognized


def add_attribute(recognized: dict[str, Any], name: str, value: Any) -> None:
    """Add an attribute by internal name; note it if two token counts contradict each other."""
    if name in _COUNTS and recognized.get(name, value) != value:
        recognized[CONTRADICTS] = True
    recognized[name] = value


NANOSECONDS = 10**9


class RecordedSpan(msgspec.Struct, kw_only=True, gc=False):
    """One span as it was recorded.

    Attributes:
        trace_id: Hexadecimal; spans with the same id form one trace.
        id: Hexadecimal, unique in its trace.
        parent: Id of the parent span, or None.
        name: Its name.
        start: Nanoseconds since 1970, or None.
        end: Nanoseconds since 1970; None if it did not end.
        attributes: JSON values by internal name.
        failed: Whether its status is an error.
        error: The message of its status.
        events: Name and attributes of each; None where there are none.
        scope: Name of the instrumentation that recorded it, or empty.
        remote: Whether its parent is in another process.
    """

    trace_id: str
    id: str
    parent: str | None = None
    name: str = ""
    start: int | None = None
    end: int | None = None
    attributes: dict[str, Any] = {}
    failed: bool = False
    error: str = ""
    events: list[tuple[str, dict[str, Any]]] | None = None
    scope: str = ""
    remote: bool = False


IS_REMOTE: Final = 0x300
"""Bits of the flags of a span: whether its parent is in another process is known, and it is."""


def is_remote(flags: Any) -> bool:
    """Whether the flags of a span say that its parent is in another process."""
    return isinstance(flags, int) and flags & IS_REMOTE == IS_REMOTE
