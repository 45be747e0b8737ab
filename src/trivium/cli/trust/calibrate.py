"""``trivium trust calibrate``: make a confidence true."""

from pathlib import Path
from typing import Any

import click

from trivium.cli import options
from trivium.cli.options import Words, option, split_names
from trivium.cli.trust import options as shared
from trivium.cli.trust.source import open_items


@click.command()
@click.argument("items", required=False)
@option("--mode", metavar="NAME", help="Predictor of a run artifact.")
@shared.dimension
@shared.labels
@options.store
@option(
    "--method",
    type=Words(["temperature", "isotonic", "logistic", "platt", "linear"]),
    default="temperature",
    show_default=True,
    help="What is fitted.",
)
@option("--features", metavar="A,B,…", help="Signals to look at.")
@option("--confidence", metavar="NAME", help="The confidence to calibrate, in place of signals.")
@option(
    "--target",
    type=Words(["correctness", "near_correct", "loss"]),
    default="correctness",
    show_default=True,
    help="What the calibrated number is the probability of (loss: 1 - error / range).",
)
@shared.scale
@shared.seed
@options.as_json
@shared.output
def calibrate(items: str | None, **given: Any) -> int:
    """Fit a calibrator on ITEMS: it turns a confidence, or signals, into how likely a prediction is right.

    The calibrator is written with --output and used by `trivium trust curve|certify --calibration FILE`. How
    good it is, is told for groups that it was not fitted on (cross-fitted).
    """
    from trivium.runs.artifacts.calibration import calibrate as fit
    from trivium.runs.items.ranked import STATED

    table = open_items(
        items,
        mode=given["mode"],
        dimension=given["dimension"],
        labels=given["labels"],
        store=given["store"],
    )
    features, confidence = split_names(given["features"]) or [], given["confidence"]
    if not features and confidence is None and table.states_confidence:
        confidence = STATED
    fitted = fit(
        table,
        method=given["method"],
        features=features,
        confidence=confidence,
        target=given["target"],
        scale=given["scale"],
        seed=given["seed"],
    )
    artifact = fitted.to_json()
    output: Path | None = given["output"]
    if output is not None:
        shared.write(output, shared.as_document(artifact))
    if given["as_json"]:
        click.echo(shared.as_document(artifact), nl=False)
        return 0
    from trivium.cli.screen import show
    from trivium.reports.trust.calibrator_table import CalibratorTable

    show(CalibratorTable(artifact))
    return 0
