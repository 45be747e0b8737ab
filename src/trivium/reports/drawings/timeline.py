"""Draws a trace as a timeline with one lane per agent, or as a sequence of steps if it has no times."""

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import msgspec

from trivium.reports.drawings.svg import Drawing, element, round_step, text
from trivium.reports.wording import seconds
from trivium.traces.process.process import Process
from trivium.traces.trace import Span, Trace
from trivium.values import counted

SPANS_SHOWN = 300
LANE_HEAD = 20
ROW = 20
BAR = 16
AXIS = 22
CHARACTER = 6.2
"""Width of an average character of a bar's label, in pixels."""
WIDTH_READABLE = 1000
"""Assumed width of the drawing in pixels, to decide which labels fit into their bars."""
NO_AGENT = "no agent"
SHORTEST_SECONDS = 1e-9
LATEST_SECONDS = 1e12
"""Times beyond this count as missing (30,000 years from the epoch)."""


RETRY, LOOPED = "↻ ", "∞ "


class _Bar(msgspec.Struct, frozen=True):
    span: Span
    start: float
    end: float
    open_ended: bool


class _Scale(NamedTuple):
    """Places of times in percent, so that a drawing fills any width without scaling its text."""

    first: float
    length: float

    def share(self, start: float, end: float) -> float:
        return 100 * (end - start) / self.length

    def at(self, time: float) -> str:
        return f"{self.share(self.first, time):.3f}%"


def draw_timeline(trace: Trace, process: Process | None = None) -> Drawing | None:
    """Draw the spans of a trace; None without spans.

    A line under a bar marks the part on the critical path, a band across all lanes the times with several
    active spans, a sign on a call a retry or a repeated loop.

    Args:
        trace: The trace.
        process: The trace's process, if already computed.
    """
    bars, timed, notes = _bars(trace)
    if not bars:
        return None
    process = process or Process(trace)
    first, last = min(bar.start for bar in bars), max(bar.end for bar in bars)
    scale = _Scale(first, max(last - first, SHORTEST_SECONDS))
    lanes: dict[str, list[_Bar]] = {}
    for bar in bars:
        lanes.setdefault(_agent(bar.span), []).append(bar)
    body: list[str] = []
    places: dict[str, float] = {}
    y = 0.0
    for agent, own in lanes.items():
        rows = _rows(own)
        height = LANE_HEAD + ROW * (1 + max(rows))
        body.append(element("rect", x=0, y=y, width="100%", height=height, class_="lane"))
        body.append(element("text", text(agent, at_most=60), x=6, y=y + 14, class_="who"))
        places |= {bar.span.id: y + LANE_HEAD + ROW * row for bar, row in zip(own, rows, strict=True)}
        y += height + 4
    marks = _repeat_marks(process)
    drawn = [
        _draw(bar, places[bar.span.id], scale, timed=timed, repeat_mark=marks.get(bar.span.id, ""))
        for own in lanes.values()
        for bar in own
    ]
    axis: list[str] = []
    if timed:
        axis = _axis(scale, y)
        body += _bands(process, scale, height=y - 4)
        drawn += _lines(process, places, scale)
    what = "Timeline" if timed else "Order of steps"
    label = f"{what}: {counted(len(bars), 'span')} of {counted(len(lanes), 'agent')}"
    label += f" in {seconds(scale.length)}." if timed else "."
    svg = element(
        "svg",
        element("title", text(label)),
        *axis,
        *body,
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        class_="timeline",
        width="100%",
        height=y + AXIS * timed,
    )
    return Drawing(svg=svg, title=what, notes=tuple(notes))


def _agent(span: Span) -> str:
    return span.agent or (span.name if span.kind == "agent" else NO_AGENT)


def _is_time(value: float | None) -> TypeGuard[float]:
    return value is not None and abs(value) < LATEST_SECONDS


def _bars(trace: Trace) -> tuple[list[_Bar], bool, list[str]]:
    """The bars to draw, whether they have times, and notes on what is left out."""
    timed = [span for span in trace.spans if _is_time(span.start)]
    notes = []
    if not timed:
        steps = [span for span in trace.spans if span.kind != "agent"] or list(trace.spans)
        if len(steps) > SPANS_SHOWN:
            notes.append(f"The first {SPANS_SHOWN} of {counted(len(steps), 'step')} shown.")
        shown = steps[:SPANS_SHOWN]
        bars = [_Bar(span, place, place + 1.0, open_ended=False) for place, span in enumerate(shown)]
        return bars, False, ["The trace has no times; steps are shown in order.", *notes] if bars else []
    if len(timed) < len(trace.spans):
        untimed = counted(
            len(trace.spans) - len(timed), "span has no start and is", "spans have no start and are"
        )
        notes.append(f"{untimed} not drawn.")
    timed.sort(key=lambda span: span.start or 0.0)
    if len(timed) > SPANS_SHOWN:
        notes.append(f"The first {SPANS_SHOWN} of {counted(len(timed), 'span')} shown.")
        timed = timed[:SPANS_SHOWN]
    latest = max(time for span in timed for time in (span.start, span.end) if _is_time(time))
    bars = []
    for span in timed:
        start, end = span.start or 0.0, span.end if _is_time(span.end) else None
        until = latest if end is None else max(start, end)
        bars.append(_Bar(span, start, until, open_ended=end is None))
    return bars, True, notes


def _rows(bars: Sequence[_Bar]) -> list[int]:
    """The first row of the lane in which each bar fits; a bar inside another is drawn below it."""
    free: list[float] = []
    rows = []
    for bar in bars:
        row = next((row for row, until in enumerate(free) if until <= bar.start), len(free))
        if row == len(free):
            free.append(bar.end)
        else:
            free[row] = bar.end
        rows.append(row)
    return rows


def _repeat_marks(process: Process) -> dict[str, str]:
    """The mark of every call that is a retry or repeats a loop, by span id."""
    calls = process.trace.tool_calls
    found = {calls[place].id: LOOPED for place in process.repeats.looped}
    return found | {calls[one.call].id: RETRY for one in process.repeats.repeated if one.retry}


def _bands(process: Process, scale: _Scale, *, height: float) -> list[str]:
    """Bands where several spans are at work at once, within the drawing."""
    end = scale.first + scale.length
    sections = [one for one in process.concurrency.sections if scale.first <= one.start < end]
    return [
        element(
            "rect",
            element("title", text(f"up to {counted(section.most, 'span')} at work at once")),
            x=scale.at(section.start),
            width=f"{scale.share(section.start, min(section.end, end)):.3f}%",
            y=0,
            height=height,
            class_="parallel",
        )
        for section in sections[:SPANS_SHOWN]
    ]


def _lines(process: Process, places: dict[str, float], scale: _Scale) -> list[str]:
    """Lines under the parts of bars that lie on the critical path."""
    spans, lines = process.trace.spans, []
    for stretch in process.path_segments:
        y = None if stretch.span is None else places.get(spans[stretch.span].id)
        start, end = max(stretch.start, scale.first), min(stretch.end, scale.first + scale.length)
        if y is not None and start < end:
            across = {"x1": scale.at(start), "x2": scale.at(end), "class_": "critical"}
            lines.append(element("line", **across, y1=y + BAR, y2=y + BAR))
    return lines


def _draw(bar: _Bar, y: float, scale: _Scale, *, timed: bool, repeat_mark: str) -> str:
    span, width = bar.span, scale.share(bar.start, bar.end)
    state = " failed" if span.ok is False else " open" if bar.open_ended else ""
    mark = repeat_mark + ("✕ " if span.ok is False else "")
    state += {RETRY: " retry", LOOPED: " looped"}.get(repeat_mark, "")
    description = f"{span.kind} {span.name}"
    if timed:
        description += f", at {seconds(bar.start - scale.first)}, " + (
            "not finished" if bar.open_ended else seconds(bar.end - bar.start)
        )
    if span.ok is False:
        description += ", failed"
    description += {RETRY: ", a retry", LOOPED: ", repeats a loop"}.get(repeat_mark, "")
    inside = [
        element("title", text(description)),
        element("rect", x=0, y=0, width="100%", height=BAR, rx=3, class_="fill"),
    ]
    label = mark + ("" if span.name == _agent(span) else span.name)
    room = width / 100 * WIDTH_READABLE / CHARACTER
    if label and room >= min(len(label), 8):
        inside.append(element("text", text(label, at_most=max(8, int(room))), x=5, y=12))
    elif repeat_mark and room >= len(repeat_mark):
        inside.append(element("text", repeat_mark.strip(), x=2, y=12))
    return element(
        "svg",
        *inside,
        x=scale.at(bar.start),
        y=y,
        width=f"{max(width, 0.3):.3f}%",
        height=BAR,
        class_=f"bar {span.kind}{state}",
    )


def _axis(scale: _Scale, y: float) -> list[str]:
    """Grid lines and their times."""
    step = round_step(scale.length / 6)
    lines = []
    for index in range(1, math.ceil(scale.length / step)):
        x = f"{scale.share(0, index * step):.3f}%"
        lines.append(element("line", x1=x, x2=x, y1=0, y2=y, class_="grid"))
        lines.append(element("text", _tick(index * step), x=x, y=y + 15, class_="tick"))
    return lines


_SMALL = ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def _tick(value: float) -> str:
    if value >= 600:
        return f"{value / 60:g} min"
    if value >= 1:
        return f"{value:g} s"
    size, unit = next((each for each in _SMALL if value >= each[0]), _SMALL[-1])
    return f"{value / size:g} {unit}"
