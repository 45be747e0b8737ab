"""Judges pairs of outputs in both orders, and combines the two verdicts."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal

from trivium.agents.attempt import Attempt
from trivium.metrics.judge.judge import Judge, Judgements
from trivium.metrics.judge.judgement import Judgement
from trivium.metrics.judge.pairwise import Pair
from trivium.metrics.judge.prompts.context import build_context
from trivium.runs.pairwise_result import DimensionVerdict, JudgedPair, OrderVerdict, Verdict
from trivium.suites.case import Case
from trivium.suites.rubrics.rubric import Dimension
from trivium.values import batched, record_of

AT_ONCE = 256
"""Most pairs whose texts are in memory at once."""

AttemptPair = tuple[str, Case, Attempt, Attempt]
"""Group, case, attempt of base, attempt of head."""

_NOT_JUDGED = DimensionVerdict(verdict=None, consistent=None)


def judge_all(judge: Judge, matched: Iterable[AttemptPair]) -> list[JudgedPair]:
    """Judge every pair, batch by batch."""
    pairs: list[JudgedPair] = []
    for batch in batched(matched, AT_ONCE):
        to_judge = [
            pair for attempts in batch if _outcome(attempts) is None for pair in _both_orders(attempts)
        ]
        judgements = iter(judge.judge(to_judge))
        for attempts in batch:
            group, case, _, head = attempts
            how = _outcome(attempts)
            if how is None:
                verdicts = _judged(next(judgements), next(judgements), judge.dimensions)
            else:
                verdicts = _without_judge(attempts, how, judge.dimensions)
            pairs.append(
                JudgedPair(
                    case=case.id, repeat=head.repeat, group=group, how=how or "judged", verdicts=verdicts
                )
            )
    return pairs


def _outcome(attempts: AttemptPair) -> Literal["identical", "failed", "unfair"] | None:
    """Return the outcome of a pair that needs no judge, else None."""
    _, _, base, head = attempts
    if base.is_unfair or head.is_unfair:
        return "unfair"
    if base.failed or head.failed:
        return "failed"
    return "identical" if base.text == head.text else None


def _both_orders(attempts: AttemptPair) -> tuple[Pair, Pair]:
    _, case, base, head = attempts
    return Pair(case, base, second=head), Pair(case, head, second=base)


def _without_judge(
    attempts: AttemptPair, how: str, dimensions: Sequence[Dimension]
) -> dict[str, DimensionVerdict]:
    _, case, base, head = attempts
    verdict: Verdict = "tie"
    if base.failed != head.failed:
        verdict = "win" if base.failed else "loss"
    same = DimensionVerdict(verdict=verdict, consistent=True)
    if how == "unfair":
        why = " / ".join(each.error or "" for each in (base, head) if each.is_unfair)
        none = OrderVerdict(first="base", verdict=None, status="skipped", reason=why)
        same = DimensionVerdict(verdict=None, consistent=None, orders=(none,))
    # A dimension that requires something the case lacks is never judged.
    inputs = build_context(Pair(case, base, second=head), excerpt_chars=1).texts
    return {dimension.name: same if dimension.applies_to(inputs) else _NOT_JUDGED for dimension in dimensions}


def _judged(
    base_first: Judgements, head_first: Judgements, dimensions: Sequence[Dimension]
) -> dict[str, DimensionVerdict]:
    names = [dimension.name for dimension in dimensions]
    return {
        name: of_both_orders(_order("base", base_first[name]), _order("head", head_first[name]))
        for name in names
    }


def _order(first: Any, judgement: Judgement) -> OrderVerdict:
    verdict: Verdict | None = None
    if judgement.value is not None:
        for_first: Verdict = "win" if first == "head" else "loss"
        for_second: Verdict = "loss" if first == "head" else "win"
        verdict = {1.0: for_first, 0.0: for_second}.get(_middle(judgement.value, judgement.detail), "tie")
    return record_of(OrderVerdict, judgement, first=first, verdict=verdict)


def _middle(value: float, detail: Mapping[str, Any]) -> float:
    """Median of the samples, which are 1 (first), 0.5 (tie) or 0 (second); any other median counts as a tie.

    The lower of two middle samples, as used for levels, would favour the second output.
    """
    samples = [sample for sample in detail.get("samples", ()) if sample is not None]
    return float(median(samples)) if samples else value


def of_both_orders(base_first: OrderVerdict, head_first: OrderVerdict) -> DimensionVerdict:
    """Combine the verdicts of both orders: their common verdict, else a tie; None if one is missing."""
    first, second = base_first.verdict, head_first.verdict
    if first is None or second is None:
        return DimensionVerdict(verdict=None, consistent=None, orders=(base_first, head_first))
    same = first == second
    return DimensionVerdict(
        verdict=first if same else "tie", consistent=same, orders=(base_first, head_first)
    )
