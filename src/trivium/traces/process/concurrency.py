"""Concurrency: how many spans were at work at once, and in which stretches more than one was."""

from functools import cached_property
from itertools import pairwise

import msgspec

from trivium.traces.process.work import Work


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A longest stretch of time in which at least two spans were at work.

    Attributes:
        start: Seconds on the trace's clock.
        end: After ``start``.
        most: Spans at work at once, at most.
        spans: Places of those that were at work in it, in order of the file.
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
        most: Spans at work at once, at most.
        work: Seconds of work of all spans, added up.

    Args:
        work: Of the trace.
    """

    def __init__(self, work: Work) -> None:
        self._stretches = work.own()
        change: dict[float, int] = {}
        for start, end, _ in self._stretches:
            change[start] = change.get(start, 0) + 1
            change[end] = change.get(end, 0) - 1
        times = sorted(change)
        self.busy = self.overlapped = 0.0
        self.most = 0
        self.work = sum([end - start for start, end, _ in self._stretches])
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

    @property
    def mean(self) -> float | None:
        """Work / busy time: the mean number of spans at work while any was; None where none was."""
        return self.work / self.busy if self.busy else None

    @cached_property
    def seconds(self) -> dict[int, float]:
        """Seconds of each span that was at work, by place; k spans at work at once have 1/k of a second each.

        They add up to ``busy``.
        """
        found: dict[int, float] = {}
        for start, end, index in self._stretches:
            found[index] = found.get(index, 0.0) + self._shared[end] - self._shared[start]
        return found

    @cached_property
    def alone(self) -> dict[int, float]:
        """Seconds of each span that was at work, by place, whoever else was."""
        found: dict[int, float] = {}
        for start, end, index in self._stretches:
            found[index] = found.get(index, 0.0) + end - start
        return found

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The parallel sections, in order of time."""
        joined: list[list[float]] = []
        for start, end, level in self._parallel:
            if joined and joined[-1][1] == start:
                joined[-1][1:] = [end, max(joined[-1][2], level)]
            else:
                joined.append([start, end, level])
        # Between two sections at most one span is at work, so that walking on from where a stretch began
        # meets each stretch and each section a bounded number of times in all.
        members: list[set[int]] = [set() for _ in joined]
        first = 0
        for start, end, index in sorted(self._stretches):
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
