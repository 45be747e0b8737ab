"""The group ``trivium traces``. Each command is one file, and one line here."""

import click

from trivium.cli.lazy import LazyCommands

COMMANDS = {
    "show": ("trivium.cli.traces.show:show", "Count what traces hold: agents, tools, tokens, messages."),
    "import": ("trivium.cli.traces.import_:import_", "Turn other tools' traces into Trivium's own."),
    "export": ("trivium.cli.traces.export:export", "Write traces for OpenTelemetry and graph tools."),
}


@click.group(cls=LazyCommands, table=COMMANDS)
def traces() -> None:
    """Look at traces that other tools recorded, and turn them into Trivium's own.

    The format of a file is found out by what it holds. Files may be gzipped. Several files are read as
    one where their format splits a trace over files.
    """
