"""Majority: whether a panel passes an attempt, by what each judge makes of it (spec: metrics, T2.5)."""

from collections.abc import Mapping, Sequence

from trivium.metrics.judge.rubrics.scoring import DIGITS
from trivium.metrics.score import Score


def by_judge(scores: Mapping[str, Score], weights: Mapping[str, float]) -> dict[str, float]:
    """The weighted mean of each judge of a panel, over the dimensions that it scored; empty without a panel.

    Args:
        scores: Of a rubric's dimensions.
        weights: Of the same dimensions.
    """
    sums: dict[str, float] = {}
    totals: dict[str, float] = {}
    for name, score in scores.items():
        for vote in score.detail.get("votes", ()):
            if vote["value"] is not None:
                model = vote["model"]
                sums[model] = sums.get(model, 0.0) + weights[name] * vote["value"]
                totals[model] = totals.get(model, 0.0) + weights[name]
    return {model: round(total / totals[model], DIGITS) for model, total in sums.items()}


def majority(verdicts: Sequence[bool]) -> bool | None:
    """What more than half say; None where they tie."""
    passed = sum(verdicts)
    if 2 * passed == len(verdicts):
        return None
    return 2 * passed > len(verdicts)
