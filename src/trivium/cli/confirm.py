"""Asks the agents of two compared runs again, for ``trivium confirm`` and the options ``--confirm``."""

import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from trivium.keywords import taken

if TYPE_CHECKING:
    from trivium.runs.run import Run


def ask_again(base: "Run", head: "Run", given: Mapping[str, Any], agent: Any) -> None:
    """Make the attempts that confirm a comparison, with a progress bar; say what they cost at most."""
    from trivium.cli.output import ProgressBar, reserved_stdout
    from trivium.runs.confirming.confirm import ConfirmationOptions
    from trivium.runs.confirming.confirm import confirm as confirm_runs

    quiet, calls = given["quiet"] or given["as_json"], given["confirm"]
    if not quiet:
        click.echo(_beforehand(base, head, calls), err=True)
    bar = ProgressBar(quiet=quiet)
    asked = {"agent": given["agent"] if agent is None else agent}
    previous_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with reserved_stdout():
            confirm_runs(
                base, head, calls=calls, progress=bar, **taken(ConfirmationOptions, {**given, **asked})
            )
    except KeyboardInterrupt:
        stored = f"{bar.done:,} of {calls:,} calls are stored"
        command = f"trivium confirm {base.id} {head.id} --calls {calls}"
        click.echo(f"\nInterrupted: {stored}. To go on, with the same options:\n  {command}", err=True)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _beforehand(base: "Run", head: "Run", calls: int) -> str:
    from trivium.reports.comparison_text import cost_of
    from trivium.reports.wording import counted
    from trivium.runs.comparing.earlier_runs import calls_of

    text = f"asking again: at most {counted(calls, 'call')}"
    made = calls_of([base.record, head.record])
    if made.attempts and (cost := cost_of(made, times=calls / made.attempts)):
        text += f", about {cost} if a call costs what an attempt of these runs did"
    return text
