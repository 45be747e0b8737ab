"""Measures the quality of probabilities: ECE, NLL, Brier score, AUROC, reliability.

Definition: docs/definitions/calibration.md#ece.
"""

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError
from trivium.trust.arrays import (
    Floats,
    check_between,
    check_binary,
    check_finite,
    check_lengths,
    floats,
    weights_of,
    without_noise,
)

PROBABILITY_CLIP = 1e-6
"""Probabilities are clipped to this distance from 0 and 1 before a logarithm is taken."""

BINS = 10
MOST_BINS = 1_000


class Reliability(msgspec.Struct, frozen=True, kw_only=True):
    """How often predictions were right, by confidence.

    Attributes:
        edges: Edges of the bins of equal width on [0, 1], one more than there are bins.
        count: Number of items in each bin.
        confidence: Their (weighted) mean confidence; None in an empty bin.
        accuracy: Share of them that were right; None in an empty bin.
        rule: Which bin an item on an edge belongs to.
    """

    edges: tuple[float, ...]
    count: tuple[int, ...]
    confidence: tuple[float | None, ...]
    accuracy: tuple[float | None, ...]
    rule: str = "bins [low, high), the last one closed"


def reliability(
    p: npt.ArrayLike, y: npt.ArrayLike, *, bins: int = BINS, weights: npt.ArrayLike | None = None
) -> Reliability:
    """The reliability curve.

    Definition: docs/definitions/calibration.md#ece.

    Args:
        p: Probability that each prediction is right, shape (n,), in [0, 1].
        y: Whether each was right, 0 or 1, shape (n,).
        bins: Number of bins, 1 to 1,000.
        weights: How many times each item counts, shape (n,), above 0; once by default.

    Raises:
        TrustError: If the data or the number of bins are invalid.
    """
    probability, right = checked(p, y)
    binned = _binned(probability, right, bins, weights_of(weights, right.size))
    count, total, stated, hits = (sums.tolist() for sums in binned)
    return Reliability(
        edges=tuple(np.linspace(0, 1, bins + 1).tolist()),
        count=tuple(map(int, count)),
        confidence=tuple(part / n if n else None for part, n in zip(stated, total, strict=True)),
        accuracy=tuple(part / n if n else None for part, n in zip(hits, total, strict=True)),
    )


def expected_calibration_error(
    p: npt.ArrayLike, y: npt.ArrayLike, *, bins: int = BINS, weights: npt.ArrayLike | None = None
) -> float | None:
    """Σ share of the items in a bin · |accuracy - mean confidence| there; arguments as in ``reliability``.

    Definition: docs/definitions/calibration.md#ece.

    Returns:
        In [0, 1]; None without data.

    Raises:
        TrustError: As ``reliability``.
    """
    probability, right = checked(p, y)
    each = weights_of(weights, right.size)
    _, _, stated, hits = _binned(probability, right, bins, each)
    return float(np.abs(hits - stated).sum() / each.sum()) if right.size else None


def negative_log_likelihood(
    p: npt.ArrayLike, y: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> float | None:
    """Mean negative log-likelihood in nats, with p clipped to 1e-6 away from 0 and 1; None without data.

    Definition: docs/definitions/calibration.md#nll.

    Raises:
        TrustError: If a probability lies outside [0, 1] or an outcome is neither 0 nor 1.
    """
    probability, right = checked(p, y)
    inside = np.clip(probability, PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
    return _mean(-np.where(right == 1, np.log(inside), np.log1p(-inside)), weights)


def brier_score(p: npt.ArrayLike, y: npt.ArrayLike, *, weights: npt.ArrayLike | None = None) -> float | None:
    """Mean squared difference between probability and outcome, in [0, 1]; None without data.

    Definition: docs/definitions/calibration.md#brier.

    Raises:
        TrustError: If a probability lies outside [0, 1] or an outcome is neither 0 nor 1.
    """
    probability, right = checked(p, y)
    return _mean(np.square(probability - right), weights)


def auroc(score: npt.ArrayLike, y: npt.ArrayLike, *, weights: npt.ArrayLike | None = None) -> float | None:
    """Probability that a right prediction has a higher score than a wrong one; ties count half.

    Definition: docs/definitions/calibration.md#auroc.

    Args:
        score: Any finite numbers, shape (n,); only their order matters.
        y: 0 or 1, shape (n,).
        weights: How many times each item counts, shape (n,), above 0; once by default.

    Returns:
        In [0, 1]; None unless there are both right and wrong predictions.

    Raises:
        TrustError: If a score is not finite or an outcome is neither 0 nor 1.
    """
    scores, right = floats(score, y)
    check_lengths(scores=scores, outcomes=right)
    check_finite(scores=scores)
    check_binary(outcomes=right)
    each = weights_of(weights, right.size)
    if right.size == 0 or right.min() == right.max():
        return None
    _, places = np.unique(without_noise(scores), return_inverse=True)
    hits, misses = (np.bincount(places, weights=each * kind) for kind in (right, 1 - right))
    below = np.cumsum(misses) - misses / 2  # misses of equal score count half
    return float(hits @ below / (hits.sum() * misses.sum()))


def probability_quality(
    p: npt.ArrayLike, y: npt.ArrayLike, *, weights: npt.ArrayLike | None = None
) -> dict[str, float | None]:
    """The four measures at once, named as in calibrator artifacts."""
    return {
        "auc_roc": auroc(p, y, weights=weights),
        "brier_score": brier_score(p, y, weights=weights),
        "ece": expected_calibration_error(p, y, weights=weights),
        "nll": negative_log_likelihood(p, y, weights=weights),
    }


def checked(p: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Convert probabilities and outcomes to one-dimensional arrays of equal length.

    Raises:
        TrustError: If the shapes differ, a probability lies outside [0, 1], or an outcome is neither 0 nor 1.
    """
    probabilities, outcomes = floats(p, y)
    check_lengths(probabilities=probabilities, outcomes=outcomes)
    check_between(0, 1, probabilities=probabilities)
    check_binary(outcomes=outcomes)
    return probabilities, outcomes


def _mean(figures: Floats, weights: npt.ArrayLike | None) -> float | None:
    each = weights_of(weights, figures.size)
    return float(np.average(figures, weights=each)) if figures.size else None


def _binned(p: Floats, y: Floats, bins: int, each: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Count, weight, weighted sum of the probabilities and of the outcomes of each bin."""
    if not 1 <= bins <= MOST_BINS:
        raise TrustError(f"bins must lie between 1 and {MOST_BINS}; found {bins}")
    edges = np.linspace(0, 1, bins + 1)
    at = np.minimum(np.searchsorted(edges, without_noise(p), side="right") - 1, bins - 1)
    count, total, stated, hits = (
        np.bincount(at, weights=figures, minlength=bins).astype(np.float64)
        for figures in (np.ones_like(p), each, each * p, each * y)
    )
    return count, total, stated, hits
