"""The forest plot of a comparison: the difference of each metric with its interval."""

from collections.abc import Callable, Sequence
from math import floor

from trivium.reports.document.blocks import ANSWERS
from trivium.reports.drawings.svg import COLOURS, element, label, line, picture, round_step, text
from trivium.reports.wording import signed, signed_interval
from trivium.runs.comparing.comparison import MetricDelta

ROW, TOP, BOTTOM = 30, 30, 46
NAMES, PLOT, NUMBERS = 180, 470, 200
"""Widths in pixels of the names, the axis, and the numbers to its right."""
WIDTH = NAMES + PLOT + NUMBERS
TICKS = 9

_TONES: dict[str, str] = {"pass": "good", "inconclusive": "warn", "fail": "bad"}

Row = tuple[str, MetricDelta, bool]
"""Name and figure of a metric, and whether it decides."""


def forest(figures: Sequence[Row], margin: float) -> str:
    """The forest plot as SVG, in the colours of the page around it or in default colours."""
    reach = _reach(figures, margin)
    bottom = TOP + ROW * len(figures)

    def x(value: float) -> float:
        return NAMES + PLOT * (value + reach) / (2 * reach)

    near, top = x(-margin), TOP - 8
    band = {"x": near, "y": top, "width": x(0) - near, "height": bottom - top}
    parts = [element("rect", **band, fill=COLOURS["soft"])]
    for tick in _ticks(reach):
        parts += [
            line(x(tick), top, x(tick), bottom, "muted" if tick == 0 else "line"),
            label(_tick(tick), x(tick), bottom + 16, colour="muted"),
        ]
    explained = f"difference, head − base; dashed: the margin, −{margin:g}"
    parts += [
        line(near, top, near, bottom, "muted", dashes="4 3"),
        label("← base is better", x(0) - 12, TOP - 16, colour="muted", anchor="end"),
        label("head is better →", x(0) + 12, TOP - 16, colour="muted", anchor="start"),
        label(explained, NAMES + PLOT / 2, bottom + 36, colour="muted"),
    ]
    for row, (name, figure, decides) in enumerate(figures):
        y = TOP + ROW * row + ROW / 2
        parts += _row(name, figure, y, x, bold=decides)
    return picture(*parts, label=_description(figures), width=WIDTH, height=bottom + BOTTOM, class_="forest")


def _row(name: str, figure: MetricDelta, y: float, x: Callable[[float], float], *, bold: bool) -> list[str]:
    tone, weight = _TONES[figure.answer], "600" if bold else "400"
    drawn = [label(text(name, at_most=26), 8, y + 4, anchor="start", font_weight=weight)]
    if figure.ci95 is not None:
        low, high = (x(end) for end in figure.ci95)
        drawn.append(line(low, y, high, y, tone, width=2))
        drawn += [line(at, y - 5, at, y + 5, tone, width=2) for at in (low, high)]
    if figure.delta is not None:
        drawn.append(element("circle", cx=x(figure.delta), cy=y, r=5, fill=COLOURS[tone]))
    numbers = f"{signed(figure.delta)} {signed_interval(figure.ci95)}"
    # The mark is a text of its own: a font that lacks it would switch the font of its neighbours too.
    mark, right = ANSWERS[figure.answer][0], NAMES + PLOT
    drawn.append(label(mark, right + 14, y + 4, colour=tone, anchor="start"))
    drawn.append(label(numbers, right + 30, y + 4, anchor="start"))
    return drawn


def _reach(figures: Sequence[Row], margin: float) -> float:
    """Half-width of the axis: beyond every interval and the margin, at least 0.01."""
    ends = [abs(end) for _, figure, _ in figures for end in figure.ci95 or ()]
    points = [abs(figure.delta) for _, figure, _ in figures if figure.delta is not None]
    return 1.06 * max(*ends, *points, 1.5 * margin, 0.01, 0.0)


def _ticks(reach: float) -> list[float]:
    """Round numbers along the axis, about ``TICKS`` of them, including 0."""
    step = round_step(2 * reach / TICKS)
    many = floor(reach / step)
    return [place * step for place in range(-many, many + 1)]


def _tick(value: float) -> str:
    return f"{value:+.3f}".rstrip("0").replace("-", "−") if value else "0"


def _description(figures: Sequence[Row]) -> str:
    """The plot in words, for screen readers."""
    rows = [
        f"{name} {signed(figure.delta)} {signed_interval(figure.ci95)} {figure.answer}"
        for name, figure, _ in figures
    ]
    return f"Differences, head minus base: {'; '.join(rows)}"
