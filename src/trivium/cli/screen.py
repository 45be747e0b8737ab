"""The screen: tables as wide as the terminal, and 80 columns where there is none or a narrower one."""

import re
import sys
from typing import Any

NARROWEST = 80
"""Columns that every table fits. A narrower terminal breaks their lines itself, which cuts no cell off."""

_END_OF_LINE = re.compile(r"(?: |\x1b\[[0-9;]*m)+$", re.MULTILINE)


def show(renderable: Any) -> None:
    """Print a Rich renderable on standard output, without the blanks that it fills its lines with."""
    from rich.console import Console

    console = Console(highlight=False, legacy_windows=False)
    console.width = max(NARROWEST, console.width) if sys.stdout.isatty() else NARROWEST
    with console.capture() as captured:
        console.print(renderable)
    sys.stdout.write(_END_OF_LINE.sub(lambda end: end[0].replace(" ", ""), captured.get()))
