"""Finds agents and tool arguments in OpenInference spans of LlamaIndex and smolagents."""

import re
from typing import Any

import msgspec

from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.contents import parsed
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.opentelemetry.spans import SpanRole

LLAMA_INDEX = "openinference.instrumentation.llama_index"
SMOLAGENTS = "openinference.instrumentation.smolagents"
SCOPES = frozenset({LLAMA_INDEX, SMOLAGENTS})

_STEP = ".run_agent_step"
_CALL = ".call_tool"
_CURRENT_AGENT = re.compile(r"\bcurrent_agent_name='([^']+)'")
_HANDOFF = "handoff"
_CONTENTS = (semconv.INPUT, semconv.OUTPUT)
_INTERNAL = re.compile(r'\{"(?:init_state|ctx)":|[A-Za-z_]\w*\(.*\)$', re.DOTALL)
_WRAPPING = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})


def name_workflow_agents(spans: list[RecordedSpan], roles: list[SpanRole]) -> None:
    """Set the roles of agents, tools and hand-offs in LlamaIndex workflows.

    A step names its agent in the text of its input and output, and is a run of that agent. A tool call is a
    sibling of the steps and belongs to the agent of the step before; the tool ``handoff`` is a hand-off.

    Args:
        spans: The spans of one trace, by start; changed in place where tool arguments are wrapped.
        roles: The classification of each; changed.
    """
    current_agent: dict[str | None, str] = {}
    agent_of_call: dict[str, str] = {}
    for index, (span, role) in enumerate(zip(spans, roles, strict=True)):
        if span.scope not in SCOPES:
            continue
        if role.kind == "tool":
            spans[index] = span = _with_arguments(span)  # noqa: PLW2901
            roles[index] = _tool_role(span, role, agent_of_call)
        elif span.name.endswith(_STEP) and (agent := _current_agent_of(span)) is not None:
            current_agent[span.parent] = agent
            roles[index] = SpanRole("agent", agent)
        elif span.name.endswith(_CALL) and span.parent in current_agent:
            agent_of_call[span.id] = current_agent[span.parent]
        if role.kind == "other" and any(map(_is_internal, map(span.attributes.get, _CONTENTS))):
            attributes = {key: each for key, each in span.attributes.items() if key not in _CONTENTS}
            spans[index] = msgspec.structs.replace(span, attributes=attributes)


def _is_internal(value: Any) -> bool:
    """Whether an input or output is the state or an event of a workflow, as Python prints it."""
    return isinstance(value, str) and _INTERNAL.match(value) is not None


def _tool_role(span: RecordedSpan, role: SpanRole, agent_of_call: dict[str, str]) -> SpanRole:
    if span.scope == SMOLAGENTS:
        # smolagents returns its answer through a tool of its own, which is not a tool call of the agent.
        return SpanRole("other", role.name) if role.name == "final_answer" else role
    agent = agent_of_call.get(span.parent or "")
    arguments = span.attributes.get(semconv.INPUT)
    receiver = arguments.get("to_agent") if isinstance(arguments, dict) and role.name == _HANDOFF else None
    if not isinstance(receiver, str):
        return msgspec.structs.replace(role, agent=role.agent or agent)
    return msgspec.structs.replace(role, agent=agent, receiver=receiver, handoff=True)


def _current_agent_of(span: RecordedSpan) -> str | None:
    for key in (semconv.INPUT, semconv.OUTPUT):
        agents = _CURRENT_AGENT.findall(str(span.attributes.get(key) or ""))
        if agents:
            return str(agents[-1])
    return None


def _with_arguments(span: RecordedSpan) -> RecordedSpan:
    """Unwrap the arguments and the result of a tool's span."""
    attributes = dict(span.attributes)
    arguments: Any = parsed(attributes.get(semconv.INPUT))
    named = arguments.get("kwargs") if isinstance(arguments, dict) and arguments.keys() <= _WRAPPING else None
    if isinstance(named, dict) and not arguments.get("args"):
        attributes[semconv.INPUT] = {key: each for key, each in named.items() if key != "ctx"}
    result: Any = parsed(attributes.get(semconv.OUTPUT))
    if isinstance(result, dict) and "raw_output" in result and "tool_name" in result:
        attributes[semconv.OUTPUT] = result["raw_output"]
    return msgspec.structs.replace(span, attributes=attributes)
