"""``trivium label agree``, ``adjudicate`` and ``check``: what labels say of people and of a certificate."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from trivium.cli import options
from trivium.cli.labels.label import by as labeller
from trivium.cli.labels.label import newest, opened, person
from trivium.cli.options import option
from trivium.cli.output import print_json, show
from trivium.safe_text import one_line, visible

if TYPE_CHECKING:
    from trivium.labels.agreement import Disagreement, PeopleAgreement
    from trivium.reports.document.blocks import Table

EXPIRED = 1
"""Exit code of a certificate that no longer holds."""

LISTED = 20
"""Most disagreements that the terminal lists."""


@options.command("trivium label agree labels-1f2e3d4c")
@click.argument("queue", required=False)
@option(
    "--label-step",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.25,
    help="Distance between neighbouring labels, for agreement within one step.",
)
@options.store
@options.as_json
def agree(*, queue: str | None, label_step: float, store: str, as_json: bool) -> None:
    """Measure how far the people of QUEUE (default: the newest) agree, and list where they do not."""
    from trivium.labels.agreement import agreement_of, disagreements_of

    with opened(store) as queues:
        chosen = queue or newest(queues)
        found = agreement_of(queues, chosen, step=label_step)
        apart = disagreements_of(queues, chosen)
    if as_json:
        print_json({**msgspec.to_builtins(found), "disagreements": apart})
        return
    _print_agreement(found)
    if apart:
        click.echo()
        show(iter([_table(apart[:LISTED])]))
        if len(apart) > LISTED:
            click.echo(f"… and {len(apart) - LISTED:,} more: --json lists all")


def _print_agreement(found: "PeopleAgreement") -> None:
    from trivium.labels.people import shown_names

    if found.exact is None:
        click.echo(f"No figures: {found.reason}")
        return
    alpha = "undefined" if found.alpha is None else f"{found.alpha:.2f}"
    click.echo(
        f"{found.people:,} people gave the same label in {100 * found.exact:.0f} % of the pairs on "
        f"{found.items:,} items; Krippendorff's α {alpha}"
    )
    names = shown_names(by for pair in found.pairs for by in pair.people)
    for pair in found.pairs:
        first, second = (one_line(names[by], at_most=40) for by in pair.people)
        exact, kappa = pair.agreement.figures["exact"], pair.agreement.figures["kappa_quadratic"]
        within = (
            ""
            if exact.interval is None
            else f" [{100 * exact.interval.low:.0f}, {100 * exact.interval.high:.0f}]"
        )
        weighted = "undefined" if kappa.value is None else f"{kappa.value:.2f}"
        share = "none" if exact.value is None else f"{100 * exact.value:.0f} %"
        click.echo(f"  {first} and {second}: {share}{within} of {pair.agreement.n:,}, quadratic κ {weighted}")
    if found.open:
        click.echo(
            f"{found.open:,} items wait for a decision: trivium label adjudicate {found.queue} PLACE VALUE"
        )


def _table(apart: "list[Disagreement]") -> "Table":
    from trivium.labels.people import shown_names
    from trivium.reports.document.blocks import table_of

    rows = []
    names = shown_names([by for each in apart for by in (*each.values, each.by or "")])
    for each in apart:
        given = ", ".join(
            f"{one_line(names[by], at_most=40)} {'cannot tell' if value is None else format(value, 'g')}"
            for by, value in each.values.items()
        )
        decided = "" if each.decided is None else f"{each.decided:g} by {names[each.by or '']}"
        rows.append((str(each.place), one_line(each.case, at_most=40), given, decided))
    return table_of(("place", "case", "labels", "decided"), ("interval", "name", "text", "text"), rows)


@options.command('trivium label adjudicate labels-1f2e3d4c 12 0.75 --note "quotes the law"')
@click.argument("queue")
@click.argument("place", type=click.IntRange(min=1))
@click.argument("value", type=float)
@option("--note", metavar="TEXT", help="Why.")
@labeller
@options.store
def adjudicate(*, queue: str, place: int, value: float, note: str | None, by: str | None, store: str) -> None:
    """Decide that the label of item PLACE of QUEUE is VALUE; people's own labels stay."""
    with opened(store) as queues:
        decided = queues.adjudicate(queue, place, person(by), value, note=note)
    click.echo(f"item {place} of {queue}: {decided.value:g}, decided by {visible(decided.by)}")


@options.command("trivium label check certificate.json 20261121-09")
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("run", required=False)
@options.store
@options.as_json
def check(*, certificate: Path, run: str | None, store: str, as_json: bool) -> int:
    """Say whether CERTIFICATE still holds for the judgements of RUN (default: the newest), and why not.

    It expires when model, prompt, rubric or scale differ, when people's labels contradict it, or when it
    accepts another share of the judgements. Exit code 1: it has expired.
    """
    from trivium.labels.drift import check_certificate

    with opened(store) as queues:
        found = check_certificate(queues.store, certificate, queues.store.run(run))
    if as_json:
        print_json(found)
        return EXPIRED if found.expired else 0
    if found.expired:
        click.echo(f"The certificate has expired for run {found.run}:")
        for why in found.expired:
            click.echo(f"  {visible(why)}")
    else:
        click.echo(f"Nothing speaks against the certificate for run {found.run}.")
    click.echo(
        f"It accepts {found.accepted:,} of {found.judgements:,} judgements of {visible(found.dimension)}."
    )
    click.echo(f"People labelled {found.labelled:,} of the accepted ones; {found.wrong:,} are wrong.")
    for note in found.notes:
        click.echo(f"  {visible(note)}")
    return EXPIRED if found.expired else 0
