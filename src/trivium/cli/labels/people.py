"""``trivium label agree``, ``adjudicate`` and ``check``: what labels say of people and of a certificate."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from trivium.cli import options
from trivium.cli.labels.label import by as labeller
from trivium.cli.labels.label import newest, opened, person
from trivium.cli.options import option
from trivium.cli.output import print_answer
from trivium.safe_text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trivium.labels.agreement import Disagreement, PeopleAgreement
    from trivium.labels.drift import CertificateCheck
    from trivium.reports.document.blocks import Block

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
    document = msgspec.to_builtins(found) | {"disagreements": apart}
    print_answer(document, lambda _: _agreement(found, apart), as_json=as_json)


def _agreement(found: "PeopleAgreement", apart: "list[Disagreement]") -> "Iterator[Block]":
    from trivium.labels.people import shown_names
    from trivium.reports.document.blocks import Paragraph, table_of

    yield Paragraph(tuple(_figures(found)))
    names = shown_names([by for each in apart for by in (*each.values, each.by or "")])
    rows = []
    for each in apart[:LISTED]:
        given = ", ".join(
            f"{one_line(names[by], at_most=40)} {'cannot tell' if value is None else format(value, 'g')}"
            for by, value in each.values.items()
        )
        decided = "" if each.decided is None else f"{each.decided:g} by {names[each.by or '']}"
        rows.append((str(each.place), one_line(each.case, at_most=40), given, decided))
    heads = ("place", "case", "labels", "decided")
    more = f"… and {len(apart) - LISTED:,} more: --json lists all" if len(apart) > LISTED else ""
    if rows:
        yield table_of(heads, ("interval", "name", "text", "text"), rows, notes=(more,))


def _figures(found: "PeopleAgreement") -> "Iterator[str]":
    from trivium.labels.people import shown_names
    from trivium.reports.wording import known_share

    if found.exact is None:
        yield f"No figures: {found.reason}"
        return
    alpha = "undefined" if found.alpha is None else f"{found.alpha:.2f}"
    yield (
        f"{found.people:,} people gave the same label in {100 * found.exact:.0f} % of the pairs on "
        f"{found.items:,} items; Krippendorff's α {alpha}"
    )
    names = shown_names(by for pair in found.pairs for by in pair.people)
    for pair in found.pairs:
        first, second = (one_line(names[by], at_most=40) for by in pair.people)
        exact, kappa = pair.agreement.figures["exact"], pair.agreement.figures["kappa_quadratic"]
        ends = None if exact.interval is None else (exact.interval.low, exact.interval.high)
        same = known_share(exact.value, ends)
        weighted = "undefined" if kappa.value is None else f"{kappa.value:.2f}"
        yield f"{first} and {second}: {same} of {pair.agreement.n:,}, quadratic κ {weighted}"
    if found.open:
        yield f"{found.open:,} items wait: trivium label adjudicate {found.queue} PLACE VALUE"


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
    print_answer(found, _checked, as_json=as_json)
    return EXPIRED if found.expired else 0


def _checked(found: "CertificateCheck") -> str:
    lines = [f"Nothing speaks against the certificate for run {found.run}."]
    if found.expired:
        lines = [f"The certificate has expired for run {found.run}:"]
        lines += [f"  {visible(why)}" for why in found.expired]
    of = f"{found.judgements:,} judgements of {visible(found.dimension)}"
    lines.append(f"It accepts {found.accepted:,} of {of}.")
    lines.append(f"People labelled {found.labelled:,} of the accepted ones; {found.wrong:,} are wrong.")
    return "\n".join([*lines, *(f"  {visible(note)}" for note in found.notes)])
