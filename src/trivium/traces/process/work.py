"""Work: when each span of a trace was at work itself, and when only what it had started was."""

from trivium.traces.order import parents_first
from trivium.traces.trace import Trace

Interval = tuple[float, float]


class Work:
    """The times of a trace, span by span.

    The *reach* of a span goes from the first start to the last end of itself and of everything under it; a
    span that never ended reaches as far as what it started. A span is *at work itself* in that part of its
    reach that lies in no child's reach. Spans without any time, their own or below, are left out.

    Args:
        trace: Normalised (``trivium.traces.repair``).
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.spans = spans = trace.spans
        place = {span.id: index for index, span in enumerate(spans)}
        self.reach: list[Interval | None] = [_known(span.start, span.end) for span in spans]
        self.below: list[list[int]] = [[] for _ in spans]
        self.roots: list[int] = []
        for index in reversed(parents_first(spans)):
            reach, parent = self.reach[index], spans[index].parent
            if reach is None:
                continue
            if parent is None:
                self.roots.append(index)
                continue
            above = place[parent]
            self.below[above].append(index)
            around = self.reach[above]
            self.reach[above] = (
                reach if around is None else (min(around[0], reach[0]), max(around[1], reach[1]))
            )

    @property
    def whole(self) -> Interval | None:
        """From the first start to the last end, or None without times."""
        reaches = [self.reach_of(root) for root in self.roots]
        return (min(start for start, _ in reaches), max(end for _, end in reaches)) if reaches else None

    @property
    def seconds(self) -> float | None:
        """Wall time, or None without times."""
        whole = self.whole
        return None if whole is None else whole[1] - whole[0]

    def reach_of(self, index: int) -> Interval:
        """The reach of a span that has one: a root, or a span below another."""
        reach = self.reach[index]
        if reach is None:
            raise ValueError(f"span {self.spans[index].id} has no time")
        return reach

    def own(self) -> list[tuple[float, float, int]]:
        """Start, end and place of every stretch, longer than nothing, in which a span is at work itself."""
        stretches = []
        for index, reach in enumerate(self.reach):
            if reach is None:
                continue
            at, last = reach
            if self.below[index]:
                for start, end in sorted([self.reach_of(child) for child in self.below[index]]):
                    if start > at:
                        stretches.append((at, start, index))
                    at = max(at, end)
            if last > at:
                stretches.append((at, last, index))
        return stretches


def _known(start: float | None, end: float | None) -> Interval | None:
    """The reach of a span by itself; one of two times stands for both."""
    if start is None:
        return None if end is None else (end, end)
    return (start, start) if end is None else (start, max(start, end))
