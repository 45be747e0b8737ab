"""The entry point of ``trivium``: commands that are imported when used, and exit codes."""

import errno
import gc
import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, TextIO

import click

from trivium.cli.options import Choice

COMMANDS = {
    "init": ("trivium.cli.init:init", "Write a first suite, from a few answers."),
    "run": ("trivium.cli.run:run", "Call an agent on a suite, score, store and print the results."),
    "score": ("trivium.cli.run:score", "Score outputs and traces recorded elsewhere."),
    "show": ("trivium.cli.show:show", "Print a run, or write it as HTML, Markdown or JUnit."),
    "list": ("trivium.cli.show:list_runs", "List the stored runs."),
    "compare": ("trivium.cli.compare:compare", "Say whether a run is worse than the one before it."),
    "confirm": ("trivium.cli.compare:confirm", "Decide a comparison by asking again where it tells most."),
    "plan": ("trivium.cli.compare:plan", "Say how many cases it takes to detect a difference."),
    "pairs": ("trivium.cli.pairs:pairs", "Let a judge say which of two runs has the better outputs."),
    "trust": ("trivium.cli.trust:trust", "Risk and coverage, calibration, judges against people."),
    "label": ("trivium.cli.labels.label:label", "Collect people's labels, where they teach most."),
    "traces": ("trivium.cli.traces:traces", "Read other tools' traces: count them, or convert them."),
    "case": ("trivium.cli.case:case", "Make cases of traces, and add them to a suite."),
    "export": ("trivium.cli.export:export", "Write a run's data as JSONL, CSV or Parquet."),
    "serve": (
        "trivium.cli.monitoring.serve:serve",
        "Receive traces of production and score samples of them.",
    ),
    "view": ("trivium.cli.monitoring.serve:view", "Open the stored runs in the browser."),
    "token": ("trivium.cli.monitoring.token:token", "Make, list, rotate and revoke the server's tokens."),
    "monitor": ("trivium.cli.monitoring.monitor:monitor", "Watch production: status, alerts, replay."),
    "backup": ("trivium.cli.monitoring.backup:backup", "Copy a store to a file, while it is in use."),
    "restore": ("trivium.cli.monitoring.backup:restore", "Copy a backup into an empty store."),
    "mcp": ("trivium.cli.mcp:mcp", "Let a coding agent evaluate, over the Model Context Protocol."),
    "schema": ("trivium.cli.doctor:schema", "Print the JSON Schema of a file format, for editors."),
    "doctor": ("trivium.cli.doctor:doctor", "Say what is installed, what is not, and how to get it."),
    "demo": ("trivium.cli.demo:demo", "Run an example: two versions of an agent, compared."),
    "completion": ("trivium.cli.doctor:completion", "Print the lines that complete commands in a shell."),
}
"""For each command its location (``package.module:name``) and a one-line description."""

OTHER_WORDS = {
    "eval": "run",
    "evaluate": "run",
    "test": "run",
    "new": "init",
    "ls": "list",
    "diff": "compare",
}
"""Commands of other tools, and what does that here."""

PURPOSE = "Evaluate LLM agents and say how far each number can be trusted."

LOG_LEVELS = ("debug", "info", "warning", "error")

MAX_COLUMNS = 100
"""Most columns of a help text, however wide the terminal."""


_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF}
"""Error numbers that mean that standard output cannot be written to."""

_OPTIONS_WITH_A_VALUE = {"--log-level", "--log-file"}
"""Options before the command that take a value."""


def main() -> None:
    """Entry point of ``trivium``."""
    _reopen_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal gets "?" in a table; JSON is UTF-8 bytes
    try:
        code = _run(sys.argv[1:])
        sys.stdout.flush()
    except OSError as error:
        pipe_closed = isinstance(error, BrokenPipeError)  # as with `| head`: not an error
        if not pipe_closed and (error.filename is not None or error.errno not in _WRITE_ERRORS):
            raise
        _discard(sys.stdout)
        if not pipe_closed:
            with suppress(OSError):  # standard error may be redirected to the full disk too
                sys.stderr.write(f"Error: the output cannot be written: {error.strerror}\n")
                sys.stderr.flush()
        code = 0 if pipe_closed else 2
    try:
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)
    if code:
        sys.exit(code)


def _discard(stream: TextIO) -> None:
    """Discard what a stream still holds: Python flushes it at exit, fails again, and ends with code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _reopen_closed_streams() -> None:
    """Reopen closed standard streams (``>&-``) on /dev/null.

    Otherwise the next file that is opened, such as the store's, would get their descriptor.
    """
    if None not in {sys.stdin, sys.stdout, sys.stderr}:
        return
    while (spare := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(spare)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def _run(arguments: list[str]) -> int:
    from trivium.runs.event_loop import THRESHOLDS_WHILE_ASKING

    # Not reset at the end: with Python's thresholds a full collection would run before the process exits.
    gc.set_threshold(*THRESHOLDS_WHILE_ASKING)
    if _command(arguments) == "score" and not {"-h", "--help"} & set(arguments):
        _reduce_background_work()
    return run_command(arguments)


def _command(arguments: list[str]) -> str | None:
    """Return the command: the first argument that is neither an option nor an option's value."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return word
        if word in _OPTIONS_WITH_A_VALUE:
            next(words, None)
    return None


def _reduce_background_work() -> None:
    """Reduce garbage collection and OpenBLAS overhead for ``trivium score``.

    It calls no agent and multiplies no large matrix.
    """
    from trivium.runs.event_loop import THRESHOLDS_WHILE_SCORING

    gc.set_threshold(*THRESHOLDS_WHILE_SCORING)
    # OpenBLAS starts one thread a core, and each spins for 2**26 cycles before it sleeps.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    import trivium.cli.output
    import trivium.cli.run
    import trivium.runs.evaluate  # noqa: F401

    gc.freeze()  # imported modules are never garbage


class LazyCommands(click.Group):
    """A group whose commands are imported when they are used.

    Args:
        table: For each command its location (``package.module:name``) and a one-line description.
    """

    def __init__(self, *args: Any, table: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command."""
        if cmd_name not in self.table:
            return None
        module, _, name = self.table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a wrong name is an error that suggests the nearest one."""
        from trivium.errors import suggest

        if args and args[0] not in self.table and not args[0].startswith("-"):
            other = OTHER_WORDS.get(args[0])
            hint = f' Did you mean "{other}"?' if other in self.table else suggest(args[0], self.table)
            hint = hint or f" Commands: {', '.join(self.table)}"
            raise click.UsageError(f'there is no command "{args[0]}".{hint}', ctx)
        return super().resolve_command(ctx, args)


def columns() -> int:
    """Return the width of help texts in this terminal.

    Click's own function imports shutil with its archivers, which costs time at every start.
    """
    try:
        width = int(os.environ.get("COLUMNS") or os.get_terminal_size().columns)
    except (OSError, ValueError):
        width = 80
    return max(50, min(width, MAX_COLUMNS) - 2)


@click.group(
    cls=LazyCommands,
    help=PURPOSE,
    table=COMMANDS,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "terminal_width": columns(),
    },
)
@click.version_option(package_name="trivium", message="trivium %(version)s")
@click.option(
    "--log-level",
    type=Choice(LOG_LEVELS),
    default="warning",
    envvar="TRIVIUM_LOG_LEVEL",
    show_default=True,
    help="Least severe messages that are logged on standard error.",
)
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False),
    envvar="TRIVIUM_LOG_FILE",
    help="Also write the log here, as JSON lines with secrets masked.",
)
def trivium(log_level: str, log_file: str | None) -> None:
    """The group of all commands."""
    from trivium.cli.logs import configure_logging

    configure_logging(log_level, log_file)


def run_command(arguments: list[str]) -> int:
    """Run a command line, print errors without a traceback, and return the exit code."""
    from trivium.cli.logs import print_errors

    return print_errors(lambda: trivium.main(arguments, prog_name="trivium", standalone_mode=False))
