"""A comparison by pairs as a comment in a code review (GitHub and GitLab Markdown)."""

from trivium.reports.markdown import code, prose
from trivium.reports.pairs import phrases
from trivium.reports.wording import attempt_name, interval, number
from trivium.runs.pairs.judged import JudgedPair, PairComparison, PairFigure

PAIRS_SHOWN = 50


def render_markdown(found: PairComparison) -> str:
    """The comparison as GitHub-flavoured Markdown; texts of strangers are shown, never obeyed."""
    blocks = [f"### Trivium · {code(found.suite)}: {code(found.head)} against {code(found.base)}"]
    if found.notes:
        blocks.append("\n".join(f"> ⚠️ {prose(line)}  " for line in found.notes))
    blocks.append(prose(f"{phrases.headline(found)}."))
    head = "| dimension | win rate | interval | p | wins/losses/ties | no verdict | position bias |"
    rows = [_row(name, figure) for name, figure in found.figures.items()]
    blocks.append("\n".join([head, "|:--|--:|:--|--:|--:|--:|:--|", *rows]))
    name = phrases.main_dimension(found)
    for title, pairs in (
        (f"lost in {name}", phrases.losses(found, name)),
        ("orders that contradict each other", phrases.contradictions(found)),
    ):
        if pairs:
            blocks.append(_folded(title, pairs, name))
    blocks.append(f"<sub>{prose(phrases.left_out(found))}<br>{prose(phrases.note(found))}</sub>")
    return "\n\n".join(blocks) + "\n"


def _row(name: str, figure: PairFigure) -> str:
    cells = (
        code(name),
        f"**{number(figure.win_rate)}**",
        prose(interval(figure.ci95)),
        prose(phrases.probability(figure.p)),
        phrases.record(figure),
        f"{figure.unjudged:,}",
        prose(phrases.bias(figure)),
    )
    return f"| {' | '.join(cells)} |"


def _folded(title: str, pairs: list[JudgedPair], name: str) -> str:
    rows = [
        f"- {code(attempt_name(pair.case, pair.repeat))} {_why(pair, name)}" for pair in pairs[:PAIRS_SHOWN]
    ]
    shown = f", the first {PAIRS_SHOWN} are" if len(pairs) > PAIRS_SHOWN else ""
    summary = f"<details><summary>{len(pairs):,} pairs: {prose(title)}{shown}</summary>"
    return "\n".join([summary, "", *rows, "", "</details>"])


def _why(pair: JudgedPair, name: str) -> str:
    orders = pair.verdicts[name].orders
    return code(orders[0].reason) if orders else ""
