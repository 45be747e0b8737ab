"""How a comparison by pairs is put into words, the same in every report."""

from collections.abc import Mapping

from trivium.reports import wording
from trivium.reports.spent import spent_sentence
from trivium.reports.untrusted import one_line
from trivium.runs.pairs.judged import JudgedPair, PairComparison, PairFigure

MARKS = {"win": "+", "loss": "−", "tie": "=", None: "?"}
FEW_GROUPS = 10


def headline(found: PairComparison) -> str:
    """What was compared by whom."""
    models = ", ".join(one_line(model, at_most=80) for model in found.models)
    how = "a panel of " if found.panel else ""
    samples = f", {found.samples} samples each" if found.samples > 1 else ""
    return (
        f"{wording.counted(len(found.pairs), 'pair')}, each in both orders, judged by {how}{models}{samples}"
    )


def record(figure: PairFigure) -> str:
    """Wins, losses and ties."""
    return f"{figure.wins:,}/{figure.losses:,}/{figure.ties:,}"


def bias(figure: PairFigure) -> str:
    """How often the verdict went with the place, and with which."""
    if figure.position_bias is None:
        return wording.NOTHING
    told = wording.share(figure.position_bias)
    if figure.for_first or figure.for_second:
        told += f" ({figure.for_first:,}/{figure.for_second:,})"
    return told


def probability(p: float | None) -> str:
    """A p-value."""
    if p is None:
        return wording.NOTHING
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def left_out(found: PairComparison) -> str:
    """What takes no part, and what it cost."""
    parts = [f"{wording.counted(found.left_out, 'attempt')} left out"] if found.left_out else []
    return " · ".join([*parts, spent_sentence(found.spent)])


def note(found: PairComparison) -> str:
    """What the figures mean."""
    groups = {name: figure.groups for name, figure in found.figures.items() if figure.groups}
    fewest = min(groups.values(), default=0)
    level = f"{wording.share(found.level)} intervals"
    if fewest < FEW_GROUPS:
        level = f"Nominal {wording.share(found.level)} intervals"
    return (
        f"win rate: (wins + ties / 2) / pairs, of head. Orders that contradict each other make a tie. "
        f"{level} by {_groups(groups, main_dimension(found))}; p: sign test over groups. "
        f"Bias: the share of pairs in which one place won in both orders (the first/the second)."
    )


def _groups(groups: Mapping[str, int], main: str) -> str:
    """The number of groups that most figures rest on, and those that rest on another."""
    usual = groups.get(main, max(groups.values(), default=0))
    others = [f"{one_line(name)}: {count:,}" for name, count in groups.items() if count != usual]
    return wording.counted(usual, "group") + (f" ({', '.join(others)})" if others else "")


def contradictions(found: PairComparison) -> list[JudgedPair]:
    """Pairs whose two orders contradict each other in any dimension."""
    return [
        pair for pair in found.pairs if any(verdict.consistent is False for verdict in pair.verdicts.values())
    ]


def losses(found: PairComparison, dimension: str) -> list[JudgedPair]:
    """Pairs that head loses in a dimension."""
    return [pair for pair in found.pairs if pair.verdicts[dimension].verdict == "loss"]


def main_dimension(found: PairComparison) -> str:
    """The better in all, or the last dimension there is."""
    return "overall" if "overall" in found.figures else list(found.figures)[-1]
