"""The log: AgentNeo's JSON, as its tracer, its dashboard and its evaluations write it."""

from collections.abc import Sequence
from typing import Any

from trivium.errors import TraceError
from trivium.traces.readers.agentneo.calls import Tables, agentneo_trace
from trivium.traces.readers.agentneo.tree import is_tree, tree_trace
from trivium.traces.readers.fields import dict_, dicts, text
from trivium.traces.readers.records import Left, Record, unwrapped
from trivium.traces.trace import Trace

_LISTS = ("agent_calls", "llm_calls", "tool_calls")
_MARKS = ("project_info", "project_id", "errors", "system_info")
_FOREIGN = ("agent_interactions", "coordination_events", "execution_id")
"""Keys of Agents-eval's runs, which have tool calls and errors too."""

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


def read(documents: Sequence[Any], source: str) -> list[Trace]:
    """The traces of a file, in order."""
    left = Left("log of AgentNeo")
    traces = []
    for place, document in enumerate(unwrapped(documents), start=1):
        if isinstance(document, dict) and _is_log(document):
            traces.append(_log(document))
        elif isinstance(document, dict) and is_tree(document):
            traces.append(tree_trace(document))
        else:
            left.out(place)
    if not traces:
        raise TraceError(source, 'holds no log of AgentNeo (an object with "agent_calls" and "tool_calls")')
    import msgspec

    problems = (*left.problems(), *traces[0].problems)
    return [msgspec.structs.replace(traces[0], problems=problems), *traces[1:]] if left.problems() else traces


def _log(document: Record) -> Trace:
    project = dict_(document.get("project_info"))
    tables = Tables(
        trace={key: document[key] for key in ("start_time", "end_time") if key in document},
        project=text(project, "project_name") or text(document, "project"),
    )
    for key, table in _TABLES.items():
        getattr(tables, table).extend(dicts(document.get(key)))
    for agent in dicts(document.get("agent_calls")):
        _take_in(agent, tables)
    return agentneo_trace(text(document, "id", "trace_id") or "", tables)


def _take_in(agent: Record, tables: Tables) -> None:
    """The calls and errors that an agent of the dashboard holds, with its id."""
    for key, table in _TABLES.items():
        for row in dicts(agent.get(key)):
            getattr(tables, table).append({"agent_id": agent.get("id")} | row)
