"""The screen: tables as wide as the terminal, 80 columns where there is none."""

import sys
from typing import Any


def show(renderable: Any) -> None:
    """Print a Rich renderable on standard output."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else 80
    Console(width=width, highlight=False, legacy_windows=False).print(renderable)
