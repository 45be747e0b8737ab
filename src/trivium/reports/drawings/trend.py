"""Draws the pass rates of the last runs of a suite with their intervals, small enough for a list."""

from collections.abc import Iterable
from functools import lru_cache

from trivium.reports.drawings.svg import element, picture
from trivium.reports.wording import share

WIDTH, HEIGHT, EDGE = 200, 48, 6
"""In pixels; of the whole drawing and of its margin."""

Point = tuple[float, float | None, float | None]
"""A pass rate and the ends of its interval, in [0, 1]; None where there is no interval."""


@lru_cache(maxsize=256)
def trend(points: tuple[Point, ...], *, suite: str) -> str:
    """The drawing, oldest run first: a dot and an interval for each run, on the whole range from 0 to 1.

    Args:
        points: The pass rates of the runs, oldest first.
        suite: Name of the suite, for screen readers.
    """
    step = (WIDTH - 2 * EDGE) / max(1, len(points) - 1)
    at = [(EDGE + step * place, point) for place, point in enumerate(points)]
    ends = [(x, low, high) for x, (_, low, high) in at if low is not None and high is not None]
    # One path for all runs: a list has several drawings, and an element a run weighs ten times as much.
    drawn = [
        _path("axis", (f"M0 {_y(each)}H{WIDTH}" for each in (0.0, 1.0))),
        _path("interval", (f"M{_at(x)} {_y(low)}V{_y(high)}" for x, low, high in ends)),
        _path("mean", (f"M{_at(x)} {_y(value)}h0" for x, (value, _, _) in at)),
    ]
    words = "; ".join(_words(*point) for point in points)
    label = f"Pass rate of the last {len(points)} runs of {suite}, oldest first: {words}"
    return picture(*drawn, label=label, width=WIDTH, height=HEIGHT, class_="trend")


def _path(class_: str, parts: Iterable[str]) -> str:
    return element("path", d="".join(parts), class_=class_)


def _at(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _y(value: float) -> str:
    return _at(EDGE + (HEIGHT - 2 * EDGE) * (1 - min(1.0, max(0.0, value))))


def _words(value: float, low: float | None, high: float | None) -> str:
    ends = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{share(value)}{ends}"
