"""Counts what a file of traces holds, adds up their process metrics, and describes the slowest trace.

Counts: docs/definitions/files.md#trace-counts.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add

import msgspec

from trivium.traces.outcome import clock_zero
from trivium.traces.process.handoffs import PingPong, without_replies
from trivium.traces.process.loops import HandOffLoop, Loop
from trivium.traces.process.process import PathStep, Process
from trivium.traces.process.timing import TimeShare, shares_of
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


MOST_LISTED = 20
"""Most loops, loops of hand-offs and ping-pongs that are listed, the longest; the others are only counted."""


class RepeatFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Tool calls that repeat an earlier one.

    Attributes:
        calls: All tool calls.
        retries: Calls that repeat a failed call, by tool.
        recovered: Retries that succeeded.
        repeats: Calls that repeat a successful call, by tool.
    """

    calls: int
    retries: dict[str, int]
    recovered: int
    repeats: dict[str, int]


class LoopFact(msgspec.Struct, frozen=True, kw_only=True):
    """A loop; ``trace`` is the index of its trace in the file."""

    trace: int
    agent: str | None
    tools: tuple[str, ...]
    rounds: int


class LoopFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Loops of tool calls: their number, the number of calls after a first round, and the longest loops."""

    loops: int
    calls: int
    longest: tuple[LoopFact, ...]


class HandOffFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Hand-offs of all traces; ``longest`` is the longest chain among them."""

    messages: int
    chains: int
    longest: tuple[str, ...]
    ping_pongs: tuple[PingPong, ...]
    circuits: tuple[HandOffLoop, ...]


class ParallelSection(msgspec.Struct, frozen=True, kw_only=True):
    """An interval with at least two spans at work.

    Attributes:
        at: Seconds from the start of the trace.
        seconds: Its length.
        most: Maximum number of spans at work at once.
        spans: Ids of the spans at work in it.
    """

    at: float
    seconds: float
    most: int
    spans: tuple[str, ...]


class SlowestTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The trace that took longest; ``trace`` is its index in the file."""

    trace: int
    trace_id: str
    seconds: float
    critical_path: tuple[PathStep, ...]
    parallel_sections: tuple[ParallelSection, ...]


class ProcessTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Process metrics of all traces of a file (docs/process.md).

    Attributes:
        timed: Traces that have times.
        seconds: Sum of their wall times; None if no trace has times.
        elapsed: Seconds from the earliest start to the latest end; None unless all have absolute times.
        waiting: The part of ``seconds`` in which no span was at work.
        overlapped: The part of ``seconds`` in which at least two spans were at work.
        concurrency: Mean number of spans at work while any was.
        most: Maximum number of spans at work at once.
        by_agent: Time by agent.
        by_tool: Time by tool.
        by_kind: Time by kind of span.
        repeated: Tool calls that repeat an earlier one.
        looped: Loops of tool calls.
        hand_offs: Chains of hand-offs.
        unfinished: (kind, name, number) of spans that never finished.
        slowest: The trace that took longest; None without times.
    """

    timed: int
    seconds: float | None
    elapsed: float | None
    waiting: float | None
    overlapped: float | None
    concurrency: float | None
    most: int
    by_agent: tuple[TimeShare, ...]
    by_tool: tuple[TimeShare, ...]
    by_kind: tuple[TimeShare, ...]
    repeated: RepeatFacts
    looped: LoopFacts
    hand_offs: HandOffFacts
    unfinished: tuple[tuple[str, str, int], ...]
    slowest: SlowestTrace | None


def process_totals(traces: Sequence[Trace]) -> ProcessTotals:
    """Add up the process figures of traces."""
    return totals_of([Process(trace) for trace in traces])


def totals_of(processes: Sequence[Process]) -> ProcessTotals:
    """The same of processes that are known."""
    seconds_of = {position: process.seconds for position, process in enumerate(processes)}
    times = {position: seconds for position, seconds in seconds_of.items() if seconds is not None}
    timed = [processes[position] for position in times]
    whole = sum(times.values())
    work = sum([process.concurrency.work for process in timed])
    busy = sum([process.concurrency.busy for process in timed])
    slowest = max(times, key=times.__getitem__, default=None)
    unfinished: Counter[tuple[str, str]] = Counter()
    for process in processes:
        unfinished.update(process.unfinished)
    return ProcessTotals(
        timed=len(timed),
        seconds=whole if timed else None,
        elapsed=_elapsed(timed),
        waiting=max(0.0, whole - busy) if timed else None,
        overlapped=sum([process.concurrency.overlapped for process in timed]) if timed else None,
        concurrency=work / busy if busy else None,
        most=max([process.concurrency.most for process in timed], default=0),
        by_agent=_sum_shares([process.by_agent for process in timed], whole),
        by_tool=_sum_shares([process.by_tool for process in timed], whole),
        by_kind=_sum_shares([process.by_kind for process in timed], whole),
        repeated=_repeat_facts(processes),
        looped=_loop_facts(processes),
        hand_offs=_hand_off_facts(processes),
        unfinished=tuple((*which, number) for which, number in unfinished.most_common()),
        slowest=None if slowest is None else _slowest_trace(slowest, processes[slowest]),
    )


def _elapsed(timed: Sequence[Process]) -> float | None:
    """From the first start to the last end, if every trace has absolute times."""
    begun: list[float] = []
    ended: list[float] = []
    for process in timed:
        zero = clock_zero(process.trace)
        if zero is None:
            return None
        begun.append(process.begins + zero)
        ended.append(begun[-1] + (process.seconds or 0.0))
    return max(ended) - min(begun) if begun else None


def _sum_shares(tables: Iterable[Sequence[TimeShare]], whole: float) -> tuple[TimeShare, ...]:
    """Add up the time shares of several traces."""
    sums: dict[str | None, tuple[float, ...]] = {}
    for one in chain.from_iterable(tables):
        further = one.spans, one.seconds, one.work, one.critical
        sums[one.name] = tuple(map(add, sums[one.name], further)) if one.name in sums else further
    return shares_of(sums, whole)


def _repeat_facts(processes: Sequence[Process]) -> RepeatFacts:
    calls = recovered = 0
    retries: Counter[str] = Counter()
    repeats: Counter[str] = Counter()
    for process in processes:
        tool_calls = process.trace.tool_calls
        calls += len(tool_calls)
        for one in process.repeats.repeated:
            (retries if one.retry else repeats)[tool_calls[one.call].name] += 1
            recovered += one.retry and tool_calls[one.call].ok is True
    return RepeatFacts(
        calls=calls,
        retries=dict(retries.most_common()),
        recovered=recovered,
        repeats=dict(repeats.most_common()),
    )


def _loop_facts(processes: Sequence[Process]) -> LoopFacts:
    loops: list[tuple[int, Loop]] = [
        (position, loop) for position, process in enumerate(processes) for loop in process.repeats.loops
    ]
    longest = sorted(loops, key=lambda one: -len(one[1].calls))[:MOST_LISTED]
    return LoopFacts(
        loops=len(loops),
        calls=sum([len(process.repeats.looped) for process in processes]),
        longest=tuple(
            LoopFact(trace=position, agent=loop.agent, tools=loop.tools, rounds=loop.rounds)
            for position, loop in longest
        ),
    )


def _hand_off_facts(processes: Sequence[Process]) -> HandOffFacts:
    ping_pongs = [ping_pong for process in processes for ping_pong in process.hand_offs.ping_pongs]
    circuits = [circuit for process in processes for circuit in process.circuits]
    return HandOffFacts(
        messages=sum([process.hand_offs.messages for process in processes]),
        chains=sum([process.hand_offs.chains for process in processes]),
        longest=max([process.hand_offs.longest for process in processes], key=len, default=()),
        ping_pongs=tuple(sorted(ping_pongs, key=lambda ping_pong: -ping_pong.messages)[:MOST_LISTED]),
        circuits=tuple(sorted(circuits, key=lambda one: -one.rounds * len(one.agents))[:MOST_LISTED]),
    )


def _slowest_trace(position: int, process: Process) -> SlowestTrace:
    spans = process.trace.spans
    return SlowestTrace(
        trace=position,
        trace_id=process.trace.trace_id,
        seconds=process.seconds or 0.0,
        critical_path=process.path,
        parallel_sections=tuple(
            ParallelSection(
                at=section.start - process.begins,
                seconds=section.end - section.start,
                most=section.most,
                spans=tuple([spans[index].id for index in section.spans]),
            )
            for section in process.concurrency.sections
        ),
    )
