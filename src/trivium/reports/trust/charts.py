"""Draws risk-coverage curves and reliability diagrams as SVG.

Axes and lines carry labels in plain words, for readers who have never seen such a chart.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import ceil, pi, sqrt
from pathlib import PurePath
from typing import Any, NamedTuple

from trivium.reports.drawings.svg import COLOURS, element, label, line, picture, round_step, text
from trivium.reports.wording import share
from trivium.runs.artifacts.curve import CurveArtifact
from trivium.runs.artifacts.variant import Band, CurvePoints, Diagram, Line, Picture
from trivium.runs.items.table import Origin
from trivium.safe_text import one_line
from trivium.trust.clustered import TOO_FEW_GROUPS
from trivium.values import counted

WIDTH, HEIGHT = 380, 260
"""Of the plot of a curve, in pixels; a reliability diagram is a square of this height."""
LEFT, RIGHT, TOP, BELOW, LEGEND, GAP = 60, 20, 82, 48, 24, 36
"""In pixels: the margins of a plot, the height of its legend, and between two charts of a row."""
CHARACTER_WIDTH, TITLE_CHARACTER_WIDTH = 6.8, 8.6
"""Widths of an average character of a text and of a title, in pixels."""

MOST_DOTS = 40
"""Largest number of working points that are drawn as dots."""
MOST_VARIANTS = 16

SIDES = ("accent", "second")
"""Colours of the curves of the first and the second predictor."""


class Chart(NamedTuple):
    """A finished chart and its size in pixels."""

    svg: str
    width: float
    height: float


class DrawnLine(NamedTuple):
    """A line of a chart of risks.

    Attributes:
        label: What it is, for the legend.
        coverage: Coverages of its points, in [0, 1], rising.
        risk: The risk at each.
        colour: One of those of drawings.
        dashes: Lengths of its dashes and gaps in pixels, or None.
        band: Intervals of the risk.
        end: The coverage beyond which the predictor abstains.
    """

    label: str
    coverage: Sequence[float]
    risk: Sequence[float]
    colour: str = SIDES[0]
    dashes: str | None = None
    band: Band = Band()
    end: float = 1.0


class _Axes(NamedTuple):
    """Axes from 0 to 1 across, and up from 0 to ``top`` in steps."""

    width: int
    top: float
    step: float

    def x(self, value: float) -> float:
        return LEFT + self.width * value

    def y(self, value: float) -> float:
        return TOP + HEIGHT * (1 - value / self.top)

    def points(self, of: Iterable[tuple[float, float]]) -> str:
        return " ".join(f"{self.x(across):.1f},{self.y(value):.1f}" for across, value in of)

    def chart(
        self,
        body: Iterable[str],
        *,
        title: str,
        notes: Sequence[str],
        names: tuple[str, str],
        tick: Callable[[float], str],
        legend: Sequence[DrawnLine] = (),
    ) -> Chart:
        """The chart around what is drawn.

        Args:
            body: What is drawn.
            title: Its title.
            notes: Lines below the title.
            names: Of the axes across and up.
            tick: Puts a number of the axis up into words.
            legend: The lines to explain.
        """
        bottom, right = TOP + HEIGHT, LEFT + self.width
        drawn = [label(text(title), LEFT, 18, anchor="start", size=14, font_weight="600")]
        drawn += [label(text(note), LEFT, 36 + 15 * at, anchor="start") for at, note in enumerate(notes)]
        for at in range(round(self.top / self.step) + 1):
            y = self.y(at * self.step)
            drawn += [line(LEFT, y, right, y), label(tick(at * self.step), LEFT - 6, y + 4, anchor="end")]
        for at in range(6):
            x = self.x(at / 5)
            drawn += [line(x, TOP, x, bottom), label(share(at / 5), x, bottom + 16)]
        across, up = map(text, names)
        drawn += [label(across, (LEFT + right) / 2, bottom + 34), *body]
        middle = bottom - HEIGHT / 2
        drawn.append(label(up, 16, middle, transform=f"rotate(-90 16 {middle})"))
        x, y = float(LEFT), bottom + BELOW + LEGEND / 2
        for each in sorted(legend, key=lambda each: each.dashes is not None):
            drawn += [line(x, y, x + 22, y, each.colour, width=2, dashes=each.dashes)]
            drawn += [label(text(each.label), x + 28, y + 4, anchor="start")]
            x += 44 + CHARACTER_WIDTH * len(each.label)
        longest = max((CHARACTER_WIDTH * len(note) for note in notes), default=0.0)
        named = (LEFT + right + CHARACTER_WIDTH * len(names[0])) / 2
        width = max(right + RIGHT, LEFT + TITLE_CHARACTER_WIDTH * len(title), LEFT + longest, named, x)
        height = bottom + BELOW + (LEGEND if legend else 0)
        svg = picture(*drawn, label=title or names[1], width=width, height=height, class_="curve")
        return Chart(svg, width, height)


def risk_chart(lines: Sequence[DrawnLine], *, title: str = "", notes: Sequence[str] = (), loss: str) -> Chart:
    """Selective risk against coverage, with the band of each predictor.

    Args:
        lines: The lines; in the foreground what comes last.
        title: The question that the chart answers.
        notes: Lines below the title.
        loss: What is lost, in words.
    """
    highest = max(chain.from_iterable((*each.risk, *each.band.high) for each in lines), default=0.0) or 1.0
    step = round_step(highest / 5)
    axes = _Axes(WIDTH, step * ceil(highest / step - 1e-9), step)
    body = []
    for each in lines:
        shares = [0.0, *each.band.coverage, each.end]
        low, high = ([of[0], *of, of[-1]] if of else [] for of in (each.band.low, each.band.high))
        outline = [*zip(shares, low, strict=False), *list(zip(shares, high, strict=False))[::-1]]
        if outline:
            band = {"points": axes.points(outline), "fill": COLOURS[each.colour], "fill_opacity": "0.16"}
            body.append(element("polygon", **band))
    for each in lines:
        points, colour = list(zip(each.coverage, each.risk, strict=True)), COLOURS[each.colour]
        style = {"fill": "none", "stroke": colour, "stroke_width": "2", "stroke_dasharray": each.dashes}
        body.append(element("polyline", points=axes.points(points), **style))
        if each.dashes is None and len(points) <= MOST_DOTS:
            body += [
                element("circle", cx=axes.x(coverage), cy=axes.y(risk), r=3.3, fill=colour)
                for coverage, risk in points
                if coverage
            ]
    for place, each in enumerate(one for one in lines if 0 < one.end < 1):
        at, words = axes.x(each.end), f"abstains beyond {100 * each.end:.0f} %"
        body.append(line(at, TOP, at, TOP + HEIGHT, each.colour, dashes="3 3"))
        beside = {"anchor": "start" if each.end < 0.7 else "end", "colour": each.colour}
        left = at + (4 if each.end < 0.7 else -4)
        body.append(label(words, left, TOP + 12 + 14 * place, size=10, **beside))
    across = "share of items that are answered, most confident first (coverage)"
    names = (across, f"risk: mean loss of the answered ({loss})")
    return axes.chart(body, title=title, notes=notes, names=names, tick="{:g}".format, legend=lines)


def _reliability(bins: Diagram) -> Chart:
    """Share of right predictions against their confidence, with the number of predictions."""
    found = [
        (stated, right, n)
        for stated, right, n in zip(bins.confidence, bins.accuracy, bins.count, strict=True)
        if stated is not None and right is not None
    ]
    axes, most = _Axes(HEIGHT, 1.0, 0.2), max((n for _, _, n in found), default=1)
    body, counts = [line(axes.x(0), axes.y(0), axes.x(1), axes.y(1), "muted", dashes="5 4")], list[str]()
    halo: dict[str, Any] = {"stroke": COLOURS["paper"], "stroke_width": 4, "paint_order": "stroke"}
    for stated, right, n in found:
        x, y, radius = axes.x(stated), axes.y(right), sqrt((40 + 380 * n / most) / pi)
        body.append(line(x, y, x, axes.y(stated), SIDES[0]))
        body.append(element("circle", cx=x, cy=y, r=radius, fill=COLOURS[SIDES[0]], fill_opacity="0.85"))
        # On the side of the dot away from the dashed line.
        where = (x, y - radius - 4, "middle") if right >= stated else (x + radius + 3, y + 10, "start")
        counts.append(label(f"{n:,}", *where[:2], anchor=where[2], size=11, **halo))
    notes = (
        "On the dashed line it is; below it, too confident.",
        f"Numbers count predictions. Mean gap (ECE): {bins.ece:.3f}",
    )
    names = ("confidence (mean of a bin)", "share of them that were right")
    body += counts
    return axes.chart(body, title="Is the confidence calibrated?", notes=notes, names=names, tick=share)


def charts_of(artifact: CurveArtifact, confidence: str) -> list[Chart]:
    """The curves of a confidence, and the reliability diagram of a single predictor that has one.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.
        confidence: Its name.
    """
    entries, paired = artifact.sides(confidence), artifact.comparison.enabled
    lines: list[DrawnLine] = []
    if not paired:
        drawn = entries[0].picture or Picture()
        lines.append(_line("best ranking possible", drawn.optimal, "good", "6 4"))
        lines.append(_line("lower hull", drawn.lower_hull, "third", "2 3"))
    names = [one_line(_source_name(each), at_most=24) for each in artifact.inputs]
    labels = [f"{word}: {name}" for word, name in zip(("first", "second"), names, strict=False)]
    for entry, side, colour in zip(entries, labels if paired else ["measured"], SIDES, strict=False):
        measured = _line(side, entry.curve, colour)
        if measured.risk:
            coverage, risk = [0.0, *measured.coverage], [measured.risk[0], *measured.risk]
            measured = measured._replace(coverage=coverage, risk=risk)
        band = (entry.picture or Picture()).band
        lines.append(measured._replace(band=band, end=entry.cmax))
    groups = entries[0].bootstrap.groups
    level = "95 % interval" if groups >= TOO_FEW_GROUPS else "interval"
    notes = (
        "Lower is better. With a good confidence the curve rises:",
        "the most confident answers are the least wrong.",
        f"Band: {level}, {counted(groups, 'group')}.",
    )
    ranked = "" if confidence == "confidence" else f" by {confidence}"
    title = f"ow wrong are the most confident answers{ranked}?"
    title = f"H{title}" if paired else f"{names[0]}: h{title}"
    found = [risk_chart(lines, title=one_line(title, at_most=80), notes=notes, loss=artifact.loss.name)]
    if not paired and entries[0].reliability:
        found.append(_reliability(entries[0].reliability))
    return found


def _line(words: str, points: CurvePoints | Line, colour: str, dashes: str | None = None) -> DrawnLine:
    return DrawnLine(words, points.coverage, points.selective_risk, colour, dashes)


def _source_name(source: Origin) -> str:
    return source.mode or PurePath(source.path).stem


def draw_curves(artifact: CurveArtifact) -> str:
    """The curves of every confidence, a row each, as one SVG.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.
    """
    drawn, down, widest = [], 0.0, 0.0
    for name in list(artifact.confidence_variants)[:MOST_VARIANTS]:
        across, row = 0.0, charts_of(artifact, name)
        for chart in row:
            drawn.append(element("svg", chart.svg, x=across, y=down, overflow="visible"))
            across += chart.width + GAP
        down, widest = down + max(chart.height for chart in row) + GAP, max(widest, across - GAP)
    size = {"width": widest, "height": down - GAP}
    return picture(*drawn, label="Risk and coverage", **size, class_="curves")
