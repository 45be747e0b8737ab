"""Composite: the parts of an evaluation folded into one number (spec: metrics, C)."""

from collections.abc import Mapping

import msgspec

from trivium.metrics.score import Score, Status
from trivium.suites.settings import CompositeSettings, Thresholds

RECOMMENDATION_WEIGHTS = {"accept": 1.0, "weak_accept": 0.7, "weak_reject": -0.7, "reject": -1.0}


class Composite(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One number for one attempt.

    Attributes:
        value: In [0, 1]; None when no part has a score.
        status: ``fallback`` when any part's is, ``skipped`` without a value.
        coverage: Share of the weight that belongs to parts with a score, in [0, 1].
        parts: Value of every part with a weight, None where it has none.
        recommendation: accept, weak_accept, weak_reject or reject.
        reason: Why it is not ok, or why it is 0.
    """

    value: float | None
    status: Status = "ok"
    coverage: float = 0.0
    parts: dict[str, float | None] = {}
    recommendation: str | None = None
    reason: str | None = None

    @property
    def recommendation_weight(self) -> float | None:
        """1.0, 0.7, −0.7 or −1.0 (spec: metrics, C.3)."""
        return RECOMMENDATION_WEIGHTS[self.recommendation] if self.recommendation else None


def recommend(value: float, thresholds: Thresholds) -> str:
    """The recommendation that a composite in [0, 1] stands for (spec: metrics, C.3)."""
    if value >= thresholds.accept:
        return "accept"
    if value >= thresholds.weak_accept:
        return "weak_accept"
    if value >= thresholds.weak_reject:
        return "weak_reject"
    return "reject"


def distance_to_threshold(value: float, thresholds: Thresholds) -> float:
    """How far a composite lies from the nearest bar between two recommendations."""
    bars = (thresholds.accept, thresholds.weak_accept, thresholds.weak_reject)
    return min(abs(value - bar) for bar in bars)


def composite(
    scores: Mapping[str, Score], settings: CompositeSettings, *, failed: str | None = None
) -> Composite:
    """Fold the scores of one attempt into its composite.

    Args:
        scores: Scores by metric.
        settings: Weights, bars and what a missing part does.
        failed: Why the attempt failed; its composite is then 0 (spec: metrics, "What passed means").
    """
    weights = {name: weight for name, weight in settings.weights.items() if weight > 0}
    total = sum(weights.values())
    if not weights:
        return Composite(value=None, status="skipped", reason="no part has a weight")
    if failed is not None:
        return Composite(
            value=0.0,
            coverage=1.0,
            parts=dict.fromkeys(weights),
            recommendation=recommend(0.0, settings.thresholds),
            reason=f"the attempt failed: {failed}",
        )
    parts = {name: scores[name].value if name in scores else None for name in weights}
    present = {name: value for name, value in parts.items() if value is not None}
    covered = sum(weights[name] for name in present)
    divisor = total if settings.missing == "zero" else covered
    if not present and settings.missing == "rescale":
        return Composite(value=None, status="skipped", parts=parts, reason="no part has a score")
    # A weighted mean of numbers in [0, 1] may round to a hair outside it.
    value = min(1.0, max(0.0, sum(weights[name] * value for name, value in present.items()) / divisor))
    leaning = [name for name in present if scores[name].status == "fallback"]
    return Composite(
        value=value,
        status="fallback" if leaning else "ok",
        coverage=covered / total,
        parts=parts,
        recommendation=recommend(value, settings.thresholds),
        reason=f"fallback in {', '.join(leaning)}" if leaning else None,
    )
