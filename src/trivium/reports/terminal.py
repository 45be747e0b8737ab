"""Shows the summary of a run in a terminal (Rich).

The order is that of all reports: the answer, what failed, the numbers, the reservations that change how to
read them, and where the run comes from.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.escape import one_line
from trivium.reports.wording import counted, dollars, requests, spent_sentence
from trivium.runs.summary import Figure, HumanFigure, JudgeCosts, Summary

FAILURES_SHOWN = 5
RESERVATIONS_SHOWN = 4
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
    """A Rich renderable of a summary: ``console.print(SummaryTable(summary))``.

    Args:
        summary: The summary.
        details: Whether to show every reservation in full, the remarks, how intervals were computed, and the
            provenance; otherwise the first few reservations have one line each.
        provenance: The run's provenance, for the details.
    """

    def __init__(
        self, summary: Summary, *, details: bool = False, provenance: Mapping[str, Any] | None = None
    ) -> None:
        self.summary = summary
        self.details = details
        self.provenance = provenance or {}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary, wide = self.summary, options.max_width >= WIDE
        yield _head(summary)
        yield from _answer(summary, details=self.details)
        yield from _failures(summary)
        yield Text()
        yield from _numbers(summary, wide=wide, details=self.details)
        yield from _reservations(summary, details=self.details, width=options.max_width)
        yield from _provenance(summary, self.provenance, details=self.details)


def _head(summary: Summary) -> RenderableType:
    title = Text(one_line(summary.suite, at_most=300), style="bold")
    title.append(f"  {one_line(summary.run)}", style="dim")
    lacking = summary.missing or any(summary.errors.values())
    return Group(title, Text(wording.headline(summary), style="red" if lacking else ""))


def _answer(summary: Summary, *, details: bool) -> Iterator[RenderableType]:
    """Gates, pass rate, and the composite with its recommendation."""
    if summary.gates:
        yield _gates(summary)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
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
        sentence = Text(
            wording.composite_sentence(figure),
            style=RECOMMENDATION_STYLES.get(figure.recommendation or "", ""),
        )
        ends = wording.shown_interval(figure)
        grid.add_row(
            Text("composite", style="bold"),
            Text(wording.number(figure.mean), style="bold"),
            Text("" if ends is None else wording.interval(ends)),
            sentence,
        )
        remarks = [wording.weight_scored(figure)]
        if details:
            remarks = [wording.recommended(figure), wording.not_ok(figure.status), *remarks]
        if remark := " · ".join(part for part in remarks if part):
            grid.add_row("", "", "", Text(remark, style="dim"))
    yield grid


def _numbers(summary: Summary, *, wide: bool, details: bool) -> Iterator[RenderableType]:
    """Metrics of which there is anything, the agent's own figures, and the costs of the judges."""
    shown = summary.metrics if details else wording.measured_metrics(summary)
    if shown:
        yield _metrics(summary, shown, wide=wide, details=details)
    for name, mean in wording.further_dimensions(summary).items():
        yield Text(f"{one_line(name)}  {wording.number(mean)}  judged")
    if not details and (rest := wording.counted_without(summary)):
        yield Text(f"{rest} (--details)", style="dim")
    if summary.human_ceiling:
        yield Text("\ncompared with people", style="bold")
        yield Text(wording.BESIDE_PEOPLE, style="dim")
        yield _beside_people(summary.human_ceiling)
    rows = []
    if summary.agent is not None:
        rows.append(("agent", wording.agent_line(summary.agent)))
    if summary.spent is not None:
        rows.append(("judges", spent_sentence(summary.spent)))
    if rows:
        yield Text()
        yield _named(rows)
    if summary.spent is not None:
        yield from _spent_by_model(summary.spent)
    if summary.acceptance:
        yield Text("\ncertificates", style="bold")
        lines = [wording.accepted_of(summary)]
        lines += [wording.acceptance_sentence(*each) for each in summary.acceptance.items()]
        yield Padding(Text("\n".join(lines)), (0, 0, 0, 2))


def _named(rows: Iterable[tuple[str, str]], *, style: str = "") -> RenderableType:
    """Lines with a name before each."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, words in rows:
        grid.add_row(Text(name, style=style or "bold"), Text(words, style=style))
    return grid


def _reservations(summary: Summary, *, details: bool, width: int) -> Iterator[RenderableType]:
    """What changes how to read the numbers: a paragraph each, or everything."""
    if details:
        names = wording.without_anything(summary)
        remarks = [*summary.notes]
        if names:
            remarks.append(f"nothing to measure here: {', '.join(map(one_line, names))}")
        if note := wording.interval_note(summary):
            remarks.append(note)
        marked = [("!", line, "yellow") for line in summary.warnings] + [
            ("·", line, "dim") for line in remarks
        ]
        if marked:
            yield Text()
        for mark, line, style in marked:
            yield marked_paragraph(mark, one_line(line, at_most=2000), style=style)
        return
    if not summary.warnings:
        return
    yield Text()
    for line in summary.warnings[:RESERVATIONS_SHOWN]:
        # Three lines at most: what to do about it stands at the end, and is not cut.
        yield marked_paragraph("!", one_line(line, at_most=3 * (width - 4)), style="yellow")
    if (more := len(summary.warnings) - RESERVATIONS_SHOWN) > 0:
        yield Text(f"  {counted(more, 'more reservation')} (--details)", style="yellow")


def _provenance(
    summary: Summary, provenance: Mapping[str, Any], *, details: bool
) -> Iterator[RenderableType]:
    """Where the run comes from: one line, or everything that is recorded."""
    if details and provenance:
        yield Text("\nprovenance", style="bold")
        yield Padding(_named(wording.provenance_rows(provenance), style="dim"), (0, 0, 0, 2))
    elif line := wording.provenance_line(summary):
        more = " · more: trivium show --details" if not details else ""
        yield Text(f"\n{line}{more}", style="dim")


def marked_paragraph(mark: str, text: str, *, style: str) -> RenderableType:
    """A paragraph with a hanging mark."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True, min_width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=f"bold {style}"), Text(text, style=style))
    return grid


def _metrics(summary: Summary, shown: Mapping[str, Figure], *, wide: bool, details: bool) -> RenderableType:
    with_interval = any(wording.shown_interval(figure) for figure in shown.values())
    with_measured = any(map(wording.measured, shown.values()))
    with_status = any(map(wording.lacking if details or wide else _unusual, shown.values()))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    names = max(len(one_line(name)) for name in shown)
    table.add_column("metric", overflow="fold", min_width=min(names, NAME_COLUMNS))
    table.add_column("score", justify="right", no_wrap=True)
    if with_interval:
        table.add_column(wording.interval_heading(summary), no_wrap=True)
    if with_interval and wide:
        table.add_column(Text("0") + " " * (BAR_COLUMNS - 2) + "1", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    if with_measured:
        table.add_column("measured", overflow="fold", min_width=12)
    if with_status:
        table.add_column("status", overflow="fold", min_width=12)
    for name, figure in shown.items():
        ends = wording.shown_interval(figure)
        row = [
            Text(one_line(name), style="" if wording.has_something(figure) else "dim"),
            Text(wording.number(figure.mean), style="bold" if figure.n else "dim"),
        ]
        if with_interval:
            row.append(Text(wording.interval(ends), style="" if ends else "dim"))
        if with_interval and wide:
            row.append(Text(range_bar(figure.mean, ends, columns=BAR_COLUMNS), style="cyan"))
        counts = wording.values_of(figure)
        row.append(Text(counts, style="yellow" if "/" in counts else ""))
        if with_measured:
            row.append(Text(wording.measured(figure)))
        if with_status:
            row.append(Text(wording.lacking(figure), style="red" if figure.status.get("error") else "yellow"))
        table.add_row(*row)
    return table


def _unusual(figure: Figure) -> bool:
    """Whether scores failed, are fallbacks or were refused; how many are there at all is next to ``n``."""
    return figure.aside is not None or any(
        count for status, count in figure.status.items() if status not in {"ok", "skipped"}
    )


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
    if not summary.failures:
        return
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
