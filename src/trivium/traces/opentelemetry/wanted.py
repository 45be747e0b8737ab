"""Wanted attributes: every name that a convention reads. The others of a span are passed over unread."""

from typing import Final

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAMES: Final = ("gen_ai.agent.name", "agent_name", "gen_ai.agent.id")
RUN: Final = "gen_ai.agent.call.id"
"""PydanticAI's id of an agent's run, on all of its spans."""
TOOL_NAMES: Final = ("gen_ai.tool.name", "ai.toolCall.name")
CALL_ID: Final = "gen_ai.tool.call.id"
MODELS: Final = ("gen_ai.response.model", "gen_ai.request.model")
ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "tool_arguments", "ai.toolCall.args")
RESULTS: Final = ("gen_ai.tool.call.result", "tool_response", "ai.toolCall.result")
ANSWERS: Final = ("final_result", "gen_ai.output.messages")
SAID: Final = ("gen_ai.output.messages", "gen_ai.completion.0.content", "gen_ai.completion")
MESSAGE_EVENTS: Final = "events"
"""PydanticAI before its format 2: the events of a request as one JSON text."""
SOURCE: Final = "gen_ai.data_source.id"
QUERY: Final = "gen_ai.retrieval.query.text"
DOCUMENTS: Final = "gen_ai.retrieval.documents"
TOKENS_IN: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
TOKENS_OUT: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
)
COSTS: Final = ("operation.cost", "gen_ai.usage.cost", "llm.cost.total")
ERROR_TYPE: Final = "error.type"
MCP_METHOD: Final = "mcp.method.name"
TRANSFER: Final = "gen_ai.transfer.target.name"
CALLER: Final = "gen_ai.caller.name"
CALLER_TYPE: Final = "gen_ai.caller.type"
HANDOFF_FROM: Final = "gen_ai.handoff.from_agent"
HANDOFF_TO: Final = "gen_ai.handoff.to_agent"

OPENINFERENCE: Final = "openinference.span.kind"
OI_AGENT: Final = ("agent.name", "graph.node.id")
NODE: Final = "graph.node.id"
NODE_ABOVE: Final = "graph.node.parent_id"
OI_TOOL: Final = "tool.name"
OI_MODELS: Final = ("llm.model_name", "embedding.model_name")
OI_INPUT: Final = "input.value"
OI_OUTPUT: Final = "output.value"
METADATA: Final = "metadata"
"""LangChain's metadata of a run as a JSON text."""

TRACELOOP: Final = "traceloop.span.kind"
TL_NAME: Final = "traceloop.entity.name"
TL_INPUT: Final = "traceloop.entity.input"
TL_OUTPUT: Final = "traceloop.entity.output"
TL_PLACE: Final = "traceloop.association.properties.langgraph_checkpoint_ns"
TL_STEP: Final = "traceloop.association.properties.langgraph_step"
LLM_REQUEST: Final = "llm.request.type"

SPAN_TYPE: Final = "logfire.span_type"
PENDING_PARENT: Final = "logfire.pending_parent_id"

WANTED: Final = frozenset(
    {
        *AGENT_NAMES,
        *TOOL_NAMES,
        *MODELS,
        *ARGUMENTS,
        *RESULTS,
        *ANSWERS,
        *SAID,
        *TOKENS_IN,
        *TOKENS_OUT,
        *COSTS,
        *OI_AGENT,
        *OI_MODELS,
        OPERATION,
        RUN,
        CALL_ID,
        MESSAGE_EVENTS,
        SOURCE,
        QUERY,
        DOCUMENTS,
        ERROR_TYPE,
        MCP_METHOD,
        TRANSFER,
        CALLER,
        CALLER_TYPE,
        HANDOFF_FROM,
        HANDOFF_TO,
        OPENINFERENCE,
        NODE_ABOVE,
        OI_TOOL,
        OI_INPUT,
        OI_OUTPUT,
        METADATA,
        TRACELOOP,
        TL_NAME,
        TL_INPUT,
        TL_OUTPUT,
        TL_PLACE,
        TL_STEP,
        LLM_REQUEST,
        SPAN_TYPE,
        PENDING_PARENT,
    }
)
