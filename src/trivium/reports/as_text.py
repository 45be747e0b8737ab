"""A terminal table as text of so many columns."""

from io import StringIO

from rich.console import Console, RenderableType


def as_text(renderable: RenderableType, *, width: int = 80, colour: bool = False) -> str:
    """What a terminal would show.

    Args:
        renderable: A :class:`~trivium.reports.terminal.SummaryTable` or any other Rich renderable.
        width: Columns to fill.
        colour: Whether to add ANSI colours.
    """
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=colour,
        force_jupyter=False,  # inside a kernel Rich would display it instead of writing it here
        color_system="truecolor" if colour else None,
        highlight=False,
        legacy_windows=False,
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"
