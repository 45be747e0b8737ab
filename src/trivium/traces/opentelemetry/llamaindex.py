"""Finds agents and tool arguments in OpenInference spans of LlamaIndex and smolagents."""

import re
from typing import Any

import msgspec

from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.opentelemetry.spans import Reading, parsed

LLAMA_INDEX = "openinference.instrumentation.llama_index"
SMOLAGENTS = "openinference.instrumentation.smolagents"
SCOPES = frozenset({LLAMA_INDEX, SMOLAGENTS})

_STEP = ".run_agent_step"
_CALL = ".call_tool"
_AT_WORK = re.compile(r"\bcurrent_agent_name='([^']+)'")
_HANDOFF = "handoff"
_WRAPPING = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})


def name_workflow_agents(spans: list[RecordedSpan], readings: list[Reading]) -> None:
    """Find the agents in LlamaIndex workflows, and change the readings accordingly.

    A step names its agent in the text of its input and output, and is a run of that agent. A tool call is a
    sibling of the steps and belongs to the agent of the step before; the tool ``handoff`` is a hand-off.

    Args:
        spans: The spans of one trace, by start; changed, because arguments are nested in others.
        readings: The classification of each; changed.
    """
    at_work: dict[str | None, str] = {}
    of_call: dict[str, str] = {}
    for index, (span, what) in enumerate(zip(spans, readings, strict=True)):
        if span.scope not in SCOPES:
            continue
        if what.kind == "tool":
            spans[index] = span = _with_arguments(span)  # noqa: PLW2901
            readings[index] = _called(span, what, of_call)
        elif span.name.endswith(_STEP) and (agent := _named(span)) is not None:
            at_work[span.parent] = agent
            readings[index] = Reading("agent", agent)
        elif span.name.endswith(_CALL) and span.parent in at_work:
            of_call[span.id] = at_work[span.parent]


def _called(span: RecordedSpan, what: Reading, of_call: dict[str, str]) -> Reading:
    if span.scope == SMOLAGENTS:
        # smolagents returns its answer through a tool of its own, which is not a tool call of the agent.
        return Reading("other", what.name) if what.name == "final_answer" else what
    agent = of_call.get(span.parent or "")
    arguments = span.attributes.get(semconv.INPUT)
    receiver = arguments.get("to_agent") if isinstance(arguments, dict) and what.name == _HANDOFF else None
    if not isinstance(receiver, str):
        return msgspec.structs.replace(what, agent=what.agent or agent)
    return msgspec.structs.replace(what, agent=agent, receiver=receiver, handoff=True)


def _named(span: RecordedSpan) -> str | None:
    for key in (semconv.INPUT, semconv.OUTPUT):
        found = _AT_WORK.findall(str(span.attributes.get(key) or ""))
        if found:
            return str(found[-1])
    return None


def _with_arguments(span: RecordedSpan) -> RecordedSpan:
    """Unwrap the arguments and the result of a tool's span."""
    attributes = dict(span.attributes)
    given: Any = parsed(attributes.get(semconv.INPUT))
    named = given.get("kwargs") if isinstance(given, dict) and given.keys() <= _WRAPPING else None
    if isinstance(named, dict) and not given.get("args"):
        attributes[semconv.INPUT] = {key: each for key, each in named.items() if key != "ctx"}
    result: Any = parsed(attributes.get(semconv.OUTPUT))
    if isinstance(result, dict) and "raw_output" in result and "tool_name" in result:
        attributes[semconv.OUTPUT] = result["raw_output"]
    return msgspec.structs.replace(span, attributes=attributes)
