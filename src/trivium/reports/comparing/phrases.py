"""How a comparison is put into words, the same in every report."""

from trivium.reports.untrusted import one_line
from trivium.reports.wording import NOTHING, counted, number, share
from trivium.runs.comparing.comparison import Comparison, MetricDelta
from trivium.runs.further import what_settles
from trivium.trust.needed import MOST_NEEDED

MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?"}
FEW_GROUPS = 10
"""Under this many groups an interval is not called by its level (spec: metrics, B.3)."""


def signed(value: float | None) -> str:
    """A difference with its sign, three decimals; what rounds to nothing has no sign."""
    if value is None:
        return NOTHING
    text = f"{value:+.3f}".replace("-", "−")
    return text[1:] if text[1:] == "0.000" else text


def ends(interval: tuple[float, float] | None) -> str:
    """``[−0.068, +0.045]``, or a dash."""
    return NOTHING if interval is None else f"[{signed(interval[0])}, {signed(interval[1])}]"


def interval_of(figure: MetricDelta, comparison: Comparison) -> str:
    """The interval of a difference; ``identical`` where the outputs are the same and so is every value."""
    if comparison.unchanged and figure.n and not (figure.wins or figure.losses):
        return "identical"
    return ends(figure.ci95)


def probability(value: float | None) -> str:
    """A p-value; what is small is said to be small, never 0."""
    if value is None:
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def record(figure: MetricDelta) -> str:
    """Wins, losses and ties."""
    return f"{figure.wins:,} / {figure.losses:,} / {figure.ties:,}"


def further(figure: MetricDelta) -> str:
    """How many further cases would settle it, in a table."""
    if figure.answer != "inconclusive":
        return ""
    if figure.needs_cases is None:
        return NOTHING if figure.ci95 is None else f">{MOST_NEEDED:,}"
    return f"{figure.needs_cases:,}"


def paired(comparison: Comparison) -> str:
    """How much could be compared."""
    most = max(comparison.metrics.values(), key=lambda figure: figure.pairs)
    parts = [f"{counted(most.n, 'case')} in common", f"{counted(most.pairs, 'pair')} of attempts"]
    for word, cases in (("base", comparison.only_base), ("head", comparison.only_head)):
        if cases:
            parts.append(f"{counted(len(cases), 'case')} only in {word}")
    return " · ".join(parts)


def outlook(comparison: Comparison) -> list[str]:
    """What each deciding figure could tell, a sentence each; unchanged outputs leave nothing to tell."""
    if comparison.unchanged:
        return []
    return [_outlook(name, comparison.metrics[name]) for name in comparison.decided_by]


def _outlook(name: str, figure: MetricDelta) -> str:
    parts = []
    if figure.missing:
        parts.append(f"{counted(figure.missing, 'pair')} lack a side, and could change the answer")
    settled_by = what_settles(figure)
    if settled_by is not None:
        parts.append(settled_by)
    if figure.mde is not None:
        parts.append(
            f"{counted(figure.n, 'case')} detect a difference of {number(figure.mde)} with 80 % power"
        )
    elif figure.ci95 is not None:
        parts.append("every case moved by the same, so the interval rests on the number of cases alone")
    else:
        parts.append("one group gives no interval")
    return f"{one_line(name)}: {'; '.join(parts)}"


def what_is_missing(comparison: Comparison) -> str:
    """What is missing or in error of either run, in a line."""
    parts = [
        f"{word}: {', '.join(f'{count:,} {one_line(name)}' for name, count in found.items())}"
        for word, found in comparison.missing.items()
    ]
    why = [one_line(line, at_most=300) for line in comparison.warnings if " was not judged" in line]
    return " ".join([*why, f"missing or in error: {'; '.join(parts)}"])


def rule(comparison: Comparison) -> str:
    """When a figure passes and when it fails."""
    return f"✓ pass: interval above −{comparison.margin:g} · ✗ fail: below 0 · ? inconclusive: neither"


def note(comparison: Comparison) -> str:
    """How the intervals were made."""
    figures = list(comparison.metrics.values())
    methods = dict.fromkeys(figure.method for figure in figures if figure.method)
    figures = [figure for figure in figures if figure.n] or figures
    fewest, most = min(figure.groups for figure in figures), max(figure.groups for figure in figures)
    kind = f"{share(comparison.level)} intervals"
    if fewest < FEW_GROUPS:
        kind = f"Nominal {share(comparison.level)} intervals"
    groups = counted(most, "group") if fewest == most else f"{fewest:,} to {most:,} groups"
    return f"{kind}: {'; '.join([*methods, groups])}; p by the same method"
