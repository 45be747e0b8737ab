"""Renders a comparison as Markdown for a comment in a code review (GitHub, GitLab)."""

from trivium.reports import comparison_text as phrases
from trivium.reports.markdown import ANSWER_MARKS, code, prose
from trivium.reports.moved_cases.markdown import CASES_SHOWN, COMMENT_CHARS, moved_cases_markdown
from trivium.reports.wording import number, seconds, signed, signed_interval
from trivium.runs.comparing.comparison import Comparison, MetricDelta
from trivium.runs.comparing.decision import listed
from trivium.runs.comparing.graph_diff import EdgeChange, GraphComparison, PaceChange

ROWS_KEPT = 15
"""Rows in each table of edges and times; the others are counted."""


def render_markdown(comparison: Comparison, *, cases: int = CASES_SHOWN) -> str:
    """The comparison as GitHub-flavoured Markdown, short enough for a comment; untrusted text is escaped.

    Args:
        comparison: The comparison.
        cases: Largest number of moved cases shown with their outputs.
    """
    title = f"### {ANSWER_MARKS[comparison.answer]} Trivium · {code(comparison.suite)}: {comparison.answer}"
    names = [] if comparison.confirmed else phrases.cases_that_broke(comparison)
    broke = [f"**Broke**: {prose(listed(names))}"] if names else []
    first, *further = map(
        prose, [*phrases.answer_lines(comparison), f"{phrases.pairs_compared(comparison)}."]
    )
    answer = "  \n".join([first, *broke, *further])
    blocks = []
    rows = [_row(name, figure, comparison) for name, figure, _ in phrases.rows(comparison)]
    head = "| | metric | base | head | delta | interval | p (Holm) | wins / losses / ties | needs |"
    blocks.append("\n".join([head, "|:-:|:--|--:|--:|--:|:--|--:|--:|--:|", *rows]))
    blocks.append("  \n".join(prose(line) for line in phrases.outlook(comparison)))
    if comparison.slices:
        from trivium.reports.slices import compared_rows, markdown_table

        blocks += [markdown_table(compared_rows(comparison, by)) for by in comparison.slices]
    if comparison.graphs is not None:
        blocks += _graphs(comparison.graphs)
    if comparison.warnings:
        blocks.append("\n".join(f"> ⚠️ {prose(line)}  " for line in comparison.warnings))
    runs = f"head {code(comparison.head)}, base {code(comparison.base)}"
    blocks.append(
        f"<sub>{prose(phrases.rule(comparison))}<br>{prose(phrases.note(comparison))} · {runs}</sub>"
    )
    room = COMMENT_CHARS - sum(len(block) + 2 for block in [title, answer, *blocks])
    moved = moved_cases_markdown(comparison.moved_cases, at_most=cases, room=room)
    return "\n\n".join(block for block in [title, answer, *moved, *blocks] if block) + "\n"


def _row(name: str, figure: MetricDelta, comparison: Comparison) -> str:
    cells = (
        ANSWER_MARKS[figure.answer],
        code(name),
        number(figure.base),
        number(figure.head),
        f"**{signed(figure.delta)}**",
        prose(phrases.interval_of(figure, comparison)),
        prose(phrases.probability(figure.p_holm)),
        phrases.wins_losses_ties(figure),
        phrases.further_cases(figure),
    )
    return f"| {' | '.join(cells)} |"


def _graphs(graphs: GraphComparison) -> list[str]:
    compared, changed = prose(phrases.traces_compared(graphs)), prose(phrases.edges_changed(graphs))
    blocks = [f"**changes in the traces** · {compared}. {changed}."]
    if graphs.edges:
        rows = [_edge(one) for one in graphs.edges[:ROWS_KEPT]]
        head = "| change | edge | base | head | delta | interval | p (Holm) |"
        blocks.append("\n".join([head, "|:--|:--|--:|--:|--:|:--|--:|", *rows]))
    if graphs.paces:
        rows = [_pace(one) for one in graphs.paces[:ROWS_KEPT]]
        head = "| change | kind | median time | base | head | factor | interval | p (Holm) |"
        blocks.append("\n".join([head, "|:--|:--|:--|--:|--:|--:|:--|--:|", *rows]))
    under = [phrases.rows_left_out(graphs, ROWS_KEPT), phrases.graph_note(graphs)]
    return [*blocks, f"<sub>{'<br>'.join(prose(line) for line in under if line)}</sub>"]


def _edge(change: EdgeChange) -> str:
    cells = (
        prose(phrases.change_word(change)),
        code(phrases.edge_text(change)),
        number(change.base),
        number(change.head),
        f"**{signed(change.delta)}**",
        prose(signed_interval(change.ci95)),
        prose(phrases.probability(change.p_holm)),
    )
    return f"| {' | '.join(cells)} |"


def _pace(change: PaceChange) -> str:
    cells = (
        prose(phrases.change_word(change)),
        change.kind,
        code(change.name),
        prose(seconds(change.base)),
        prose(seconds(change.head)),
        f"**{phrases.factor(change.factor)}**",
        prose(phrases.factors(change.ci95)),
        prose(phrases.probability(change.p_holm)),
    )
    return f"| {' | '.join(cells)} |"
