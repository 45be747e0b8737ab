"""Computes busy time, concurrency, the critical path and time shares of a trace."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import add

import msgspec

from trivium.traces.trace import Span, Trace, parents_first

Interval = tuple[float, float]


class BusyTimes:
    """The busy times of the spans of a trace.

    The *reach* of a span extends from the first start to the last end among itself and its descendants; a
    span that did not end reaches to the last end of a descendant. A span is *at work itself* in the part of
    its reach that no child's reach covers. A span is left out if neither it nor a descendant has times.

    Args:
        trace: A normalised trace (``trivium.traces.normalize``).
    """

    def __init__(self, trace: Trace) -> None:
        spans = trace.spans
        position = {span.id: index for index, span in enumerate(spans)}
        known = ((index, _known(span.start, span.end)) for index, span in enumerate(spans))
        self.reach: dict[int, Interval] = {index: reach for index, reach in known if reach is not None}
        self.below: dict[int | None, list[int]] = defaultdict(list)  # None: the roots
        for index in reversed(parents_first(spans)):
            if (reach := self.reach.get(index)) is None:
                continue
            parent = spans[index].parent
            above = None if parent is None else position[parent]
            self.below[above].append(index)
            if above is not None:
                start, end = self.reach.get(above, reach)
                self.reach[above] = min(start, reach[0]), max(end, reach[1])

    @property
    def whole(self) -> Interval | None:
        """From the first start to the last end, or None without times."""
        reaches = [self.reach[root] for root in self.below[None]]
        return (min(start for start, _ in reaches), max(end for _, end in reaches)) if reaches else None

    def own(self) -> list[tuple[float, float, int]]:
        """Start, end and span index of every non-empty interval in which a span is at work itself."""
        stretches = []
        for index, (at, last) in sorted(self.reach.items()):
            for start, end in sorted([self.reach[child] for child in self.below[index]]):
                if start > at:
                    stretches.append((at, start, index))
                at = max(at, end)  # noqa: PLW2901
            if last > at:
                stretches.append((at, last, index))
        return stretches


def _known(start: float | None, end: float | None) -> Interval | None:
    """The reach of a span without its descendants; if one time is missing, the other is used for both."""
    if start is None:
        return None if end is None else (end, end)
    return (start, start) if end is None else (start, max(start, end))


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A maximal interval in which at least two spans were at work.

    Attributes:
        start: Seconds on the trace's clock.
        end: After ``start``.
        most: Maximum number of spans at work at once.
        spans: Indices of the spans at work in it, ascending.
    """

    start: float
    end: float
    most: int
    spans: tuple[int, ...]


class Concurrency:
    """How many spans of a trace were at work themselves at each moment; one sweep over sorted times.

    Attributes:
        busy: Seconds in which at least one span was at work.
        overlapped: Seconds in which at least two were.
        most: Maximum number of spans at work at once.
        work: Seconds of work, summed over spans.

    Args:
        work: Busy times of the trace.
    """

    def __init__(self, work: BusyTimes) -> None:
        self._intervals = work.own()
        change: dict[float, int] = {}
        for start, end, _ in self._intervals:
            change[start] = change.get(start, 0) + 1
            change[end] = change.get(end, 0) - 1
        times = sorted(change)
        self.busy = self.overlapped = 0.0
        self.most = 0
        self.work = sum([end - start for start, end, _ in self._intervals])
        self._shared = dict.fromkeys(times[:1], 0.0)
        self._parallel: list[tuple[float, float, int]] = []
        level, shared = 0, 0.0
        for now, after in pairwise(times):
            level += change[now]
            if level:
                self.busy += after - now
                shared += (after - now) / level
                self.most = max(self.most, level)
            if level > 1:
                self.overlapped += after - now
                self._parallel.append((now, after, level))
            self._shared[after] = shared

    @cached_property
    def seconds(self) -> dict[int, tuple[float, float]]:
        """Seconds at work by span index: k spans at work at once get 1/k of the time each; then undivided.

        The first ones add up to ``busy``, the others to ``work``.
        """
        seconds_of: dict[int, tuple[float, float]] = {}
        for start, end, index in self._intervals:
            divided, whole = seconds_of.get(index, (0.0, 0.0))
            seconds_of[index] = divided + self._shared[end] - self._shared[start], whole + end - start
        return seconds_of

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The parallel sections, in order of time."""
        joined: list[list[float]] = []
        for start, end, level in self._parallel:
            if joined and joined[-1][1] == start:
                joined[-1][1:] = [end, max(joined[-1][2], level)]
            else:
                joined.append([start, end, level])
        # Between two sections at most one span is at work, so that the loops below visit each interval and
        # each section a bounded number of times.
        members: list[set[int]] = [set() for _ in joined]
        first = 0
        for start, end, index in sorted(self._intervals):
            while first < len(joined) and joined[first][1] <= start:
                first += 1
            at = first
            while at < len(joined) and joined[at][0] < end:
                members[at].add(index)
                at += 1
        return tuple(
            Section(start=start, end=end, most=int(most), spans=tuple(sorted(inside)))
            for (start, end, most), inside in zip(joined, members, strict=True)
        )


class PathSegment(msgspec.Struct, frozen=True, kw_only=True):
    """An interval of the critical path.

    Attributes:
        span: Index of the span that it belongs to; None where the trace waited for no span.
        start: Seconds on the trace's clock.
        end: At least ``start``.
    """

    span: int | None
    start: float
    end: float


class _Frame:
    """A span, or the whole trace, in the backward walk: its time before ``until`` is not assigned yet."""

    __slots__ = ("begin", "candidates", "leaf", "overlapping", "span", "until")

    def __init__(self, span: int | None, begin: float, until: float, work: BusyTimes) -> None:
        self.span, self.begin, self.until = span, begin, until
        self.candidates = sorted(work.below[span], key=lambda child: (*work.reach[child][::-1], child))
        self.leaf = not self.candidates
        self.overlapping: list[int] = []


def critical_path(work: BusyTimes) -> tuple[PathSegment, ...]:
    """The critical path in order of time; its segments are contiguous and cover the whole trace.

    The walk goes backwards from the end t of a span (first: of the whole trace) to the child that ended last,
    at or before t. The time between that end and t belongs to the span itself; the walk continues through the
    child, then from the child's start. If no child had ended by t, it continues with the running child that
    started first, cut at t; if there is none, the remaining time belongs to the span itself. Times are
    reaches (:class:`BusyTimes`). After Yang and Miller, "Critical path analysis for the execution of parallel
    and distributed programs" (1988). Apart from sorting, each span is visited at most twice.
    """
    whole = work.whole
    if whole is None:
        return ()
    back: list[PathSegment] = []
    stack = [_Frame(None, *whole, work)]
    while stack:
        frame = stack[-1]
        child = _next(frame, work)
        if child is None:
            if frame.until > frame.begin or frame.leaf:
                back.append(PathSegment(span=frame.span, start=frame.begin, end=frame.until))
            stack.pop()
            continue
        start, end = work.reach[child]
        if end < frame.until:
            back.append(PathSegment(span=frame.span, start=end, end=frame.until))
        stack.append(_Frame(child, start, min(end, frame.until), work))
        frame.until = start
    return tuple(reversed(back))


def _next(frame: _Frame, work: BusyTimes) -> int | None:
    while frame.candidates:
        child = frame.candidates.pop()
        if work.reach[child][1] <= frame.until:
            return child
        frame.overlapping.append(child)
    running = [child for child in frame.overlapping if work.reach[child][0] < frame.until]
    frame.overlapping = []
    return min(running, key=lambda child: (work.reach[child][0], child), default=None)


class TimeShare(msgspec.Struct, frozen=True, kw_only=True):
    """The share of an agent, a tool or a kind of work in the time of a trace.

    Attributes:
        name: Name of the agent, tool or kind; None if no agent is known.
        spans: Number of spans that were at work.
        seconds: Wall time; k spans at work at once get 1/k of it each, so that shares add up.
        share: ``seconds`` as a share of the wall time, in [0, 1]; None if that is 0.
        work: Seconds of work, not divided among spans at work at once.
        critical: Seconds on the critical path.
    """

    name: str | None
    spans: int
    seconds: float
    share: float | None
    work: float
    critical: float


def agent_of(span: Span) -> str | None:
    """The agent of a span; for an agent span, its own name. None for work that no agent did."""
    return span.agent or (span.name if span.kind == "agent" else None)


def time_shares(
    spans: Sequence[Span],
    concurrency: Concurrency,
    path: Iterable[PathSegment],
    *,
    whole: float,
    owner: Callable[[Span], str | None],
    kind: str | None = None,
) -> tuple[TimeShare, ...]:
    """Time by owner, longest first.

    Args:
        spans: Spans of the trace.
        concurrency: Concurrency of the trace.
        path: Critical path of the trace.
        whole: Wall time of the trace, in seconds.
        owner: Returns the owner of a span.
        kind: Counts only spans of this kind; None counts all.
    """
    critical: dict[int, float] = {}
    for stretch in path:
        if stretch.span is not None:
            critical[stretch.span] = critical.get(stretch.span, 0.0) + stretch.end - stretch.start
    sums_by_owner: dict[str | None, list[float]] = {}
    for index, (seconds, undivided) in concurrency.seconds.items():
        if kind is None or spans[index].kind == kind:
            sums = sums_by_owner.setdefault(owner(spans[index]), [0, 0.0, 0.0, 0.0])
            further = (1, seconds, undivided, critical.get(index, 0.0))
            sums[:] = map(add, sums, further)
    return shares_of(sums_by_owner, whole)


def shares_of(sums: Mapping[str | None, Sequence[float]], whole: float) -> tuple[TimeShare, ...]:
    """Time shares, longest first.

    Args:
        sums: Spans, seconds, work and seconds on the critical path by owner.
        whole: Wall time in seconds.
    """
    shares = [
        TimeShare(
            name=name,
            spans=int(spans),
            seconds=seconds,
            share=min(1.0, seconds / whole) if whole else None,
            work=work,
            critical=critical,
        )
        for name, (spans, seconds, work, critical) in sums.items()
    ]
    return tuple(sorted(shares, key=lambda one: (-one.seconds, one.name or "")))
