"""A comparison in a notebook."""

from trivium.reports.comparing import phrases
from trivium.reports.comparing.forest import forest
from trivium.reports.drawings.svg import text
from trivium.reports.notebook.fragment import box, heading, line, table, verdict, warnings
from trivium.reports.wording import number
from trivium.runs.comparing.comparison import Comparison, MetricDelta


def comparison_fragment(comparison: Comparison) -> str:
    """The answer, every difference with its interval, and the cases that moved most."""
    rows = [_row(name, figure) for name, figure in comparison.metrics.items()]
    moves = [
        (text(move.case, at_most=60), number(move.base), number(move.head), text(phrases.signed(move.delta)))
        for move in comparison.moves
    ]
    return box(
        heading(comparison.suite, f"{comparison.head} against {comparison.base}"),
        line(phrases.paired(comparison)),
        warnings(comparison.warnings),
        verdict(comparison.answer, comparison.reason),
        forest(comparison),
        table(["figure", "base", "head", "p (Holm)", "wins / losses / ties", "needs"], rows),
        *(line(words) for words in phrases.outlook(comparison)),
        *([line(f"moved most, by {comparison.moves_of}")] if moves else []),
        *([table(["case", "base", "head", "moved"], moves)] if moves else []),
        line(phrases.rule(comparison), quiet=True),
        line(phrases.note(comparison), quiet=True),
    )


def _row(name: str, figure: MetricDelta) -> list[str]:
    return [
        text(name),
        number(figure.base),
        number(figure.head),
        text(phrases.probability(figure.p_holm)),
        text(phrases.record(figure)),
        text(phrases.further(figure)),
    ]
