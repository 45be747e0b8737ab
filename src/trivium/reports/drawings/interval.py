"""Draws a mean and its interval on [0, 1], for a page and for a notebook.

They are hidden from screen readers, because the numbers are next to them.
"""

from trivium.reports.drawings.svg import element

HEIGHT = 18
BAR, BAR_HEIGHT = 150, 16
"""Width and height in pixels in a notebook."""


def range_svg(mean: float | None, interval: tuple[float, float] | None, human: float | None = None) -> str:
    """The drawing for a page, in the colours of its style sheet; people's mean is a diamond."""
    middle = HEIGHT / 2
    body = [element("line", x1="0%", x2="100%", y1=middle, y2=middle, class_="track")]
    if interval is not None:
        body.append(
            element("line", x1=_at(interval[0]), x2=_at(interval[1]), y1=middle, y2=middle, class_="interval")
        )
    if human is not None:
        diamond = element("path", d="M0,-6 L5,0 L0,6 L-5,0 Z", class_="human")
        body.append(element("svg", diamond, x=_at(human), y=middle, overflow="visible"))
    if mean is not None:
        body.append(element("circle", cx=_at(mean), cy=middle, r=4.5, class_="mean"))
    return element("svg", *body, class_="range", width="100%", height=HEIGHT, aria_hidden="true")


def _at(value: float) -> str:
    return f"{100 * min(1.0, max(0.0, value)):.2f}%"


def interval_bar(mean: float | None, ends: tuple[float, float] | None, *, track: str, colour: str) -> str:
    """The drawing for a notebook, in these colours."""
    middle = BAR_HEIGHT / 2
    parts = [element("line", x1=2, x2=BAR - 2, y1=middle, y2=middle, stroke=track, stroke_width=2)]
    if ends is not None:
        low, high = _across(ends[0]), _across(ends[1])
        parts.append(element("line", x1=low, x2=high, y1=middle, y2=middle, stroke=colour, stroke_width=4))
    if mean is not None:
        parts.append(element("circle", cx=_across(mean), cy=middle, r=4, fill="currentColor"))
    return element(
        "svg", *parts, width=BAR, height=BAR_HEIGHT, aria_hidden="true", style="vertical-align:middle"
    )


def _across(value: float) -> float:
    return 4 + (BAR - 8) * min(1.0, max(0.0, value))
