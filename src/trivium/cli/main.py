"""The command ``trivium``. Each command is one file, imported when it is called, and one line here."""

import os
import sys
from typing import Any

import click

from trivium.cli.lazy import LazyCommands

COMMANDS = {
    "run": ("trivium.cli.run:run", "Ask an agent, score what it did, store and print it."),
    "score": ("trivium.cli.score:score", "Score outputs and traces recorded elsewhere."),
    "show": ("trivium.cli.show:show", "Print a run, or write it as HTML, Markdown or JUnit."),
    "list": ("trivium.cli.list:list_runs", "List the stored runs."),
    "compare": ("trivium.cli.compare:compare", "Say whether a run is worse than the one before it."),
    "trust": ("trivium.cli.trust.group:trust", "Risk and coverage, calibration, judges against people."),
    "export": ("trivium.cli.export:export", "Write a run's data as JSONL, CSV or Parquet."),
    "schema": ("trivium.cli.schema:schema", "Print the JSON Schema of a file format, for editors."),
    "doctor": ("trivium.cli.doctor:doctor", "Say what is installed, what is not, and what to do."),
    "demo": ("trivium.cli.demo:demo", "Run the example reviewer on its papers and score it."),
    "completion": ("trivium.cli.completion:completion", "Print the lines that complete commands in a shell."),
}

WIDEST = 100
"""Columns of a help text, however wide the terminal."""


def _columns() -> int:
    """Columns of the terminal. Click would import shutil and its archivers to ask."""
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        return 80


INTERRUPTED = 130
WRONG_INPUT = 2


@click.group(
    cls=LazyCommands,
    table=COMMANDS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "terminal_width": max(50, min(_columns(), WIDEST) - 2),
    },
)
@click.version_option(package_name="trivium", message="trivium %(version)s")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    envvar="TRIVIUM_LOG_LEVEL",
    show_default=True,
    help="What is told on standard error about decisions made.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False),
    envvar="TRIVIUM_LOG_FILE",
    help="Also write the log here, as JSON lines with secrets masked.",
)
def trivium(log_level: str, log_file: str | None) -> None:
    """Evaluate LLM agents and say how far each number can be trusted."""
    from trivium.cli.logs import set_up_logs

    set_up_logs(log_level, log_file)


def main() -> None:
    """Entry point: errors in plain words, exit codes as the specification says."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Run a command line and return its exit code."""
    try:
        outcome: Any = trivium.main(arguments, prog_name="trivium", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        error.show()
        return WRONG_INPUT
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:
        # Click's answer when the reader of our output left (`| head`): nothing is wrong.
        return 0
    except Exception as error:
        from trivium.errors import TriviumError

        if not isinstance(error, TriviumError):
            raise
        from trivium.reports.untrusted import visible

        click.echo(f"Error: {visible(str(error))}", err=True)
        return WRONG_INPUT
    return outcome if isinstance(outcome, int) else 0
