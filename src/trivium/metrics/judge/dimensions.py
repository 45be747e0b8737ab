"""Judged dimensions. There is no judge yet: each is skipped, and says so."""

from typing import ClassVar

from trivium.metrics.metric import Metric, Skip, Subject, metric
from trivium.metrics.score import Score, Tier

NO_JUDGE = "the judge is off: this version of Trivium asks no language model"


@metric("planning_rationality")
class PlanningRationality(Metric):
    """Whether the steps of the process follow from each other (spec: metrics, T2.3)."""

    tier: ClassVar[Tier] = "judge"

    def score(self, subject: Subject) -> Score:
        """Skipped, with the reason."""
        raise Skip(NO_JUDGE)
