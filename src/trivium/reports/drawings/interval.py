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
    notebook: bool = False,
) -> str:
    """The drawing; people's mean is a diamond.

    Args:
        mean: In [0, 1], as all that is drawn; what is outside is drawn at the edge.
        interval: Its ends.
        human: People's mean.
        notebook: Whether it has colours and a width of its own; those of a page are in its style sheet.
    """

    def line(kind: str, ends: tuple[float, float], colour: str, width: int) -> str:
        look: dict[str, str | int] = {"stroke": COLOURS[colour], "stroke_width": width} if notebook else {}
        return element("line", x1=_at(ends[0]), x2=_at(ends[1]), y1=MIDDLE, y2=MIDDLE, class_=kind, **look)

    body = [line("track", (0.0, 1.0), "line", 2)]
    if interval is not None:
        body.append(line("interval", interval, "accent", 4))
    if human is not None:
        diamond = element("path", d="M0,-6 L5,0 L0,6 L-5,0 Z", class_="human")
        body.append(element("svg", diamond, x=_at(human), y=MIDDLE, overflow="visible"))
    if mean is not None:
        fill = COLOURS["ink"] if notebook else None
        body.append(element("circle", cx=_at(mean), cy=MIDDLE, r=4.5, class_="mean", fill=fill))
    width = NOTEBOOK_WIDTH if notebook else "100%"
    return element("svg", *body, class_="range", width=width, height=HEIGHT, aria_hidden="true")


def _at(value: float) -> str:
    return f"{100 * min(1.0, max(0.0, value)):.2f}%"
