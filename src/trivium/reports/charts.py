"""Charts of a run as SVG, drawn by Vega-Lite, in the colours of the page they stand on.

Vega knows neither light nor dark. It draws with stand-in colours, which are then replaced by the
page's custom properties; a page that defines none shows the given defaults.
"""

from collections.abc import Sequence
from typing import Any

from trivium.errors import MissingExtra
from trivium.reports.untrusted import one_line

WIDTH, HEIGHT = 236, 74
PART_WIDTH, PART_ROW = 420, 26

_INK, _LINE, _BAR, _MEAN, _HUMAN = "#010101", "#020202", "#030303", "#040404", "#050505"
_COLOURS = {
    _INK: "var(--muted,#6b7280)",
    _LINE: "var(--line,#c9ccd1)",
    _BAR: "var(--bar,#7fa8c9)",
    _MEAN: "var(--accent,#1f5f8b)",
    _HUMAN: "var(--human,#b5651d)",
}


def load_altair() -> Any:
    """The Altair module.

    Raises:
        MissingExtra: If ``trivium[report]`` is not installed.
    """
    try:
        import altair
        import vl_convert  # noqa: F401 - charts need both
    except ImportError as error:
        raise MissingExtra("report", "The HTML report") from error
    return altair


def histogram(
    counts: Sequence[int],
    *,
    mean: float | None,
    interval: tuple[float, float] | None,
    human: float | None = None,
) -> str:
    """The distribution of a score in [0, 1], with its mean, its interval and what people reach.

    Args:
        counts: Values in each of equally wide bins of [0, 1].
        mean: Of the run.
        interval: Of the mean.
        human: Mean of people's own outputs.
    """
    alt = load_altair()
    width = 1 / len(counts)
    scale = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2~f", grid=False, title=None)
    bins = [
        {"from": place * width + 0.002, "to": (place + 1) * width - 0.002, "count": count}
        for place, count in enumerate(counts)
    ]
    most = max([*counts, 1])
    layers = [
        alt.Chart(_values(bins))
        .mark_rect(color=_BAR, cornerRadiusTopLeft=1.5, cornerRadiusTopRight=1.5)
        .encode(
            x=alt.X("from:Q", scale=scale, axis=axis),
            x2="to:Q",
            y=alt.Y(
                "count:Q",
                scale=alt.Scale(domain=[0, most * 1.12], nice=False),
                axis=alt.Axis(values=[most], title=None, domain=False, ticks=False, grid=True, format=",d"),
            ),
            y2=alt.YDatum(0),
        )
    ]
    layers += [_upright(alt, human, scale, _HUMAN, dashes=[4, 3])] if human is not None else []
    layers += [_span(alt, interval, scale)] if interval is not None else []
    layers += [_upright(alt, mean, scale, _MEAN)] if mean is not None else []
    room = {"left": 8, "right": 6, "top": 2, "bottom": 2}
    return _svg(_styled(alt.layer(*layers), width=WIDTH, height=HEIGHT, padding=room))


def parts(rows: Sequence[tuple[str, float | None, tuple[float, float] | None, float | None]]) -> str:
    """The parts of a composite: a bar for each mean, its interval, and what people reach.

    Args:
        rows: Name, mean in [0, 1], interval of the mean, human mean; None where there is none.
    """
    alt = load_altair()
    names = [one_line(row[0], at_most=30) for row in rows]
    y = alt.Y("part:N", sort=names, axis=alt.Axis(title=None, domain=False, ticks=False, labelLimit=220))
    scale = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2~f", title=None, grid=True)
    table = [
        {
            "part": name,
            "mean": mean,
            "low": None if interval is None else interval[0],
            "high": None if interval is None else interval[1],
            "human": human,
            "label": "no score" if mean is None else f"{mean:.3f}",
        }
        for name, (_, mean, interval, human) in zip(names, rows, strict=True)
    ]
    given = alt.Chart(_values(table))
    bars = given.mark_bar(color=_BAR, height=12, cornerRadiusEnd=2).encode(
        x=alt.X("mean:Q", scale=scale, axis=axis), y=y
    )
    whiskers = (
        given.transform_filter("datum.low !== null")
        .mark_rule(color=_MEAN, strokeWidth=2)
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y)
    )
    people = (
        given.transform_filter("datum.human !== null")
        .mark_point(color=_HUMAN, shape="diamond", filled=True, size=70, opacity=1)
        .encode(x=alt.X("human:Q", scale=scale), y=y)
    )
    labels = given.mark_text(align="left", color=_INK, fontSize=11).encode(
        x=alt.value(PART_WIDTH + 10), y=y, text="label:N"
    )
    chart = alt.layer(bars, whiskers, people, labels)
    # The renderer's letters may be narrower than the reader's.
    room = {"left": 8 + max(len(name) for name in names), "right": 12, "top": 2, "bottom": 2}
    return _svg(_styled(chart, width=PART_WIDTH, height=PART_ROW * len(rows), padding=room))


def _values(rows: list[dict[str, Any]]) -> Any:
    from altair import Data

    return Data(values=rows)


def _upright(alt: Any, at: float, scale: Any, colour: str, *, dashes: list[int] | None = None) -> Any:
    line = {"strokeDash": dashes} if dashes else {}
    return (
        alt.Chart(_values([{"at": at}]))
        .mark_rule(color=colour, strokeWidth=2, **line)
        .encode(x=alt.X("at:Q", scale=scale))
    )


def _span(alt: Any, interval: tuple[float, float], scale: Any) -> Any:
    return (
        alt.Chart(_values([{"low": interval[0], "high": interval[1]}]))
        .mark_rect(color=_MEAN, opacity=0.18)
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=alt.value(0), y2=alt.value(HEIGHT))
    )


def _styled(chart: Any, *, width: int, height: int, padding: dict[str, int]) -> Any:
    font = "system-ui, sans-serif"
    return (
        chart.properties(width=width, height=height)
        .configure(background="transparent", font=font, padding=padding)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_INK,
            domainColor=_LINE,
            tickColor=_LINE,
            gridColor=_LINE,
            gridOpacity=0.5,
            labelFontSize=11,
            labelFont=font,
            tickSize=3,
            labelPadding=4,
        )
    )


def _svg(chart: Any) -> str:
    import vl_convert

    # The specification is ours, so that checking it against the schema could only cost time.
    svg: str = vl_convert.vegalite_to_svg(chart.to_dict(validate=False))
    for stand_in, colour in _COLOURS.items():
        svg = svg.replace(f'"{stand_in}"', f'"{colour}"')
    return svg
