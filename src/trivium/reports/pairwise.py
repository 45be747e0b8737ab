"""A pairwise comparison as blocks."""

from collections.abc import Iterator, Mapping

from trivium.reports import wording
from trivium.reports.document.blocks import (
    Block,
    Column,
    Fold,
    Paragraph,
    Remarks,
    Surface,
    Title,
    Toned,
    table,
    table_of,
)
from trivium.reports.document.markdown import markdown
from trivium.reports.wording import attempt_name, interval, number, spent_sentence
from trivium.runs.pairwise_result import JudgedPair, PairComparison, PairFigure
from trivium.safe_text import one_line
from trivium.values import counted

PAIRS: dict[Surface, int] = {"terminal": 5, "comment": 50, "notebook": 5}
"""Pairs that are listed."""


def describe(comparison: PairComparison, surface: Surface) -> Iterator[Block]:
    """Yield the blocks of a pairwise comparison for a terminal, a comment or a notebook."""
    sides = f"{comparison.head} against {comparison.base}"
    yield Title(text=comparison.suite, beside=sides)
    yield Paragraph((headline(comparison),))
    columns: list[Column[tuple[str, PairFigure]]] = [
        Column("dimension", lambda row: row[0], "name"),
        Column("win rate", lambda row: Toned(number(row[1].win_rate), "strong")),
        Column("interval", lambda row: interval(row[1].ci95), "interval"),
        Column("P(under ½)", lambda row: wording.known_share(row[1].probability)),
        Column("p", lambda row: wording.probability(row[1].p)),
        Column("wins/losses/ties", lambda row: record(row[1]), brief="+/−/="),
        Column("no verdict", lambda row: f"{row[1].unjudged:,}", "tally"),
        Column("position bias", _bias, "text", brief="bias"),
    ]
    yield table(columns, comparison.figures.items(), label="Dimensions")
    name = main_dimension(comparison)
    yield from _pairs(f"lost in {name}", losses(comparison, name), name, PAIRS[surface])
    if surface == "comment":
        title = "the two orders contradict each other"
        yield from _pairs(title, contradictions(comparison), name, PAIRS[surface])
    yield Remarks(comparison.notes)
    runs = [f"head {comparison.head}, base {comparison.base}"] if surface == "comment" else []
    yield Paragraph((left_out(comparison), note(comparison), *runs), "quiet")


def render_markdown(comparison: PairComparison) -> str:
    """The comparison as GitHub-flavoured Markdown; untrusted text is escaped."""
    return markdown(describe(comparison, "comment"))


def _bias(row: tuple[str, PairFigure]) -> Toned:
    return Toned(bias(row[1]), "warn" if row[1].inconsistent else "")


def _pairs(title: str, pairs: list[JudgedPair], name: str, most: int) -> Iterator[Fold]:
    """Pairs with the reason of the first order."""
    rows = []
    for pair in pairs[:most]:
        orders = pair.verdicts[name].orders
        why = one_line(orders[0].reason, at_most=160) if orders else "the attempt failed"
        rows.append((attempt_name(pair.case, pair.repeat), Toned(why, "quiet")))
    if rows:
        shown = table_of(("", ""), ("name", "text"), rows)
        yield Fold(f"{title} ({len(rows):,} of {len(pairs):,})", [shown])


MARKS = {"win": "+", "loss": "−", "tie": "=", None: "?"}


def headline(comparison: PairComparison) -> str:
    """Number of pairs, and the models that judged them."""
    models = ", ".join(one_line(model, at_most=80) for model in comparison.models)
    how = "a panel of " if comparison.panel else ""
    samples = f", {comparison.samples} samples each" if comparison.samples > 1 else ""
    pairs = counted(len(comparison.pairs), "pair")
    return f"{pairs}, each in both orders, judged by {how}{models}{samples}"


def record(figure: PairFigure) -> str:
    """Wins, losses and ties."""
    return f"{figure.wins:,}/{figure.losses:,}/{figure.ties:,}"


def bias(figure: PairFigure) -> str:
    """How often one position won in both orders, and which one."""
    if figure.position_bias is None:
        return wording.NOTHING
    rate = wording.share(figure.position_bias)
    if figure.for_first or figure.for_second:
        rate += f" ({figure.for_first:,}/{figure.for_second:,})"
    return rate


def left_out(comparison: PairComparison) -> str:
    """Number of attempts left out, and the cost of the judges."""
    parts = [f"{counted(comparison.left_out, 'attempt')} left out"] if comparison.left_out else []
    return " · ".join([*parts, spent_sentence(comparison.spent, named=False)])


def note(comparison: PairComparison) -> str:
    """How the numbers are defined."""
    groups = {name: figure.groups for name, figure in comparison.figures.items() if figure.groups}
    fewest = min(groups.values(), default=0)
    level = wording.intervals_label(comparison.level, fewest_groups=fewest)
    return (
        f"win rate of head: (wins + ties / 2) / pairs. Two orders that contradict each other make a tie. "
        f"{level} by {_groups(groups, main_dimension(comparison))}; p: sign test over groups. "
        f"Bias: share of pairs in which the same position won in both orders (first/second)."
    )


def _groups(groups: Mapping[str, int], main: str) -> str:
    """Number of groups of the main dimension, and of the dimensions with another number."""
    usual = groups.get(main, max(groups.values(), default=0))
    others = [f"{one_line(name)}: {count:,}" for name, count in groups.items() if count != usual]
    return counted(usual, "group") + (f" ({', '.join(others)})" if others else "")


def contradictions(comparison: PairComparison) -> list[JudgedPair]:
    """Pairs whose two orders contradict each other in any dimension."""
    return [
        pair
        for pair in comparison.pairs
        if any(verdict.consistent is False for verdict in pair.verdicts.values())
    ]


def losses(comparison: PairComparison, dimension: str) -> list[JudgedPair]:
    """Pairs in which head loses in a dimension."""
    return [pair for pair in comparison.pairs if pair.verdicts[dimension].verdict == "loss"]


def main_dimension(comparison: PairComparison) -> str:
    """The dimension ``overall`` if there is one, otherwise the last."""
    return "overall" if "overall" in comparison.figures else list(comparison.figures)[-1]
