"""Writes a comparison as an HTML page, with a forest plot of the differences."""

import os
import re
from collections.abc import Callable, Mapping
from itertools import chain
from math import floor, log10
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trivium.errors import InputError, MissingExtra
from trivium.reports import comparison_text as phrases
from trivium.reports.drawings.svg import element, picture, text
from trivium.reports.escape import one_line
from trivium.reports.html.page import asset, environment, policy, write_atomically
from trivium.reports.moved_cases.page import cases_html, checked_link
from trivium.reports.moved_cases.shown import what_moved
from trivium.reports.slices import compared_rows
from trivium.reports.wording import seconds, signed, signed_interval
from trivium.runs.comparing.comparison import Comparison, MetricDelta
from trivium.runs.comparing.graph_diff import GraphComparison

if TYPE_CHECKING:
    from markupsafe import Markup

ROWS_SHOWN = 60
"""Rows in each table of edges and times; the others are counted."""

_TONES = {"pass": "good", "fail": "bad", "inconclusive": "warn"}


def write_html(
    path: str | os.PathLike[str], comparison: Comparison, *, links: Mapping[str, str] | None = None
) -> None:
    """Write the comparison as an HTML page, with all cases that moved.

    The cases are read from the stores and written one after another, so memory does not grow with them.

    Args:
        path: The file; an existing file is replaced only when the new one is complete.
        comparison: The comparison.
        links: Pages to link to, by what they show: ``base`` and ``head`` are the pages of the runs, which
            every case links to; any other name is the text of a further link. Addresses are relative to
            this page, or begin with ``https:`` or ``http:``.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
        InputError: If the file cannot be written, or a link is of another kind.
        StoreError: If the cases cannot be read.
    """
    target = Path(path)
    links = {name: checked_link(link) for name, link in (links or {}).items()}
    before, after = _page(comparison, links).split(_CASES_MARK)
    cases = cases_html(comparison.moved_cases, links)
    try:
        write_atomically(target, chain([before.encode()], cases, [after.encode()]))
    except OSError as error:
        raise InputError(str(target), f"cannot be written: {error.strerror or error}") from error


_CASES_MARK = "<!-- cases -->"


def _page(comparison: Comparison, links: Mapping[str, str]) -> str:
    from markupsafe import Markup

    from trivium._version import __version__

    templates = environment().overlay()
    templates.filters = {**templates.filters, **FILTERS}
    style = asset("style.css")
    cases = Markup(_CASES_MARK)  # noqa: S704 - our own
    return templates.get_template("comparison.html").render(
        body_context(comparison, cases),
        pairs_compared=phrases.pairs_compared(comparison),
        links=links,
        style=Markup(style),  # noqa: S704 - our own file
        policy=policy(style),
        version=__version__,
    )


FILTERS: dict[str, Callable[..., Any]] = {
    "signed": signed,
    "signed_interval": signed_interval,
    "interval_of": phrases.interval_of,
    "probability": phrases.probability,
    "wins_losses_ties": phrases.wins_losses_ties,
    "further_cases": phrases.further_cases,
    "change_word": phrases.change_word,
    "edge_text": phrases.edge_text,
    "factor": phrases.factor,
    "factors": phrases.factors,
    "seconds": seconds,
}
"""Filters of ``comparison_body.html``."""


def body_context(comparison: Comparison, cases: "Markup") -> dict[str, Any]:
    """Values for ``comparison_body.html``: the answer, what changed, the figures, the reservations.

    Args:
        comparison: The comparison.
        cases: The cases that moved, as HTML.
    """
    from markupsafe import Markup

    return {
        "comparison": comparison,
        "outlook": phrases.outlook(comparison),
        "sentence": phrases.answer_sentence(comparison),
        "grounds": [
            comparison.reason,
            phrases.confirmed_sentence(comparison),
            phrases.questions_sentence(comparison),
            phrases.policy_sentence(comparison),
        ],
        "what_moved": what_moved(comparison.moved_cases),
        "cases": cases,
        "note": phrases.note(comparison),
        "slices": [compared_rows(comparison, by) for by in comparison.slices],
        "figures": [(one_line(name), figure) for name, figure, _ in phrases.rows(comparison)],
        "unpaired": [("base", comparison.only_base), ("head", comparison.only_head)],
        "forest": Markup(forest(comparison)),  # noqa: S704 - names are escaped, the rest is numbers
        "graphs": None if comparison.graphs is None else _graphs(comparison.graphs),
        "marks": phrases.MARKS,
        "proven": phrases.PROVEN,
        "tones": _TONES,
    }


def _graphs(graphs: GraphComparison) -> dict[str, Any]:
    return {
        "traces_compared": phrases.traces_compared(graphs),
        "edges_changed": phrases.edges_changed(graphs),
        "edges": graphs.edges[:ROWS_SHOWN],
        "paces": graphs.paces[:ROWS_SHOWN],
        "left_out": phrases.rows_left_out(graphs, ROWS_SHOWN),
        "note": phrases.graph_note(graphs),
    }


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


def forest(comparison: Comparison) -> str:
    """The forest plot as SVG, in the colours of the page around it or in default colours."""
    figures = phrases.rows(comparison)
    reach = _reach(comparison)
    bottom = TOP + ROW * len(figures)

    def x(value: float) -> float:
        return NAMES + PLOT * (value + reach) / (2 * reach)

    parts = [
        element(
            "rect",
            x=x(-comparison.margin),
            y=TOP - 8,
            width=x(0) - x(-comparison.margin),
            height=bottom - TOP + 8,
            fill=_COLOURS["band"],
        )
    ]
    for tick in _ticks(reach):
        parts += [
            _line(x(tick), TOP - 8, x(tick), bottom, "muted" if tick == 0 else "line"),
            _label(_tick(tick), x(tick), bottom + 16, "muted", "middle"),
        ]
    dashed = _line(x(-comparison.margin), TOP - 8, x(-comparison.margin), bottom, "muted", dashes="4 3")
    parts += [
        dashed,
        _label("← base is better", x(0) - 12, TOP - 16, "muted", "end"),
        _label("head is better →", x(0) + 12, TOP - 16, "muted", "start"),
        _label(
            f"difference, head − base; dashed: the margin, −{comparison.margin:g}",
            NAMES + PLOT / 2,
            bottom + 36,
            "muted",
            "middle",
        ),
    ]
    for row, (name, figure, decides) in enumerate(figures):
        y = TOP + ROW * row + ROW / 2
        parts += _row(name, figure, y, x, bold=decides)
    return picture(
        *parts, label=_description(comparison), width=WIDTH, height=bottom + BOTTOM, class_="forest"
    )


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
    drawn.append(_label(phrases.MARKS[figure.answer], NAMES + PLOT + 14, y + 4, figure.answer, "start"))
    drawn.append(_label(label, NAMES + PLOT + 30, y + 4, "ink", "start"))
    return drawn


def _reach(comparison: Comparison) -> float:
    """Half-width of the axis: beyond every interval and the margin, at least 0.01."""
    ends = [abs(end) for figure in comparison.metrics.values() for end in figure.ci95 or ()]
    points = [abs(figure.delta) for figure in comparison.metrics.values() if figure.delta is not None]
    return 1.06 * max(*ends, *points, 1.5 * comparison.margin, 0.01, 0.0)


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


def _description(comparison: Comparison) -> str:
    """The plot in words, for screen readers."""
    rows = [
        f"{name} {signed(figure.delta)} {signed_interval(figure.ci95)} {figure.answer}"
        for name, figure, _ in phrases.rows(comparison)
    ]
    return f"Differences, head minus base: {'; '.join(rows)}"


def write_chart(path: Path, comparison: Comparison) -> None:
    """Write the plot to a file of its own, in default colours on white.

    Raises:
        InputError: If the file name ends neither in .svg nor in .png.
        MissingExtra: If the name ends in .png and ``trivium[report]`` is not installed.
        OSError: If the file cannot be written.
    """
    svg = _VARIABLE.sub(r"\1", forest(comparison)).replace("<title>", _PAPER + "<title>", 1)
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
