"""Wording that all reports share: numbers, intervals, verdicts, gates and costs."""

import math
from collections.abc import Iterator, Mapping

from trivium.reports.escape import one_line
from trivium.runs.summary import (
    Acceptance,
    CompositeFigure,
    Figure,
    GateAnswer,
    JudgeCosts,
    ModelCosts,
    Rate,
    Summary,
    further_cases_needed,
)

NOTHING = "–"
BESIDE_PEOPLE = "each output scored against the other people's outputs of its case"
"""Note on the table that compares the run with people (spec: metrics, H.5)."""

FEW_GROUPS = 10
"""With fewer groups than this an interval is called nominal (spec: metrics, B.3)."""


def number(value: float | None, *, digits: int = 3) -> str:
    """A number with a fixed number of decimals, or a dash if there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:.{digits}f}"


def interval(bounds: tuple[float, float] | None, *, digits: int = 3) -> str:
    """``[0.341, 0.395]``, or a dash."""
    return NOTHING if bounds is None else f"[{', '.join(number(end, digits=digits) for end in bounds)}]"


def share(value: float) -> str:
    """A share in per cent; values below 1 are never rounded to 100 %, values above 0 never to 0 %."""
    if 0 < value <= 0.005:
        return "<1 %"
    if 0.995 <= value < 1:
        return ">99 %"
    return f"{value:.0%}".replace("%", " %")


def seconds(value: float | None) -> str:
    """A duration in the most readable unit."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if abs(value) < 1:
        return f"{1000 * value:.0f} ms"
    if abs(value) < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min"


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """``1 case``, ``1,200 cases``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def not_ok(status: Mapping[str, int]) -> str:
    """Counts of all statuses other than ok; a no-break space joins each count and its word."""
    return ", ".join(
        f"{count:,}\N{NO-BREAK SPACE}{name}" for name, count in status.items() if name != "ok" and count
    )


def lacking(figure: Figure) -> str:
    """What a metric's mean leaves out: scores that are not ok, and fallbacks."""
    if is_reported_only(figure):
        return "reported, not scored"
    parts = [not_ok(figure.status)]
    if figure.aside is not None:
        parts.append(stood_in(figure))
    return "; ".join(part for part in parts if part)


def stood_in(figure: Figure) -> str:
    """The fallbacks that a metric's mean leaves out: ``similarity as fallback for 50 of 60: 0.930``."""
    aside = figure.aside
    if aside is None:
        return ""
    if figure.tier == "judge":
        share_of = f"{aside.n:,} of {attempts_of(figure):,}"
        return f"{one_line(aside.method)} as fallback for {share_of}: {number(aside.mean)}"
    return f"{aside.n:,} by {one_line(aside.method)}: {number(aside.mean)}"


def attempts_of(figure: Figure) -> int:
    """Attempts that a metric covers (for a metric of cases: cases)."""
    return sum(figure.status.values())


def is_reported_only(figure: Figure) -> bool:
    """Whether a metric is only reported and never scored, so that no value is missing."""
    return figure.n == 0 and figure.status.get("ok", 0) > 0


def further_dimensions(summary: Summary) -> dict[str, float]:
    """Judged dimensions that are not among the metrics."""
    return {name: mean for name, mean in summary.dimension_averages.items() if name not in summary.metrics}


def words(name: str) -> str:
    """``weak_accept`` with spaces instead of underscores."""
    return name.replace("_", " ")


def headline(summary: Summary) -> str:
    """Numbers of attempts and cases, and of what is missing or failed."""
    parts = [f"{counted(summary.attempts, 'attempt')} of {counted(summary.cases, 'case')}"]
    if summary.missing:
        parts.append(f"{summary.missing:,} missing")
    parts += [
        f"{counted(count, words(one_line(kind)).removesuffix('s'))} in error"
        for kind, count in summary.errors.items()
        if count and kind != "judgements"
    ]
    if summary.errors.get("judgements"):
        parts.append(f"{counted(summary.errors['judgements'], 'judgement')} missing")
    return " · ".join(parts)


def what_is_missing(summary: Summary) -> str:
    """What is in error or missing in a run, in one line."""
    reasons = [line for line in summary.warnings if "was not judged in" in line or " failed on " in line]
    parts = [headline(summary), *[one_line(line, at_most=300) for line in reasons[:1]]]
    return ": ".join(parts)


def passed_of(summary: Summary) -> str:
    """``2 of 16 passed``, with the number of undecided attempts."""
    undecided = summary.attempts - summary.passed - summary.failed
    text = f"{summary.passed:,} of {summary.passed + summary.failed:,} passed"
    return f"{text}, {undecided:,} undecided" if undecided > 0 else text


def composite_sentence(figure: CompositeFigure) -> str:
    """The recommendation with its distance to the threshold, or why there is none."""
    if figure.recommendation is None:
        return f"no recommendation: {why_no_recommendation(figure)}"
    parts = [words(one_line(figure.recommendation))]
    if figure.distance is not None and figure.threshold is not None and figure.mean is not None:
        side = "above" if figure.mean >= figure.threshold else "below"
        parts.append(f"{number(figure.distance)} {side} the {figure.threshold:.2f} threshold")
    if figure.p_change is not None:
        parts.append(f"{share(figure.p_change)} chance that other cases would change the recommendation")
    return " · ".join(parts)


def why_no_recommendation(figure: CompositeFigure) -> str:
    """``too little was measured, 33 % of the weight``."""
    why = figure.why_none or "no part has a score"
    return why if figure.mean is None else f"{why}, {share(figure.coverage)} of the weight"


def weight_scored(figure: CompositeFigure) -> str:
    """The share of the weight that was scored; empty if it is 100 % or if there is no recommendation."""
    if figure.coverage >= 1 or figure.recommendation is None:
        return ""
    return f"{share(figure.coverage)} of the weight scored"


def gate_sentence(gate: GateAnswer) -> str:
    """A gate's value, what it lacks, and what would settle it."""
    parts = [f"{number(gate.value)} {interval(gate.ci95)}" if gate.value is not None else "no value"]
    if gate.missing:
        missing = f"{gate.missing:,} of {gate.due:,} missing"
        if gate.ignored:
            missing += " and left out (missing: ignore)"
        parts.append(missing + (f": {one_line(gate.why, at_most=300)}" if gate.why else ""))
        if gate.worst is not None and gate.best is not None:
            parts.append(f"at their worst {interval(gate.worst)}, at their best {interval(gate.best)}")
    settled_by = further_cases_needed(gate)
    if settled_by is not None:
        parts.append(settled_by)
    return "; ".join(parts) if gate.missing else ", ".join(parts)


def accepted_of(summary: Summary) -> str:
    """``accepted 44 of 150 · 106 to people``, over all dimensions with a certificate."""
    accepted = sum(each.accepted for each in summary.acceptance.values())
    people = sum(each.to_people for each in summary.acceptance.values())
    return f"accepted {accepted:,} of {accepted + people:,} · {people:,} to people"


def acceptance_sentence(name: str, acceptance: Acceptance) -> str:
    """How many judgements of a dimension a certificate accepts, its threshold and its guarantee."""
    total = acceptance.accepted + acceptance.to_people
    counts = f"{one_line(name)}: accepted {acceptance.accepted:,} of {total:,}"
    confidence = one_line(acceptance.confidence, at_most=60)
    rule = f"no {confidence} was certified"
    if acceptance.threshold is not None:
        rule = f"{confidence} ≥ {acceptance.threshold:.6g}"
    guarantee = f"at most {100 * acceptance.epsilon:g} % wrong with probability {1 - acceptance.delta:g}"
    return f"{counts}; {rule} ({guarantee}; {one_line(acceptance.certificate, at_most=60)})"


def attempt_name(case: str, repeat: int) -> str:
    """Name of an attempt in reports: its case, and the repeat except for the first."""
    return f"{case} #{repeat}" if repeat else case


def interval_note(summary: Summary) -> str | None:
    """How the intervals were computed: level, methods, number of groups, seed."""
    figures: list[Figure | Rate | CompositeFigure] = [summary.pass_rate, *summary.metrics.values()]
    if summary.composite is not None:
        figures.append(summary.composite)
    with_interval = [figure for figure in figures if figure.ci95 is not None]
    if not with_interval:
        return None
    methods = dict.fromkeys(one_line(figure.method) for figure in with_interval if figure.method)
    group_counts = [figure.groups for figure in with_interval]
    fewest, most = min(group_counts), max(group_counts)
    level = next((figure.level for figure in with_interval if isinstance(figure, Figure)), 0.95)
    kind = intervals_label(level, fewest_groups=fewest)
    groups = counted(most, "group") if fewest == most else f"{fewest:,} to {most:,} groups"
    parts = [*methods, groups]
    if "seed" in summary.metadata:
        parts.append(f"seed {one_line(str(summary.metadata['seed']), at_most=20)}")
    return f"{kind}: {'; '.join(parts)}"


def intervals_label(level: float, *, fewest_groups: int) -> str:
    """``95 % intervals``, called nominal if they rest on fewer than ``FEW_GROUPS`` groups."""
    label = f"{share(level)} intervals"
    return label if fewest_groups >= FEW_GROUPS else f"Nominal {label}"


def dollars(usd: float | None) -> str:
    """``$0.0123``, ``$12.30``, ``<$0.0001``; a dash if the price is unknown."""
    if usd is None:
        return "–"
    if 0 < usd < 0.0001:
        return "<$0.0001"
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def spent_sentence(spent: JudgeCosts, *, named: bool = True) -> str:
    """Requests, tokens and cost of judges, in one line.

    Args:
        spent: The costs.
        named: Whether a single judge is named first; several are listed with their costs elsewhere.
    """
    cost = dollars(spent.cost_usd) if spent.cost_usd is not None else "cost unknown"
    if spent.unpriced and spent.cost_usd is not None:
        cost = f"at least {cost}"
    if spent.budget_usd is not None:
        cost += f" of {dollars(spent.budget_usd)}"
    tokens = f"{whole(spent.input_tokens)} input tokens, {whole(spent.output_tokens)} output tokens"
    if spent.budget_tokens is not None:
        tokens += f", of {spent.budget_tokens:,}"
    parts = [cost, f"{requests(spent)}, {whole(spent.answered)} answered", tokens]
    if spent.from_cache:
        parts.insert(2, f"{whole(spent.from_cache)} from the cache")
    if spent.unknown or spent.unknown_usd or spent.unknown_tokens:
        most = [dollars(spent.unknown_usd)] if spent.unknown_usd else []
        if spent.budget_tokens is not None or not most:
            most.append(f"{whole(spent.unknown_tokens)} tokens")
        parts.append(f"up to {' and '.join(most)} more for requests with unknown outcome")
    judge = [one_line(name) for name in spent.models] if named and len(spent.models) == 1 else []
    return " · ".join([*judge, *parts])


def requests(spent: ModelCosts) -> str:
    """``1 request``, ``1,200 requests``."""
    return counted(round(spent.requests), "request")


def spent_rows(spent: JudgeCosts) -> Iterator[tuple[str, str, ModelCosts]]:
    """(kind, name, costs) of every model and every dimension."""
    for name, costs in spent.models.items():
        yield "model", one_line(name), costs
    for name, costs in spent.dimensions.items():
        yield "dimension", one_line(name), costs


def whole(number: float) -> str:
    """A count; a fraction keeps one decimal."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:,.1f}"
