"""``trivium trust agree``: how far a judge agrees with people."""

from typing import Any

import click

from trivium.cli import options
from trivium.cli.options import option
from trivium.cli.trust import options as shared
from trivium.cli.trust.source import open_items


@click.command()
@click.argument("items", required=False)
@option("--mode", metavar="NAME", help="Predictor of a run artifact.")
@shared.dimension
@shared.labels
@options.store
@option(
    "--step",
    type=click.FloatRange(0, min_open=True),
    metavar="X",
    help="Distance between neighbouring labels; by default 1, on a narrower scale the least seen.",
)
@shared.scale
@shared.resamples
@shared.seed
@options.as_json
@shared.output
def agree(items: str | None, **given: Any) -> int:
    """How far the predictions of ITEMS agree with the truths that people gave.

    From a run, scores that nobody labelled help to tell what people's mean would be over all of them.
    """
    from trivium.runs.artifacts.agreement import agreement_answer

    table = open_items(
        items,
        mode=given["mode"],
        dimension=given["dimension"],
        labels=given["labels"],
        store=given["store"],
    )
    answer = agreement_answer(
        table,
        step=given["step"],
        scale=given["scale"],
        resamples=given["bootstrap_resamples"],
        seed=given["seed"],
    )
    if given["output"] is not None:
        shared.write(given["output"], shared.as_document(answer))
    if given["as_json"]:
        click.echo(shared.as_document(answer), nl=False)
        return 0
    from trivium.cli.screen import show
    from trivium.reports.trust.agreement_table import AgreementTable

    show(AgreementTable(answer))
    return 0
