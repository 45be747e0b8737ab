"""Counts what a file of traces holds (docs/definitions/files.md#trace-counts)."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from trivium.traces.process.handoffs import without_replies
from trivium.traces.trace import Trace, TraceProblem, max_depth
from trivium.values import sum_known


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What ``trivium traces show --json`` prints.

    Attributes:
        format: Name of the format that was read.
        traces: How many there are.
        spans: Spans of all traces.
        kinds: Spans by kind.
        agent_runs: Agent spans by agent.
        tools: Tool spans by tool, including hand-offs recorded as tool calls.
        failed_tool_spans: Tool spans that failed; unfinished ones are not counted.
        llm_input_tokens: Sum over llm spans; None if no span reports it.
        llm_output_tokens: Likewise.
        agent_to_agent: Sender, receiver and number of messages between agents, sorted. A result that is
            returned to the requester is not counted.
        orphans: Spans whose parent was missing.
        max_depth: Levels of the deepest branch, 1 for a root alone.
        problems: Everything that was repaired or flagged.
    """

    format: str
    traces: int
    spans: int
    kinds: dict[str, int]
    agent_runs: dict[str, int]
    tools: dict[str, int]
    failed_tool_spans: int
    llm_input_tokens: int | None
    llm_output_tokens: int | None
    agent_to_agent: list[tuple[str, str, int]]
    orphans: int
    max_depth: int
    problems: list[TraceProblem]


def trace_facts(traces: Sequence[Trace], *, format: str = "native") -> TraceFacts:  # noqa: A002
    """Counts over the traces of a file.

    Args:
        traces: Normalised traces.
        format: Name of the format that they were read from.
    """
    spans = [span for trace in traces for span in trace.spans]
    tools = [span for span in spans if span.kind == "tool"]
    usages = [span.usage for span in spans if span.kind == "llm" and span.usage is not None]
    problems = [problem for trace in traces for problem in trace.problems]
    between: Counter[tuple[str, str]] = Counter()
    for trace in traces:
        between.update((one.sender, one.receiver) for one in without_replies(trace.agent_messages))
    return TraceFacts(
        format=format,
        traces=len(traces),
        spans=len(spans),
        kinds=dict(Counter(span.kind for span in spans)),
        agent_runs=dict(Counter(span.agent or span.name for span in spans if span.kind == "agent")),
        tools=dict(Counter(span.name for span in tools)),
        failed_tool_spans=sum(span.ok is False for span in tools),
        llm_input_tokens=sum_known(usage.input_tokens for usage in usages),
        llm_output_tokens=sum_known(usage.output_tokens for usage in usages),
        agent_to_agent=[(*pair, number) for pair, number in sorted(between.items())],
        orphans=sum(problem.kind == "orphan" for problem in problems),
        max_depth=max((max_depth(trace.spans) for trace in traces), default=0),
        problems=problems,
    )


def handoffs_as_tools(traces: Sequence[Trace]) -> dict[str, int]:
    """Number of tool spans that are hand-offs rather than calls, by tool."""
    spans = [span for trace in traces for span in trace.spans if span.kind == "tool"]
    return dict(Counter(span.name for span in spans if span.attributes.get("handoff")))
