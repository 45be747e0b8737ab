"""Renders disagreements between judges for the terminal, as Markdown and for the HTML page."""

from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from trivium.reports import wording
from trivium.reports.document.markdown import code, prose
from trivium.reports.escape import one_line
from trivium.reports.view import anchor
from trivium.reports.wording import attempt_name, number
from trivium.runs.disagreements import Disagreement, Disagreements, Opinion, Tally

SHOWN = 20
NAME_COLUMNS = 22


class DisagreementTable:
    """A Rich renderable of disagreements: counts and spread by dimension, then the largest ones.

    Args:
        disagreements: The disagreements.
        shown: Number of disagreements listed.
    """

    def __init__(self, disagreements: Disagreements, *, shown: int = SHOWN) -> None:
        self._disagreements, self._shown = disagreements, shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        disagreements = self._disagreements
        title = Text(one_line(disagreements.suite, at_most=300), style="bold")
        title.append(f"  {one_line(disagreements.run)}", style="dim")
        yield title
        with_what = sources(disagreements)
        yield Text(headline(disagreements) + (f", compared with {with_what}" if with_what else ""))
        for note in disagreements.notes:
            yield Text(f"! {one_line(note, at_most=500)}", style="yellow")
        if disagreements.tallies:
            yield Text()
            yield self._tallies()
        if disagreements.found:
            yield Text("\nlargest disagreements", style="bold")
            yield self._list()

    def _tallies(self) -> RenderableType:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        longest = max(len(one_line(tally.dimension, at_most=60)) for tally in self._disagreements.tallies)
        table.add_column("dimension", overflow="fold", min_width=min(longest, NAME_COLUMNS))
        table.add_column("who", overflow="fold")
        for head in ("agree", "some abstain", "spread", "max", "bias"):
            table.add_column(head, justify="right", overflow="fold")
        for tally in self._disagreements.tallies:
            table.add_row(
                Text(one_line(tally.dimension, at_most=60)),
                Text(KINDS[tally.kind], style="dim"),
                agreed(tally),
                f"{tally.abstained:,}",
                number(tally.mean_apart),
                number(tally.largest),
                signed(tally.leaning),
            )
        return table

    def _list(self) -> RenderableType:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True, justify="right")
        grid.add_column(overflow="fold", max_width=24)
        grid.add_column(overflow="fold", max_width=22)
        grid.add_column(overflow="fold")
        for each in self._disagreements.found[: self._shown]:
            grid.add_row(
                Text(apart(each), style="bold"),
                Text(attempt_name(one_line(each.case, at_most=60), each.repeat)),
                Text(one_line(each.dimension, at_most=60), style="dim"),
                Text(", ".join(opinion(one) for one in each.opinions)),
            )
        return Padding(grid, (0, 0, 0, 2))


SHOWN_IN_MARKDOWN = 50


def render_markdown(disagreements: Disagreements) -> str:
    """The disagreements as GitHub-flavoured Markdown; untrusted text is escaped."""
    with_what = sources(disagreements)
    blocks = [f"### Trivium · {code(disagreements.suite)}: where judges disagree"]
    if disagreements.notes:
        blocks.append("\n".join(f"> ⚠️ {prose(line)}  " for line in disagreements.notes))
    blocks.append(
        prose(headline(disagreements) + (f", compared with {with_what}" if with_what else "") + ".")
    )
    if disagreements.tallies:
        rows = [
            f"| {code(tally.dimension)} | {KINDS[tally.kind]} | {agreed(tally)} "
            f"| {tally.abstained:,} | {number(tally.mean_apart)} | {number(tally.largest)} "
            f"| {signed(tally.leaning)} |"
            for tally in disagreements.tallies
        ]
        head = "| dimension | who | agree | some abstain | spread | max | bias |"
        blocks.append("\n".join([head, "|:--|:--|--:|--:|--:|--:|--:|", *rows]))
    if disagreements.found:
        rows = [_row(each) for each in disagreements.found[:SHOWN_IN_MARKDOWN]]
        blocks.append("\n".join(["| spread | attempt | dimension | opinions |", "|--:|:--|:--|:--|", *rows]))
    blocks.append(f"<sub>run {code(disagreements.run)}</sub>")
    return "\n\n".join(blocks) + "\n"


def _row(each: Disagreement) -> str:
    opinions = ", ".join(f"{code(one.by, at_most=80)} {value(one)}" for one in each.opinions)
    name = code(attempt_name(each.case, each.repeat))
    return f"| {apart(each)} | {name} | {code(each.dimension)} | {opinions} |"


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


def opinion(each: Opinion) -> str:
    """A judge or person with the score given."""
    return f"{one_line(each.by, at_most=80)} {value(each)}"


def value(each: Opinion) -> str:
    """The score of an opinion."""
    return "abstained" if each.value is None else wording.number(each.value)


def apart(each: Disagreement) -> str:
    """Difference between the highest and the lowest score."""
    return wording.NOTHING if each.apart is None else wording.number(each.apart)


def signed(number: float | None) -> str:
    """A mean difference with its sign."""
    return wording.NOTHING if number is None else f"{number:+.3f}"


def agreed(tally: Tally) -> str:
    """How often all agreed."""
    return f"{tally.agreed:,} of {tally.compared:,}"


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
        "bias": signed(tally.leaning),
    }


def _section_row(each: Disagreement) -> dict[str, Any]:
    return {
        "spread": apart(each),
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
