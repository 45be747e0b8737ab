"""Compares a subset of the values with all others, where values of a group may be correlated.

The values of a subset, such as the outcomes of the cases with one tag, come from the same run as the others:
they share its variance and its groups. The test therefore uses the variance and the intra-group correlation
of all values, which keeps its power for subsets of few cases, and is backed by the exact test for outcomes.
"""

from collections.abc import Sequence
from math import sqrt

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import check_lengths
from trivium.trust.clustered import clusters
from trivium.trust.paired import holm


class SubsetDifference(msgspec.Struct, frozen=True, kw_only=True):
    """How a subset differs from all other values.

    Attributes:
        difference: Mean of the subset minus mean of the others.
        p: Two-sided p-value of no difference, in [0, 1]; None if nothing varies.
        p_holm: ``p`` adjusted for the number of subsets tested (Holm).
    """

    difference: float
    p: float | None
    p_holm: float | None = None


def subset_difference(
    values: npt.ArrayLike, groups: npt.ArrayLike, members: npt.ArrayLike
) -> SubsetDifference | None:
    """Test whether the mean of a subset differs from the mean of the other values.

    Definition: docs/definitions/comparisons.md#slices.

    The variance of the difference is that of values with one variance σ² and one correlation ρ within groups,
    both estimated from all values (ρ by one-way analysis of variance, at least 0). With shares aᵢ = 1/n of
    the subset, or -1/n of the others, it is σ² ((1 - ρ) Σ aᵢ² + ρ Σ_g (Σ_{i in g} aᵢ)²). The p-value is that
    of t with G - 1 degrees of freedom; for values of 0 and 1 it is at least that of Fisher's exact test.

    Args:
        values: Shape (n,), finite.
        groups: Whole-number code of the group of each value, shape (n,).
        members: Which values belong to the subset, bool, shape (n,).

    Returns:
        None if all values or none belong to the subset.

    Raises:
        ValueError: If the shapes differ or a value is not finite.
    """
    y, codes, count = clusters(values, groups)
    inside = np.asarray(members, dtype=bool)
    check_lengths(values=y, members=inside)
    n, k = y.size, int(np.count_nonzero(inside))
    if not 0 < k < n:
        return None
    from scipy.special import stdtr  # slow to import

    difference = float(y[inside].mean() - y[~inside].mean())
    spread = float(y.var(ddof=1))
    if not spread > 0 or count < 2:
        return SubsetDifference(difference=difference, p=None)
    correlation = _intra_group_correlation(y, codes, count)
    weights = np.where(inside, 1 / k, -1 / (n - k))
    of_groups = np.bincount(codes, weights=weights, minlength=count)
    share = (1 - correlation) * float(weights @ weights) + correlation * float(of_groups @ of_groups)
    p = 2 * float(stdtr(count - 1, -abs(difference) / sqrt(spread * share)))
    if np.isin(y, (0.0, 1.0)).all():
        p = max(p, exact_p(int(y[inside].sum()), k, int(y.sum()), n))
    return SubsetDifference(difference=difference, p=min(1.0, p))


def adjusted(differences: Sequence[SubsetDifference | None]) -> list[SubsetDifference | None]:
    """Adjust the p-values for the number of subsets (Holm); those without a p-value stay as they are."""
    tested = [each.p for each in differences if each is not None and each.p is not None]
    by_holm = iter(holm(tested))
    return [
        each if each is None or each.p is None else msgspec.structs.replace(each, p_holm=next(by_holm))
        for each in differences
    ]


def _intra_group_correlation(y: npt.NDArray[np.float64], codes: npt.NDArray[np.int64], count: int) -> float:
    """Correlation of two values of a group, by one-way analysis of variance; in [0, 1]."""
    n = y.size
    if count == n:
        return 0.0
    sizes = np.bincount(codes, minlength=count)
    means = np.bincount(codes, weights=y, minlength=count) / sizes
    between = float(sizes @ (means - y.mean()) ** 2) / (count - 1)
    within = float(((y - means[codes]) ** 2).sum()) / (n - count)
    size = (n - float(sizes @ sizes) / n) / (count - 1)
    total = between + (size - 1) * within
    return min(1.0, max(0.0, (between - within) / total)) if total > 0 else 0.0


def exact_p(passed: int, size: int, all_passed: int, n: int) -> float:
    """Two-sided p-value of Fisher's exact test: twice the smaller tail, at most 1.

    Args:
        passed: Passes of the subset.
        size: Size of the subset.
        all_passed: Passes of all.
        n: Number of all.
    """
    counts = np.arange(max(0, size + all_passed - n), min(size, all_passed) + 1)
    log_ways = _log_choose(all_passed, counts) + _log_choose(n - all_passed, size - counts)
    chances = np.exp(log_ways - _log_choose(n, np.array(size)))
    tails = float(chances[counts <= passed].sum()), float(chances[counts >= passed].sum())
    return min(1.0, 2 * min(tails))


def _log_choose(n: int, k: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Logarithm of the number of ways to choose k of n."""
    from scipy.special import gammaln  # slow to import

    ways: npt.NDArray[np.float64] = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return ways
