"""Small traces written for the tests."""

from typing import Any

from trivium.traces.trace import Span, Trace


def agent(id: str, name: str, parent: str | None = None, **fields: Any) -> Span:
    """An agent's run."""
    return Span(id=id, kind="agent", name=name, parent=parent, **fields)


def tool(id: str, name: str, parent: str | None = None, **fields: Any) -> Span:
    """A tool call."""
    return Span(id=id, kind="tool", name=name, parent=parent, **fields)


def calls(*names: str, **fields: Any) -> Trace:
    """A trace of tool calls and nothing else."""
    return Trace(spans=tuple(tool(str(index), name, **fields) for index, name in enumerate(names)))


def kinds(trace: Trace) -> list[tuple[str, str | None]]:
    """What was repaired, and where."""
    return [(problem.kind, problem.span) for problem in trace.problems]
