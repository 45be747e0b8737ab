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
"""The agent, before the conventions knew agents: it makes a span without an operation that of its run."""
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
"""What went into a model or an agent; it repeats all that was said before. Read from own exports only."""
OUTPUT_MESSAGES: Final = "output messages"
MESSAGE_EVENTS: Final = "message events"
"""PydanticAI before its format 2: the events of a request as one JSON text."""
TOKENS_IN: Final = "tokens in"
TOKENS_OUT: Final = "tokens out"
COST: Final = "cost"
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
"""LangGraph's place of a node's run."""
STEP: Final = "step"
TRACELOOP: Final = "traceloop"
ENTITY: Final = "entity"
SUMMARY: Final = "summary"
"""What Logfire shows of a span."""
SPAN_TYPE: Final = "span type"
PENDING_PARENT: Final = "pending parent"
TRIVIUM_SPAN: Final = "trivium span"
TRIVIUM_TRACE: Final = "trivium trace"
TRIVIUM_PARENT: Final = "trivium parent"
PARENT_ATTRIBUTE: Final = "trivium.above"
"""Attribute that recording adds: the trace and the id of one of our own spans, below which a span began."""

CONTRADICTS: Final = "contradicts"
"""Two attributes say different numbers of the same tokens. It is no attribute of any convention."""

_COUNTS: Final = frozenset({TOKENS_IN, TOKENS_OUT})

MEANINGS: Final[Mapping[str, str]] = {
    "gen_ai.operation.name": OPERATION,
    "gen_ai.agent.name": AGENT,
    "agent_name": LEGACY_AGENT,
    "agent.name": AGENT,
    "gen_ai.agent.id": AGENT_ID,
    "gen_ai.agent.call.id": RUN,
    "gen_ai.tool.name": TOOL,
    "ai.toolCall.name": TOOL,
    "tool.name": TOOL,
    "mcp.method.name": MCP_METHOD,
    "gen_ai.data_source.id": SOURCE,
    "gen_ai.response.model": RESPONSE_MODEL,
    "gen_ai.request.model": REQUEST_MODEL,
    "llm.model_name": REQUEST_MODEL,
    "embedding.model_name": REQUEST_MODEL,
    "llm.request.type": REQUEST_TYPE,
    "input.value": INPUT,
    "traceloop.entity.input": INPUT,
    "gen_ai.retrieval.query.text": INPUT,
    "output.value": OUTPUT,
    "traceloop.entity.output": OUTPUT,
    "gen_ai.retrieval.documents": OUTPUT,
    "gen_ai.tool.call.arguments": ARGUMENTS,
    "tool_arguments": ARGUMENTS,
    "ai.toolCall.args": ARGUMENTS,
    "gen_ai.tool.call.result": RESULT,
    "tool_response": RESULT,
    "ai.toolCall.result": RESULT,
    "final_result": FINAL_RESULT,
    "gen_ai.input.messages": INPUT_MESSAGES,
    "gen_ai.output.messages": OUTPUT_MESSAGES,
    "gen_ai.completion.0.content": OUTPUT_MESSAGES,
    "gen_ai.completion": OUTPUT_MESSAGES,
    "events": MESSAGE_EVENTS,
    "gen_ai.usage.input_tokens": TOKENS_IN,
    "gen_ai.usage.prompt_tokens": TOKENS_IN,
    "llm.token_count.prompt": TOKENS_IN,
    "gen_ai.usage.output_tokens": TOKENS_OUT,
    "gen_ai.usage.completion_tokens": TOKENS_OUT,
    "llm.token_count.completion": TOKENS_OUT,
    "operation.cost": COST,
    "gen_ai.usage.cost": COST,
    "llm.cost.total": COST,
    "error.type": ERROR_TYPE,
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
    "traceloop.entity.name": ENTITY,
    "logfire.msg": SUMMARY,
    "logfire.span_type": SPAN_TYPE,
    "logfire.pending_parent_id": PENDING_PARENT,
    PARENT_ATTRIBUTE: TRIVIUM_PARENT,
    "trivium.span": TRIVIUM_SPAN,
    "trivium.trace": TRIVIUM_TRACE,
}


def recognised(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What of some attributes means something, by its meaning."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        if key in MEANINGS:
            add_attribute(found, MEANINGS[key], value)
    return found


def add_attribute(found: dict[str, Any], name: str, value: Any) -> None:
    """One more attribute by its meaning; of two counts of the same tokens that differ, it is noted."""
    if name in _COUNTS and found.get(name, value) != value:
        found[CONTRADICTS] = True
    found[name] = value


NANOSECONDS = 10**9


class RecordedSpan(msgspec.Struct, kw_only=True, gc=False):
    """A recorded span.

    Attributes:
        trace_id: Hexadecimal; spans of one id are one trace, wherever they were found.
        id: Hexadecimal, unique in its trace.
        parent: Id of the span above, or None.
        name: Its name.
        start: Nanoseconds since 1970, or None.
        end: Nanoseconds since 1970; None when it never ended.
        attributes: Those that mean something to us, as JSON values by their meaning (``wanted``).
        failed: Whether its status says so.
        error: What its status says.
        events: Name and attributes of each; None where there are none.
        scope: The instrumentation that recorded it, where it says its name.
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
