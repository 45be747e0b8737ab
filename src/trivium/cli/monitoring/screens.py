"""What ``trivium monitor`` shows in a terminal (Rich)."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from trivium.monitor import sentences
from trivium.monitor.alerting.messages import Message, duration, facts, percent, words
from trivium.monitor.replay import Replayed
from trivium.monitor.status import MonitorStatus
from trivium.monitor.windows import Estimate, Point
from trivium.reports.escape import one_line
from trivium.reports.wording import counted
from trivium.store.live_alerts import StoredAlert

STYLES: dict[str, str] = {
    "critical": "bold red",
    "warning": "yellow",
    "healthy": "green",
    "no_data": "bold red",
    "insufficient_data": "dim",
    "worse": "yellow",
    "stalled": "bold red",
    "resolved": "green",
}

MOST_ROWS = 8
"""Number of values of a facet that a screen shows."""

LIVE_ROWS = 4
"""Number of values of a facet on a live screen, if it is high enough."""

BARS = "▁▂▃▄▅▆▇█"


class StatusScreen:
    """A monitor's status: the answer, alerts, figures, where they differ, reservations.

    Args:
        status: The status.
        rows: Values of each facet that are shown.
    """

    def __init__(self, status: MonitorStatus, *, rows: int = MOST_ROWS) -> None:
        self.status = status
        self.rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        status = self.status
        yield answer(status)
        for alert in status.alerts:
            yield alert_line(alert, now=status.time)
        if status.window.samples:
            yield Text()
            yield figures_table(status.window.figures, wide=options.max_width >= 100)
            line = sparkline(status.series)
            if line:
                yield Text(f"{line}  pass rate, oldest first", style="dim")
            yield from facet_tables(status, self.rows, options.max_width)
        yield Text()
        for sentence in sentences.reservations(status):
            yield Text(one_line(sentence), style="dim")


class LiveScreen:
    """Statuses within the height of a terminal, with fewer values of facets if they do not fit.

    Args:
        statuses: The statuses.
        every: Seconds between two updates.
        problem: Why the statuses are not up to date; empty if they are.
    """

    def __init__(self, statuses: Sequence[MonitorStatus], *, every: float, problem: str = "") -> None:
        self.statuses = statuses
        self.every = every
        self.problem = problem

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        height = (options.height or console.height) - 1
        rows = LIVE_ROWS
        lines = self._lines(console, options, rows)
        while len(lines) > height and rows > 1:
            rows -= 1
            lines = self._lines(console, options, rows)
        missing = len(lines) - height
        for line in lines[:height]:
            yield from line
            yield Segment.line()
        at = datetime.fromtimestamp(max(each.time for each in self.statuses), UTC)
        below = f"{counted(missing, 'further line')}: trivium monitor status · " if missing > 0 else ""
        text = Text(f"{below}{at:%H:%M:%S} UTC, every {self.every:g} s · Ctrl-C: end", style="dim")
        if self.problem:
            text = Text(f"not up to date since {at:%H:%M:%S} UTC: {one_line(self.problem)}", style="bold red")
        text.truncate(options.max_width, overflow="ellipsis")
        text.end = ""
        yield text

    def _lines(self, console: Console, options: ConsoleOptions, rows: int) -> list[list[Segment]]:
        shown: list[StatusScreen | Text] = []
        for each in self.statuses:
            shown += [Text(), StatusScreen(each, rows=rows)] if shown else [StatusScreen(each, rows=rows)]
        return console.render_lines(Group(*shown), options.update(height=None), pad=False)


def answer(status: MonitorStatus) -> Text:
    """The answer in a sentence."""
    what, figure = sentences.answer(status)
    text = Text(one_line(status.monitor), style="bold")
    text.append(" is ")
    word, space, rest = what.partition(" (")
    text.append(word, style=STYLES.get(status.status, ""))
    text.append(space + rest + (f": {figure}" if figure else ""))
    return text


def alert_line(alert: StoredAlert, *, now: float) -> Text:
    """An alert in a line."""
    over, title = alert.state == "resolved", str(alert.body.get("title", ""))
    word = "resolved" if over else alert.status
    text = Text(f"{word} ", style=STYLES.get(word, ""))
    text.append(one_line(title.removeprefix(f"{alert.monitor}: "), at_most=400), style="default")
    ago = max(0.0, now - (alert.resolved if alert.resolved is not None else alert.opened))
    text.append(f"  ({'' if over else 'for '}{duration(ago)}{' ago' if over else ''})", style="dim")
    return text


def figures_table(figures: Sequence[Estimate], *, wide: bool) -> Table:
    """Figures over all traffic."""
    table = _table("figure", "status", "mean", "95 % interval", "samples", *(["sessions"] if wide else []))
    for each in figures:
        row: list[str | Text] = [
            words(each.figure),
            _status(each),
            sentences.mean(each),
            sentences.bounds(each),
        ]
        row.append(f"{each.samples:,}")
        table.add_row(*row, *([f"{each.sessions:,}"] if wide else []))
    return table


def facet_tables(status: MonitorStatus, rows: int, width: int) -> Iterator[Table | Text]:
    """The pass rate by each facet that has more than one value."""
    for facet, worst in sentences.by_facet(status).items():
        yield Text()
        table = _table(f"by {facet}, worst first", "status", "pass rate", "95 % interval", "samples")
        for each in worst[:rows]:
            table.add_row(
                one_line(each.value, at_most=max(20, width - 55)),
                _status(each),
                sentences.mean(each),
                sentences.bounds(each),
                f"{each.samples:,}",
            )
        yield table
        if len(worst) > rows:
            yield Text(f"… {rows} of {len(worst)} shown", style="dim")


class MessageScreen:
    """A message: its sentence, the numbers, what else is bad, the worst examples.

    Args:
        message: The message.
        state: ``firing`` or ``resolved``.
        resolved: Unix time at which it was resolved.
    """

    def __init__(self, message: Message, *, state: str = "firing", resolved: float | None = None) -> None:
        self.message = message
        self.state = state
        self.resolved = resolved

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        message = self.message
        word = "resolved" if self.state == "resolved" else message.status
        text = Text(f"{word.replace('_', ' ')}  ", style=STYLES.get(word, ""))
        text.append(one_line(message.title, at_most=600), style="bold")
        yield text
        for line in facts(message, resolved=self.resolved):
            yield Text(f"  {one_line(line, at_most=2000)}", style="dim")
        for example in message.examples:
            said = [one_line(text, at_most=60) or "–" for text in (example.query, example.output)]
            shown = " → ".join(said) if set(said) != {"–"} else "no input or output is recorded"
            yield Text(f"  {one_line(example.trace, at_most=40)}  {shown}")


class ReplayScreen:
    """Shows a replay: its messages, what other thresholds would have done, and the status at the end.

    Args:
        replayed: The results of the replay.
    """

    def __init__(self, replayed: Replayed) -> None:
        self.replayed = replayed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self.replayed
        number = len(found.messages)
        what = "no message" if not number else counted(number, "message")
        yield Text(f"{what} would have been sent" if not found.sent else f"{what}, sent", style="bold")
        for message in found.messages:
            yield Text()
            after = duration(message.time - found.begin)
            yield Text(f"after {after}: {message.kind}", style=STYLES.get(message.status, ""))
            yield MessageScreen(message, state="resolved" if message.kind == "resolved" else "firing")
        yield Text()
        table = _table("pass rate below", "surely, after", "in the window, after", "times")
        for each in found.trials:
            table.add_row(
                percent(each.threshold),
                _after(each.first_sure),
                _after(each.first_below),
                f"{each.crossings}",
            )
        yield table
        yield Text()
        yield answer(found.status)
        yield from facet_tables(found.status, MOST_ROWS, options.max_width)
        yield Text()
        times = "which state no times: spread evenly" if found.spread else "in their own time"
        yield Text(
            f"{found.traces:,} traces over {duration(found.end - found.begin)}, {times}; "
            f"{found.samples:,} sampled and scored",
            style="dim",
        )


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else duration(seconds)


def sparkline(points: Sequence[Point]) -> str:
    """Means over time as bars; a blank where there is no sample, empty without any."""
    if sum(point.mean is not None for point in points) < 2:
        return ""
    top = len(BARS) - 1
    return "".join(" " if each.mean is None else BARS[round(each.mean * top)] for each in points)


def _table(*headings: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(headings[0], overflow="fold", min_width=12)
    for heading in headings[1:]:
        right = heading in {"mean", "pass rate", "samples", "sessions"}
        table.add_column(heading, no_wrap=True, justify="right" if right else "left")
    return table


def _status(each: Estimate) -> Text:
    if each.status is None:
        return Text("")
    text = Text(each.status.replace("_", " "), style=STYLES.get(each.status, ""))
    if each.sure:
        text.append(", sure")
    if each.changed:
        text.append(", worse", style=STYLES["worse"])
    return text
