"""Compares the means of two sides pair by pair and decides non-inferiority (spec: metrics, B.2, B.4, B.5)."""

from collections.abc import Sequence
from math import sqrt
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.cluster_bootstrap import Counts, over_resamples
from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Interval
from trivium.trust.multiple_testing import WinCounts, minimum_detectable_effect, sign_counts, win_counts
from trivium.trust.sample_size import needed_groups

Floats = npt.NDArray[np.float64]

Answer = Literal["pass", "fail", "inconclusive"]

MANY_GROUPS = 1_000
"""Above so many clusters the resampled means are drawn from their normal limit, not one by one."""

NOISE = 1e-12
"""Differences of scores in [0, 1] below this are rounding, and count as none."""


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of two means over paired values, right minus left.

    Attributes:
        delta: Mean difference; None without pairs.
        interval: Of the mean difference; None without pairs or with one group.
        p: Two-sided p-value of no difference, by the interval's own method; None where there is none.
        share_positive: Share of the resampled differences above 0; None where there is no interval.
        mde: The least true difference that would be found with probability 0.8; None where nothing varies.
        counts: Wins, losses and ties of the right side, pair by pair.
        found: What the interval rests on; None where there is none.
    """

    delta: float | None
    interval: Interval | None
    p: float | None
    share_positive: float | None
    mde: float | None
    counts: WinCounts
    found: ClusteredMean | None


def paired_means(
    left: Floats,
    right: Floats,
    groups: npt.NDArray[np.int64],
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 42,
) -> list[Paired]:
    """Compare figures whose values come in pairs, all of them over the same resamples of groups.

    The interval is :func:`trivium.trust.intervals.difference_interval`, and the p-value the level at which it
    touches 0; the bootstrap gives the share of resamples with a gain alone.

    Args:
        left: Values in [0, 1], shape (figures, n); NaN where there is none.
        right: Alike. A pair counts where both sides have a value.
        groups: Code 0 … G - 1 of the cluster of each pair, shape (n,).
        level: Of the intervals, in (0, 1).
        resamples: Of the bootstrap, at least 1. Above ``MANY_GROUPS`` groups they are drawn from the normal
            distribution that the resampled mean then has.
        seed: Of the bootstrap.

    Returns:
        One a figure, in order.

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
    found = ClusteredMean.of(known, groups[there], kind="difference")
    interval = None if found is None else found.interval(level)
    error = 0.0 if interval is None else interval.std_error
    sides = None if interval is None else sign_counts(drawn)
    return Paired(
        delta=float(known.mean()) if known.size else None,
        interval=interval,
        p=None if found is None else found.p_value(0.0),
        share_positive=None if sides is None else sides.share_positive,
        mde=minimum_detectable_effect(error, level=level) if error else None,
        counts=win_counts(np.zeros_like(known), known),
        found=found,
    )


def _resampled_means(deltas: Floats, groups: npt.NDArray[np.int64], *, resamples: int, seed: int) -> Floats:
    """Mean of each figure in each resample, shape (figures, resamples); NaN where no pair was drawn."""
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
        found: Floats = np.full(totals.shape, np.nan)
        np.divide(sums @ weights, totals, out=found, where=totals > 0)
        found[np.abs(found) < NOISE] = 0.0
        return found

    return over_resamples(means, count, resamples=resamples, seed=seed, rng="pcg64")


def _normal_limit(deltas: Floats, groups: npt.NDArray[np.int64], *, resamples: int, seed: int) -> Floats:
    """What the resampled means come to with many groups, from one set of normal draws."""
    drawn = np.random.default_rng(seed).standard_normal(resamples)
    rows = []
    for own in deltas:
        known = ~np.isnan(own)
        found = ClusteredMean.of(own[known], groups[known], kind="difference")
        spread = np.nan if found is None else sqrt(found.variance)
        rows.append(own[known].mean() + spread * drawn if known.any() else np.full(resamples, np.nan))
    return np.array(rows)


def non_inferiority(interval: Interval | None, *, margin: float) -> Answer:
    """What a difference decides: pass above −margin, fail below 0, else inconclusive (spec: metrics, B.5).

    A loss that is sure, and surely smaller than the margin, passes.

    Args:
        interval: Of the difference, higher is better; None decides nothing.
        margin: The loss that does not matter, 0 or more.
    """
    if interval is None:
        return "inconclusive"
    if interval.low > -margin:
        return "pass"
    return "fail" if interval.high < 0 else "inconclusive"


def settling_groups(found: ClusteredMean | None, *, margin: float, level: float) -> int | None:
    """Further groups that would settle a difference; see :func:`trivium.trust.sample_size.needed_groups`.

    Args:
        found: What the interval of the difference rests on; None where there is none.
        margin: See :func:`non_inferiority`.
        level: Of the interval.

    Returns:
        None where more than :data:`trivium.trust.sample_size.MOST_NEEDED` would be, or it is unknown.
    """
    if found is None:
        return None
    return needed_groups(found, above=-margin, below=0.0, level=level)


def overall(answers: Sequence[Answer]) -> Answer:
    """Of several answers: fail where any fails, pass where all pass, else inconclusive."""
    if "fail" in answers:
        return "fail"
    return "pass" if answers and set(answers) == {"pass"} else "inconclusive"
