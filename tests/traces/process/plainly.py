"""The definitions of docs/process.md written down plainly, however slow: what the tests compare with."""

from itertools import pairwise

from hypothesis import strategies as st

from trivium.traces.normalize import normalise
from trivium.traces.trace import Span, Trace


@st.composite
def timed_traces(draw) -> Trace:
    """Traces whose spans start and end at whole seconds, so that sums are exact; some have no end."""
    count = draw(st.integers(1, 9))
    spans = []
    for index in range(count):
        start = draw(st.none() | st.integers(0, 12)) if draw(st.booleans()) else draw(st.integers(0, 12))
        end = None if start is None else draw(st.none() | st.integers(start, 14))
        spans.append(
            Span(
                id=str(index),
                kind=draw(st.sampled_from(["agent", "tool", "llm"])),
                name=draw(st.sampled_from("ab")),
                agent=draw(st.none() | st.sampled_from("xy")),
                parent=None if index == 0 else draw(st.none() | st.integers(0, index - 1).map(str)),
                start=None if start is None else float(start),
                end=None if end is None else float(end),
            )
        )
    return normalise(spans)


def reaches(trace: Trace) -> dict[str, tuple[float, float]]:
    """From the first start to the last end of each span and all under it."""
    found = {}
    for span in trace.spans:
        under = {span.id}
        for _ in trace.spans:
            under |= {other.id for other in trace.spans if other.parent in under}
        times = [
            time
            for other in trace.spans
            if other.id in under
            for time in (other.start, other.end)
            if time is not None
        ]
        if times:
            found[span.id] = (min(times), max(times))
    return found


def at_work(trace: Trace) -> list[tuple[float, float, set[int]]]:
    """Between one time and the next, who is at work: within its reach and in no child's."""
    reach = reaches(trace)
    times = sorted({time for ends in reach.values() for time in ends})
    found = []
    for now, after in pairwise(times):
        middle = (now + after) / 2
        running = {key for key, (start, end) in reach.items() if start < middle < end}
        busy = {
            index
            for index, span in enumerate(trace.spans)
            if span.id in running
            and not any(other.parent == span.id for other in trace.spans if other.id in running)
        }
        found.append((now, after, busy))
    return found


def path(trace: Trace) -> list[tuple[str | None, float, float]]:
    """The critical path by its definition, last stretch first, one recursion a span."""
    reach = reaches(trace)
    if not reach:
        return []

    def walk(span: str | None, begin: float, until: float) -> list[tuple[str | None, float, float]]:
        under = [other.id for other in trace.spans if other.parent == span and other.id in reach]
        left, found = list(under), []
        while True:
            ended = [each for each in left if reach[each][1] <= until]
            if ended:
                best = max(ended, key=lambda each: (reach[each][1], reach[each][0], int(each)))
                if reach[best][1] < until:
                    found.append((span, reach[best][1], until))
                until = reach[best][1]
            else:
                running = [each for each in left if reach[each][0] < until]
                if not running:
                    break
                best = min(running, key=lambda each: (reach[each][0], int(each)))
            left.remove(best)
            found += walk(best, reach[best][0], until)
            until = reach[best][0]
        if begin < until or not under:
            found.append((span, begin, until))
        return found

    whole = min(start for start, _ in reach.values()), max(end for _, end in reach.values())
    return walk(None, *whole)


def repetitions(sequence) -> set[tuple[int, int, int]]:
    """Maximal repetitions of at least three rounds: (start, end, smallest period)."""
    size, found = len(sequence), set()
    for start in range(size):
        for end in range(start + 3, size + 1):
            piece = sequence[start:end]
            fits = [
                p for p in range(1, len(piece)) if all(a == b for a, b in zip(piece, piece[p:], strict=False))
            ]
            if not fits or len(piece) < 3 * fits[0]:
                continue
            p = fits[0]
            longer_left = start > 0 and sequence[start - 1] == sequence[start - 1 + p]
            longer_right = end < size and sequence[end] == sequence[end - p]
            if not longer_left and not longer_right:
                found.add((start, end, p))
    return found
