"""Disagreements between judges as blocks, and as a section of the run's page."""

from collections.abc import Iterator

from trivium.reports import wording
from trivium.reports.document.blocks import (
    Block,
    Cell,
    Column,
    Kinds,
    Paragraph,
    Remarks,
    Section,
    Surface,
    Title,
    Toned,
    table,
    table_of,
)
from trivium.reports.document.markdown import markdown
from trivium.reports.view import anchor
from trivium.reports.wording import attempt_name, number
from trivium.runs.disagreements import Disagreement, Disagreements, Opinion, Tally
from trivium.safe_text import one_line
from trivium.values import counted

SHOWN: dict[Surface, int] = {"terminal": 20, "comment": 50, "notebook": 20}
"""Disagreements that are listed; a page has all."""


def describe(disagreements: Disagreements, surface: Surface) -> Iterator[Block]:
    """Yield the blocks of disagreements: the largest ones, then counts and spread by dimension."""
    yield Title(text=disagreements.suite, beside=disagreements.run)
    yield Paragraph((_compared(disagreements),))
    if disagreements.found:
        largest = table(LARGEST, disagreements.found[: SHOWN[surface]], label="Disagreements")
        yield Section(title="largest disagreements", blocks=[largest])
    if disagreements.tallies:
        by = table(TALLIES, disagreements.tallies, label="Disagreement by dimension")
        yield Section(title="by dimension", blocks=[by])
    yield Remarks(disagreements.notes)
    if surface == "comment":
        yield Paragraph((f"run {disagreements.run}",), "quiet")


def render_markdown(disagreements: Disagreements) -> str:
    """The disagreements as GitHub-flavoured Markdown; untrusted text is escaped."""
    return markdown(describe(disagreements, "comment"))


KINDS = {
    "judges": "judge against judge",
    "people": "judge against people",
    "runs": "judge against judge of another run",
}
REASON_CHARS = 300


def headline(disagreements: Disagreements) -> str:
    """Number of disagreements, and how many of them are shown."""
    total = len(disagreements.found) + disagreements.left_out
    shown = f", the {len(disagreements.found):,} largest are shown" if disagreements.left_out else ""
    return f"{counted(total, 'disagreement')}{shown}" if total else "no disagreement"


def sources(disagreements: Disagreements) -> str:
    """What the run was compared with."""
    parts = [f"labels {one_line(disagreements.labels)}"] if disagreements.labels is not None else []
    parts += [f"run {one_line(disagreements.against)}"] if disagreements.against is not None else []
    return " and ".join(parts)


def _compared(disagreements: Disagreements) -> str:
    with_what = sources(disagreements)
    return headline(disagreements) + (f", compared with {with_what}" if with_what else "")


def value(each: Opinion) -> str:
    """The score of an opinion."""
    return "abstained" if each.value is None else wording.number(each.value)


def agreed(tally: Tally) -> str:
    """How often all agreed."""
    return f"{tally.agreed:,} of {tally.compared:,}"


TALLIES: tuple[Column[Tally], ...] = (
    Column("dimension", lambda tally: tally.dimension, "name"),
    Column("who", lambda tally: Toned(KINDS[tally.kind], "quiet"), "text"),
    Column("agree", agreed, "tally"),
    Column("some abstain", lambda tally: f"{tally.abstained:,}", "tally"),
    Column("spread", lambda tally: number(tally.mean_apart)),
    Column("max", lambda tally: number(tally.largest)),
    Column("bias", lambda tally: wording.signed(tally.leaning)),
)
LARGEST: tuple[Column[Disagreement], ...] = (
    Column("spread", lambda each: Toned(number(each.apart), "strong")),
    Column("attempt", lambda each: attempt_name(one_line(each.case, at_most=60), each.repeat), "name"),
    Column("dimension", lambda each: each.dimension, "name"),
    Column("opinions", lambda each: ", ".join(f"{one.by} {value(one)}" for one in each.opinions), "text"),
)


def on_the_page(disagreements: Disagreements) -> Section:
    """The section of the run's page: as elsewhere, with a row for each opinion, and links to the attempts."""
    blocks: list[Block] = [
        Paragraph((f"{_compared(disagreements)}. Spread: highest − lowest score. {BIAS}",), "quiet"),
        Remarks(disagreements.notes),
    ]
    if disagreements.tallies:
        blocks.append(table(TALLIES, disagreements.tallies, label="Disagreement by dimension"))
    if disagreements.found:
        rows = (row for each in disagreements.found for row in _opinions(each))
        heads = ("spread", "attempt", "dimension", "by", "score", "reason")
        kinds: tuple[Kinds, ...] = ("number", "name", "text", "text", "number", "text")
        blocks.append(table_of(heads, kinds, rows, label="Disagreements"))
    return Section(title="where judges disagree", blocks=blocks, key="disagreements")


BIAS = "Bias: judge − other, on average."


def _opinions(each: Disagreement) -> Iterator[tuple[Cell, ...]]:
    """Yield a row for each opinion; the first one names the attempt."""
    name = attempt_name(one_line(each.case), each.repeat)
    link = f"#{anchor(each.case, each.repeat)}"
    of_all: tuple[Cell, ...] = (Toned(number(each.apart), "strong"), Toned(name, link=link), each.dimension)
    for one in each.opinions:
        reason = "" if one.reason is None else one_line(one.reason, at_most=REASON_CHARS)
        yield (*of_all, Toned(one_line(one.by, at_most=80)), value(one), Toned(reason, "quiet"))
        of_all = ("", "", "")
