"""Says which scores of an attempt are missing, and computes its composite and its verdict.

Definition: docs/definitions/scores.md#composite.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

import msgspec

from trivium.agents.attempt import Attempt
from trivium.agents.response import SECRETS_MASKED, masked_value
from trivium.metrics.metric import Score, Status
from trivium.suites.rubrics.loader import OVERALL
from trivium.suites.rubrics.rubric import PASS_MARK
from trivium.suites.settings import CompositeSettings, PassRule, Settings, Thresholds

TOLERANCE = 1e-9
"""A composite this little below a threshold reaches it, because of rounding in binary."""

RECOMMENDATION_WEIGHTS = {"accept": 1.0, "weak_accept": 0.7, "weak_reject": -0.7, "reject": -1.0}


class ScoreLike(Protocol):
    """The attributes that a full score and its stored outline share; see :class:`Score`."""

    @property
    def tier(self) -> str:
        """text, judge or trace."""

    @property
    def value(self) -> float | None:
        """In [0, 1], or None."""

    @property
    def status(self) -> str:
        """ok, fallback, abstained, skipped or error."""

    @property
    def missing(self) -> bool:
        """Whether a skipped score counts as missing."""


def is_judge_fallback(score: ScoreLike) -> bool:
    """Whether the value is the fallback for a judgement: another quantity that decides nothing."""
    return score.tier == "judge" and score.status == "fallback"


def is_unavailable(score: ScoreLike) -> bool:
    """Whether the score is missing because of an error, or because no judge answered."""
    return score.status == "error" or score.missing or is_judge_fallback(score)


def is_missing(score: ScoreLike) -> bool:
    """Whether the score is missing for any reason (docs/definitions/scores.md#missing-scores)."""
    return score.status == "abstained" or is_unavailable(score)


class Composite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The weighted mean of several metrics of one attempt.

    Attributes:
        value: In [0, 1]; None if no part has a score.
        status: ``fallback`` if a part is a fallback, ``skipped`` without a value, else ``ok``.
        coverage: Share of the weight of parts with a score, in [0, 1]; the fallback for a judgement does not
            count as a score. 1 for a failed attempt.
        parts: Value of every part with a weight; None for a part without a value.
        recommendation: accept, weak_accept, weak_reject or reject; None if the coverage is too low
            (docs/definitions/scores.md#recommendation).
        reason: Why the status is not ok, or why the value is 0.
        bounds: The value with every missing part at 0 and at 1; None if no part is missing.
    """

    value: float | None
    status: Status = "ok"
    coverage: float = 0.0
    parts: dict[str, float | None] = {}
    recommendation: str | None = None
    reason: str | None = None
    bounds: tuple[float, float] | None = None

    @property
    def recommendation_weight(self) -> float | None:
        """The recommendation as a number: 1.0, 0.7, −0.7 or −1.0.

        Definition: docs/definitions/scores.md#recommendation.
        """
        return RECOMMENDATION_WEIGHTS[self.recommendation] if self.recommendation else None


def recommend(value: float, thresholds: Thresholds) -> str:
    """Map a composite in [0, 1] to its recommendation (docs/definitions/scores.md#recommendation)."""
    for name in ("accept", "weak_accept", "weak_reject"):
        if value >= getattr(thresholds, name) - TOLERANCE:
            return name
    return "reject"


def nearest_threshold(value: float, thresholds: Thresholds) -> float:
    """Return the threshold between two recommendations that is nearest to a composite."""
    limits = (thresholds.accept, thresholds.weak_accept, thresholds.weak_reject)
    return min(limits, key=lambda limit: abs(value - limit))


def measures_result(name: str, tier: str) -> bool:
    """Whether a part of the composite measures the result of an attempt, rather than its process.

    Definition: docs/definitions/scores.md#recommendation.

    Args:
        name: Name of the metric; ``time`` measures the process.
        tier: Its tier; ``trace`` metrics measure the process.
    """
    return tier != "trace" and name != "time"


def may_recommend(coverage: float, settings: CompositeSettings, *, result: bool) -> bool:
    """Whether the scores suffice for a recommendation (docs/definitions/scores.md#recommendation).

    Args:
        coverage: Share of the weight that was scored, in [0, 1].
        settings: Settings with the minimum coverage.
        result: Whether a part that measures the result has a score.
    """
    return result and coverage >= settings.min_coverage - TOLERANCE


def composite(
    scores: Mapping[str, Score], settings: CompositeSettings, *, failed: str | None = None
) -> Composite:
    """Compute the composite of one attempt (docs/definitions/scores.md#composite).

    Args:
        scores: Scores by metric.
        settings: Weights, thresholds and the treatment of missing parts.
        failed: Why the attempt failed, or None; a failed attempt has composite 0.
    """
    weights = {name: weight for name, weight in settings.weights.items() if weight > 0}
    if not weights:
        return Composite(value=None, status="skipped", reason="no part has a weight")
    total = sum(weights.values())
    parts = {name: scores[name].value if name in scores else None for name in weights}
    if failed is not None:
        return Composite(
            value=0.0,
            coverage=1.0,
            parts=parts,
            recommendation=recommend(0.0, settings.thresholds),
            reason=f"the attempt failed: {failed}",
        )
    present = {name: value for name, value in parts.items() if value is not None}
    scored = [name for name in present if not is_judge_fallback(scores[name])]
    bounds = _bounds(scores, scored, weights, settings)
    if not present and settings.missing == "rescale":
        return Composite(
            value=None, status="skipped", parts=parts, reason="no part has a score", bounds=bounds
        )
    divisor = total if settings.missing == "zero" else sum(weights[name] for name in present)
    # Rounding can move a weighted mean of numbers in [0, 1] slightly outside of it.
    value = min(1.0, max(0.0, sum(weights[name] * value for name, value in present.items()) / divisor))
    fallbacks = [name for name in present if scores[name].status == "fallback"]
    coverage = sum(weights[name] for name in scored) / total
    result = any(measures_result(name, scores[name].tier) for name in scored)
    enough = may_recommend(coverage, settings, result=result)
    return Composite(
        value=value,
        status="fallback" if fallbacks else "ok",
        coverage=coverage,
        parts=parts,
        recommendation=recommend(value, settings.thresholds) if enough else None,
        reason=f"fallback in {', '.join(fallbacks)}" if fallbacks else None,
        bounds=bounds,
    )


def _bounds(
    scores: Mapping[str, ScoreLike],
    scored: Sequence[str],
    weights: Mapping[str, float],
    settings: CompositeSettings,
) -> tuple[float, float] | None:
    """The composite with every missing part at 0, and at 1; None if no part is missing."""
    missing = sum(weight for name, weight in weights.items() if name in scores and is_missing(scores[name]))
    if not missing:
        return None
    known = sum(weights[name] * (scores[name].value or 0.0) for name in scored)
    due = sum(weights[name] for name in scored) + missing
    divisor = sum(weights.values()) if settings.missing == "zero" else due
    return known / divisor, min(1.0, (known + missing) / divisor)


SUCCESS = PassRule(metric="success", at_least=1.0)
JUDGED = PassRule(metric=f"agent.{OVERALL}", at_least=PASS_MARK)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All scores of one attempt.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case this is, from 0.
        scores: Scores by metric, in the order of the suite.
        composite: Weighted mean of the scores.
        passed: The verdict of the suite's ``pass`` rule; None if its metric has no value.
        failed: Why the attempt failed; None if it did not, or if its world failed, which is not the agent's.
    """

    case: str
    repeat: int
    scores: dict[str, Score]
    composite: Composite
    passed: bool | None = None
    failed: str | None = None


def evaluation(attempt: Attempt, scores: Mapping[str, Score], settings: Settings) -> Evaluation:
    """Make the evaluation of one attempt (docs/definitions/scores.md#verdict).

    What its scores quote of an attempt that holds a secret is masked.
    """
    failed = None if attempt.is_unfair else attempt.error
    folded = composite(scores, settings.composite, failed=failed)
    return Evaluation(
        case=attempt.case,
        repeat=attempt.repeat,
        scores={name: _masked(score) for name, score in scores.items()}
        if SECRETS_MASKED in attempt.flags
        else dict(scores),
        composite=folded,
        passed=False if failed is not None else _passed(scores, folded, settings),
        failed=failed,
    )


def _masked(score: Score) -> Score:
    texts = {name: masked_value(getattr(score, name)) for name in ("raw", "detail", "reason", "method")}
    return msgspec.structs.replace(score, **texts)


def pass_rule(names: Container[str], settings: Settings) -> PassRule:
    """Return the rule by which an attempt passes (docs/definitions/scores.md#verdict).

    Args:
        names: Names of the attempt's scores.
        settings: Settings of the suite. If they state no rule, the rubric ``agent`` decides if it was judged,
            else ``success``.
    """
    judged = settings.judge is not None and JUDGED.metric in names
    return settings.passed or (JUDGED if judged else SUCCESS)


def verdict_is_missing(
    passed: bool | None, scores: Mapping[str, ScoreLike], folded: Composite, settings: Settings
) -> bool:
    """Whether the verdict is missing (docs/definitions/scores.md#missing-scores).

    Args:
        passed: The verdict, or None.
        scores: Scores of the attempt, by metric.
        folded: Composite of the attempt.
        settings: Settings of the suite.
    """
    if passed is not None:
        return False
    rule = pass_rule(scores, settings)
    if rule.metric == "composite":
        return folded.bounds is not None
    score = scores.get(rule.metric)
    # A whole rubric has a value but no verdict if its panel ties, or if missing dimensions would decide.
    return score is not None and (is_missing(score) or score.value is not None)


def _passed(scores: Mapping[str, Score], folded: Composite, settings: Settings) -> bool | None:
    rule = pass_rule(scores, settings)
    if rule is JUDGED:  # a panel passes what most of its judges pass
        verdict: bool | None = scores[rule.metric].detail.get("passed")
        return verdict
    if rule.metric == "composite":
        return reaches(folded.bounds or (folded.value, folded.value), rule.at_least)
    score = scores.get(rule.metric)
    if score is None or score.value is None or is_judge_fallback(score):
        return None
    return score.value >= rule.at_least


def reaches(bounds: tuple[float | None, float | None], at_least: float) -> bool | None:
    """Whether a value between two bounds reaches a threshold; None if the bounds do not decide."""
    low, high = bounds
    if low is None or high is None:
        return None
    if low >= at_least - TOLERANCE:
        return True
    return False if high < at_least - TOLERANCE else None
