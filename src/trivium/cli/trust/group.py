"""The group ``trivium trust``. Each command is one file, and one line here."""

import click

from trivium.cli.lazy import LazyCommands

COMMANDS = {
    "import": ("trivium.cli.trust.import_:import_", "Bring judgements recorded elsewhere into a run."),
    "curve": ("trivium.cli.trust.curve:curve", "Risk and coverage of predictions that may abstain."),
    "calibrate": ("trivium.cli.trust.calibrate:calibrate", "Make a confidence true."),
    "certify": ("trivium.cli.trust.certify:certify", "Which judgements may stand without a person."),
    "agree": ("trivium.cli.trust.agree:agree", "How far a judge agrees with people."),
}


@click.group(cls=LazyCommands, table=COMMANDS)
def trust() -> None:
    """Say how far predictions and judges can be trusted.

    Each command reads items (JSONL, CSV, Parquet, or a run artifact), or joins a stored run's judgements
    with people's labels.
    """
