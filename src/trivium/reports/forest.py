"""The forest plot of a comparison: the difference of each metric with its interval."""

import re
from collections.abc import Callable, Sequence
from math import floor, log10
from pathlib import Path

from trivium.errors import InputError, MissingExtra
from trivium.reports.document.blocks import ANSWERS
from trivium.reports.drawings.svg import element, picture, text
from trivium.reports.wording import signed, signed_interval
from trivium.runs.comparing.comparison import MetricDelta

ROW, TOP, BOTTOM = 30, 30, 46
NAMES, PLOT, NUMBERS = 180, 470, 200
"""Widths in pixels of the names, the axis, and the numbers to its right."""
WIDTH = NAMES + PLOT + NUMBERS
TICKS = 9

_COLOURS = {
    "ink": "var(--ink,#1c2127)",
    "muted": "var(--muted,#59626c)",
    "line": "var(--line,#dcdfe3)",
    "pass": "var(--good,#1a7346)",
    "inconclusive": "var(--warn,#825500)",
    "fail": "var(--bad,#ab2f28)",
    "band": "var(--soft,#f2f2ef)",
}
_FONT = "system-ui, sans-serif"
_VARIABLE = re.compile(r"var\(--\w+,(#\w+)\)")
_PAPER = '<rect width="100%" height="100%" fill="#ffffff"/>'


Row = tuple[str, MetricDelta, bool]
"""Name and figure of a metric, and whether it decides."""


def forest(figures: Sequence[Row], margin: float) -> str:
    """The forest plot as SVG, in the colours of the page around it or in default colours."""
    reach = _reach(figures, margin)
    bottom = TOP + ROW * len(figures)

    def x(value: float) -> float:
        return NAMES + PLOT * (value + reach) / (2 * reach)

    parts = [
        element(
            "rect",
            x=x(-margin),
            y=TOP - 8,
            width=x(0) - x(-margin),
            height=bottom - TOP + 8,
            fill=_COLOURS["band"],
        )
    ]
    for tick in _ticks(reach):
        parts += [
            _line(x(tick), TOP - 8, x(tick), bottom, "muted" if tick == 0 else "line"),
            _label(_tick(tick), x(tick), bottom + 16, "muted", "middle"),
        ]
    dashed = _line(x(-margin), TOP - 8, x(-margin), bottom, "muted", dashes="4 3")
    parts += [
        dashed,
        _label("← base is better", x(0) - 12, TOP - 16, "muted", "end"),
        _label("head is better →", x(0) + 12, TOP - 16, "muted", "start"),
        _label(
            f"difference, head − base; dashed: the margin, −{margin:g}",
            NAMES + PLOT / 2,
            bottom + 36,
            "muted",
            "middle",
        ),
    ]
    for row, (name, figure, decides) in enumerate(figures):
        y = TOP + ROW * row + ROW / 2
        parts += _row(name, figure, y, x, bold=decides)
    return picture(*parts, label=_description(figures), width=WIDTH, height=bottom + BOTTOM, class_="forest")


def _row(name: str, figure: MetricDelta, y: float, x: Callable[[float], float], *, bold: bool) -> list[str]:
    colour = _COLOURS[figure.answer]
    weight = "600" if bold else "400"
    drawn = [_label(text(name, at_most=26), 8, y + 4, "ink", "start", weight=weight)]
    if figure.ci95 is not None:
        low, high = (x(end) for end in figure.ci95)
        drawn += [
            element("line", x1=low, x2=high, y1=y, y2=y, stroke=colour, stroke_width=2),
            *(
                element("line", x1=at, x2=at, y1=y - 5, y2=y + 5, stroke=colour, stroke_width=2)
                for at in (low, high)
            ),
        ]
    if figure.delta is not None:
        drawn.append(element("circle", cx=x(figure.delta), cy=y, r=5, fill=colour))
    label = f"{signed(figure.delta)} {signed_interval(figure.ci95)}"
    # The mark is a text of its own: a font that lacks it would switch the font of its neighbours too.
    drawn.append(_label(ANSWERS[figure.answer][0], NAMES + PLOT + 14, y + 4, figure.answer, "start"))
    drawn.append(_label(label, NAMES + PLOT + 30, y + 4, "ink", "start"))
    return drawn


def _reach(figures: Sequence[Row], margin: float) -> float:
    """Half-width of the axis: beyond every interval and the margin, at least 0.01."""
    ends = [abs(end) for _, figure, _ in figures for end in figure.ci95 or ()]
    points = [abs(figure.delta) for _, figure, _ in figures if figure.delta is not None]
    return 1.06 * max(*ends, *points, 1.5 * margin, 0.01, 0.0)


def _ticks(reach: float) -> list[float]:
    """Round numbers along the axis, about ``TICKS`` of them, including 0."""
    rough = 2 * reach / TICKS
    power = 10 ** floor(log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    many = floor(reach / step)
    return [place * step for place in range(-many, many + 1)]


def _tick(value: float) -> str:
    return f"{value:+.3f}".rstrip("0").replace("-", "−") if value else "0"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str | None = None) -> str:
    return element(
        "line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=_COLOURS[colour], stroke_width=1, stroke_dasharray=dashes
    )


def _label(label: str, x: float, y: float, colour: str, anchor: str, weight: str = "400") -> str:
    return element(
        "text",
        label,
        x=x,
        y=y,
        fill=_COLOURS[colour],
        text_anchor=anchor,
        font_family=_FONT,
        font_size=12,
        font_weight=weight,
    )


def _description(figures: Sequence[Row]) -> str:
    """The plot in words, for screen readers."""
    rows = [
        f"{name} {signed(figure.delta)} {signed_interval(figure.ci95)} {figure.answer}"
        for name, figure, _ in figures
    ]
    return f"Differences, head minus base: {'; '.join(rows)}"


def write_picture(path: Path, plot: str) -> None:
    """Write a plot to a file of its own, in default colours on white.

    Raises:
        InputError: If the file name ends neither in .svg nor in .png.
        MissingExtra: If the name ends in .png and ``trivium[report]`` is not installed.
        OSError: If the file cannot be written.
    """
    svg = _VARIABLE.sub(r"\1", plot).replace("<title>", _PAPER + "<title>", 1)
    if path.suffix == ".svg":
        path.write_text(svg, encoding="utf-8")
    elif path.suffix == ".png":
        try:
            import vl_convert
        except ImportError as error:
            raise MissingExtra("report", "A chart as PNG") from error
        path.write_bytes(vl_convert.svg_to_png(svg, scale=2))
    else:
        raise InputError(str(path), "a chart is written as .svg or .png")
