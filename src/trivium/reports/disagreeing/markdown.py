"""Disagreements as a comment in a code review (GitHub and GitLab Markdown)."""

from trivium.reports.disagreeing import phrases
from trivium.reports.markdown import code, prose
from trivium.reports.wording import attempt_name, number
from trivium.runs.disagreeing.disagreement import Disagreement, Disagreements

SHOWN = 50


def render_markdown(found: Disagreements) -> str:
    """The disagreements as GitHub-flavoured Markdown; texts of strangers are shown, never obeyed."""
    with_what = phrases.sources(found)
    blocks = [f"### Trivium · {code(found.suite)}: where judges disagree"]
    if found.notes:
        blocks.append("\n".join(f"> ⚠️ {prose(line)}  " for line in found.notes))
    blocks.append(
        prose(phrases.headline(found) + (f", compared with {with_what}" if with_what else "") + ".")
    )
    if found.tallies:
        rows = [
            f"| {code(tally.dimension)} | {phrases.KINDS[tally.kind]} | {phrases.agreed(tally)} "
            f"| {tally.abstained:,} | {number(tally.mean_apart)} | {number(tally.largest)} "
            f"| {phrases.signed(tally.leaning)} |"
            for tally in found.tallies
        ]
        head = "| dimension | who | agree | some abstain | spread | most | bias |"
        blocks.append("\n".join([head, "|:--|:--|--:|--:|--:|--:|--:|", *rows]))
    if found.found:
        rows = [_row(each) for each in found.found[:SHOWN]]
        blocks.append("\n".join(["| apart | attempt | dimension | opinions |", "|--:|:--|:--|:--|", *rows]))
    blocks.append(f"<sub>run {code(found.run)}</sub>")
    return "\n\n".join(blocks) + "\n"


def _row(each: Disagreement) -> str:
    opinions = ", ".join(f"{code(one.by, at_most=80)} {phrases.value(one)}" for one in each.opinions)
    name = code(attempt_name(each.case, each.repeat))
    return f"| {phrases.apart(each)} | {name} | {code(each.dimension)} | {opinions} |"
