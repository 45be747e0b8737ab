"""Wording that all reports share: numbers, intervals, verdicts, gates and costs."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.runs.summary import (
    Acceptance,
    AgentTotals,
    CompositeFigure,
    Figure,
    GateAnswer,
    JudgeCosts,
    ModelCosts,
    Rate,
    Summary,
    further_cases_needed,
)
from trivium.safe_text import one_line
from trivium.store.records import Provenance, RunNames
from trivium.values import counted

if TYPE_CHECKING:
    from trivium.trust.certification import Certificate

NOTHING = "–"
BESIDE_PEOPLE = "Each output is scored against the other people's outputs of its case."
"""Note on the table that compares the run with people (docs/definitions/agreement.md#human-ceiling)."""


def number(value: float | None, *, digits: int = 3) -> str:
    """A number with a fixed number of decimals, or a dash if there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value:.{digits}f}"


_FUNCTION = re.compile(r"[\w./\\-]+:(\w+)")


def run_name(suite: str, names: "RunNames") -> str:
    """What people call a run: its suite; its version, or what its commit says; its agent.

    An agent that is a function in a module or file is called by the name of the function.
    """
    function = _FUNCTION.fullmatch(names.agent or "")
    agent = names.agent if function is None else function[1]
    version = names.version or names.git_subject or names.git_commit
    return " · ".join(one_line(each, at_most=60) for each in (suite, version, agent) if each)


def moment(seconds: float | None) -> str:
    """A Unix time as ``2026-11-23 04:51`` (UTC), or a dash."""
    if seconds is None:
        return NOTHING
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return NOTHING


def interval(bounds: tuple[float, float] | None, *, digits: int = 3) -> str:
    """``[0.341, 0.395]``, or a dash."""
    return NOTHING if bounds is None else f"[{', '.join(number(end, digits=digits) for end in bounds)}]"


def signed(value: float | None) -> str:
    """A difference with its sign and three decimals; without a sign if it rounds to 0."""
    if value is None:
        return NOTHING
    text = f"{value:+.3f}".replace("-", "−")
    return text[1:] if text[1:] == "0.000" else text


def signed_interval(interval: tuple[float, float] | None) -> str:
    """``[−0.068, +0.045]``, or a dash."""
    return NOTHING if interval is None else f"[{signed(interval[0])}, {signed(interval[1])}]"


def share(value: float) -> str:
    """A share in per cent; values below 1 are never rounded to 100 %, values above 0 never to 0 %."""
    if 0 < value <= 0.005:
        return "<1 %"
    if 0.995 <= value < 1:
        return ">99 %"
    return f"{value:.0%}".replace("%", " %")


def known_share(value: float | None, ends: Sequence[float] | None = None) -> str:
    """A share in per cent, with its interval if there is one: ``72 % [51, 84]``; or a dash."""
    interval = "" if ends is None else f" [{', '.join(f'{100 * end:.0f}' for end in ends)}]"
    return NOTHING if value is None else share(value) + interval


def probability(value: float | None) -> str:
    """A p-value; a small one is shown as <0.001, never as 0."""
    if value is None:
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def seconds(value: float | None) -> str:
    """A duration in the most readable unit."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if 0 < abs(value) < 0.0005:
        return f"{1e6 * value:.0f} µs" if abs(value) >= 5e-7 else f"{1e9 * value:.2g} ns"
    if abs(value) < 1:
        return f"{1000 * value:.0f} ms"
    if abs(value) < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min"


def quantity(value: float | None, unit: str) -> str:
    """A value in its natural unit with as many decimals as it deserves: ``4 ms``, ``0.05 retries per call``.

    Args:
        value: The value, or None.
        unit: ``s`` for seconds, other words, or "" for a plain number.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if unit == "s":
        return seconds(value)
    return f"{plain_number(value)} {one_line(unit, at_most=40)}".rstrip()


def plain_number(value: float) -> str:
    """A number without needless decimals: whole ones without any, others with two, large ones with none."""
    if value == int(value):
        return f"{value:,.0f}"
    if abs(value) < 0.01:
        return f"{value:.2g}"
    return f"{value:,.2f}" if abs(value) < 100 else f"{value:,.0f}"


def measured(figure: Figure) -> str:
    """A metric's mean in its natural unit, and its direction: ``0.05 retries per call, lower is better``."""
    parts = []
    if figure.unit is not None and figure.raw_mean is not None:
        parts.append(quantity(figure.raw_mean, figure.unit))
    if figure.better is None:
        parts.append("for information")
    elif parts or figure.better == "lower":
        parts.append(f"{figure.better} is better")
    return ", ".join(parts)


FEWEST_GROUPS = 5
"""With fewer groups no interval is shown next to a mean: it would cover most of the scale. JSON has it."""


def shown_interval(figure: Figure | CompositeFigure) -> tuple[float, float] | None:
    """The interval of a mean if it rests on enough groups to say something; None otherwise."""
    return figure.ci95 if figure.groups >= FEWEST_GROUPS else None


def has_something(figure: Figure) -> bool:
    """Whether there is anything to show of a metric: a value, an error, or a score that is missing."""
    return figure.n > 0 or figure.missing > 0 or figure.aside is not None or is_reported_only(figure)


def measured_metrics(summary: Summary) -> dict[str, Figure]:
    """The metrics of which there is anything to show, in the order of the suite."""
    return {name: figure for name, figure in summary.metrics.items() if has_something(figure)}


def without_anything(summary: Summary) -> list[str]:
    """The metrics that had nothing to measure, by name."""
    return [name for name, figure in summary.metrics.items() if not has_something(figure)] + list(
        summary.left_out
    )


def counted_without(summary: Summary) -> str:
    """``13 more metrics had nothing to measure here``; empty if there are none."""
    names = without_anything(summary)
    return f"{counted(len(names), 'more metric')} had nothing to measure here" if names else ""


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


def values_of(figure: Figure) -> str:
    """Number of values of a metric, and of attempts if it is less: ``24``, ``17/24``."""
    if is_reported_only(figure):
        there, due = figure.status.get("ok", 0), attempts_of(figure)
    else:
        there, due = figure.n, round(figure.n / figure.coverage) if figure.coverage else attempts_of(figure)
    return f"{there:,}" if there == due else f"{there:,}/{due:,}"


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


NO_VERDICT = "no attempt has a verdict"


def has_verdicts(summary: Summary) -> bool:
    """Whether an attempt passed or did not, or one might have but for an error."""
    return bool(summary.passed or summary.failed or any(summary.errors.values()) or not summary.attempts)


def passed_of(summary: Summary) -> str:
    """``2 of 16 passed``, with the number of undecided attempts."""
    if not has_verdicts(summary):
        return NO_VERDICT
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
        parts.append(f"{share(figure.p_change)} chance that other cases would change this")
    return " · ".join(parts)


def why_no_recommendation(figure: CompositeFigure) -> str:
    """``too little was measured, 33 % of the weight``."""
    why = figure.why_none or "no part has a score"
    return why if figure.mean is None else f"{why}, {share(figure.coverage)} of the weight"


def recommended(figure: CompositeFigure) -> str:
    """Attempts by recommendation: ``attempts: 3 accept, 1 reject``; empty if no attempt has one."""
    counts = ", ".join(f"{count:,} {words(name)}" for name, count in figure.recommendations.items() if count)
    return f"attempts: {counts}" if counts else ""


def weight_scored(figure: CompositeFigure) -> str:
    """The share of the weight that was scored; empty if it is 100 % or if there is no recommendation."""
    if figure.coverage >= 1 or figure.recommendation is None:
        return ""
    return f"{share(figure.coverage)} of the weight scored"


def gate_sentence(gate: GateAnswer) -> str:
    """A gate's value, how probable it is to miss the limit, what it lacks, and what would settle it."""
    parts = [f"{number(gate.value)} {interval(gate.ci95)}" if gate.value is not None else "no value"]
    if gate.proof == "inconclusive" and gate.probabilities:
        odds = " to ".join(dict.fromkeys(share(one) for one in sorted(gate.probabilities)))
        parts.append(f"misses the limit with probability {odds}")
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


SIZE_FROM = {
    "stated": "as was stated",
    "run": "the most in the run, labelled or not",
    "labels": "the most among the labels: no limit is known",
}


def condition_sentence(certificate: "Certificate") -> str:
    """The largest group for which a certificate holds, after a space; empty if items count one by one."""
    if certificate.group_size_from == "unit":
        return ""
    most = counted(certificate.group_size, "verdict")
    return f" This holds if no group has more than {most} ({SIZE_FROM[certificate.group_size_from]})."


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
    if summary.shown_composite is not None:
        figures.append(summary.shown_composite)
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


def interval_heading(summary: Summary) -> str:
    """Heading of a column of intervals: ``95 % interval``, or ``interval`` if they rest on few groups."""
    from trivium.trust.clustered import TOO_FEW_GROUPS

    groups = [figure.groups for figure in summary.metrics.values() if shown_interval(figure) is not None]
    level = next((figure.level for figure in summary.metrics.values()), 0.95)
    return f"{share(level)} interval" if groups and min(groups) >= TOO_FEW_GROUPS else "interval"


def intervals_label(level: float, *, fewest_groups: int) -> str:
    """``95 % intervals``, called nominal if they rest on few groups.

    Definition: docs/definitions/intervals.md#groups.
    """
    from trivium.trust.clustered import TOO_FEW_GROUPS

    label = f"{share(level)} intervals"
    return label if fewest_groups >= TOO_FEW_GROUPS else f"Nominal {label}"


def dollars(usd: float | None) -> str:
    """``$0.0123``, ``$12.30``, ``<$0.0001``; a dash if the price is unknown."""
    if usd is None:
        return "–"
    if 0 < usd < 0.0001:
        return "<$0.0001"
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def agent_sentences(totals: AgentTotals) -> list[str]:
    """The agent's latency, tokens and cost, one sentence each, for those that are known."""
    found = []
    if totals.timed:
        latency = f"latency p50 {seconds(totals.latency_p50)}, p95 {seconds(totals.latency_p95)}"
        found.append(latency + _of_attempts(totals.timed, totals.attempts))
    if totals.with_tokens:
        sides = [(totals.input_tokens, "input"), (totals.output_tokens, "output")]
        tokens = ", ".join(f"{count:,} {side} tokens" for count, side in sides if count is not None)
        found.append(tokens + _of_attempts(totals.with_tokens, totals.attempts))
    if totals.cost_usd is not None:
        more = "at least " if totals.partly else ""
        cost = more + dollars(totals.cost_usd) + _of_attempts(totals.with_cost, totals.attempts)
        found.append(f"{cost} at list price" if totals.priced else cost)
    return found


def agent_line(totals: AgentTotals) -> str:
    """The agent's latency, tokens and cost in one line: ``latency p50 1.2 s, p95 3.4 s · $0.0123``."""
    return " · ".join(agent_sentences(totals)) or "latency, tokens and cost not recorded"


def _of_attempts(known: int, attempts: int) -> str:
    return "" if known == attempts else f" ({known:,} of {counted(attempts, 'attempt')})"


def called(run: str, version: object) -> str:
    """The id of a run, behind the name of its version if it has one."""
    return f"{one_line(version, at_most=60)} ({run})" if isinstance(version, str) else run


def provenance_line(summary: Summary) -> str:
    """Agent, version, commit, judges and seed of a run, in one line."""
    made = summary.metadata
    named = [(name, made.get(name)) for name in ("agent", "commit", "judges", "seed", "trivium")]
    parts = []
    for name, value in named:
        if not value and value != 0:
            continue
        words_of = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        words_of = words_of[:10] if name == "commit" else words_of
        label = judge_word(words_of) if name == "judges" else name
        parts.append(f"{label} {one_line(words_of, at_most=80)}")
    return " · ".join(parts)


def judge_word(name: str) -> str:
    """What a judge is called: ``judge``, or ``stand-in judge`` for Python code whose name is ``stand_in``."""
    return "stand-in judge" if name.startswith("python:") and name.endswith(":stand_in") else "judge"


def judge_name(name: str) -> str:
    """The name of a judge, after ``stand-in judge`` if rules stand in for a language model."""
    word = judge_word(name)
    return one_line(name if word == "judge" else f"{word} {name}", at_most=120)


def provenance_rows(provenance: Provenance) -> Iterator[tuple[str, str]]:
    """Name and value of everything that a run's provenance holds, one line each."""
    for name, value in msgspec.to_builtins(provenance).items():
        if value in (None, "", [], {}) or name in {"notes", "units"}:
            continue
        if name == "metrics":
            shown = [
                str(key) if version == "1" else f"{key} (version {version})" for key, version in value.items()
            ]
            yield name, one_line(", ".join(shown), at_most=2000)
        elif isinstance(value, Mapping):
            inner = [f"{key} {_value(each)}" for key, each in value.items() if each not in (None, "", [], {})]
            yield name, one_line(", ".join(inner), at_most=1000)
        else:
            yield name, one_line(_value(value), at_most=1000)


def _value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, Mapping) else str(value)


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
    judge = [judge_name(name) for name in spent.models] if named and len(spent.models) == 1 else []
    return " · ".join([*judge, *parts])


def requests(spent: ModelCosts) -> str:
    """``1 request``, ``1,200 requests``."""
    return counted(round(spent.requests), "request")


def spent_rows(spent: JudgeCosts) -> Iterator[tuple[str, str, ModelCosts]]:
    """(kind, name, costs) of every model and every dimension."""
    for name, costs in spent.models.items():
        yield "model", judge_name(name), costs
    for name, costs in spent.dimensions.items():
        yield "dimension", one_line(name), costs


def whole(number: float) -> str:
    """A count; a fraction keeps one decimal."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:,.1f}"
