"""Reads AgentNeo's JSON log, the JSON of its dashboard and its tree form."""

from collections.abc import Sequence
from typing import Any

import msgspec

from trivium.errors import TraceError
from trivium.traces.normalize import normalise
from trivium.traces.readers.agentneo.spans import Tables, agentneo_trace
from trivium.traces.readers.json_input import decoded, moment, snake, text
from trivium.traces.readers.span_records import Record, SkippedRecords, unwrapped
from trivium.traces.trace import Span, SpanKind, Trace
from trivium.values import dict_, dicts

_LISTS = ("agent_calls", "llm_calls", "tool_calls")
_MARKS = ("project_info", "project_id", "errors", "system_info")
_FOREIGN = ("agent_interactions", "coordination_events", "execution_id")
"""Keys of Agents-eval runs, which also have tool calls and errors."""

_TABLES = {
    "agent_calls": "agent_call",
    "tool_calls": "tool_call",
    "llm_calls": "llm_call",
    "errors": "errors",
    "user_interactions": "user_interactions",
    "metrics": "metrics",
}


def sniff(document: Any) -> bool:
    """Whether a JSON value is a log, a trace of the dashboard, a tree, or a list of them."""
    if isinstance(document, list):
        return bool(document) and not isinstance(document[0], list) and sniff(document[0])
    return isinstance(document, dict) and (_is_log(document) or is_tree(document))


def _is_log(document: Record) -> bool:
    if any(key in document for key in _FOREIGN):
        return False
    lists = sum(isinstance(document.get(key), list) for key in _LISTS)
    return lists == len(_LISTS) or (lists > 0 and any(key in document for key in _MARKS))


def read_traces(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in order."""
    skipped = SkippedRecords("log of AgentNeo")
    traces = []
    for position, document in enumerate(unwrapped(documents), start=1):
        if isinstance(document, dict) and _is_log(document):
            traces.append(_log(document))
        elif isinstance(document, dict) and is_tree(document):
            traces.append(tree_trace(document))
        else:
            skipped.add(position)
    if not traces:
        raise TraceError(source, 'holds no log of AgentNeo (an object with "agent_calls" and "tool_calls")')
    problems = (*skipped.problems(), *traces[0].problems)
    return (
        [msgspec.structs.replace(traces[0], problems=problems), *traces[1:]] if skipped.problems() else traces
    )


def _log(document: Record) -> Trace:
    project = dict_(document.get("project_info"))
    tables = Tables(
        trace={key: document[key] for key in ("start_time", "end_time") if key in document},
        project=text(project, "project_name") or text(document, "project"),
    )
    for key, table in _TABLES.items():
        getattr(tables, table).extend(dicts(document.get(key)))
    for agent in dicts(document.get("agent_calls")):
        _add_nested_rows(agent, tables)
    return agentneo_trace(text(document, "id", "trace_id") or "", tables)


def _add_nested_rows(agent: Record, tables: Tables) -> None:
    """Add the calls and errors nested in an agent of the dashboard, with the agent's id."""
    for key, table in _TABLES.items():
        for row in dicts(agent.get(key)):
            getattr(tables, table).append({"agent_id": agent.get("id")} | row)


_KINDS: dict[str, SpanKind] = {
    "agent": "agent",
    "agent_call": "agent",
    "tool": "tool",
    "tool_call": "tool",
    "llm": "llm",
    "llm_call": "llm",
}


def is_tree(document: Record) -> bool:
    """Whether an object is the root of a tree of calls."""
    children = document.get("children")
    if not isinstance(children, list):
        return False
    types = [document.get("type"), *(child.get("type") for child in children[:5] if isinstance(child, dict))]
    return any(isinstance(type_, str) and type_ in (*_KINDS, "root") for type_ in types)


def tree_trace(document: Record) -> Trace:
    """Build the trace of a tree of calls; does not recurse."""
    spans: list[Span] = []
    stack: list[tuple[Record, str | None]] = [(document, None)]
    while stack:
        value, parent = stack.pop()
        node = snake(value)
        if node.get("type") != "root":
            spans.append(_span(f"node-{len(spans)}", node, parent))
            parent = spans[-1].id
        children = node.get("children")
        if isinstance(children, list):
            stack += [(child, parent) for child in reversed(children) if isinstance(child, dict)]
    return normalise(spans, trace_id=text(document, "trace_id", "id") or "")


def _span(id_: str, node: Record, parent: str | None) -> Span:
    kind = _KINDS.get(str(node.get("type")), "other")
    name = text(node, "name") or kind
    error = node.get("error")
    return Span(
        id=id_,
        kind=kind,
        name=name,
        parent=parent,
        agent=name if kind == "agent" else None,
        start=moment(node.get("start_time")),
        end=moment(node.get("end_time")),
        ok=not error,
        input=_either(node, "inputs", "input"),
        output=_either(node, "outputs", "output"),
        attributes={"error": error} if error else {},
    )


def _either(node: Record, *keys: str) -> Any:
    return next((decoded(node[key]) for key in keys if node.get(key) is not None), None)
