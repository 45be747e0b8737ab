"""Measures the quality of probabilities: ECE, NLL, Brier score, AUROC, reliability (spec: metrics, S.11)."""

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import Problem, TrustError

Floats = npt.NDArray[np.float64]

PROBABILITY_CLIP = 1e-6
"""Probabilities are clipped to this distance from 0 and 1 before a logarithm is taken."""

BINS = 10
MOST_BINS = 1_000


class Reliability(msgspec.Struct, frozen=True, kw_only=True):
    """How often predictions were right, by confidence.

    Attributes:
        edges: Edges of the bins of equal width on [0, 1], one more than there are bins.
        count: Number of items in each bin.
        confidence: Their mean confidence; None in an empty bin.
        accuracy: Share of them that were right; None in an empty bin.
        rule: Which bin an item on an edge belongs to.
    """

    edges: tuple[float, ...]
    count: tuple[int, ...]
    confidence: tuple[float | None, ...]
    accuracy: tuple[float | None, ...]
    rule: str = "bins [low, high), the last one closed"


def reliability(p: npt.ArrayLike, y: npt.ArrayLike, *, bins: int = BINS) -> Reliability:
    """The reliability curve.

    Args:
        p: Probability that each prediction is right, shape (n,), in [0, 1].
        y: Whether each was right, 0 or 1, shape (n,).
        bins: Number of bins, 1 to 1,000.

    Raises:
        TrustError: If the data or the number of bins are invalid.
    """
    probability, right = checked(p, y)
    count, stated, hits = (sums.tolist() for sums in _binned(probability, right, bins))
    return Reliability(
        edges=tuple(np.linspace(0, 1, bins + 1).tolist()),
        count=tuple(map(int, count)),
        confidence=tuple(total / n if n else None for total, n in zip(stated, count, strict=True)),
        accuracy=tuple(total / n if n else None for total, n in zip(hits, count, strict=True)),
    )


def expected_calibration_error(p: npt.ArrayLike, y: npt.ArrayLike, *, bins: int = BINS) -> float | None:
    """Σ share of the items in a bin · |accuracy - mean confidence| there; arguments as in ``reliability``.

    Returns:
        In [0, 1]; None without data.

    Raises:
        TrustError: As ``reliability``.
    """
    probability, right = checked(p, y)
    _, stated, hits = _binned(probability, right, bins)
    return float(np.abs(hits - stated).sum() / right.size) if right.size else None


def negative_log_likelihood(p: npt.ArrayLike, y: npt.ArrayLike) -> float | None:
    """Mean negative log-likelihood in nats, with p clipped to 1e-6 away from 0 and 1; None without data.

    Raises:
        TrustError: If a probability lies outside [0, 1] or an outcome is neither 0 nor 1.
    """
    probability, right = checked(p, y)
    inside = np.clip(probability, PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
    return float(-np.where(right == 1, np.log(inside), np.log1p(-inside)).mean()) if right.size else None


def brier_score(p: npt.ArrayLike, y: npt.ArrayLike) -> float | None:
    """Mean squared difference between probability and outcome, in [0, 1]; None without data.

    Raises:
        TrustError: If a probability lies outside [0, 1] or an outcome is neither 0 nor 1.
    """
    probability, right = checked(p, y)
    return float(np.square(probability - right).mean()) if right.size else None


def auroc(score: npt.ArrayLike, y: npt.ArrayLike) -> float | None:
    """Probability that a right prediction has a higher score than a wrong one; ties count half.

    Args:
        score: Any finite numbers, shape (n,); only their order matters.
        y: 0 or 1, shape (n,).

    Returns:
        In [0, 1]; None unless there are both right and wrong predictions.

    Raises:
        TrustError: If a score is not finite or an outcome is neither 0 nor 1.
    """
    scores, right = checked(score, y, low=-np.inf, high=np.inf)
    hits = int(right.sum())
    misses = right.size - hits
    if not hits or not misses:
        return None
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # equal scores share their mean rank
    return float((ranks[right == 1].sum() - hits * (hits + 1) / 2) / (hits * misses))


def probability_quality(p: npt.ArrayLike, y: npt.ArrayLike) -> dict[str, float | None]:
    """The four measures at once, named as in calibrator artifacts."""
    return {
        "auc_roc": auroc(p, y),
        "brier_score": brier_score(p, y),
        "ece": expected_calibration_error(p, y),
        "nll": negative_log_likelihood(p, y),
    }


def checked(
    p: npt.ArrayLike, y: npt.ArrayLike, *, low: float = 0.0, high: float = 1.0
) -> tuple[Floats, Floats]:
    """Convert scores and outcomes to one-dimensional arrays of equal length.

    Raises:
        TrustError: If the shapes differ, a score is not finite or outside [low, high], or an outcome is
            neither 0 nor 1.
    """
    scores, right = np.asarray(p, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if scores.ndim != 1 or scores.shape != right.shape:
        raise TrustError(
            "probabilities and outcomes must be one-dimensional and of equal length; "
            f"found shapes {scores.shape} and {right.shape}"
        )
    for name, values, fine, expected in (
        (
            "probabilities",
            scores,
            np.isfinite(scores) & (scores >= low) & (scores <= high),
            "a finite number" if high == np.inf else f"between {low:g} and {high:g}",
        ),
        ("outcomes", right, np.isin(right, (0.0, 1.0)), "0 or 1"),
    ):
        if not fine.all():
            at = int(np.argmin(fine))
            raise TrustError(Problem(f"{name}[{at}]", f"must be {expected}; found {values[at]}"))
    return scores, right


def _binned(p: Floats, y: Floats, bins: int) -> tuple[Floats, Floats, Floats]:
    """Count, sum of the probabilities and sum of the outcomes of each bin."""
    if not 1 <= bins <= MOST_BINS:
        raise TrustError(f"bins must lie between 1 and {MOST_BINS}; found {bins}")
    edges = np.linspace(0, 1, bins + 1)
    at = np.minimum(np.searchsorted(edges, p, side="right") - 1, bins - 1)
    count, stated, hits = (
        np.bincount(at, weights=weights, minlength=bins).astype(np.float64)
        for weights in (np.ones_like(p), p, y)
    )
    return count, stated, hits
