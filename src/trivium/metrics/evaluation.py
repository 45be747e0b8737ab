"""Evaluation: all scores of one attempt, folded into a composite and one verdict."""

from collections.abc import Container, Mapping

import msgspec

from trivium.agents.attempt import Attempt
from trivium.metrics.composite import TOLERANCE, Composite, composite
from trivium.metrics.score import Score, ScoreLike, is_missing, stands_in
from trivium.suites.rubrics.built_in import AGENT
from trivium.suites.rubrics.checking import OVERALL
from trivium.suites.settings import PassRule, Settings

SUCCESS = PassRule(metric="success", at_least=1.0)
JUDGED = PassRule(metric=f"{AGENT.name}.{OVERALL}", at_least=AGENT.pass_mark)


class Evaluation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All scores of one attempt.

    Attributes:
        case: Id of the case.
        repeat: Which attempt of the case.
        scores: By metric, in the order of the suite.
        composite: See :class:`~trivium.metrics.composite.Composite`.
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
    if rule is JUDGED:  # of a panel it says what most of the judges do
        verdict: bool | None = scores[rule.metric].detail.get("passed")
        return verdict
    if rule.metric == "composite":
        return _reaches(folded.bounds or (folded.value, folded.value), rule.at_least)
    score = scores.get(rule.metric)
    if score is None or score.value is None or stands_in(score):
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
