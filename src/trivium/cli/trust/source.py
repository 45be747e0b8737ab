"""Where the items of a trust command come from: a file, or a stored run and labels."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trivium.cli.options import DEFAULT_STORE

if TYPE_CHECKING:
    from trivium.runs.items.table import ItemTable
    from trivium.trust.calibration.calibrator import Calibrator


def open_items(
    source: str | None,
    *,
    mode: str | None = None,
    dimension: str | None = None,
    labels: Path | None = None,
    store: str = DEFAULT_STORE,
) -> "ItemTable":
    """The items of a file; with a dimension, those of a run (the newest when none is named).

    Raises:
        InputError: If the items cannot be read, or the options do not go together.
    """
    if dimension is None:
        if source is None:
            raise click.UsageError("name a file of items, or a run with --dimension D")
        if labels is not None:
            raise click.UsageError("--labels are joined with a run: say which --dimension D")
        from trivium.runs.items.reading import read_items

        return read_items(source, mode=mode)
    if mode is not None:
        raise click.UsageError("--mode chooses in a run artifact, --dimension in a stored run: not both")
    if labels is None:
        raise click.UsageError("a run's scores are joined with people's labels: --labels FILE")
    from trivium.runs.run import Run

    return Run.load(source, store=store).items(dimension=dimension, labels=labels)


def open_calibrator(path: Path | None) -> "Calibrator | None":
    """The calibrator of a file.

    Raises:
        InputError: If it is none.
    """
    if path is None:
        return None
    from trivium.runs.items.calibrators import read_calibrator

    return read_calibrator(path)
