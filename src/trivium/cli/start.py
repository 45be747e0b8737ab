"""Where the command begins: the overview at once, everything else through Click."""

import gc
import sys

from trivium.cli.overview import columns, overview

RECORDS_BETWEEN_SEARCHES = 100_000
"""How many records more than now may live before Python looks for cycles among them."""


def main() -> None:
    """Entry point of ``trivium``."""
    if sys.argv[1:] in ([], ["-h"], ["--help"]):
        sys.stdout.write(overview(columns()) + "\n")
        return
    from trivium.cli.main import run_command

    # Records hold no cycles: looking for some after every 700 takes a fifth of a large run's time.
    gc.set_threshold(RECORDS_BETWEEN_SEARCHES, 50, 100)
    sys.exit(run_command(sys.argv[1:]))
