"""Tables of a summary and of a list of runs for the terminal (Rich)."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.escape import one_line
from trivium.reports.wording import dollars, requests, spent_sentence
from trivium.runs.summary import Figure, HumanFigure, JudgeCosts, Summary

FAILURES_SHOWN = 5
WIDE = 104
"""Width in columns from which the table draws the intervals."""
BAR_COLUMNS = 25
NAME_COLUMNS = 22
"""Longest metric name that is never wrapped."""

ANSWER_STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}
ANSWER_MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
RECOMMENDATION_STYLES = {
    "accept": "green",
    "weak_accept": "green",
    "weak_reject": "yellow",
    "reject": "red",
}


class SummaryTable:
    """A Rich renderable of a summary: ``console.print(SummaryTable(summary))``."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary, width = self.summary, options.max_width
        yield _head(summary)
        for warning in summary.warnings:
            yield marked_paragraph("!", one_line(warning, at_most=2000), style="yellow")
        yield Text()
        if summary.metrics:
            yield _metrics(summary, wide=width >= WIDE)
            yield Text()
        if summary.human_ceiling:
            yield Text("compared with people", style="bold")
            yield Text(wording.BESIDE_PEOPLE, style="dim")
            yield _beside_people(summary.human_ceiling)
            yield Text()
        yield from _verdicts(summary)
        if summary.spent is not None:
            yield Text("\njudges", style="bold")
            yield Padding(Text(spent_sentence(summary.spent)), (0, 0, 0, 2))
            yield from _spent_by_model(summary.spent)
        if summary.acceptance:
            yield Text("\ncertificates", style="bold")
            lines = [wording.accepted_of(summary)]
            lines += [wording.acceptance_sentence(*each) for each in summary.acceptance.items()]
            yield Padding(Text("\n".join(lines)), (0, 0, 0, 2))
        if summary.gates:
            yield Text("\ngates", style="bold")
            yield _gates(summary)
        if summary.failures:
            yield from _failures(summary)
        if note := wording.interval_note(summary):
            yield Text(f"\n{note}", style="dim")


def _head(summary: Summary) -> RenderableType:
    title = Text(one_line(summary.suite, at_most=300), style="bold")
    title.append(f"  {one_line(summary.run)}", style="dim")
    return Group(title, Text(wording.headline(summary), style="red" if summary.missing else ""))


def marked_paragraph(mark: str, text: str, *, style: str) -> RenderableType:
    """A paragraph with a hanging mark."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=f"bold {style}"), Text(text, style=style))
    return grid


def _metrics(summary: Summary, *, wide: bool) -> RenderableType:
    raw = wide and any(_has_raw(figure) for figure in summary.metrics.values())
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    names = max(len(one_line(name)) for name in summary.metrics)
    table.add_column("metric", overflow="fold", min_width=min(names, NAME_COLUMNS))
    table.add_column("mean", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    if wide:
        table.add_column(Text("0") + " " * (BAR_COLUMNS - 2) + "1", no_wrap=True)
    if raw:
        table.add_column("raw", justify="right", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("coverage", justify="right", no_wrap=True)
    table.add_column("status", overflow="fold", min_width=12)
    for name, figure in summary.metrics.items():
        table.add_row(*_row(name, figure, wide=wide, raw=raw))
    return table


def _beside_people(ceiling: Mapping[str, HumanFigure]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    names = max(len(one_line(name)) for name in ceiling)
    table.add_column("metric", overflow="fold", min_width=min(names, NAME_COLUMNS))
    for who in ("run", "human"):
        table.add_column(who, justify="right", no_wrap=True)
        table.add_column("interval", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    for name, figure in ceiling.items():
        table.add_row(
            one_line(name),
            Text(wording.number(figure.run_mean), style="bold"),
            wording.interval(figure.run_ci95),
            Text(wording.number(figure.mean), style="magenta"),
            wording.interval(figure.ci95),
            f"{figure.n:,}",
        )
    return table


def _row(name: str, figure: Figure, *, wide: bool, raw: bool) -> Iterator[Text]:
    yield Text(one_line(name), style="" if figure.n else "dim")
    yield Text(wording.number(figure.mean), style="bold" if figure.n else "dim")
    yield Text(wording.interval(figure.ci95), style="" if figure.ci95 else "dim")
    if wide:
        yield Text(range_bar(figure.mean, figure.ci95, columns=BAR_COLUMNS), style="cyan")
    if raw:
        unit = wording.seconds if name == "time" else wording.number
        yield Text(unit(figure.raw_mean) if _has_raw(figure) else "", style="dim")
    if wording.is_reported_only(figure):
        yield from (Text(wording.NOTHING, style="dim"), Text(wording.NOTHING, style="dim"))
        yield Text(f"raw {wording.number(figure.raw_mean)}, not scored", style="dim")
    else:
        yield Text(f"{figure.n:,}")
        yield Text(wording.share(figure.coverage), style="" if figure.coverage == 1 else "yellow")
        style = "red" if figure.status.get("error") else "yellow"
        yield Text(wording.lacking(figure), style=style)


def _has_raw(figure: Figure) -> bool:
    return figure.raw_mean is not None and figure.raw_mean != figure.mean


def _verdicts(summary: Summary) -> Iterator[RenderableType]:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=NAME_COLUMNS)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    rate = summary.pass_rate
    grid.add_row(
        Text("pass rate", style="bold"),
        Text(wording.number(rate.value), style="bold"),
        Text(wording.interval(rate.ci95)),
        Text(wording.passed_of(summary)),
    )
    if (figure := summary.composite) is not None:
        grid.add_row(
            Text("composite", style="bold"),
            Text(wording.number(figure.mean), style="bold"),
            Text(wording.interval(figure.ci95)),
            Text(
                wording.composite_sentence(figure),
                style=RECOMMENDATION_STYLES.get(figure.recommendation or "", ""),
            ),
        )
        counts = ", ".join(
            f"{count:,} {wording.words(name)}" for name, count in figure.recommendations.items() if count
        )
        statuses = wording.not_ok(figure.status)
        remark = " · ".join(
            part
            for part in (
                f"attempts: {counts}" if counts else "",
                statuses,
                wording.weight_scored(figure),
            )
            if part
        )
        if remark:
            grid.add_row("", "", "", Text(remark, style="dim"))
    for name, mean in wording.further_dimensions(summary).items():
        grid.add_row(Text(one_line(name)), Text(wording.number(mean)), "", Text("judged", style="dim"))
    yield grid


def _spent_by_model(spent: JudgeCosts) -> Iterator[RenderableType]:
    if len(spent.models) < 2:
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold")
    for _ in range(2):
        grid.add_column(justify="right", no_wrap=True)
    for name, costs in spent.models.items():
        grid.add_row(one_line(name, at_most=60), dollars(costs.cost_usd), requests(costs))
    yield Padding(grid, (0, 0, 0, 2))


def _gates(summary: Summary) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=16)
    grid.add_column(overflow="fold")
    grid.add_column(overflow="fold")
    for gate in summary.gates:
        style = ANSWER_STYLES.get(gate.answer, "")
        grid.add_row(
            Text(f"{ANSWER_MARKS.get(gate.answer, '?')} {one_line(gate.answer)}", style=style),
            Text(one_line(gate.gate)),
            Text(wording.gate_sentence(gate)),
        )
    return grid


def _failures(summary: Summary) -> Iterator[RenderableType]:
    shown = summary.failures[:FAILURES_SHOWN]
    total = len(summary.failures) + summary.failures_left_out
    yield Text(f"\ndid not pass ({len(shown):,} of {total:,}, worst first)", style="bold")
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=32)
    grid.add_column(overflow="fold")
    for failure in shown:
        name = wording.attempt_name(one_line(failure.case, at_most=60), failure.repeat)
        grid.add_row(Text(name), Text(one_line(failure.why, at_most=160), style="dim"))
    yield Padding(grid, (0, 0, 0, 2))


def range_bar(
    mean: float | None,
    interval: tuple[float, float] | None,
    *,
    columns: int,
) -> str:
    """``····├──●──┤·········``: ● is the mean, ├ ┤ the interval.

    Args:
        mean: In [0, 1]; values outside are drawn at the edge.
        interval: Ends in [0, 1].
        columns: Width in characters.
    """

    def place(value: float) -> int:
        return round(min(1.0, max(0.0, value)) * (columns - 1))

    cells = ["·"] * columns
    if interval is not None:
        low, high = place(interval[0]), place(interval[1])
        cells[low : high + 1] = "─" * (high - low + 1)
        cells[low], cells[high] = "├", "┤"
    if mean is not None:
        cells[place(mean)] = "●"
    return "".join(cells)


RUNS_WIDE = 100
"""Width in columns from which the list of runs shows when each was started."""

STATE_STYLES = {"done": "green", "interrupted": "yellow", "running": "cyan"}


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a list of runs.

    Attributes:
        started: Seconds since the UNIX epoch, or None if unknown.
        state: running, interrupted, done, …
        attempts: Attempts that are stored.
        due: Attempts that the run should have.
        pass_rate: In [0, 1], or None.
        composite: Mean, in [0, 1], or None.
    """

    run: str
    suite: str
    started: float | None
    state: str
    attempts: int
    due: int
    pass_rate: float | None = None
    composite: float | None = None


class RunsTable:
    """A Rich renderable of a list of runs, in the order given.

    Args:
        rows: The runs.
        older: Whether there are further, older runs.
    """

    def __init__(self, rows: list[RunRow], *, older: bool = False) -> None:
        self.rows = rows
        self.older = older

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self.rows:
            yield Text("no runs yet", style="dim")
            return
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        table.add_column("run", no_wrap=True)
        table.add_column("suite", overflow="fold", min_width=8)
        # A run's id begins with its start time, so a narrow terminal does without the column.
        wide = options.max_width >= RUNS_WIDE
        if wide:
            table.add_column("started (UTC)", no_wrap=True)
        table.add_column("state", overflow="fold")
        table.add_column("attempts", justify="right", no_wrap=True)
        table.add_column("passed", justify="right", no_wrap=True)
        table.add_column("composite", justify="right", no_wrap=True)
        for row in self.rows:
            complete = row.attempts == row.due
            table.add_row(
                Text(one_line(row.run), style="bold"),
                Text(one_line(row.suite)),
                *([Text(_moment(row.started))] if wide else []),
                Text(one_line(row.state), style=STATE_STYLES.get(row.state, "")),
                Text(f"{row.attempts:,}" if complete else f"{row.attempts:,}/{row.due:,}"),
                Text(wording.NOTHING if row.pass_rate is None else wording.share(row.pass_rate)),
                Text(wording.number(row.composite)),
            )
        yield table
        if self.older:
            yield Text(f"… and older ones (--limit, now {len(self.rows):,})", style="dim")


def _moment(started: float | None) -> str:
    if started is None:
        return wording.NOTHING
    try:
        return datetime.fromtimestamp(started, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return wording.NOTHING
