"""Tables on a terminal, or as text that fits a number of columns."""

from io import StringIO

from rich.console import Console, RenderableType

from trivium.reports.runs_table import RunsTable
from trivium.reports.summary_table import SummaryTable
from trivium.runs.summary import RunRow, Summary


def print_summary(summary: Summary) -> None:
    """Print a summary to standard output, as wide as the terminal is."""
    Console(highlight=False).print(SummaryTable(summary))


def print_runs(rows: list[RunRow]) -> None:
    """Print a list of runs to standard output, as wide as the terminal is."""
    Console(highlight=False).print(RunsTable(rows))


def render_summary(summary: Summary, *, width: int = 80, colour: bool = False) -> str:
    """A summary as text.

    Args:
        summary: What the run says.
        width: Columns to fill.
        colour: Whether to add ANSI colours.
    """
    return _render(SummaryTable(summary), width=width, colour=colour)


def render_runs(rows: list[RunRow], *, width: int = 80, colour: bool = False) -> str:
    """A list of runs as text."""
    return _render(RunsTable(rows), width=width, colour=colour)


def _render(renderable: RenderableType, *, width: int, colour: bool) -> str:
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=colour,
        color_system="truecolor" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
