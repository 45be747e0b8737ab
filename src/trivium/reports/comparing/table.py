"""A comparison as a table that fits 80 columns and uses more when they are there."""

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports.comparing import phrases
from trivium.reports.comparing.graphs_table import graphs_section
from trivium.reports.untrusted import one_line
from trivium.reports.wording import number
from trivium.runs.comparing.comparison import Comparison, MetricDelta

WIDE = 104
"""Columns from which the means of both runs are shown too."""
NAME_COLUMNS = 20
STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow"}


class ComparisonTable:
    """A Rich renderable of a comparison: ``console.print(ComparisonTable(comparison))``."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        comparison = self.comparison
        title = Text(one_line(comparison.suite, at_most=300), style="bold")
        title.append(f"  {one_line(comparison.head)} against {one_line(comparison.base)}", style="dim")
        yield title
        yield Text(phrases.paired(comparison))
        yield from (_marked("!", one_line(line, at_most=2000), "yellow") for line in comparison.warnings)
        yield Text()
        yield _marked(
            phrases.MARKS[comparison.answer],
            f"{comparison.answer}. {one_line(comparison.reason, at_most=2000)}",
            STYLES[comparison.answer],
        )
        yield Text()
        yield _figures(comparison, wide=options.max_width >= WIDE)
        yield Text()
        yield from (Text(line) for line in phrases.outlook(comparison))
        if comparison.moves:
            yield Text(f"\nmoved most, by {one_line(comparison.moves_of)}", style="bold")
            yield _moves(comparison)
        if comparison.graphs is not None:
            yield from graphs_section(comparison.graphs)
        yield Text(f"\n{phrases.rule(comparison)}\n{phrases.note(comparison)}", style="dim")


def _marked(mark: str, text: str, style: str) -> RenderableType:
    """A paragraph that hangs from its mark."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(mark, style=style), Text(text, style=style))
    return grid


def _figures(comparison: Comparison, *, wide: bool) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    names = max(len(one_line(name)) for name in comparison.metrics)
    table.add_column("figure", overflow="fold", min_width=min(names, NAME_COLUMNS))
    if wide:
        table.add_column("base", justify="right", no_wrap=True)
        table.add_column("head", justify="right", no_wrap=True)
    table.add_column("delta", justify="right", no_wrap=True)
    table.add_column("interval", no_wrap=True)
    table.add_column("p (Holm)", justify="right", no_wrap=True)
    table.add_column("+/−/=", justify="right", overflow="fold")
    table.add_column("needs", justify="right", no_wrap=True)
    for name, figure in comparison.metrics.items():
        table.add_row(*_row(name, figure, comparison, wide=wide))
    return table


def _row(name: str, figure: MetricDelta, comparison: Comparison, *, wide: bool) -> list[Text]:
    decides = name in comparison.decided_by
    means = [Text(number(figure.base)), Text(number(figure.head))] if wide else []
    return [
        Text(phrases.MARKS[figure.answer], style=STYLES[figure.answer]),
        Text(one_line(name), style="bold" if decides else ""),
        *means,
        Text(phrases.signed(figure.delta), style="bold"),
        Text(phrases.interval_of(figure, comparison)),
        Text(phrases.probability(figure.p_holm)),
        Text(phrases.record(figure).replace(" ", "")),
        Text(phrases.further(figure)),
    ]


def _moves(comparison: Comparison) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(overflow="fold", max_width=40)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    for move in comparison.moves:
        style = "red" if move.delta < 0 else "green"
        grid.add_row(
            Text(one_line(move.case, at_most=60)),
            Text(f"{number(move.base)} → {number(move.head)}"),
            Text(phrases.signed(move.delta), style=style),
        )
    return Padding(grid, (0, 0, 0, 2))
