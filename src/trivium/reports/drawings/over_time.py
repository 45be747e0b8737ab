"""Draws a monitor over time: pass rate, cost, latency, volume; deployments, alerts and missing data."""

from collections.abc import Callable

import msgspec

from trivium.monitor.status import MonitorStatus
from trivium.monitor.windows import Point
from trivium.reports.drawings.svg import element, text
from trivium.reports.wording import dollars, known_share, moment, seconds
from trivium.values import counted

WIDTH, TOP, HEAD, GAP = 560, 28, 18, 8


class _Panel(msgspec.Struct, frozen=True):
    """One of the charts that lie below one another.

    Attributes:
        name: What it shows.
        height: In pixels.
        value: Gives the height of a bar.
        samples: Gives the number of samples that it rests on.
        say: Puts a value into words.
        top: The value at the top; None for the highest of all.
        second: Gives the height of the outline around it.
    """

    name: str
    height: int
    value: Callable[[Point], float | None]
    samples: Callable[[Point], int]
    say: Callable[[float | None], str]
    top: float | None = None
    second: Callable[[Point], float | None] | None = None


_PANELS = (
    _Panel("pass rate", 84, lambda each: each.mean, lambda each: each.samples, known_share, top=1.0),
    _Panel("cost", 36, lambda each: each.resources.cost_usd, lambda each: each.resources.with_cost, dollars),
    _Panel(
        "latency p50, p95",
        36,
        lambda each: each.resources.latency_p50,
        lambda each: each.resources.timed,
        seconds,
        second=lambda each: each.resources.latency_p95,
    ),
    _Panel(
        "volume",
        36,
        lambda each: each.resources.interactions,
        lambda each: each.resources.samples,
        lambda value: f"{value or 0:,.0f}",
    ),
)


def over_time_svg(status: MonitorStatus) -> str:
    """Pass rate, cost, latency and volume over the window; what is missing is hatched.

    Deployments are lines that begin with a triangle, alerts lines that begin with a diamond, hollow if they
    are resolved, each with its name, so that none rests on its colour.
    """
    drawn, top = [], TOP
    for panel in _PANELS:
        drawn += _panel(panel, status.series, top + HEAD)
        top += HEAD + panel.height + GAP
    drawn += _pointed_at(status.series, top - GAP)
    drawn += _marks(status, top - GAP)
    return element("svg", *drawn, viewBox=f"0 0 {WIDTH} {top}", class_="bars over-time", aria_hidden="true")


def _panel(panel: _Panel, points: tuple[Point, ...], top: float) -> list[str]:
    step, height, base = WIDTH / max(1, len(points)), panel.height, top + panel.height
    values = [(panel.value(each), panel.second(each) if panel.second else None) for each in points]
    known = [each for pair in values for each in pair if each is not None]
    highest = (panel.top or max(known, default=0.0)) or 1.0
    ends = f"0 to {panel.say(highest)}" if known else "unknown"
    drawn = [
        element("line", x1=0, x2=WIDTH, y1=base, y2=base),
        element("text", text(f"{panel.name}, {ends}"), x=0, y=top - 5),
    ]
    for place, (value, second) in enumerate(values if known else ()):
        x = place * step + 1
        if value is None:
            drawn.append(element("path", d=f"M{x:.0f} {base} l6 -6 M{x + 8:.0f} {base} l6 -6"))
        for kind, each in ((None, value), ("outline", second)):
            if each is not None:
                tall = max(1, round(height * each / highest))
                drawn.append(element("rect", x=x, y=base - tall, width=step - 2, height=tall, class_=kind))
    return drawn


def _pointed_at(points: tuple[Point, ...], bottom: float) -> list[str]:
    """What each part of the window says when it is pointed at, in whichever panel."""
    step = WIDTH / max(1, len(points))
    return [
        element(
            "g",
            element("title", text(f"{moment(point.time)}: {_said(point)}", at_most=400)),
            element("rect", x=place * step, y=TOP, width=step, height=bottom - TOP, class_="whole"),
        )
        for place, point in enumerate(points)
    ]


def _said(point: Point) -> str:
    if not point.resources.samples and not point.samples:
        return "no sample"
    return "; ".join(_said_of(panel, point) for panel in _PANELS)


def _said_of(panel: _Panel, point: Point) -> str:
    value, second = panel.value(point), panel.second(point) if panel.second else None
    if value is None:
        return f"{panel.name} unknown"
    more = "" if second is None else f", {panel.say(second)}"
    return f"{panel.name} {panel.say(value)}{more} ({counted(panel.samples(point), 'sample')})"


def _marks(status: MonitorStatus, bottom: float) -> list[str]:
    begin, end = status.window.begin, status.window.end
    marks = [("▲", each.time, each.version or each.kind) for each in status.marks]
    marks += [("◆", each.opened, f"alert {each.number}") for each in status.alerts]
    marks += [("◇", opened, f"alert {number}") for number, opened in status.resolved.items()]
    drawn = []
    for place, (shape, time, name) in enumerate(sorted(marks, key=lambda each: each[1])):
        if not begin <= time <= end or end <= begin:
            continue
        x = WIDTH * (time - begin) / (end - begin)
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
            element("text", label, x=x, y=10 + 14 * (place % 2), text_anchor="end" if right else "start"),
        ]
    return drawn
