"""Enclosing: for each interval the shortest other one that encloses it."""

from collections.abc import Sequence

Interval = tuple[float, float]


def shortest_enclosing(intervals: Sequence[Interval], points: Sequence[float] = ()) -> list[int | None]:
    """Place of the shortest other interval around each interval, then around each point, or None.

    An interval as long as the other encloses it when it is listed before. In n log n: intervals are entered
    by start into a tree over their ends, which tells the shortest of those that end no sooner.

    Args:
        intervals: Start and end of each, ``start <= end``; an end may be infinite.
        points: Further times, which enclose nothing.
    """
    asked = [*intervals, *((point, point) for point in points)]
    ends = sorted({end for _, end in asked}, reverse=True)
    rank = {end: index + 1 for index, end in enumerate(ends)}  # 1: the latest end
    none = (float("inf"), float("inf"), 1)
    tree = [none] * (len(ends) + 1)  # of Fenwick's, by minimum over the ranks up to one
    result: list[int | None] = [None] * len(asked)
    for index in sorted(range(len(asked)), key=lambda at: (asked[at][0], -asked[at][1], at)):
        start, end = asked[index]
        best, place = none, rank[end]
        while place:
            best = min(best, tree[place])
            place &= place - 1
        result[index] = None if best is none else -best[2]
        if index >= len(intervals):
            continue
        entry = (end - start, -start, -index)
        place = rank[end]
        while place < len(tree):
            tree[place] = min(tree[place], entry)
            place += place & -place
    return result
