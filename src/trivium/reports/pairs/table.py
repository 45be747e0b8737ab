"""A comparison by pairs for the terminal."""

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports.pairs import phrases
from trivium.reports.untrusted import one_line
from trivium.reports.wording import attempt_name, interval, number
from trivium.runs.pairs.judged import PairComparison

LOSSES_SHOWN = 5
NAME_COLUMNS = 22


class PairTable:
    """A Rich renderable of a comparison by pairs: ``console.print(PairTable(comparison))``."""

    def __init__(self, found: PairComparison) -> None:
        self._found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self._found
        title = Text(one_line(found.suite, at_most=300), style="bold")
        title.append(f"  {one_line(found.head)} against {one_line(found.base)}", style="dim")
        yield title
        yield Text(phrases.headline(found))
        for line in found.notes:
            yield Text(f"! {one_line(line, at_most=500)}", style="yellow")
        yield Text()
        yield self._figures()
        yield from self._losses()
        yield Text(f"\n{phrases.left_out(found)}\n{phrases.note(found)}", style="dim")

    def _figures(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        longest = max(len(one_line(name, at_most=60)) for name in self._found.figures)
        table.add_column("dimension", overflow="fold", min_width=min(longest, NAME_COLUMNS))
        table.add_column("win rate", justify="right", no_wrap=True)
        table.add_column("interval", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
        table.add_column("+/−/=", justify="right", no_wrap=True)
        table.add_column("none", justify="right", no_wrap=True)
        table.add_column("bias", overflow="fold")
        for name, figure in self._found.figures.items():
            table.add_row(
                Text(one_line(name, at_most=60)),
                Text(number(figure.win_rate), style="bold"),
                interval(figure.ci95),
                phrases.probability(figure.p),
                phrases.record(figure),
                f"{figure.unjudged:,}",
                Text(phrases.bias(figure), style="yellow" if figure.inconsistent else ""),
            )
        return table

    def _losses(self) -> Iterator[RenderableType]:
        name = phrases.main_dimension(self._found)
        lost = phrases.losses(self._found, name)
        if not lost:
            return
        yield Text(
            f"\nlost in {one_line(name)} ({min(len(lost), LOSSES_SHOWN):,} of {len(lost):,})", style="bold"
        )
        grid = Table.grid(padding=(0, 2))
        grid.add_column(overflow="fold", max_width=32)
        grid.add_column(overflow="fold")
        for pair in lost[:LOSSES_SHOWN]:
            orders = pair.verdicts[name].orders
            why = orders[0].reason if orders else "the attempt failed"
            grid.add_row(
                Text(attempt_name(one_line(pair.case, at_most=60), pair.repeat)),
                Text(one_line(why, at_most=160), style="dim"),
            )
        yield Padding(grid, (0, 0, 0, 2))
