"""The group ``trivium trust``. Each command is one file, and one line here."""

import click

from trivium.cli.lazy import LazyCommands

COMMANDS = {
    "curve": ("trivium.cli.trust.curve:curve", "Risk and coverage of predictions that may abstain."),
}


@click.group(cls=LazyCommands, table=COMMANDS)
def trust() -> None:
    """Say how far predictions and judges can be trusted.

    Each command reads items (JSONL, CSV, Parquet, or a run artifact), or joins a stored run's judgements
    with people's labels.
    """
