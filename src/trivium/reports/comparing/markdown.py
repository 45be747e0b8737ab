"""A comparison as a comment in a code review (GitHub and GitLab Markdown)."""

from trivium.reports.comparing import phrases
from trivium.reports.markdown import ANSWER_MARKS, code, prose
from trivium.reports.wording import number
from trivium.runs.comparing.comparison import Comparison, MetricDelta


def render_markdown(comparison: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown; texts of strangers are shown, never obeyed."""
    blocks = [
        f"### {ANSWER_MARKS[comparison.answer]} Trivium · {code(comparison.suite)}: {comparison.answer}"
    ]
    if comparison.warnings:
        blocks.append("\n".join(f"> ⚠️ {prose(line)}  " for line in comparison.warnings))
    blocks.append(prose(f"{comparison.reason} {phrases.paired(comparison)}."))
    rows = [_row(name, figure) for name, figure in comparison.metrics.items()]
    head = "| | figure | base | head | delta | interval | p (Holm) | wins / losses / ties | needs |"
    blocks.append("\n".join([head, "|:-:|:--|--:|--:|--:|:--|--:|--:|--:|", *rows]))
    blocks.append("  \n".join(prose(line) for line in phrases.outlook(comparison)))
    if comparison.moves:
        blocks.append(_moves(comparison))
    runs = f"head {code(comparison.head)}, base {code(comparison.base)}"
    blocks.append(
        f"<sub>{prose(phrases.rule(comparison))}<br>{prose(phrases.note(comparison))} · {runs}</sub>"
    )
    return "\n\n".join(blocks) + "\n"


def _row(name: str, figure: MetricDelta) -> str:
    cells = (
        ANSWER_MARKS[figure.answer],
        code(name),
        number(figure.base),
        number(figure.head),
        f"**{phrases.signed(figure.delta)}**",
        prose(phrases.ends(figure.ci95)),
        prose(phrases.probability(figure.p_holm)),
        phrases.record(figure),
        phrases.further(figure),
    )
    return f"| {' | '.join(cells)} |"


def _moves(comparison: Comparison) -> str:
    rows = [
        f"- {code(move.case)} {number(move.base)} → {number(move.head)} ({phrases.signed(move.delta)})"
        for move in comparison.moves
    ]
    title = f"the cases that moved most, by {prose(comparison.moves_of)}"
    return "\n".join([f"<details><summary>{title}</summary>", "", *rows, "", "</details>"])
