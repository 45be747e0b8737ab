"""Draws the distribution of a score as SVG, in the colours of the page around it."""

from collections.abc import Sequence
from functools import partial

from trivium.reports.drawings.svg import COLOURS, element, label, line

WIDTH, HEIGHT = 216, 70
LEFT, RIGHT, BELOW = 26, 12, 20
"""In pixels: the axis from 0 to 1, the bars, and the margins around them."""

TALLEST = 62
"""Height of the tallest bar; its count stands beside its top."""

TICKS = (0, 0.25, 0.5, 0.75, 1)
_label = partial(label, colour="muted", size=11)
_BAR = "var(--bar,#7fa8c9)"


def histogram(counts: Sequence[int], *, mean: float | None, interval: tuple[float, float] | None) -> str:
    """The distribution of a score in [0, 1], with its mean and its interval.

    Args:
        counts: Number of values in each of equally wide bins of [0, 1].
        mean: Mean of the run.
        interval: Interval of the mean.
    """
    width, most = WIDTH / len(counts), max(counts)
    top = HEIGHT - TALLEST
    drawn = [line(0, top, WIDTH, top), _label(f"{most:,}", -5, top + 4, anchor="end")]
    for place, count in enumerate(counts):
        high = TALLEST * count / (most or 1)
        bar = {"x": width * (place + 0.04), "y": HEIGHT - high, "width": 0.92 * width, "height": high}
        drawn.append(element("rect", **bar, fill=_BAR))
    drawn.append(line(0, HEIGHT, WIDTH, HEIGHT))
    for tick in TICKS:
        drawn += [line(WIDTH * tick, HEIGHT, WIDTH * tick, HEIGHT + 3)]
        drawn += [_label(f"{tick:g}", WIDTH * tick, HEIGHT + 16)]
    if interval is not None:
        low, high = (WIDTH * min(1.0, max(0.0, end)) for end in interval)
        band = {"x": low, "y": 0, "width": high - low, "height": HEIGHT}
        drawn.append(element("rect", **band, fill=COLOURS["accent"], fill_opacity="0.18"))
    if mean is not None:
        drawn.append(line(WIDTH * mean, 0, WIDTH * mean, HEIGHT, "accent", width=2))
    size = {"width": LEFT + WIDTH + RIGHT, "height": HEIGHT + BELOW}
    box = f"{-LEFT} 0 {size['width']} {size['height']}"
    return element("svg", *drawn, **size, viewBox=box, aria_hidden="true")
