"""How the graphs and times of the traces of two runs differ, as blocks."""

from collections import Counter

from trivium.reports.document.blocks import (
    Block,
    Column,
    Paragraph,
    Section,
    Surface,
    Tone,
    Toned,
    table,
)
from trivium.reports.wording import NOTHING, number, probability, seconds, share, signed, signed_interval
from trivium.runs.comparing.graph_diff import EdgeChange, GraphComparison, PaceChange
from trivium.safe_text import one_line
from trivium.values import counted

GRAPH_ROWS: dict[Surface, int] = {"terminal": 15, "comment": 15, "notebook": 15, "page": 60}
"""Rows in each table of edges and times; the others are counted."""

NAME_CHARS = 40

_VERBS = {"message": "→", "call": "calls", "order": "then"}


def graph_changes(graphs: GraphComparison, surface: Surface) -> Section:
    """The section of what changed in the traces: edges, then times."""
    most = GRAPH_ROWS[surface]
    edges: list[Column[EdgeChange]] = [
        Column("change", lambda one: Toned(change_word(one), "warn" if one.sure else "quiet"), "mark"),
        Column("edge", edge_text, "name"),
        Column("base", lambda one: number(one.base)),
        Column("head", lambda one: number(one.head)),
        Column("delta", lambda one: Toned(signed(one.delta), "strong")),
        Column("interval", lambda one: signed_interval(one.ci95), "interval"),
        Column(
            "share of attempts",
            lambda one: f"{share(one.share_base)} → {share(one.share_head)}",
            where="page",
        ),
        Column("more / fewer", lambda one: f"{one.groups_more} / {one.groups_fewer}", where="page"),
        Column("p (Holm)", lambda one: probability(one.p_holm)),
    ]
    paces: list[Column[PaceChange]] = [
        Column("change", lambda one: Toned(change_word(one), pace_tone(one)), "mark"),
        Column("median time", lambda one: f"{one.kind} {one_line(one.name, at_most=40)}", "name"),
        Column("base", lambda one: seconds(one.base)),
        Column("head", lambda one: seconds(one.head)),
        Column("factor", lambda one: Toned(factor(one.factor), "strong")),
        Column("interval", lambda one: factors(one.ci95), "interval"),
        Column("slower / faster", lambda one: f"{one.groups_slower} / {one.groups_faster}", where="page"),
        Column("cases", lambda one: f"{one.cases:,}", where="page"),
        Column("p (Holm)", lambda one: probability(one.p_holm)),
    ]
    blocks: list[Block] = [Paragraph((traces_compared(graphs), edges_changed(graphs)))]
    blocks += [table(edges, graphs.edges[:most], label="Edges")] if graphs.edges else []
    blocks += [table(paces, graphs.paces[:most], label="Times")] if graphs.paces else []
    notes = (rows_left_out(graphs, most), graph_note(graphs))
    blocks.append(Paragraph(tuple(filter(None, notes)), "quiet"))
    return Section(title="changes in the traces", blocks=blocks, key="graphs")


def edge_text(change: EdgeChange) -> str:
    """``a → b`` for a message, ``a calls b`` for a call, ``a then b`` for the order of tools."""
    source = "nobody" if change.source is None else one_line(change.source, at_most=NAME_CHARS)
    return f"{source} {_VERBS[change.kind]} {one_line(change.target, at_most=NAME_CHARS)}"


def change_word(change: EdgeChange | PaceChange) -> str:
    """What changed, with a question mark if it may be chance."""
    return change.became if change.sure or change.became == "same" else f"{change.became}?"


def pace_tone(change: PaceChange) -> Tone:
    """Bad if it became slower, good if it became faster, quiet if that may be chance."""
    return ("bad" if change.became == "slower" else "good") if change.sure else "quiet"


def factor(value: float) -> str:
    """``×1.35``."""
    return f"×{value:.2f}"


def factors(interval: tuple[float, float] | None) -> str:
    """``[×1.10, ×1.66]``, or a dash."""
    return NOTHING if interval is None else f"[{factor(interval[0])}, {factor(interval[1])}]"


def traces_compared(graphs: GraphComparison) -> str:
    """How many pairs of attempts have traces on both sides."""
    compared = f"{counted(graphs.attempts, 'pair')} of attempts with traces, {counted(graphs.cases, 'case')}"
    return f"{compared}; {graphs.without_trace:,} pairs without" if graphs.without_trace else compared


def edges_changed(graphs: GraphComparison) -> str:
    """Counts of the edges that changed beyond chance."""
    sure: Counter[str] = Counter(one.became for one in graphs.edges if one.sure)
    sure.update(one.became for one in graphs.paces if one.sure)
    parts = [
        f"{sure[word]:,} {what}"
        for word, what in (
            ("appeared", "appeared"),
            ("vanished", "vanished"),
            ("more", "became more frequent"),
            ("fewer", "became less frequent"),
            ("slower", "slowed down"),
            ("faster", "sped up"),
        )
        if sure[word]
    ]
    changes = ", ".join(parts) or "nothing changed beyond chance"
    return f"Among {counted(len(graphs.edges) + graphs.edges_left_out, 'edge')}: {changes}"


def rows_left_out(graphs: GraphComparison, shown: int) -> str:
    """What the tables leave out, or an empty text."""
    edges = max(0, len(graphs.edges) - shown) + graphs.edges_left_out
    paces = max(0, len(graphs.paces) - shown) + graphs.paces_left_out
    parts = [counted(edges, "further edge")] if edges else []
    parts += (
        [f"times of {counted(paces, 'further tool or agent', 'further tools and agents')}"] if paces else []
    )
    return f"{' and '.join(parts)} not shown (--json has them)" if parts else ""


def graph_note(graphs: GraphComparison) -> str:
    """How the numbers of the graphs were computed."""
    return (
        f"times per attempt, averaged by case; {share(graphs.level)} intervals by cluster t, "
        f"p by exact sign tests over {counted(graphs.groups, 'group')}; ? may be chance"
    )
