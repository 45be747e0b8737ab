"""Combines text metrics into one weighted similarity (docs/definitions/text.md#similarity)."""

from collections.abc import Mapping
from dataclasses import field
from typing import Self

from trivium.errors import Problem, SuiteError
from trivium.metrics.metric import Metric, MetricInput, Score, Skip, TextMetric
from trivium.metrics.registry import metric, metric_class
from trivium.suites.settings import DEFAULT_SIMILARITY, Settings


@metric("similarity", case_fields=("references",))
class Similarity(Metric):
    """Weighted mean of text metrics, by default 0.5·semantic + 0.3·cosine + 0.2·jaccard.

    Definition: docs/definitions/text.md#similarity.

    The mean is computed for each reference and then reduced, so that ``best`` is the best single reference,
    not the best of each part. A part without a score is left out and the other weights are rescaled; the
    score then has status ``fallback``, and its reason names the missing part.

    Attributes:
        references: Whether the ``best`` or the ``mean`` value over the references is the score.
        weights: Weight of each text metric, 0 or more; metrics with weight 0 are not computed.
    """

    references: str = "best"
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_SIMILARITY))

    def __post_init__(self) -> None:
        """Check the weights.

        Raises:
            SuiteError: If a name is not a text metric, or no weight is above 0.
        """
        for name in self.weights:
            if not issubclass(metric_class(name), TextMetric):
                raise SuiteError("", Problem(f"similarity.{name}", "is not a metric that compares two texts"))
        by_name = {metric_class(name).name: weight for name, weight in self.weights.items()}
        object.__setattr__(self, "weights", by_name)  # resolves aliases and paths
        if not self.needs:
            raise SuiteError("", Problem("similarity", "no part has a weight above 0"))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Make the metric with the suite's weights."""
        return cls(references=settings.references, weights=settings.similarity)

    @property
    def needs(self) -> tuple[str, ...]:
        """The metrics with a weight above 0."""
        return tuple(name for name, weight in self.weights.items() if weight > 0)

    def score(self, metric_input: MetricInput) -> Score:
        """Score one attempt; ``raw`` has the value for each reference."""
        if not metric_input.case.references:
            raise Skip("the case has no reference")
        there = [name for name in self.needs if metric_input.scores[name].has_value]
        gone = [f"{name}: {metric_input.scores[name].reason}" for name in self.needs if name not in there]
        if not there:
            raise Skip("; ".join(gone))
        total = sum(self.weights[name] for name in there)
        parts = [(self.weights[name] / total, metric_input.scores[name].raw) for name in there]
        values = [
            sum(weight * raw[index] for weight, raw in parts)
            for index in range(len(metric_input.case.references))
        ]
        value = max(values) if self.references == "best" else sum(values) / len(values)
        return self.ok(
            min(1.0, value),  # rounded weights may sum to slightly more than 1
            status="fallback" if gone else "ok",
            raw=values,
            reason=f"without {'; '.join(gone)}" if gone else None,
            method=" + ".join(f"{self.weights[name] / total:.3g}·{name}" for name in there),
            detail={"parts": {name: metric_input.scores[name].value for name in there}},
        )
