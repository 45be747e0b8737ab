"""The tree: the nested form that AgentNeo's evaluations look at (type, name, inputs, outputs, children)."""

from typing import Any

from trivium.traces.readers.fields import decoded, moment, snake, text
from trivium.traces.readers.records import Record
from trivium.traces.repair import normalise
from trivium.traces.trace import Span, SpanKind, Trace

_KINDS: dict[str, SpanKind] = {
    "agent": "agent",
    "agent_call": "agent",
    "tool": "tool",
    "tool_call": "tool",
    "llm": "llm",
    "llm_call": "llm",
}


def is_tree(document: Record) -> bool:
    """Whether an object is the root of such a tree."""
    children = document.get("children")
    if not isinstance(children, list):
        return False
    types = [document.get("type"), *(child.get("type") for child in children[:5] if isinstance(child, dict))]
    return any(isinstance(type_, str) and type_ in (*_KINDS, "root") for type_ in types)


def tree_trace(document: Record) -> Trace:
    """The trace of a tree; it is walked without recursion."""
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
