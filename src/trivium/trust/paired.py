"""Compares two sides pair by pair: mean differences, their tests, and whether one is not inferior.

Definitions: docs/definitions/comparisons.md#paired-difference,
docs/definitions/comparisons.md#non-inferiority, docs/definitions/comparisons.md#sign-test,
docs/definitions/comparisons.md#holm.
"""

from collections.abc import Sequence
from math import inf, sqrt

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import Floats, check_between, check_inside_unit, floats
from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Answer, Interval
from trivium.trust.resampling import Counts, over_resamples
from trivium.trust.sample_size import needed_groups

MANY_GROUPS = 1_000
"""Above this many clusters the resampled means are drawn from their normal limit instead of one by one."""

LEAST_P = 1e-6
"""The smallest p-value that is reported."""

NOISE = 1e-12
"""Differences of scores in [0, 1] below this count as rounding errors, that is as 0."""


class SignCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicates of a difference lie on each side of 0.

    Attributes:
        share_positive: Share above 0, in [0, 1].
        p: Two-sided p-value: twice the smaller of the shares at most 0 and at least 0, with one added to each
            count; at most 1.
    """

    share_positive: float
    p: float


class WinCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How often the right side beat the left, lost to it, and tied, case by case."""

    wins: int
    losses: int
    ties: int


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two means over paired values, right minus left.

    Definition: docs/definitions/comparisons.md#paired-difference.

    Attributes:
        delta: Mean difference; None without pairs.
        interval: Interval of the mean difference; None without pairs or with a single group.
        p: Two-sided p-value of no change, by the sign-flip test; None without an interval.
        share_positive: Share of the resampled differences above 0; None without an interval.
        mde: The least true difference found with 80 % power; None if the variance is 0.
        counts: Wins, losses and ties of the right side, pair by pair.
        clustered: The mean behind the interval; None without an interval.
    """

    delta: float | None
    interval: Interval | None
    p: float | None
    share_positive: float | None
    mde: float | None
    counts: WinCounts
    clustered: ClusteredMean | None


def paired_means(
    left: Floats,
    right: Floats,
    groups: npt.NDArray[np.int64],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
) -> list[Paired]:
    """Compare several metrics on paired values, all over the same resamples of groups.

    Definition: docs/definitions/comparisons.md#difference-interval.

    The interval is that of :func:`trivium.trust.intervals.mean_interval` in [-1, 1], and the p-value that of
    :meth:`ClusteredMean.sign_flip_tail`. The bootstrap gives only ``share_positive``. In
    ``benchmarks/coverage.py`` m ± t · SE covers a true loss of one case in twenty in 83 % of samples (20
    documents of 8 cases, intra-group correlation 0.5).

    Args:
        left: Values in [0, 1], shape (metrics, n); NaN if missing.
        right: Same shape. A pair counts if both sides have a value.
        groups: Code 0 … G - 1 of the cluster of each pair, shape (n,).
        level: Level of the intervals, in (0, 1).
        resamples: Number of resamples, at least 1. Above ``MANY_GROUPS`` groups they are drawn from the
            limiting normal distribution of the resampled mean.
        seed: Seed of the bootstrap.

    Returns:
        One per metric, in order.

    Raises:
        ValueError: If the shapes differ.
    """
    if left.shape != right.shape or left.ndim != 2 or left.shape[1:] != groups.shape:
        raise ValueError(
            f"expected (figures, n) twice and (n,); found {left.shape}, {right.shape}, {groups.shape}"
        )
    deltas = right - left
    deltas[np.abs(deltas) < NOISE] = 0.0
    replicates = _resampled_means(deltas, groups, resamples=resamples, seed=seed)
    return [_paired(own, groups, drawn, level) for own, drawn in zip(deltas, replicates, strict=True)]


def _paired(deltas: Floats, groups: npt.NDArray[np.int64], drawn: Floats, level: float) -> Paired:
    there = ~np.isnan(deltas)
    known = deltas[there]
    clustered = ClusteredMean.of(known, groups[there], kind="difference")
    interval = None if clustered is None else clustered.interval(level)
    error = 0.0 if interval is None else interval.std_error
    sides = None if interval is None else sign_counts(drawn)
    return Paired(
        delta=float(known.mean()) if known.size else None,
        interval=interval,
        p=None if clustered is None else max(LEAST_P, min(1.0, 2 * clustered.sign_flip_tail())),
        share_positive=None if sides is None else sides.share_positive,
        mde=minimum_detectable_effect(error, level=level) if error else None,
        counts=win_counts(np.zeros_like(known), known),
        clustered=clustered,
    )


def _resampled_means(deltas: Floats, groups: npt.NDArray[np.int64], *, resamples: int, seed: int) -> Floats:
    """Mean of each metric in each resample, shape (metrics, resamples); NaN if a resample holds no pair."""
    if not len(deltas):
        return np.empty((0, resamples))
    count = int(groups.max(initial=0)) + 1
    if count > MANY_GROUPS:
        return _normal_limit(deltas, groups, resamples=resamples, seed=seed)
    there = ~np.isnan(deltas)
    sums, sizes = (
        np.stack([np.bincount(groups, weights=own, minlength=count) for own in weights])
        for weights in (np.where(there, deltas, 0.0), there)
    )

    def means(counts: Counts) -> Floats:
        weights = counts.astype(np.float64)
        totals = sizes @ weights
        clustered: Floats = np.full(totals.shape, np.nan)
        np.divide(sums @ weights, totals, out=clustered, where=totals > 0)
        clustered[np.abs(clustered) < NOISE] = 0.0
        return clustered

    return over_resamples(means, count, resamples=resamples, seed=seed, rng="pcg64")


def _normal_limit(deltas: Floats, groups: npt.NDArray[np.int64], *, resamples: int, seed: int) -> Floats:
    """The limiting distribution of the resampled means for many groups, from one set of normal draws."""
    drawn = np.random.default_rng(seed).standard_normal(resamples)
    rows = []
    for own in deltas:
        known = ~np.isnan(own)
        clustered = ClusteredMean.of(own[known], groups[known], kind="difference")
        spread = np.nan if clustered is None else sqrt(clustered.variance)
        rows.append(own[known].mean() + spread * drawn if known.any() else np.full(resamples, np.nan))
    return np.array(rows)


def non_inferiority(found: Paired, *, margin: float) -> Answer:
    """Decide a difference: pass if surely above −margin, fail if a significant loss, else inconclusive.

    Definition: docs/definitions/comparisons.md#non-inferiority.

    A loss that is certain but also certainly smaller than the margin passes.

    Args:
        found: The difference, higher is better; without an interval it is inconclusive.
        margin: The largest acceptable loss, 0 or more.
    """
    if found.interval is None or found.delta is None or found.p is None:
        return "inconclusive"
    if found.interval.low > -margin:
        return "pass"
    return "fail" if found.delta < 0 and found.p <= 1 - found.interval.level else "inconclusive"


def settling_groups(clustered: ClusteredMean | None, *, margin: float, level: float) -> int | None:
    """Further groups that would settle a difference; see :func:`trivium.trust.sample_size.needed_groups`.

    Definition: docs/definitions/comparisons.md#groups-needed.

    Args:
        clustered: The mean behind the difference's interval, or None.
        margin: See :func:`non_inferiority`.
        level: Level of the interval.

    Returns:
        None if more than :data:`trivium.trust.sample_size.MOST_NEEDED` are needed or the number is unknown.
    """
    if clustered is None:
        return None
    return needed_groups(clustered, above=-margin, below=0.0, level=level)


def overall(answers: Sequence[Answer]) -> Answer:
    """Combine answers: fail if any fails, pass if all pass, otherwise inconclusive."""
    if "fail" in answers:
        return "fail"
    return "pass" if answers and set(answers) == {"pass"} else "inconclusive"


def sign_counts(replicates: Floats) -> SignCounts | None:
    """Count the replicates of a difference on each side of 0; None where all of them are NaN.

    Definition: docs/definitions/comparisons.md#share-positive.
    """
    known = replicates[~np.isnan(replicates)]
    if not known.size:
        return None
    low, high = int(np.count_nonzero(known <= 0)), int(np.count_nonzero(known >= 0))
    p = min(1.0, 2 * (min(low, high) + 1) / (known.size + 1))
    return SignCounts(share_positive=int(np.count_nonzero(known > 0)) / known.size, p=p)


def win_counts(left: npt.ArrayLike, right: npt.ArrayLike) -> WinCounts:
    """Count wins, losses and ties of the right side; values of shape (n,), higher is better.

    Definition: docs/definitions/comparisons.md#paired-difference.
    """
    delta = np.asarray(right, np.float64) - np.asarray(left, np.float64)
    wins, losses = int(np.count_nonzero(delta > 0)), int(np.count_nonzero(delta < 0))
    return WinCounts(wins=wins, losses=losses, ties=delta.size - wins - losses)


def sign_test(wins: int, losses: int) -> float | None:
    """Two-sided exact sign test of the hypothesis that both sides are equally likely to win.

    Definition: docs/definitions/comparisons.md#sign-test.

    Args:
        wins: Number of independent units won, at least 0.
        losses: Number lost, at least 0. Ties do not count.

    Returns:
        Twice the binomial tail at ½, at most 1; None without wins and losses.

    Raises:
        ValueError: If a count is below 0.
    """
    if wins < 0 or losses < 0:
        raise ValueError(f"wins and losses must be at least 0; found {wins} and {losses}")
    if not wins + losses:
        return None
    from scipy.special import bdtr  # slow to import

    return min(1.0, 2 * float(bdtr(min(wins, losses), wins + losses, 0.5)))


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment: for each test the smallest family-wise error rate at which it is rejected.

    Definition: docs/definitions/comparisons.md#holm.

    Args:
        p: One p-value per test, each in [0, 1].

    Returns:
        Adjusted p-values in the same order, each in [0, 1].

    Raises:
        ValueError: If a p-value is not in [0, 1].
    """
    (values,) = floats(p)
    check_between(0, 1, p=values)
    order = np.argsort(values)
    stepped = values[order] * np.arange(values.size, 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return [float(value) for value in adjusted]


def minimum_detectable_effect(std_error: float, *, level: float = 0.95, power: float = 0.8) -> float:
    """The least true difference found with probability ``power``: (1.96 + 0.84) · SE by default.

    Definition: docs/definitions/comparisons.md#minimum-detectable-effect.

    Args:
        std_error: Standard error of the difference, in its unit.
        level: Level of the interval that decides, in (0, 1).
        power: In (0, 1).

    Raises:
        ValueError: If an argument is out of its range.
    """
    check_inside_unit(level=level, power=power)
    if not 0 <= std_error < inf:
        raise ValueError(f"std_error must be a number of at least 0; found {std_error:g}")
    from scipy.special import ndtri  # slow to import

    return float(ndtri((1 + level) / 2) + ndtri(power)) * std_error
