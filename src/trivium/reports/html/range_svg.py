"""A figure with its interval on the line from 0 to 1, as small SVG that fills its cell."""

from trivium.reports.drawings.svg import element

HEIGHT = 18


def range_svg(mean: float | None, interval: tuple[float, float] | None, human: float | None = None) -> str:
    """Draw it; what it says stands beside it in numbers, so that it is hidden from screen readers."""
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
