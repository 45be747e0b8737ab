"""Computes the process metrics of one trace, each on first access."""

from collections import Counter
from collections.abc import Callable
from functools import cached_property

import msgspec

from trivium.traces.process.handoffs import HandOffs, hand_offs
from trivium.traces.process.loops import CallRepeats, HandOffLoop, hand_off_loops
from trivium.traces.process.timing import (
    BusyTimes,
    Concurrency,
    PathSegment,
    TimeShare,
    agent_of,
    critical_path,
    time_shares,
)
from trivium.traces.trace import Span, Trace


class PathStep(msgspec.Struct, frozen=True, kw_only=True):
    """A span's part in the critical path.

    Attributes:
        span: Id of the span; None for time in which the trace waited for no span.
        kind: Kind of the span.
        name: Name of the span.
        agent: Agent of the span.
        at: Seconds from the start of the trace to the span's first part of the path.
        seconds: Seconds of the path that belong to the span.
        share: ``seconds`` as a share of the wall time, in [0, 1]; None if that is 0.
    """

    span: str | None
    kind: str | None
    name: str | None
    agent: str | None
    at: float
    seconds: float
    share: float | None


class Process:
    """The process of a trace: critical path, time shares, repeated work and unfinished spans.

    docs/process.md defines every metric. Each takes at most O(n log n) time for n spans.

    Args:
        trace: A normalised trace.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def busy_times(self) -> BusyTimes:
        """The busy times of each span."""
        return BusyTimes(self.trace)

    @cached_property
    def seconds(self) -> float | None:
        """Wall time, or None without times."""
        whole = self.busy_times.whole
        return None if whole is None else whole[1] - whole[0]

    @cached_property
    def begins(self) -> float:
        """The first start, on the trace's clock; 0 without times."""
        return self.busy_times.whole[0] if self.busy_times.whole else 0.0

    @cached_property
    def concurrency(self) -> Concurrency:
        """How many spans were at work at once."""
        return Concurrency(self.busy_times)

    @cached_property
    def path_segments(self) -> tuple[PathSegment, ...]:
        """The critical path as segments of time."""
        return critical_path(self.busy_times)

    @cached_property
    def path(self) -> tuple[PathStep, ...]:
        """The critical path as spans, in the order of first appearance."""
        parts: dict[int | None, list[float]] = {}
        for segment in self.path_segments:
            parts.setdefault(segment.span, [segment.start, 0.0])[1] += segment.end - segment.start
        return tuple(
            [self._step(position, at - self.begins, seconds) for position, (at, seconds) in parts.items()]
        )

    def _step(self, position: int | None, at: float, seconds: float) -> PathStep:
        share = min(1.0, seconds / self.seconds) if self.seconds else None
        if position is None:
            return PathStep(span=None, kind=None, name=None, agent=None, at=at, seconds=seconds, share=share)
        span = self.trace.spans[position]
        return PathStep(
            span=span.id,
            kind=span.kind,
            name=span.name,
            agent=agent_of(span),
            at=at,
            seconds=seconds,
            share=share,
        )

    @cached_property
    def by_agent(self) -> tuple[TimeShare, ...]:
        """Time by agent."""
        return self._shares(agent_of)

    @cached_property
    def by_tool(self) -> tuple[TimeShare, ...]:
        """Time by tool."""
        return self._shares(lambda span: span.name, "tool")

    @cached_property
    def by_kind(self) -> tuple[TimeShare, ...]:
        """Time by kind of span: agents' own work, tools, model requests, other."""
        return self._shares(lambda span: span.kind)

    def _shares(self, owner: Callable[[Span], str | None], kind: str | None = None) -> tuple[TimeShare, ...]:
        return time_shares(
            self.trace.spans,
            self.concurrency,
            self.path_segments,
            whole=self.seconds or 0.0,
            owner=owner,
            kind=kind,
        )

    @cached_property
    def repeats(self) -> CallRepeats:
        """Loops of tool calls, and calls that repeat an earlier one."""
        return CallRepeats(self.trace.tool_calls)

    @cached_property
    def hand_offs(self) -> HandOffs:
        """Chains of hand-offs."""
        return hand_offs(self.trace.agent_messages)

    @cached_property
    def circuits(self) -> tuple[HandOffLoop, ...]:
        """Loops in the longest chain of hand-offs."""
        return hand_off_loops(self.hand_offs.longest)

    @cached_property
    def unfinished(self) -> Counter[tuple[str, str]]:
        """(kind, name) of the spans that never finished."""
        return Counter((span.kind, span.name) for span in self.trace.spans if span.ok is None)
