"""Counted calls: the tool calls of a trace that enter its figures (spec: metrics, T3, counting rules)."""

from collections.abc import Sequence

from trivium.metrics.graph.memo import once
from trivium.suites.settings import ToolSettings
from trivium.traces.trace import Span, Trace

ALL_CALLS = ToolSettings()


def counted_calls(trace: Trace, tools: ToolSettings) -> tuple[Span, ...]:
    """Tool calls ordered by start, without those that the suite ignores."""
    if not tools.ignore:
        return trace.tool_calls
    return once(
        trace,
        ("calls", tools.ignore),
        lambda: tuple(call for call in trace.tool_calls if call.name not in tools.ignore),
    )


def tool_sequence(trace: Trace, tools: ToolSettings = ALL_CALLS) -> tuple[str, ...]:
    """Names of the tools called, in order."""
    return once(
        trace,
        ("sequence", tools.ignore),
        lambda: tuple([call.name for call in counted_calls(trace, tools)]),
    )


def tool_walks(trace: Trace, tools: ToolSettings) -> list[tuple[str, ...]]:
    """The tool sequences that the tool graph is made of: one, or with ``by: agent`` one an agent."""
    if tools.by == "run":
        sequence = tool_sequence(trace, tools)
        return [sequence] if sequence else []
    walks: dict[str | None, list[str]] = {}
    for call in counted_calls(trace, tools):
        walks.setdefault(call.agent, []).append(call.name)
    return [tuple(walk) for walk in walks.values()]


def logical_calls(trace: Trace, tools: ToolSettings) -> int:
    """Number of calls, with a retry and what it retries counted as one.

    A retry is a call of the same tool as the call before it of the same agent, when that one failed.
    """
    return once(trace, ("logical", tools.ignore), lambda: _without_retries(counted_calls(trace, tools)))


def _without_retries(calls: Sequence[Span]) -> int:
    retries = 0
    latest: dict[str | None, Span] = {}
    for call in calls:
        before = latest.get(call.agent)
        if before is not None and before.ok is False and before.name == call.name:
            retries += 1
        latest[call.agent] = call
    return len(calls) - retries
