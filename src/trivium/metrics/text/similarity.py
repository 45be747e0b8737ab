"""Combines text metrics into one weighted similarity (spec: metrics, T1.4)."""

from collections.abc import Mapping
from dataclasses import field
from typing import Self

from trivium.errors import Problem, SuiteError
from trivium.metrics.metric import Metric, MetricInput, Score, Skip, TextMetric
from trivium.metrics.registry import metric, metric_class
from trivium.suites.settings import DEFAULT_SIMILARITY, Settings


@metric("similarity")
class Similarity(Metric):
    """Weighted mean of text metrics, 0.5·semantic + 0.3·cosine + 0.2·jaccard unless said otherwise.

    It is made for each reference and then reduced, so that ``best`` means one reference that is best
    as a whole, not the best of each part. A part without a score leaves and the weights of the others
    are rescaled; the score then has status ``fallback`` and says which part is missing, and why.

    Attributes:
        references: ``best`` takes the highest value over the references, ``mean`` their mean.
        weights: Weight of each text metric, 0 or more; those with 0 are not asked for.
    """

    references: str = "best"
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_SIMILARITY))

    def __post_init__(self) -> None:
        """Refuse weights that cannot be used.

        Raises:
            SuiteError: If a weight names no text metric, or none is above 0.
        """
        for name in self.weights:
            if not issubclass(metric_class(name), TextMetric):
                raise SuiteError("", Problem(f"similarity.{name}", "is no metric that compares two texts"))
        by_name = {metric_class(name).name: weight for name, weight in self.weights.items()}
        object.__setattr__(self, "weights", by_name)  # an alias or a path stands for the metric's name
        if not self.needs:
            raise SuiteError("", Problem("similarity", "no part has a weight above 0"))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The metric with the suite's weights."""
        return cls(references=settings.references, weights=settings.similarity)

    @property
    def needs(self) -> tuple[str, ...]:
        """The parts with a weight."""
        return tuple(name for name, weight in self.weights.items() if weight > 0)

    def score(self, metric_input: MetricInput) -> Score:
        """Folds the parts' values against each reference; ``raw`` keeps every result."""
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
        return Score(
            name=self.name,
            tier=self.tier,
            value=min(1.0, value),  # weights that sum to 1 may do so by a hair more
            status="fallback" if gone else "ok",
            raw=values,
            reason=f"without {'; '.join(gone)}" if gone else None,
            method=" + ".join(f"{self.weights[name] / total:.3g}·{name}" for name in there),
            detail={"parts": {name: metric_input.scores[name].value for name in there}},
        )
