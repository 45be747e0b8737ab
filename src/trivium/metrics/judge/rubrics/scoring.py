"""From what a judge answered to a score in [0, 1] (spec: metrics, T2.1 and T2.4)."""

from collections.abc import Sequence

from trivium.metrics.judge.prompts.answer import Answer, Aspect, Claim
from trivium.suites.rubrics.rubric import LIKERT_MOST, Dimension, Scale

VERDICT_VALUES = {"supported": 1.0, "partly": 0.5, "contradicted": 0.0, "unverifiable": 0.0}
COVERED_VALUES = {"yes": 1.0, "partly": 0.5, "no": 0.0}
DIGITS = 12
"""Decimals of a score: without the rest, which is rounding, equal scores are equal numbers."""

IMPORTANCE_WEIGHTS = {"major": 2.0, "minor": 1.0}


def likert_values(step: float) -> tuple[float, ...]:
    """The values of a criterion, 1 to 5; whole numbers stay whole, as a schema wants them."""
    count = round((LIKERT_MOST - 1) / step)
    values = [round(1 + index * step, 9) for index in range(count + 1)]  # 1.6, not a hair more
    return tuple(int(value) for value in values) if step == 1 else tuple(float(value) for value in values)


def value_of(answer: Answer, dimension: Dimension, *, scale: Scale) -> float | None:
    """The score of an answer in [0, 1]; None when the judge abstains, or found no claim or aspect."""
    if dimension.claims:
        return _of_claims(answer.claims)
    if dimension.aspects:
        return _of_aspects(answer.aspects)
    if dimension.criteria:
        return _of_criteria(answer, dimension, scale)
    return None if answer.level is None else dimension.levels[answer.level]


def raw_of(answer: Answer, dimension: Dimension) -> object:
    """The answer in its natural unit: values 1 to 5, a level, or verdicts counted."""
    if dimension.aspects:
        return {
            covered: sum(each.covered == covered for each in answer.aspects) for covered in COVERED_VALUES
        }
    if dimension.claims:
        return {
            verdict: sum(claim.verdict == verdict for claim in answer.claims) for verdict in VERDICT_VALUES
        }
    return answer.criteria or answer.level


def _of_criteria(answer: Answer, dimension: Dimension, scale: Scale) -> float | None:
    total = sum(criterion.weight for criterion in dimension.criteria)
    mean = 0.0
    for criterion in dimension.criteria:
        value = answer.criteria[criterion.name]
        if value is None:
            return None
        mean += criterion.weight / total * value
    score = mean / LIKERT_MOST if scale == "ratio" else (mean - 1) / (LIKERT_MOST - 1)
    return round(score, DIGITS)


def _of_claims(claims: Sequence[Claim]) -> float | None:
    total = sum(IMPORTANCE_WEIGHTS[claim.importance] for claim in claims)
    if not claims:
        return None
    found = sum(IMPORTANCE_WEIGHTS[claim.importance] * VERDICT_VALUES[claim.verdict] for claim in claims)
    return round(found / total, DIGITS)


def _of_aspects(aspects: Sequence[Aspect]) -> float | None:
    """The share that is covered; an aspect that is partly covered counts half."""
    if not aspects:
        return None
    return round(sum(COVERED_VALUES[each.covered] for each in aspects) / len(aspects), DIGITS)
