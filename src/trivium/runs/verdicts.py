"""Verdicts in words: why an evaluation did not pass."""

from trivium.metrics.evaluation import Evaluation, pass_rule
from trivium.store.outline import Outline
from trivium.suites.settings import Settings


def why_not_passed(evaluation: Evaluation | Outline, settings: Settings) -> str:
    """What kept an evaluation from passing, in a few words."""
    if evaluation.failed is not None:
        return evaluation.failed
    rule = pass_rule(evaluation.scores, settings)
    if rule.metric == "success":
        condition = settings.success_rule
        score = evaluation.scores.get(rule.metric)
        if condition.metric is None and score is not None and score.reason:
            return score.reason
        if condition.metric is not None and condition.at_least is not None:
            return _under(evaluation, condition.metric, condition.at_least)
        if condition.reward is not None:
            return f"reward is under {condition.reward:g}"
    return _under(evaluation, rule.metric, rule.at_least)


def why_no_verdict(evaluation: Evaluation | Outline, settings: Settings) -> str:
    """Why an evaluation has no verdict, in a few words: what its pass rule goes by has no value."""
    rule = pass_rule(evaluation.scores, settings)
    if rule.metric == "composite":
        return "parts of the composite are missing that would decide"
    score = evaluation.scores.get(rule.metric)
    if score is None:
        return f"{rule.metric} was not measured"
    return score.reason or f"{rule.metric} {score.status}"


def _under(evaluation: Evaluation | Outline, name: str, bar: float) -> str:
    score = evaluation.scores.get(name)
    value = evaluation.composite.value if name == "composite" else score.value if score else None
    if value is None:
        return f"{name} has no value"
    if value >= bar:
        return f"{name} is {value:.3f}, but most of its judges are under {bar:g}"
    return f"{name} {value:.3f} is under {bar:g}"
