"""Disagreements between judges as blocks, and as a section of the run's page."""

from collections.abc import Iterator
from typing import Any

from trivium.reports import wording
from trivium.reports.document.blocks import (
    Block,
    Column,
    Paragraph,
    Remarks,
    Section,
    Surface,
    Title,
    Toned,
    table,
)
from trivium.reports.document.markdown import markdown
from trivium.reports.escape import one_line
from trivium.reports.view import anchor
from trivium.reports.wording import attempt_name, number
from trivium.runs.disagreements import Disagreement, Disagreements, Opinion, Tally

SHOWN: dict[Surface, int] = {"terminal": 20, "comment": 50, "notebook": 20}
"""Disagreements that are listed; a page has all."""


def describe(disagreements: Disagreements, surface: Surface) -> Iterator[Block]:
    """Yield the blocks of disagreements: counts and spread by dimension, then the largest ones."""
    yield Title(text=disagreements.suite, beside=disagreements.run)
    with_what = sources(disagreements)
    yield Paragraph((headline(disagreements) + (f", compared with {with_what}" if with_what else ""),))
    yield Remarks(disagreements.notes)
    if disagreements.tallies:
        yield table(TALLIES, disagreements.tallies, label="Disagreement by dimension")
    if disagreements.found:
        largest = table(LARGEST, disagreements.found[: SHOWN[surface]], label="Disagreements")
        yield Section(title="largest disagreements", blocks=[largest])
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
    return f"{wording.counted(total, 'disagreement')}{shown}" if total else "no disagreement"


def sources(disagreements: Disagreements) -> str:
    """What the run was compared with."""
    parts = [f"labels {one_line(disagreements.labels)}"] if disagreements.labels is not None else []
    parts += [f"run {one_line(disagreements.against)}"] if disagreements.against is not None else []
    return " and ".join(parts)


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


def section_context(disagreements: Disagreements) -> dict[str, Any]:
    """Values for the template of the section."""
    return {
        "headline": headline(disagreements),
        "sources": sources(disagreements),
        "notes": disagreements.notes,
        "tallies": [_section_tally(each) for each in disagreements.tallies],
        "rows": [_section_row(each) for each in disagreements.found],
    }


def _section_tally(tally: Tally) -> dict[str, str]:
    return {
        "dimension": one_line(tally.dimension),
        "who": KINDS[tally.kind],
        "agreed": agreed(tally),
        "abstained": f"{tally.abstained:,}",
        "mean_spread": wording.number(tally.mean_apart),
        "largest_spread": wording.number(tally.largest),
        "bias": wording.signed(tally.leaning),
    }


def _section_row(each: Disagreement) -> dict[str, Any]:
    return {
        "spread": number(each.apart),
        "anchor": anchor(each.case, each.repeat),
        "name": wording.attempt_name(one_line(each.case), each.repeat),
        "dimension": one_line(each.dimension),
        "who": KINDS[each.kind],
        "opinions": [
            (
                one_line(one.by, at_most=80),
                value(one),
                None if one.reason is None else one_line(one.reason, at_most=REASON_CHARS),
            )
            for one in each.opinions
        ],
    }
