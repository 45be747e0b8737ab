"""Draws a mean and its interval on [0, 1].

It is hidden from screen readers, because the numbers are next to it.
"""

from trivium.reports.drawings.svg import COLOURS, element

HEIGHT, MIDDLE = 18, 9
NOTEBOOK_WIDTH = 150
"""Width in pixels in a notebook, whose cells have no width of their own."""


def range_svg(
    mean: float | None,
    interval: tuple[float, float] | None,
    human: float | None = None,
    *,
    width: int | str = "100%",
) -> str:
    """The drawing; people's mean is a diamond.

    Args:
        mean: In [0, 1], as all that is drawn; what is outside is drawn at the edge.
        interval: Its ends.
        human: People's mean.
        width: In pixels, or the share of what is around it.
    """
    body = [_line("track", (0.0, 1.0), "line", 2)]
    if interval is not None:
        body.append(_line("interval", interval, "accent", 4))
    if human is not None:
        diamond = element("path", d="M0,-6 L5,0 L0,6 L-5,0 Z", class_="human", fill=COLOURS["second"])
        body.append(element("svg", diamond, x=_at(human), y=MIDDLE, overflow="visible"))
    if mean is not None:
        body.append(element("circle", cx=_at(mean), cy=MIDDLE, r=4.5, class_="mean", fill=COLOURS["ink"]))
    return element("svg", *body, class_="range", width=width, height=HEIGHT, aria_hidden="true")


def _line(kind: str, ends: tuple[float, float], colour: str, width: int) -> str:
    across = {"x1": _at(ends[0]), "x2": _at(ends[1]), "class_": kind, "stroke": COLOURS[colour]}
    return element("line", **across, y1=MIDDLE, y2=MIDDLE, stroke_width=width)


def _at(value: float) -> str:
    return f"{100 * min(1.0, max(0.0, value)):.2f}%"
