"""How changes of what two runs did are put into words, the same in every report."""

from collections import Counter

from trivium.reports.untrusted import one_line
from trivium.reports.wording import NOTHING, counted, share
from trivium.runs.comparing.graphs.change import EdgeChange, GraphComparison, PaceChange

NAME_CHARS = 40


_VERBS = {"message": "→", "call": "calls", "order": "then"}


def edge(change: EdgeChange) -> str:
    """``a → b`` for a message, ``a calls b``, ``a then b`` for the order of tools."""
    source = "nobody" if change.source is None else one_line(change.source, at_most=NAME_CHARS)
    return f"{source} {_VERBS[change.kind]} {one_line(change.target, at_most=NAME_CHARS)}"


def became(change: EdgeChange | PaceChange) -> str:
    """What became of it; with a question mark where chance may have done it."""
    return change.became if change.sure or change.became == "same" else f"{change.became}?"


def factor(value: float) -> str:
    """``×1.35``."""
    return f"×{value:.2f}"


def factors(interval: tuple[float, float] | None) -> str:
    """``[×1.10, ×1.66]``, or a dash."""
    return NOTHING if interval is None else f"[{factor(interval[0])}, {factor(interval[1])}]"


def met(graphs: GraphComparison) -> str:
    """How much could be compared."""
    told = f"{counted(graphs.attempts, 'pair')} of attempts with traces, {counted(graphs.cases, 'case')}"
    return f"{told}; {graphs.without_trace:,} pairs without" if graphs.without_trace else told


def found(graphs: GraphComparison) -> str:
    """What is sure, counted."""
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
    said = ", ".join(parts) or "nothing changed beyond chance"
    return f"Among {counted(len(graphs.edges) + graphs.edges_left_out, 'edge')}: {said}"


def left_out(graphs: GraphComparison, shown: int) -> str:
    """What is not in the tables, or an empty text."""
    edges = max(0, len(graphs.edges) - shown) + graphs.edges_left_out
    paces = max(0, len(graphs.paces) - shown) + graphs.paces_left_out
    parts = [counted(edges, "further edge")] if edges else []
    parts += (
        [f"times of {counted(paces, 'further tool or agent', 'further tools and agents')}"] if paces else []
    )
    return f"{' and '.join(parts)} not shown (--json has them)" if parts else ""


def note(graphs: GraphComparison) -> str:
    """How it was worked out."""
    return (
        f"times an attempt, averaged by case; {share(graphs.level)} intervals by cluster t, "
        f"p by exact sign tests over {counted(graphs.groups, 'group')}; ? may be chance"
    )
