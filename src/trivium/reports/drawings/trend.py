"""Draws the pass rates of the last runs of a suite with their intervals, small enough for a list."""

from collections.abc import Sequence

from trivium.reports.drawings.svg import element, picture
from trivium.reports.wording import share

WIDTH, HEIGHT, EDGE = 200, 48, 6
"""In pixels; of the whole drawing and of its margin."""

Point = tuple[float, float | None, float | None]
"""A pass rate and the ends of its interval, in [0, 1]; None where there is no interval."""


def trend(points: Sequence[Point], *, suite: str) -> str:
    """The drawing, oldest run first: a dot and an interval for each run, on the whole range from 0 to 1.

    Args:
        points: The pass rates of the runs, oldest first.
        suite: Name of the suite, for screen readers.
    """
    step = (WIDTH - 2 * EDGE) / max(1, len(points) - 1)
    drawn = [_line(EDGE / 2, _y(each), WIDTH - EDGE / 2, _y(each), "axis") for each in (0.0, 1.0)]
    at = [(EDGE + step * place, point) for place, point in enumerate(points)]
    for x, (_, low, high) in at:
        if low is not None and high is not None:
            drawn.append(_line(x, _y(low), x, _y(high), "interval"))
    drawn += [element("circle", cx=x, cy=_y(value), r=3, class_="mean") for x, (value, _, _) in at]
    words = "; ".join(_words(*point) for point in points)
    label = f"Pass rate of the last {len(points)} runs of {suite}, oldest first: {words}"
    return picture(*drawn, label=label, width=WIDTH, height=HEIGHT, class_="trend")


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _y(value: float) -> float:
    return EDGE + (HEIGHT - 2 * EDGE) * (1 - min(1.0, max(0.0, value)))


def _words(value: float, low: float | None, high: float | None) -> str:
    ends = "" if low is None or high is None else f" [{100 * low:.0f}, {100 * high:.0f}]"
    return f"{share(value)}{ends}"
