"""Disagreements for the terminal."""

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports.disagreeing import phrases
from trivium.reports.untrusted import one_line
from trivium.reports.wording import attempt_name, number
from trivium.runs.disagreeing.disagreement import Disagreements

SHOWN = 20
NAME_COLUMNS = 22


class DisagreementTable:
    """A Rich renderable of disagreements: how often and how far by dimension, then the farthest apart.

    Args:
        found: The disagreements.
        shown: How many of them are listed.
    """

    def __init__(self, found: Disagreements, *, shown: int = SHOWN) -> None:
        self._found, self._shown = found, shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        found = self._found
        title = Text(one_line(found.suite, at_most=300), style="bold")
        title.append(f"  {one_line(found.run)}", style="dim")
        yield title
        with_what = phrases.sources(found)
        yield Text(phrases.headline(found) + (f", compared with {with_what}" if with_what else ""))
        for note in found.notes:
            yield Text(f"! {one_line(note, at_most=500)}", style="yellow")
        if found.tallies:
            yield Text()
            yield self._tallies()
        if found.found:
            yield Text("\nfarthest apart", style="bold")
            yield self._list()

    def _tallies(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        longest = max(len(one_line(tally.dimension, at_most=60)) for tally in self._found.tallies)
        table.add_column("dimension", overflow="fold", min_width=min(longest, NAME_COLUMNS))
        table.add_column("who", overflow="fold")
        for head in ("agree", "some abstain", "spread", "most", "bias"):
            table.add_column(head, justify="right", overflow="fold")
        for tally in self._found.tallies:
            table.add_row(
                Text(one_line(tally.dimension, at_most=60)),
                Text(phrases.KINDS[tally.kind], style="dim"),
                phrases.agreed(tally),
                f"{tally.abstained:,}",
                number(tally.mean_apart),
                number(tally.largest),
                phrases.signed(tally.leaning),
            )
        return table

    def _list(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, justify="right")
        grid.add_column(overflow="fold", max_width=24)
        grid.add_column(overflow="fold", max_width=22)
        grid.add_column(overflow="fold")
        for each in self._found.found[: self._shown]:
            grid.add_row(
                Text(phrases.apart(each), style="bold"),
                Text(attempt_name(one_line(each.case, at_most=60), each.repeat)),
                Text(one_line(each.dimension, at_most=60), style="dim"),
                Text(", ".join(phrases.opinion(one) for one in each.opinions)),
            )
        return Padding(grid, (0, 0, 0, 2))
