"""Draws a monitor over time: pass rate, volume and latency, with deployments, alerts and missing data."""

from collections.abc import Sequence

from trivium.monitor.status import MonitorStatus
from trivium.monitor.windows import Point
from trivium.reports.drawings.svg import element, text
from trivium.reports.wording import moment, seconds

WIDTH, LEFT, TOP = 720, 64, 26
HEIGHTS = (("pass rate", 84), ("samples", 36), ("latency", 36))
"""Panels, from the top, with their heights in pixels."""

GAP = 18


def over_time_svg(status: MonitorStatus) -> str:
    """Pass rate, number of samples and mean latency over the window; a pass rate that is missing is hatched.

    Deployments are lines that begin with a triangle, alerts lines that begin with a diamond, each with its
    name, so that neither rests on its colour.
    """
    points = status.series
    values = {
        "pass rate": [
            (each.mean, 1.0, f"{each.mean:.0%}" if each.mean is not None else "") for each in points
        ],
        "samples": _scaled([float(each.samples) for each in points], "{:,.0f}"),
        "latency": _scaled([each.seconds for each in points], ""),
    }
    drawn, top = [], TOP
    for name, height in HEIGHTS:
        drawn += _panel(points, name, values[name], top, height)
        top += height + GAP
    drawn += _marks(status, top - GAP)
    return element("svg", *drawn, viewBox=f"0 0 {WIDTH} {top}", class_="bars over-time", aria_hidden="true")


Bar = tuple[float | None, float, str]
"""Value, the highest one, and how it is said."""


def _scaled(values: Sequence[float | None], form: str) -> list[Bar]:
    most = max((each for each in values if each is not None), default=0.0) or 1.0
    return [(each, most, _said(each, form)) for each in values]


def _said(value: float | None, form: str) -> str:
    if value is None:
        return ""
    return form.format(value) if form else seconds(value)


def _panel(points: Sequence[Point], name: str, bars: Sequence[Bar], top: float, height: float) -> list[str]:
    step = (WIDTH - LEFT) / max(1, len(points))
    most = max(bars, key=lambda each: each[0] or 0.0, default=(None, 1.0, ""))
    high = "100 %" if name == "pass rate" else most[2]
    drawn = [
        element("line", x1=LEFT, x2=WIDTH, y1=top + height, y2=top + height),
        element("text", text(name), x=0, y=top + height),
        element("text", text(high), x=0, y=top + 10),
    ]
    for place, (point, (value, largest, said)) in enumerate(zip(points, bars, strict=True)):
        x, what = LEFT + place * step + 1, f"{moment(point.time)}: {name}"
        if value is None:
            title = element("title", text(f"{what}: no sample"))
            y = top + height - 6
            drawn.append(element("path", title, d=f"M{x:.1f} {y + 6} l6 -6 M{x + 8:.1f} {y + 6} l6 -6"))
            continue
        tall = max(1.0, height * value / largest)
        title = element("title", text(f"{what} {said} of {point.samples:,} samples"))
        drawn.append(element("rect", title, x=x, y=top + height - tall, width=step - 2, height=tall))
    return drawn


def _marks(status: MonitorStatus, bottom: float) -> list[str]:
    begin, end = status.window.begin, status.window.end
    marks = [("▲", each.time, each.version or each.kind) for each in status.marks]
    marks += [("◆", each.opened, f"alert {each.number}") for each in status.alerts]
    drawn = []
    for place, (shape, time, name) in enumerate(sorted(marks, key=lambda each: each[1])):
        if not begin <= time <= end or end <= begin:
            continue
        x = LEFT + (WIDTH - LEFT) * (time - begin) / (end - begin)
        right = x > WIDTH - 90
        label = text(f"{shape} {name}", at_most=24)
        drawn += [
            element(
                "line",
                element("title", text(f"{moment(time)}: {name}")),
                x1=x,
                x2=x,
                y1=TOP,
                y2=bottom,
                class_="mark",
            ),
            element("text", label, x=x, y=10 + 12 * (place % 2), text_anchor="end" if right else "start"),
        ]
    return drawn
