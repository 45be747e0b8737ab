"""Order: the spans of a forest, each parent before its children, and how deep they lie."""

from collections.abc import Sequence

from trivium.traces.trace import Span


def parents_first(spans: Sequence[Span]) -> list[int]:
    """Places of the spans, each after its parent's. Parents must form a forest; nothing recurses."""
    place = {span.id: index for index, span in enumerate(spans)}
    done = [False] * len(spans)
    order: list[int] = []
    for first in range(len(spans)):
        trail = []
        index: int | None = first
        while index is not None and not done[index]:
            done[index] = True
            trail.append(index)
            parent = spans[index].parent
            index = None if parent is None else place[parent]
        order.extend(reversed(trail))
    return order


def max_depth(spans: Sequence[Span]) -> int:
    """Levels of the deepest branch: 1 for roots alone, 0 for no spans."""
    depths: dict[str | None, int] = {None: 0}
    for index in parents_first(spans):
        span = spans[index]
        depths[span.id] = depths[span.parent] + 1
    return max(depths.values())
