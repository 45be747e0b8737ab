"""Reads what frameworks record in a form of their own: agents, arguments, tokens, LangGraph's tool calls."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from trivium.traces.conversation import fields_of
from trivium.traces.langgraph import GraphRun, is_handoff
from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.contents import parsed
from trivium.traces.opentelemetry.semconv import RecordedSpan
from trivium.traces.readers.json_input import text
from trivium.traces.readers.langsmith import messages_of
from trivium.values import JsonObject, dict_, dicts

_FINISHING = frozenset({"final_answer", "finish"})
"""Tools with which a framework returns its answer; they are not tools of the agent."""
_MODULE, _DSPY_CALL = ".forward", ".__call__"
_AGENT_MODULES = frozenset({"ReAct.forward", "CodeAct.forward"})
_PREPARING = "._prepare_chat_with_tools"
_UNNAMED = "agent"
"""Name of an agent whose framework records none and that no tool runs."""

_STEP = ".run_agent_step"
_CALL = ".call_tool"
_CURRENT_AGENT = re.compile(r"\bcurrent_agent_name='([^']+)'")
_HANDOFF = "handoff"
_CONTENTS = (semconv.INPUT, semconv.OUTPUT)
_INTERNAL = re.compile(r'\{"(?:init_state|ctx)":|[A-Za-z_]\w*\(.*\)$', re.DOTALL)
_WRAPPING = frozenset({"args", "kwargs", "sanitize_inputs_outputs"})


def read_own_forms(spans: Sequence[RecordedSpan]) -> None:
    """Classify agents, tools, requests and hand-offs, and put contents and tokens in their places.

    Args:
        spans: The spans of one trace, by start, classified by their attributes; changed.
    """
    for scope, read in _READERS.items():
        if own := [span for span in spans if span.scope == scope]:
            read(own)


def _read_llama_index(spans: list[RecordedSpan]) -> None:
    """A step names its agent in the text of its input and output, and is a run of that agent.

    A tool call is a sibling of the steps and belongs to the agent of the step before; the tool ``handoff`` is
    a hand-off.
    """
    current_agent: dict[str | None, str] = {}
    agent_of_call: dict[str, str] = {}
    for span in spans:
        kind = span.kind
        if kind == "tool":
            _unwrap_arguments(span)
            _place_call(span, agent_of_call.get(span.parent or ""))
        elif span.name.endswith(_PREPARING):
            span.classify("other", span.name)
        elif span.name.endswith(_STEP) and (agent := _current_agent_of(span)) is not None:
            current_agent[span.parent] = agent
            span.classify("agent", agent)
        elif span.name.endswith(_CALL) and span.parent in current_agent:
            agent_of_call[span.id] = current_agent[span.parent]
        if kind == "other" and any(map(_is_internal, map(span.attributes.get, _CONTENTS))):
            span.attributes = {key: each for key, each in span.attributes.items() if key not in _CONTENTS}


def _read_calls(spans: list[RecordedSpan]) -> None:
    """Smolagents and DSPy wrap arguments, and return their answer through a tool of their own."""
    for span in spans:
        if span.kind == "tool":
            _unwrap_arguments(span)
            name = span.title.removesuffix(_DSPY_CALL)
            span.classify("other" if name in _FINISHING else "tool", name, span.agent)


def _read_dspy(spans: list[RecordedSpan]) -> None:
    """The outermost module is the agent."""
    _read_calls(spans)
    modules = {span.id for span in spans}
    for span in spans:
        outermost = span.name.endswith(_MODULE) and span.parent not in modules
        if span.kind == "other" and (outermost or span.name in _AGENT_MODULES):
            span.classify("agent", span.name.removesuffix(_MODULE))


def _read_haystack(spans: list[RecordedSpan]) -> None:
    """An agent has the name of the tool that runs it; a reply has its model and its tokens."""
    tool_above: dict[str | None, str] = {}
    for span in spans:
        tool_above[span.id] = span.title if span.kind == "tool" else tool_above.get(span.parent, _UNNAMED)
        if span.kind == "agent":
            span.classify("agent", tool_above[span.id])
        elif span.kind == "llm":
            _read_reply(span)


_READERS: dict[str, Callable[[list[RecordedSpan]], None]] = {
    "openinference.instrumentation.llama_index": _read_llama_index,
    "openinference.instrumentation.smolagents": _read_calls,
    "openinference.instrumentation.dspy": _read_dspy,
    "haystack": _read_haystack,
}
SCOPES = frozenset(_READERS)


def _is_internal(value: Any) -> bool:
    """Whether an input or output is the state or an event of a workflow, as Python prints it."""
    return isinstance(value, str) and _INTERNAL.match(value) is not None


def _place_call(span: RecordedSpan, agent: str | None) -> None:
    arguments = span.attributes.get(semconv.INPUT)
    receiver = arguments.get("to_agent") if isinstance(arguments, dict) and span.title == _HANDOFF else None
    if isinstance(receiver, str):
        span.classify(span.kind, span.title, agent, receiver)
    else:
        span.agent = span.agent or agent


def _read_reply(span: RecordedSpan) -> None:
    """The model and the tokens of a reply, which are in its metadata."""
    replies = dicts(dict_(parsed(span.attributes.get(semconv.OUTPUT_MESSAGES))).get("replies"))
    meta = dict_(replies[-1].get("meta")) if replies else {}
    usage = dict_(meta.get("usage"))
    counts = {
        semconv.INPUT_TOKENS: usage.get("prompt_tokens"),
        semconv.OUTPUT_TOKENS: usage.get("completion_tokens"),
    }
    span.attributes = {key: each for key, each in counts.items() if each is not None} | span.attributes
    if isinstance(model := meta.get("model"), str):
        span.title = model or span.title


def _current_agent_of(span: RecordedSpan) -> str | None:
    for key in (semconv.INPUT, semconv.OUTPUT):
        agents = _CURRENT_AGENT.findall(str(span.attributes.get(key) or ""))
        if agents:
            return str(agents[-1])
    return None


def _unwrap_arguments(span: RecordedSpan) -> None:
    """Unwrap the arguments and the result of a tool's span."""
    arguments: Any = parsed(span.attributes.get(semconv.INPUT))
    named = arguments.get("kwargs") if isinstance(arguments, dict) and arguments.keys() <= _WRAPPING else None
    if isinstance(named, dict) and not arguments.get("args"):
        span.attributes[semconv.INPUT] = {key: each for key, each in named.items() if key != "ctx"}
    result: Any = parsed(span.attributes.get(semconv.OUTPUT))
    if isinstance(result, dict) and "raw_output" in result and "tool_name" in result:
        span.attributes[semconv.OUTPUT] = result["raw_output"]


def requested_calls(span: RecordedSpan) -> dict[str, tuple[str | None, Any]]:
    """Tool and arguments of the calls that a model's response requests, by id."""
    answer = parsed(span.attributes.get(semconv.OUTPUT))
    if not isinstance(answer, dict):
        return {}
    return {
        name: (text(call, "name"), call.get("args"))
        for message in messages_of({"outputs": answer})
        for call in dicts(message.get("tool_calls"))
        if (name := text(call, "id")) is not None
    }


def as_tool_call(span: RecordedSpan, requested: dict[str, tuple[str | None, Any]]) -> str | None:
    """Replace the messages on a tool's span by its arguments and result; return the call's id.

    LangChain records a tool with one text argument as that text alone, without the argument's name, and with
    a message as output. The model call that requested it has the arguments, under the id that the message
    answers.

    Args:
        span: A tool span; changed.
        requested: The calls that models requested before, by id; the name of the tool must match, because ids
            alone are not unique.
    """
    message = _message(parsed(span.attributes.get(semconv.OUTPUT)))
    if message is None:
        return None
    call = text(message, "tool_call_id")
    name, arguments = requested.get(call or "", (None, None))
    recorded = parsed(span.attributes.get(semconv.INPUT))
    span.attributes[semconv.OUTPUT] = message.get("content")
    if name == span.title and isinstance(arguments, dict) and not isinstance(recorded, dict):
        span.attributes[semconv.INPUT] = arguments
    if message.get("status") == "error":
        span.failed, span.error = True, span.error or text(message, "content") or ""
    return call


def _message(output: Any) -> JsonObject | None:
    """The fields of a tool's message, whichever serialiser wrote it."""
    fields = fields_of(dict_(output))
    return fields if fields.get("type") == "tool" and "content" in fields else None


_PREFIX = "langgraph_"


def graph_runs(spans: Sequence[RecordedSpan]) -> list[GraphRun]:
    """LangGraph's metadata of each span; an empty list where no span has any.

    Args:
        spans: The spans of one trace, by start; changed where a tool has a message instead of a result, where
            OpenInference marks something with "agent" in its name as an agent, and where tools hand over.
    """
    metadata = [_metadata(span) for span in spans]
    if not any(key.startswith(_PREFIX) for each in metadata for key in each):
        return []
    requested: dict[str, tuple[str | None, Any]] = {}
    runs = []
    for span, fields in zip(spans, metadata, strict=True):
        calls = requested_calls(span) if span.kind == "llm" else {}
        answers: str | None = None
        if span.kind == "agent" and (fields or not span.title):
            span.classify("other", span.name)
        elif span.kind == "tool":
            answers = as_tool_call(span, requested)
            span.handoff = span.handoff or is_handoff(span.title, fields)
        requested |= calls
        runs.append(GraphRun.of(fields, requested=calls, call=answers))
    return runs


def _metadata(span: RecordedSpan) -> JsonObject:
    attributes = span.attributes
    path = attributes.get(semconv.CHECKPOINT_NAMESPACE)
    if isinstance(path, str):
        node = path.rpartition("|")[2].partition(":")[0]
        step = attributes.get(semconv.STEP)
        return {"langgraph_checkpoint_ns": path, "langgraph_node": node, "langgraph_step": step}
    metadata = parsed(attributes.get(semconv.METADATA))
    return metadata if isinstance(metadata, dict) else {}
