"""The live screen of ``trivium monitor top`` (Rich)."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from trivium.monitor.status import MonitorStatus
from trivium.reports.document.blocks import Block
from trivium.reports.document.terminal import Printed
from trivium.reports.monitoring import describe
from trivium.safe_text import one_line
from trivium.values import counted

LIVE_ROWS = 4
"""Number of values of a facet on a live screen, if it is high enough."""


def all_of(statuses: Iterable[MonitorStatus], *, rows: int) -> Iterator[Block]:
    """The blocks of every status, one after another."""
    return chain.from_iterable(describe(each, "terminal", rows=rows) for each in statuses)


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
        shown = Printed(all_of(self.statuses, rows=rows))
        return console.render_lines(shown, options.update(height=None), pad=False)
