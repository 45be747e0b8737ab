"""Where the command begins: the overview at once, everything else through Click."""

import sys

from trivium.cli.overview import columns, overview


def main() -> None:
    """Entry point of ``trivium``."""
    if sys.argv[1:] in ([], ["-h"], ["--help"]):
        sys.stdout.write(overview(columns()) + "\n")
        return
    from trivium.cli.main import run_command
    from trivium.runs.engines.cycles import cycles_seldom_sought

    with cycles_seldom_sought():
        sys.exit(run_command(sys.argv[1:]))
