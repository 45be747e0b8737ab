"""``trivium trust certify``: which judgements may stand without a person."""

from typing import Any

import click

from trivium.cli import options
from trivium.cli.options import Words, option
from trivium.cli.trust import options as shared
from trivium.cli.trust.source import open_calibrator, open_items


@click.command()
@click.argument("items", required=False)
@option("--mode", metavar="NAME", help="Predictor of a run artifact.")
@shared.dimension
@shared.labels
@options.store
@option(
    "--confidence",
    metavar="NAME",
    help="Which confidence. By default the one stated with the items, else the signal with the best AUROC.",
)
@shared.calibration
@option(
    "--epsilon",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="Error among the accepted that is tolerated.",
)
@option(
    "--delta",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    help="Chance that the promise is broken.",
)
@option(
    "--tolerance",
    type=click.FloatRange(0),
    default=0.0,
    show_default=True,
    help="A prediction farther from the truth is wrong.",
)
@option("--group-size", type=click.IntRange(min=1), metavar="N", help="The most items that a group can have.")
@option(
    "--bound",
    type=Words(["betting", "hoeffding"]),
    default="betting",
    show_default=True,
    help="The test where groups have several items.",
)
@options.as_json
@shared.output
def certify(items: str | None, **given: Any) -> int:
    """The lowest confidence from which on the predictions of ITEMS may stand without a person.

    With probability 1 - delta, at most the share epsilon of those accepted later is wrong. Everything below
    the threshold goes to people.
    """
    from trivium.runs.artifacts.certificate import certificate

    table = open_items(
        items,
        mode=given["mode"],
        dimension=given["dimension"],
        labels=given["labels"],
        store=given["store"],
    )
    answer = certificate(
        table,
        given["confidence"],
        epsilon=given["epsilon"],
        delta=given["delta"],
        tolerance=given["tolerance"],
        group_size=given["group_size"],
        bound=given["bound"],
        calibrator=open_calibrator(given["calibration"]),
    )
    if given["output"] is not None:
        shared.write(given["output"], shared.as_document(answer))
    if given["as_json"]:
        click.echo(shared.as_document(answer), nl=False)
        return 0
    from trivium.cli.screen import show
    from trivium.reports.trust.certificate_text import CertificateText

    show(CertificateText(answer))
    return 0
