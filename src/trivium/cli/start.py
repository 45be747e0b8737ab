"""Where the command begins: the overview at once, everything else through Click."""

import gc
import sys

from trivium.cli.overview import columns, overview


def main() -> None:
    """Entry point of ``trivium``."""
    if sys.argv[1:] in ([], ["-h"], ["--help"]):
        sys.stdout.write(overview(columns()) + "\n")
        return
    from trivium.cli.main import run_command

    look_for_cycles_seldom()
    sys.exit(run_command(sys.argv[1:]))


def look_for_cycles_seldom() -> None:
    """Have Python look for cycles after 100,000 new objects, not after 700.

    Records hold none: looking among the thousands of a batch took a fifth of a large run's time.
    """
    gc.set_threshold(100_000, 50, 100)
