"""Draws risk-coverage curves and reliability diagrams with Altair.

Axes and lines carry labels in plain words, for readers who have never seen such a chart.
"""

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from trivium.errors import InputError, MissingExtra
from trivium.reports.wording import counted
from trivium.runs.artifacts.curve import CurveArtifact, Loss
from trivium.runs.artifacts.variant import Band, CurvePoints, Diagram, Line, Picture, Variant
from trivium.runs.items.table import Origin
from trivium.safe_text import one_line

WIDTH, HEIGHT = 380, 260
PIXELS = 2
"""Pixels of a PNG per unit of the drawing."""

MOST_DOTS = 40
"""Largest number of working points that are drawn as dots."""

MOST_VARIANTS = 16

INK, FAINT = "#374151", "#9ca3af"
SIDES = ("#1f5f8b", "#b5651d")
BEST, HULL = "#2e7d4f", "#8b5fa8"
PAPER, HALO, GRID = "white", "#fefefe", "#e5e7eb"

Rows = list[dict[str, Any]]


def load_altair() -> Any:
    """The Altair module.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    try:
        import altair
        import vl_convert  # noqa: F401 - charts need both
    except ImportError as error:
        raise MissingExtra("report", "A picture of curves") from error
    return altair


def draw_curves(artifact: CurveArtifact, suffix: str) -> bytes:
    """Draw the curves of every confidence.

    Args:
        artifact: Result of ``curve_artifact`` with ``drawn=True``.
        suffix: ``.png`` or ``.svg``.

    Raises:
        InputError: If the suffix is neither.
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    check_format(suffix)
    (specification,) = describe_curves(artifact)
    import vl_convert

    if suffix.lower() == ".svg":
        svg: str = vl_convert.vegalite_to_svg(specification)
        return svg.encode()
    png: bytes = vl_convert.vegalite_to_png(specification, scale=PIXELS)
    return png


def check_format(suffix: str) -> None:
    """Raise InputError unless the file suffix is a supported picture format."""
    if suffix.lower() not in {".png", ".svg"}:
        raise InputError("", f'cannot draw "{suffix}": expected a file that ends in .png or .svg')


def describe_curves(
    artifact: CurveArtifact, variants: Sequence[str] | None = None, *, apart: bool = False
) -> list[dict[str, Any]]:
    """The picture as Vega-Lite specifications.

    Args:
        artifact: As for :func:`draw_curves`.
        variants: Confidences to draw, at most 16; all by default.
        apart: Whether each panel is a picture of its own; otherwise one picture has a row per confidence.
    """
    alt = load_altair()
    names = list(variants or artifact.confidence_variants)[:MOST_VARIANTS]
    paired = artifact.comparison.enabled
    rows = []
    for name in names:
        entries = artifact.sides(name)
        labels = _side_names(artifact) if paired else ["measured"]
        panels = [_risk(alt, _title(artifact, name), entries, labels, artifact.loss)]
        panels += [_reliability(alt, entries[0].reliability)] if not paired and entries[0].reliability else []
        rows.append(panels)
    if apart:
        return [_styled(panel) for row in rows for panel in row]
    return [_styled(alt.vconcat(*(alt.hconcat(*row, spacing=36) for row in rows), spacing=28))]


def _styled(chart: Any) -> dict[str, Any]:
    styled = (
        chart.configure(background=PAPER, font="DejaVu Sans, Arial, sans-serif", padding=14)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK,
            titleColor=INK,
            gridColor=GRID,
            domainColor=FAINT,
            tickColor=FAINT,
            titleFontWeight="normal",
        )
        .configure_legend(labelColor=INK)
        .configure_title(color=INK, anchor="start", subtitleColor=INK, fontSize=14, offset=10)
    )
    specification: dict[str, Any] = styled.to_dict()
    return specification


_ROLES = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
"""What Vega says to screen readers about each part; a page has a sentence for the whole picture."""

_PAGE_COLOURS = {
    PAPER: "none",
    INK: "var(--ink)",
    FAINT: "var(--muted)",
    GRID: "var(--line)",
    SIDES[0]: "var(--accent)",
    SIDES[1]: "var(--second)",
    BEST: "var(--good)",
    HULL: "var(--third)",
    HALO: "var(--paper)",
}


def in_page_colours(svg: str) -> str:
    """A drawn picture in the colours of the surrounding page, which also says what it shows."""
    for drawn, of_page in _PAGE_COLOURS.items():
        svg = svg.replace(f'"{drawn}"', f'"{of_page}"')
    return _ROLES.sub("", svg)


def _title(artifact: CurveArtifact, confidence: str) -> str:
    """The question that a row of the picture answers, with the confidence if it has a name."""
    ranked = "" if confidence == "confidence" else f" by {confidence}"
    question = f"ow wrong are the most confident answers{ranked}?"
    if artifact.comparison.enabled:
        return f"H{question}"
    return f"{one_line(_source_name(artifact.inputs[0]), at_most=24)}: h{question}"


def _side_names(artifact: CurveArtifact) -> list[str]:
    names = [one_line(_source_name(each), at_most=24) for each in artifact.inputs]
    words = ("first", "second")
    return [f"{word}: {name}" for word, name in zip(words, names, strict=True)]


def _source_name(source: Origin) -> str:
    return source.mode or PurePath(source.path).stem


def _risk(alt: Any, title: str, entries: Sequence[Variant], labels: Sequence[str], loss: Loss) -> Any:
    """Selective risk against coverage, with the band of each predictor."""
    x = alt.X(
        "coverage:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(
            format=".0%", title="share of all items that are answered, the most confident first (coverage)"
        ),
    )
    y_title = f"risk: mean loss of the answered ({loss.name})"
    y = alt.Y("risk:Q", scale=alt.Scale(domainMin=0), axis=alt.Axis(title=y_title, tickCount=5))
    layers = []
    for entry, colour in zip(entries, SIDES, strict=False):
        band = _to_the_ends(_points(_picture(entry).band, low="low", high="high"), entry.cmax)
        layers.append(
            alt.Chart(alt.Data(values=band))
            .mark_area(color=colour, opacity=0.16)
            .encode(x=x, y=alt.Y("low:Q", title=y_title), y2="high:Q")
        )
    lines, dots = _curves(entries, labels)
    colour = alt.Color(
        "line:N",
        scale=alt.Scale(
            domain=[*labels, "best ranking possible", "lower hull"][: len(labels) + 2 * (len(labels) == 1)],
            range=[*SIDES[: len(labels)], BEST, HULL],
        ),
        legend=alt.Legend(title=None, orient="bottom", direction="horizontal", symbolType="stroke"),
    )
    layers.append(
        alt.Chart(alt.Data(values=lines))
        .mark_line(strokeWidth=2)
        .encode(
            x=x,
            y=y,
            color=colour,
            strokeDash=alt.StrokeDash(
                "line:N",
                scale=alt.Scale(
                    domain=[*labels, "best ranking possible", "lower hull"],
                    range=[[1, 0]] * len(labels) + [[6, 4], [2, 3]],
                ),
                legend=None,
            ),
        )
    )
    layers.append(
        alt.Chart(alt.Data(values=dots)).mark_circle(size=34, opacity=1).encode(x=x, y=y, color=colour)
    )
    for entry, tint in zip(entries, SIDES, strict=False):
        if 0 < entry.cmax < 1:
            layers += _end(alt, entry.cmax, tint)
    return alt.layer(*layers).properties(
        width=WIDTH, height=HEIGHT, title=alt.Title(one_line(title, at_most=80), subtitle=_subtitle(entries))
    )


def _picture(entry: Variant) -> Picture:
    return entry.picture or Picture()


def _curves(entries: Sequence[Variant], labels: Sequence[str]) -> tuple[Rows, Rows]:
    """Points of the lines, and those that are drawn as dots: of curves with few points."""
    lines: Rows = []
    if len(entries) == 1:
        lines += _named(_picture(entries[0]).optimal, "best ranking possible")
        lines += _named(_picture(entries[0]).lower_hull, "lower hull")
    dots: Rows = []
    for entry, label in zip(entries, labels, strict=True):
        measured = _named(entry.curve, label)
        dots += measured if len(measured) <= MOST_DOTS else []
        lines += [measured[0] | {"coverage": 0.0}, *measured] if measured else []
    return lines, dots


def _subtitle(entries: Sequence[Variant]) -> list[str]:
    groups = entries[0].bootstrap.groups
    level = "95 % interval" if groups >= 10 else "interval"
    among = counted(groups, "group")
    return [
        "Lower is better. With a good confidence the curve rises:",
        f"the most confident answers are the least wrong. Band: {level}, {among}.",
    ]


def _end(alt: Any, cmax: float, tint: str) -> list[Any]:
    """Mark the coverage beyond which the predictor abstains."""
    end = alt.Chart(alt.Data(values=[{"coverage": cmax, "label": f"abstains beyond {100 * cmax:.0f} %"}]))
    x = alt.X("coverage:Q")
    return [
        end.mark_rule(color=tint, strokeDash=[3, 3], opacity=0.7).encode(x=x),
        end.mark_text(color=tint, align="left", dx=4, fontSize=10).encode(
            x=x, y=alt.value(8 if tint == SIDES[0] else 22), text="label:N"
        ),
    ]


def _reliability(alt: Any, bins: Diagram) -> Any:
    """Share of right predictions against their confidence, with the number of predictions."""
    found = [
        {"stated": stated, "right": right, "n": n, "label": f"{n:,}"}
        for stated, right, n in zip(bins.confidence, bins.accuracy, bins.count, strict=True)
        if n
    ]
    ends = alt.Scale(domain=[0, 1])
    x = alt.X("stated:Q", scale=ends, axis=alt.Axis(format=".0%", title="confidence (mean of a bin)"))
    y = alt.Y("right:Q", scale=ends, axis=alt.Axis(format=".0%", title="share of them that were right"))
    given = alt.Chart(alt.Data(values=found))
    exact = alt.Chart(alt.Data(values=[{"stated": 0, "right": 0}, {"stated": 1, "right": 1}]))
    gaps = given.mark_rule(color=SIDES[0], opacity=0.45).encode(x=x, y=y, y2=alt.Y2("stated:Q"))
    dots = given.mark_circle(color=SIDES[0], opacity=0.85).encode(
        x=x, y=y, size=alt.Size("n:Q", scale=alt.Scale(range=[40, 420]), legend=None)
    )
    texts = []  # placed on the side of the dot away from the dashed line
    for side, place in (
        ("datum.right >= datum.stated", {"dy": -16}),
        ("datum.right < datum.stated", {"dx": 14, "dy": -8, "align": "left"}),
    ):
        these = given.transform_filter(side)
        texts += [
            these.mark_text(fontSize=11, **place, **style).encode(x=x, y=y, text="label:N")
            for style in ({"color": HALO, "stroke": HALO, "strokeWidth": 4}, {"color": INK})
        ]
    return alt.layer(
        exact.mark_line(color=FAINT, strokeDash=[5, 4]).encode(x=x, y=y), gaps, dots, *texts
    ).properties(
        width=HEIGHT,
        height=HEIGHT,
        title=alt.Title(
            "Is the confidence calibrated?",
            subtitle=[
                "On the dashed line it is; below it, too confident.",
                f"Numbers count predictions. Mean gap (ECE): {bins.ece:.3f}",
            ],
        ),
    )


def _to_the_ends(band: Rows, cmax: float) -> Rows:
    """Extend the band to coverage 0 and to the end of the curve, with constant values."""
    return [band[0] | {"coverage": 0.0}, *band, band[-1] | {"coverage": cmax}] if band else []


def _points(columns: Band | CurvePoints | Line, **named: str) -> Rows:
    return [
        {"coverage": share} | {name: getattr(columns, key)[place] for name, key in named.items()}
        for place, share in enumerate(columns.coverage)
    ]


def _named(columns: CurvePoints | Line, line: str) -> Rows:
    return [point | {"line": line} for point in _points(columns, risk="selective_risk")]
