"""Draws charts of a run as SVG with Vega-Lite, in the colours of the surrounding page.

Vega has no light and dark modes. It draws with placeholder colours, which are replaced by the page's custom
properties; a page without those shows the defaults.

The specification of a chart is built once per process, which is most of the cost, and reused with new data.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

from trivium.errors import MissingExtra

WIDTH, HEIGHT = 216, 70
HEADROOM = 1.12

_INK, _LINE, _BAR, _MEAN = "#010101", "#020202", "#030303", "#040404"
_COLOURS = {
    _INK: "var(--muted,#6b7280)",
    _LINE: "var(--line,#c9ccd1)",
    _BAR: "var(--bar,#7fa8c9)",
    _MEAN: "var(--accent,#1f5f8b)",
}
_TICKS = [0, 0.25, 0.5, 0.75, 1]

Interval = tuple[float, float]


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


def histogram(counts: Sequence[int], *, mean: float | None, interval: Interval | None) -> str:
    """The distribution of a score in [0, 1], with its mean and its interval.

    Args:
        counts: Number of values in each of equally wide bins of [0, 1].
        mean: Mean of the run.
        interval: Interval of the mean.
    """
    width, most = 1 / len(counts), max(counts)
    gap = width / 25
    return _svg(
        _histogram(),
        bins=[
            {"from": place * width + gap, "to": (place + 1) * width - gap, "height": count / (most or 1)}
            for place, count in enumerate(counts)
        ],
        top=[{"height": 1.0, "label": f"{most:,}"}],
        mean=[] if mean is None else [{"at": mean}],
        interval=[] if interval is None else [{"low": interval[0], "high": interval[1]}],
    )


@cache
def _histogram() -> dict[str, Any]:
    alt = load_altair()
    scale = alt.Scale(domain=[0, 1], nice=False)
    across = {"scale": scale, "axis": alt.Axis(values=_TICKS, format=".2~f", grid=False, title=None)}
    y = alt.Y("height:Q", scale=alt.Scale(domain=[0, HEADROOM], nice=False), axis=None)
    bins = (
        _given("bins")
        .mark_rect(color=_BAR, cornerRadiusTopLeft=1.5, cornerRadiusTopRight=1.5)
        .encode(x=alt.X("from:Q", **across), x2="to:Q", y=y, y2=alt.YDatum(0))
    )
    top = _given("top").encode(y=y)
    line = top.mark_rule(color=_LINE, opacity=0.6)
    label = top.mark_text(color=_INK, align="right", dx=-5).encode(x=alt.value(0), text="label:N")
    mean = _given("mean").mark_rule(color=_MEAN, strokeWidth=2).encode(x=alt.X("at:Q", **across))
    interval = (
        _given("interval")
        .mark_rect(color=_MEAN, opacity=0.18)
        .encode(x=alt.X("low:Q", **across), x2="high:Q", y=alt.value(0), y2=alt.value(HEIGHT))
    )
    chart = alt.layer(line, bins, label, interval, mean)
    return _styled(chart, width=WIDTH, height=HEIGHT, left=26)


def _given(name: str) -> Any:
    alt = load_altair()
    return alt.Chart(alt.NamedData(name=name))


def _styled(chart: Any, *, width: int, height: int, left: int) -> dict[str, Any]:
    font = "system-ui, sans-serif"
    styled = (
        chart.properties(width=width, height=height)
        .configure(
            background="transparent", font=font, padding={"left": left, "right": 12, "top": 2, "bottom": 2}
        )
        .configure_view(stroke=None)
        .configure_text(fontSize=11)
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
    specification: dict[str, Any] = styled.to_dict()
    return specification


def _svg(specification: dict[str, Any], **data: list[dict[str, Any]]) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(specification | {"datasets": data})
    for placeholder, colour in _COLOURS.items():
        svg = svg.replace(f'"{placeholder}"', f'"{colour}"')
    return svg
