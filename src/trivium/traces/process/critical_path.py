"""The critical path: the chain of spans that determined how long a trace took."""

import msgspec

from trivium.traces.process.work import Work


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of the critical path.

    Attributes:
        span: Place of the span that it belongs to, or None where the trace waited for no span.
        start: Seconds on the trace's clock.
        end: At least ``start``.
    """

    span: int | None
    start: float
    end: float


class _Frame:
    """A span (or the trace as a whole) that is walked back through, from ``until``."""

    __slots__ = ("aside", "begin", "leaf", "span", "until", "waiting")

    def __init__(self, span: int | None, begin: float, until: float, children: list[int], work: Work) -> None:
        self.span, self.begin, self.until = span, begin, until
        self.leaf = not children
        self.waiting = sorted(children, key=lambda child: (*work.reach_of(child)[::-1], child))
        self.aside: list[int] = []


def critical_path(work: Work) -> tuple[Stretch, ...]:
    """The critical path, in order of time; its stretches meet end to end and cover the whole trace.

    Walking back from the end t of a span (first: of the whole trace), the child that ended last, at t or
    before, is next: what lies between its end and t is the span's own, and the walk goes on through the
    child and then from its start. Where no child had ended, the one of those still running that began first
    is next, as far as it had come; where there is none, the rest is the span's own. Times are those of
    reaches (:class:`Work`). After Yang and Miller, "Critical path analysis for the execution of parallel
    and distributed programs" (1988); sorting apart, each span is looked at twice.
    """
    whole = work.whole
    if whole is None:
        return ()
    back: list[Stretch] = []
    stack = [_Frame(None, *whole, work.roots, work)]
    while stack:
        frame = stack[-1]
        child = _next(frame, work)
        if child is None:
            if frame.until > frame.begin or frame.leaf:
                back.append(Stretch(span=frame.span, start=frame.begin, end=frame.until))
            stack.pop()
            continue
        start, end = work.reach_of(child)
        if end < frame.until:
            back.append(Stretch(span=frame.span, start=end, end=frame.until))
        stack.append(_Frame(child, start, min(end, frame.until), work.below[child], work))
        frame.until = start
    return tuple(reversed(back))


def _next(frame: _Frame, work: Work) -> int | None:
    while frame.waiting:
        child = frame.waiting.pop()
        if work.reach_of(child)[1] <= frame.until:
            return child
        frame.aside.append(child)
    running = [child for child in frame.aside if work.reach_of(child)[0] < frame.until]
    frame.aside = []
    return min(running, key=lambda child: (work.reach_of(child)[0], child), default=None)
