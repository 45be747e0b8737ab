"""Estimates a mean from values that were sampled with known, unequal probabilities.

Definition: docs/definitions/monitoring.md#weighted-mean.

Where every error is evaluated and one in a hundred of the rest, the plain mean of what was evaluated says
nothing about the traffic. Each value here counts 1 / probability times (Hájek's estimator).

How sure that mean is was settled by simulation (``benchmarks/monitor_alerts.py``; 30 to 300 values, rates of
1 to 99 %, probabilities of 1 and 0.01 mixed; at least 95 % is wanted):

* mean ± t · SE with the linearised variance covers in as few as 2 % of samples, since a sample without a
  failure among the heavy values has almost no variance;
* Wilson's interval on Kish's effective size covers 88 %, Clopper and Pearson's 91 %, where the values that
  count most are so rare in the sample that it may hold none;
* Clopper and Pearson's on the sum of w = b / p, where b is the smallest probability of the sampling rules,
  covers at least 95 % everywhere. A value then counts as the share b / p of a value, as it does in
  :class:`~trivium.trust.level_sequence.LevelSequence`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import log
from typing import Any

import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError
from trivium.trust.arrays import (
    Floats,
    Ints,
    check_between,
    check_inside_unit,
    check_lengths,
    check_positive,
    floats,
)
from trivium.trust.distributions import Interval, normal_critical_value, t_critical_value
from trivium.trust.level_sequence import FIRST_MEAN, FIRST_VARIANCE, LARGEST_STAKE

FEW = 10
"""With fewer clusters than this on the rarer side of the mean the correlation inside clusters is unknown, and
each cluster counts as one value."""

GRID = 1000
"""Steps of [0, 1] to which the ends of betting intervals are rounded outwards."""


class WeightedMean(Interval, frozen=True, kw_only=True):
    """A mean of values that were sampled with known probabilities, with its interval.

    Definition: docs/definitions/monitoring.md#weighted-mean.

    Attributes:
        mean: The estimate, each value weighted by 1 / probability.
        effective_n: Kish's effective sample size, (Σ w)² / Σ w², of the weights w = 1 / probability. So many
            values of equal weight would have the same variance if weights and values are unrelated.
    """

    mean: float
    effective_n: float


def weighted_mean(
    values: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    confidence: float = 0.95,
    groups: npt.ArrayLike | None = None,
    smallest: float | None = None,
) -> WeightedMean | None:
    """Estimate a mean from values sampled with known probabilities.

    Definition: docs/definitions/monitoring.md#weighted-mean.

    Values of 0 and 1 have the interval of Clopper and Pearson on Σ b / p values. If clusters hold several
    values, that number is divided by the design effect (the linearised variance with clusters over the one
    without, at least 1) and by (t / z)² with Student's t of the clusters; with few clusters each counts as
    one value. Other values have a betting interval (Waudby-Smith & Ramdas 2024) over clusters, which adapts
    to their variance, whether or not the level moved meanwhile. Both are for one look at a sample that was
    set beforehand, such as a window; whoever looks again and again needs
    :class:`~trivium.trust.level_sequence.LevelSequence`.

    Args:
        values: Shape (n,), in [0, 1], in the order in which they were seen.
        probabilities: Probability with which each was sampled, shape (n,), in (0, 1].
        confidence: Nominal coverage, in (0, 1).
        groups: Whole-number code of the cluster of each value, shape (n,); each its own by default.
        smallest: The smallest probability of the sampling rules; by default the smallest in the sample, which
            claims too much if values of the rarest kind happen to be missing.

    Returns:
        None without values.

    Raises:
        TrustError: If the shapes differ, or a value, a probability or an option is out of range.
    """
    x, p, codes = _checked(values, probabilities, groups)
    check_inside_unit(confidence=confidence)
    if not x.size:
        return None
    least = float(p.min())
    if smallest is not None:
        if not 0 < smallest <= least:
            raise TrustError(
                f"smallest must be above 0 and at most each probability; found {smallest}, and one is {least}"
            )
        least = smallest
    w = least / p
    hits, misses = float(w @ x), float(w @ (1 - x))
    total = hits + misses
    mean = hits / total  # exactly 1 if all values are
    sums = np.bincount(codes, w * (x - mean))
    clusters = sums.size
    correction = clusters / (clusters - 1) if clusters > 1 else 1.0
    if np.isin(x, (0.0, 1.0)).all():
        size = _size_of_clusters(x, w, codes, mean, confidence)
        low, high = _exact_ends(mean, size, (1 - confidence) / 2)
        method = "exact binomial, weighted"
    else:
        low, high = _betting_ends(x, w, codes, 1 - confidence)
        method = "betting, weighted"
    return WeightedMean(
        mean=mean,
        effective_n=total**2 / float(w @ w),
        low=min(low, mean),
        high=max(high, mean),
        level=confidence,
        method=method,
        n=x.size,
        groups=clusters,
        std_error=float(np.sqrt(correction * (sums @ sums))) / total,
    )


def reference_level(
    values: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    alpha: float = 0.05,
    groups: npt.ArrayLike | None = None,
    smallest: float | None = None,
) -> float | None:
    """The reference of a ``ChangeDetector``: a lower confidence bound of the mean before a deployment.

    Definition: docs/definitions/monitoring.md#reference-level.

    An estimate in its place would be too high in half of all cases. The mean would then seem to have fallen
    although nothing changed, and with enough values after the deployment a false alarm would be certain. The
    lower bound is above the true mean with probability at most ``alpha`` only; the longer the period before,
    the less sensitivity it costs.

    Args:
        values: The values before, shape (n,), in [0, 1].
        probabilities: Probability with which each was sampled, shape (n,), in (0, 1].
        alpha: Probability that the bound is above the true mean, in (0, 0.5).
        groups: Whole-number code of the cluster of each value, shape (n,); each its own by default.
        smallest: See :func:`weighted_mean`.

    Returns:
        In [0, 1]; None without values.

    Raises:
        TrustError: See :func:`weighted_mean`.
    """
    if not 0 < alpha < 0.5:
        raise TrustError(f"alpha must lie between 0 and 0.5; found {alpha}")
    found = weighted_mean(values, probabilities, confidence=1 - 2 * alpha, groups=groups, smallest=smallest)
    return None if found is None else found.low


def least_sum(plus: Sequence[WeightedMean], minus: Sequence[WeightedMean]) -> float:
    """A lower confidence bound of a sum and difference of independent means, from their intervals.

    Definition: docs/definitions/monitoring.md#cause.

    The intervals' distances from their means are recovered variances (MOVER): each is wide on the side on
    which its mean is badly known, which a standard error of few values near 0 or 1 is not.

    Args:
        plus: Means that are added.
        minus: Means that are subtracted.

    Returns:
        The bound, with the one-sided error of the intervals' ends.
    """
    spread = sum((each.mean - each.low) ** 2 for each in plus)
    spread += sum((each.high - each.mean) ** 2 for each in minus)
    total = sum(each.mean for each in plus) - sum(each.mean for each in minus)
    return float(total - np.sqrt(spread))


def _size_of_clusters(x: Floats, w: Floats, codes: Ints, mean: float, confidence: float) -> float:
    """Number of independent values of the largest weight that clustered values are worth."""
    total = float(w.sum())
    weights = np.bincount(codes, w)
    clusters = weights.size
    if clusters == x.size:
        return total
    one_each = min(total, total**2 / float(weights @ weights))
    rare = x < mean if mean > 0.5 else x > mean
    if np.unique(codes[rare]).size < FEW:
        return one_each
    errors = w * (x - mean)
    sums = np.bincount(codes, errors)
    effect = max(1.0, float(sums @ sums) / float(errors @ errors))
    widening = t_critical_value(confidence, clusters - 1) / normal_critical_value(confidence)
    return max(one_each, total / (effect * widening**2))


def _exact_ends(mean: float, size: float, tail: float) -> tuple[float, float]:
    """Clopper and Pearson's ends for a rate of ``size`` > 0 (not necessarily whole) outcomes."""
    from scipy.special import betaincinv  # slow to import

    hits, misses = mean * size, (1 - mean) * size
    low = 0.0 if mean == 0 else float(betaincinv(hits, misses + 1, tail))
    high = 1.0 if mean == 1 else float(betaincinv(hits + 1, misses, 1 - tail))
    return low, high


def _betting_ends(x: Floats, w: Floats, codes: Ints, alpha: float) -> tuple[float, float]:
    """Ends of the betting interval with one bet a cluster, in an order that has nothing to do with time.

    Bets in the order of time would exclude the mean of a window in which the level moved.
    """
    weights = np.bincount(codes, w)
    means = np.clip(np.bincount(codes, w * x) / weights, 0, 1)
    seen = np.argsort(np.unique(codes, return_index=True)[1])
    order = seen[np.random.default_rng(0).permutation(seen.size)]
    y, each = means[order], (weights / weights.max())[order]
    low, high = _last_excluded(y, each, alpha), GRID - _last_excluded(1 - y, each, alpha)
    return low / GRID, high / GRID


def _last_excluded(x: Floats, w: Floats, alpha: float) -> int:
    """Step of the largest candidate against which betting on values above it is rich in the end.

    The bets are those of :class:`~trivium.trust.level_sequence.LevelSequence`, with the stake for the
    narrowest interval after n values, √(2 ln(2 / alpha) / (n V)). A candidate is excluded only if all below
    it are.
    """
    means = (FIRST_MEAN + np.cumsum(w * x)) / (1 + np.cumsum(w))
    squares = np.cumsum(np.append(FIRST_VARIANCE, (w * (x - means)) ** 2))[:-1]
    stakes = np.sqrt(2 * log(2 / alpha) / (x.size * squares / np.arange(1, x.size + 1)))

    def is_possible(place: int) -> bool:
        point = place / GRID
        staked = np.minimum(stakes, LARGEST_STAKE / point if point else np.inf)
        return float(np.log1p(staked * w * (x - point)).sum()) < log(2 / alpha)

    return max(0, bisect_left(range(GRID + 1), True, key=is_possible) - 1)


def _checked(
    values: npt.ArrayLike, probabilities: npt.ArrayLike, groups: npt.ArrayLike | None
) -> tuple[Floats, Floats, Ints]:
    x, p = floats(values, probabilities)
    given: Any = np.arange(x.size) if groups is None else np.asarray(groups)
    check_lengths(values=x, probabilities=p, groups=given)
    check_between(0, 1, values=x)
    check_positive(1, probabilities=p)
    return x, p, np.unique(given, return_inverse=True)[1].astype(np.int64)
