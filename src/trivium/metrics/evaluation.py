"""Evaluation: all scores of one attempt, folded into a composite and one verdict."""

from collections.abc import Container, Mapping

import msgspec

from trivium.agents.attempt import Attempt
from trivium.metrics.composite import Composite, composite
from trivium.metrics.score import Score
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
        value = folded.value
    else:
        value = scores[rule.metric].value if rule.metric in scores else None
    return None if value is None else value >= rule.at_least
