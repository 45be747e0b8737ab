"""The composite of a run: its mean, what it recommends, and how near to another recommendation it is."""

from trivium.metrics.evaluation import (
    RECOMMENDATION_WEIGHTS,
    TOLERANCE,
    distance_to_threshold,
    may_recommend,
    measures_result,
    nearest_threshold,
    recommend,
)
from trivium.runs.aggregation import Aggregation
from trivium.runs.summary import CompositeFigure
from trivium.trust.intervals import probability_of_change


def composite_figure(aggregation: Aggregation, *, level: float) -> CompositeFigure | None:
    """The composite of a run; None if no metric has a weight."""
    settings = aggregation.settings.composite
    parts = [name for name, weight in settings.weights.items() if weight]
    if not parts:
        return None
    column = aggregation.composite
    figure = column.figure(level=level)
    means = {name: aggregation.columns[name].mean if name in aggregation.columns else None for name in parts}
    result = any(
        mean is not None and measures_result(name, aggregation.columns[name].tier)
        for name, mean in means.items()
    )
    coverage = aggregation.coverage
    all_failed = 0 < aggregation.attempts == aggregation.failed_attempts
    why_none = None
    if figure.mean is None:
        why_none = "no part has a score"
    elif not (all_failed or may_recommend(coverage, settings, result=result)):
        why_none = "nothing that looks at the result has a score" if not result else "too little was measured"
    recommended = figure.mean if why_none is None else None
    return CompositeFigure(
        mean=figure.mean,
        ci95=figure.ci95,
        n=figure.n,
        coverage=coverage,
        groups=figure.groups,
        status=figure.status,
        method=figure.method,
        recommendation=None if recommended is None else recommend(recommended, settings.thresholds),
        why_none=why_none,
        threshold=None if recommended is None else nearest_threshold(recommended, settings.thresholds),
        distance=None if recommended is None else distance_to_threshold(recommended, settings.thresholds),
        p_change=None if recommended is None else _probability_of_change(aggregation),
        recommendations={
            name: aggregation.recommendations[name]
            for name in RECOMMENDATION_WEIGHTS
            if aggregation.recommendations[name]
        },
        parts=means,
        missing=column.missing,
    )


def _probability_of_change(aggregation: Aggregation) -> float | None:
    """Probability that other cases would lead to another recommendation.

    Definition: docs/definitions/scores.md#probability-of-change.
    """
    limits = aggregation.settings.composite.thresholds
    edges = (limits.weak_reject, limits.weak_accept, limits.accept)
    return probability_of_change(aggregation.composite.clustered_mean, [edge - TOLERANCE for edge in edges])
