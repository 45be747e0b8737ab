"""Folds the scores of an attempt into its composite and its verdict (spec: metrics, C)."""

from collections.abc import Container, Mapping, Sequence

import msgspec

from trivium.agents.attempt import Attempt
from trivium.metrics.metric import Score, ScoreLike, Status, is_judge_fallback, is_missing
from trivium.suites.rubrics.built_in import AGENT
from trivium.suites.rubrics.loader import OVERALL
from trivium.suites.settings import CompositeSettings, PassRule, Settings, Thresholds

TOLERANCE = 1e-9
"""A composite this close under a threshold reaches it: weights and means are rounded in binary."""

RECOMMENDATION_WEIGHTS = {"accept": 1.0, "weak_accept": 0.7, "weak_reject": -0.7, "reject": -1.0}


class Composite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number for one attempt.

    Attributes:
        value: In [0, 1]; None when no part has a score.
        status: ``fallback`` when any part's is, ``skipped`` without a value.
        coverage: Share of the weight that belongs to parts with a score, in [0, 1]; a value that stands in
            for a judgement is no score. 1 for a failed attempt, of which everything is known.
        parts: Value of every part with a weight, None where it has none.
        recommendation: accept, weak_accept, weak_reject or reject; None where too little was measured
            (spec: metrics, C.3).
        reason: Why it is not ok, or why it is 0.
        bounds: Lowest and highest value that it can have once the parts that were due and are missing are
            there; None where none is missing.
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
        """1.0, 0.7, −0.7 or −1.0 (spec: metrics, C.3)."""
        return RECOMMENDATION_WEIGHTS[self.recommendation] if self.recommendation else None


def recommend(value: float, thresholds: Thresholds) -> str:
    """The recommendation that a composite in [0, 1] stands for, compared with ``TOLERANCE`` (C.3)."""
    for name in ("accept", "weak_accept", "weak_reject"):
        if value >= getattr(thresholds, name) - TOLERANCE:
            return name
    return "reject"


def nearest_threshold(value: float, thresholds: Thresholds) -> float:
    """The threshold between two recommendations that a composite lies nearest to."""
    limits = (thresholds.accept, thresholds.weak_accept, thresholds.weak_reject)
    return min(limits, key=lambda limit: abs(value - limit))


def distance_to_threshold(value: float, thresholds: Thresholds) -> float:
    """How far a composite lies from the nearest threshold between two recommendations."""
    return abs(value - nearest_threshold(value, thresholds))


def measures_result(name: str, tier: str) -> bool:
    """Whether a part of the composite measures the result of an attempt, not the way to it (C.3).

    Args:
        name: The metric.
        tier: Its tier. Texts and judgements do; graphs of the process and the time taken do not.
    """
    return tier != "trace" and name != "time"


def may_recommend(coverage: float, settings: CompositeSettings, *, result: bool) -> bool:
    """Whether enough was measured for a recommendation (spec: metrics, C.3).

    Args:
        coverage: Share of the weight that was scored.
        settings: Name the least coverage.
        result: Whether a part that looks at the result has a score.
    """
    return result and coverage >= settings.min_coverage - TOLERANCE


def composite(
    scores: Mapping[str, Score], settings: CompositeSettings, *, failed: str | None = None
) -> Composite:
    """Fold the scores of one attempt into its composite (spec: metrics, C).

    Args:
        scores: Scores by metric.
        settings: Weights, thresholds and what a missing part does.
        failed: Why the attempt failed; its composite is then 0 (spec: metrics, "What passed means").
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
    # A weighted mean of numbers in [0, 1] may round to a hair outside it.
    value = min(1.0, max(0.0, sum(weights[name] * value for name, value in present.items()) / divisor))
    leaning = [name for name in present if scores[name].status == "fallback"]
    coverage = sum(weights[name] for name in scored) / total
    result = any(measures_result(name, scores[name].tier) for name in scored)
    enough = may_recommend(coverage, settings, result=result)
    return Composite(
        value=value,
        status="fallback" if leaning else "ok",
        coverage=coverage,
        parts=parts,
        recommendation=recommend(value, settings.thresholds) if enough else None,
        reason=f"fallback in {', '.join(leaning)}" if leaning else None,
        bounds=bounds,
    )


def _bounds(
    scores: Mapping[str, ScoreLike],
    scored: Sequence[str],
    weights: Mapping[str, float],
    settings: CompositeSettings,
) -> tuple[float, float] | None:
    """The composite with every part that was due and is missing at 0, and at 1; None where none is."""
    missing = sum(weight for name, weight in weights.items() if name in scores and is_missing(scores[name]))
    if not missing:
        return None
    there = sum(weights[name] * (scores[name].value or 0.0) for name in scored)
    whole = sum(weights[name] for name in scored) + missing
    divisor = sum(weights.values()) if settings.missing == "zero" else whole
    return there / divisor, min(1.0, (there + missing) / divisor)


SUCCESS = PassRule(metric="success", at_least=1.0)
JUDGED = PassRule(metric=f"{AGENT.name}.{OVERALL}", at_least=AGENT.pass_mark)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All scores of one attempt.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case.
        scores: By metric, in the order of the suite.
        composite: See :class:`~trivium.metrics.evaluation.Composite`.
        passed: The verdict of the suite's ``pass`` rule; None when its metric has no value.
        failed: Why the attempt itself failed, or None.
    """

    case: str
    repeat: int
    scores: dict[str, Score]
    composite: Composite
    passed: bool | None = None
    failed: str | None = None


def evaluation(attempt: Attempt, scores: Mapping[str, Score], settings: Settings) -> Evaluation:
    """Fold the scores of one attempt (spec: metrics, "What passed means" and C)."""
    folded = composite(scores, settings.composite, failed=attempt.error)
    return Evaluation(
        case=attempt.case,
        repeat=attempt.repeat,
        scores=dict(scores),
        composite=folded,
        passed=_passed(attempt, scores, folded, settings),
        failed=attempt.error,
    )


def pass_rule(names: Container[str], settings: Settings) -> PassRule:
    """When an attempt counts as passed (spec: metrics, "What passed means").

    Args:
        names: Of its scores.
        settings: The suite's. Without a rule of its own the rubric ``agent`` decides where it is judged.
    """
    judged = settings.judge is not None and JUDGED.metric in names
    return settings.passed or (JUDGED if judged else SUCCESS)


def verdict_is_missing(
    passed: bool | None, scores: Mapping[str, ScoreLike], folded: Composite, settings: Settings
) -> bool:
    """Whether there is no verdict although one was due (spec: metrics, "What was due and is not there").

    Args:
        passed: The verdict.
        scores: Of the attempt, by metric.
        folded: Its composite.
        settings: The suite's.
    """
    if passed is not None:
        return False
    rule = pass_rule(scores, settings)
    if rule.metric == "composite":
        return folded.bounds is not None
    score = scores.get(rule.metric)
    # A rubric as a whole has a value and no verdict where a panel ties, or missing dimensions would decide.
    return score is not None and (is_missing(score) or score.value is not None)


def _passed(
    attempt: Attempt, scores: Mapping[str, Score], folded: Composite, settings: Settings
) -> bool | None:
    if attempt.failed:
        return False
    rule = pass_rule(scores, settings)
    if rule is JUDGED:  # a panel passes what most of its judges pass
        verdict: bool | None = scores[rule.metric].detail.get("passed")
        return verdict
    if rule.metric == "composite":
        return _reaches(folded.bounds or (folded.value, folded.value), rule.at_least)
    score = scores.get(rule.metric)
    if score is None or score.value is None or is_judge_fallback(score):
        return None
    return score.value >= rule.at_least


def _reaches(bounds: tuple[float | None, float | None], at_least: float) -> bool | None:
    """Whether a value between two bounds reaches a limit; None where it may or may not."""
    low, high = bounds
    if low is None or high is None:
        return None
    if low >= at_least - TOLERANCE:
        return True
    return False if high < at_least - TOLERANCE else None
