"""Intervals of means and rates of clustered values, and what a gate makes of them (spec: metrics, B.0, B.5).

Every function takes values of shape (n,) and a group code for each. What is uncertain is which groups were
met, so values of one group never count as so many independent ones, and one group gives no interval.
"""

from collections.abc import Callable
from math import ceil, inf, isfinite, log, log1p, sqrt
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from trivium.trust.interval import Interval
from trivium.trust.quantiles import normal_reach, student_reach

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MANY_GROUPS = 1_000
"""Above so many clusters the resampled means are drawn from their normal limit, not one by one."""

UNMET = 0.15
"""Groups at the far end of the range that a mean allows for, were all values at the near one. By simulation:
with 0.1 some means near an end of the range are covered in 93 %, with 0.25 intervals are wide for nothing."""


def mean_interval(
    values: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    level: float = 0.95,
    low: float | None = 0.0,
    high: float | None = 1.0,
) -> Interval | None:
    """Interval of the mean over values that weigh the same, robust to clusters.

    The standard error SE is that of the cluster-robust (linearised) mean m, the quantile Student's t with
    as many degrees of freedom as the sizes of the groups are worth (Satterthwaite 1946, rounded down; G - 1
    where all are of one size). The interval is m ± t · SE without a range, and for independent values (one a
    group) where it lies inside the range and m in its middle half. Else the error shrinks towards the ends of
    the range: in [0, 1] the interval holds every q with (q - m)² <= t² · SE² · q (1 - q) / (m (1 - m)), as
    Wilson's does for a rate. And its end on the far side of m allows for groups that were not met: where a
    share s of all values lies at the near end of the range, for ``UNMET`` · s groups of mean size at the far
    end.

    ``benchmarks/coverage.py`` holds this beside m ± t · SE and the bootstrap: those cover too little with
    correlated values, unequal groups, or scores that crowd at one end of the range with a few far below.

    Where all values (or all groups) are equal up to rounding there is no spread to go by: with a share p of
    unseen groups, G equal ones are met with probability (1 - p)^G, so p is at most 1 - (1 - level)^(1/G),
    about 3/G for 95 %, and the mean can lie that share of the way to either end of the range.

    Args:
        values: Shape (n,), finite.
        groups: Whole-number code of the cluster of each value, shape (n,).
        level: Nominal coverage, in (0, 1).
        low: Lower end of the range of a value; None where there is none.
        high: Upper end of the range of a value; None where there is none.

    Returns:
        The interval, inside the range; None without values, with one group, or where all are equal
        and the range has an open end.

    Raises:
        ValueError: If the shapes differ, a value is not finite or out of range, or ``level`` is none.
    """
    y, codes, count = _clusters(values, groups, level=level)
    floor = -inf if low is None else low
    ceiling = inf if high is None else high
    if y.size and not floor <= y.min() <= y.max() <= ceiling:
        raise ValueError(f"values must lie in [{floor:g}, {ceiling:g}]; found {y.min():g} to {y.max():g}")
    if count < 2:
        return None
    point = float(np.clip(y.mean(), y.min(), y.max()))
    error = sqrt(_variance_of_mean(y, codes, count))
    t = student_reach(level, _degrees_of_freedom(y, codes, count, error**2))
    width = ceiling - floor
    closed = isfinite(width)
    if error > 1e-12 * max(abs(y.min()), abs(y.max()), width if closed else 0.0):
        ends = max(floor, point - t * error), min(ceiling, point + t * error)
        method = "cluster t"
        inside = floor < ends[0] and ends[1] < ceiling
        if closed and not (count == y.size and inside and abs(point - floor - width / 2) <= width / 4):
            shares = _score_ends_of_mean((y - floor) / width, codes, count, t)
            ends = floor + width * shares[0], floor + width * shares[1]
            method = "cluster t, score"
    elif closed:
        unseen = 1 - (1 - level) ** (1 / count)
        ends = point - unseen * (point - floor), point + unseen * (ceiling - point)
        error, method = 0.0, "rule of three"
    else:
        return None
    return Interval(
        low=ends[0], high=ends[1], level=level, method=method, n=y.size, groups=count, std_error=error
    )


def rate_interval(outcomes: npt.ArrayLike, groups: npt.ArrayLike, *, level: float = 0.95) -> Interval | None:
    """Wilson's interval of a rate on the effective number of outcomes (spec: metrics, B.0).

    The effective number is n / design effect; the design effect is the cluster-robust variance of the rate
    over the one it would have if outcomes were independent, never below 1. Where it is above 1, and so rests
    on the spread of few groups, Student's t takes the place of z, with the degrees of freedom of
    :func:`mean_interval`. Of a rare outcome a few groups have nearly all: for the end of the interval on the
    far side of the rate, the degrees of freedom are at most what the kurtosis of the groups makes of them
    (but 3 at least). In ``benchmarks/coverage.py`` that covers as promised where z and t(G - 1) fall short.
    Where all outcomes are equal the design effect cannot be told, and each group counts as one outcome.

    Args:
        outcomes: 0 or 1 (or bool), shape (n,).
        groups: Whole-number code of the cluster of each outcome, shape (n,).
        level: Nominal coverage, in (0, 1).

    Returns:
        The interval, inside [0, 1]; None without outcomes or with one group.

    Raises:
        ValueError: If the shapes differ, an outcome is neither 0 nor 1, or ``level`` is none.
    """
    y, codes, count = _clusters(outcomes, groups, level=level)
    if not np.isin(y, (0.0, 1.0)).all():
        raise ValueError(f"outcomes must be 0 or 1; found {y[~np.isin(y, (0.0, 1.0))][0]:g}")
    if count < 2:
        return None
    rate = float(y.mean())
    near = far = normal_reach(level)
    if rate in {0.0, 1.0}:
        effective, error = float(count), 0.0
    else:
        clustered, independent = _variance_of_mean(y, codes, count), rate * (1 - rate) / (y.size - 1)
        effective, error = y.size / max(1.0, clustered / independent), sqrt(max(clustered, independent))
        if clustered > independent * (1 + 1e-9):
            freedom = _degrees_of_freedom(y, codes, count, clustered)
            near = student_reach(level, freedom)
            far = student_reach(level, min(freedom, max(3, _kurtosis_freedom(y, codes))))
    low = _score_ends(rate, effective, near if rate < 0.5 else far)[0]
    high = _score_ends(rate, effective, far if rate < 0.5 else near)[1]
    return Interval(
        low=low, high=high, level=level, method="Wilson on n_eff", n=y.size, groups=count, std_error=error
    )


def wilson(rate: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a rate in [0, 1] of ``n`` > 0 (perhaps effective) independent outcomes."""
    return _score_ends(rate, n, normal_reach(level))


def jeffreys(rate: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """Jeffreys' interval of a rate: equal tails of Beta(hits + 1/2, misses + 1/2).

    Where all outcomes are equal the end beyond them is 0 or 1 (Brown, Cai & DasGupta 2001).

    Args:
        rate: In [0, 1].
        n: Independent outcomes (perhaps an effective number), above 0.
        level: Nominal coverage, in (0, 1).
    """
    from scipy.special import betaincinv  # takes long to import, and only this needs it

    hits, misses, tail = rate * n + 0.5, (1 - rate) * n + 0.5, (1 - level) / 2
    low = 0.0 if rate == 0 else float(betaincinv(hits, misses, tail))
    high = 1.0 if rate == 1 else float(betaincinv(hits, misses, 1 - tail))
    return low, high


def _score_ends(rate: float, n: float, z: float) -> tuple[float, float]:
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if rate == 0 else max(0.0, centre - reach)
    high = 1.0 if rate == 1 else min(1.0, centre + reach)
    return low, high


def _score_ends_of_mean(y: Floats, codes: Ints, count: int, t: float) -> tuple[float, float]:
    """Ends of the interval of the mean of values in [0, 1]; see :func:`mean_interval`."""
    if y.mean() < 0.5:
        low, high = _score_ends_of_mean(1 - y, codes, count, t)
        return 1 - high, 1 - low
    size, unmet = y.size / count, UNMET * float((y > 1 - 1e-12).mean())

    def ends(more: float) -> tuple[float, float]:
        total = y.size + more * size
        mean = float(y.sum()) / total
        strays = np.bincount(codes, weights=y - mean, minlength=count)
        groups = count + more
        squares = float(strays @ strays) + more * (size * mean) ** 2
        variance = groups / (groups - 1) * squares / total**2
        return _score_ends(mean, mean * (1 - mean) / variance, t)

    return ends(unmet)[0], ends(0.0)[1]


def probability_of_change(
    values: npt.ArrayLike,
    groups: npt.ArrayLike,
    classify: Callable[[Floats], npt.NDArray[Any]],
    *,
    resamples: int = 10_000,
    rng: np.random.Generator,
) -> float | None:
    """Share of resamples of groups whose mean falls in another class than the mean does (spec: metrics, C.3).

    Args:
        values: Shape (n,), finite; each weighs the same.
        groups: Whole-number code of the cluster of each value, shape (n,).
        classify: From means, shape (b,), to their classes, shape (b,); for instance
            ``lambda means: np.digitize(means, [0.4, 0.6, 0.8])``.
        resamples: Number of resamples. Above ``MANY_GROUPS`` groups they are drawn from the normal
            distribution that the resampled mean then has.
        rng: Where the randomness comes from.

    Returns:
        In [0, 1]; None without values or with one group.

    Raises:
        ValueError: If the shapes differ, a value is not finite, or ``resamples`` is below 1.
    """
    y, codes, count = _clusters(values, groups)
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1; found {resamples}")
    if count < 2:
        return None
    sums, sizes = np.bincount(codes, weights=y), np.bincount(codes).astype(np.float64)
    here = classify(np.array([y.mean()]))[0]
    if count > MANY_GROUPS:
        means = rng.normal(y.mean(), sqrt(_variance_of_mean(y, codes, count)), size=resamples)
        return int(np.count_nonzero(classify(means) != here)) / resamples
    changed, at_once = 0, max(1, 1_000_000 // count)
    for start in range(0, resamples, at_once):
        drawn = rng.integers(count, size=(min(at_once, resamples - start), count))
        means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
        changed += int(np.count_nonzero(classify(means) != here))
    return changed / resamples


def gate_answer(
    interval: Interval | None,
    point: float | None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Literal["pass", "fail", "inconclusive"]:
    """What a gate says: pass or fail only where the whole interval lies on one side (spec: metrics, B.5).

    Args:
        interval: Of the figure; None where there is none, which decides nothing.
        point: The figure; None where there is none.
        at_least: The gate's limit, itself good; or
        at_most: the limit from the other side, itself good. Exactly one is given.

    Raises:
        ValueError: If not exactly one limit is given.
    """
    if (at_least is None) == (at_most is None):
        raise ValueError("a gate has either at_least or at_most")
    if interval is None or point is None:
        return "inconclusive"
    if at_least is not None:
        good, bad = interval.low >= at_least, interval.high < at_least
    else:
        good, bad = interval.high <= at_most, interval.low > at_most  # type: ignore[operator]
    return "pass" if good else "fail" if bad else "inconclusive"


def needs_groups(interval: Interval | None, point: float | None, limit: float) -> int | None:
    """About how many further groups would settle a gate, if the figure stays as it is (spec: metrics, B.5).

    The reach of an interval of G' groups is t(G' - 1) · SE · √(G / G'), or, where all values are equal, the
    share of unseen groups that G' equal ones still allow.

    Args:
        interval: Of the figure.
        point: The figure.
        limit: Of the gate.

    Returns:
        0 where the gate is settled; None where no number would do (the figure is the limit) or nothing can
        be told (no interval).
    """
    if interval is None or point is None or point == limit:
        return None
    if not interval.low < limit <= interval.high and not interval.low <= limit < interval.high:
        return 0
    distance, groups, level = abs(limit - point), interval.groups, interval.level
    if interval.std_error == 0:
        reach = point - interval.low if limit < point else interval.high - point
        span = reach / (1 - (1 - level) ** (1 / groups))
        return max(1, ceil(log(1 - level) / log1p(-distance / span)) - groups)

    def settled(total: int) -> bool:
        t = student_reach(level, total - 1)
        return t * interval.std_error * sqrt(groups / total) < distance

    few, many = groups, 2 * groups
    while not settled(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if settled(middle) else (middle, many)
    return many - groups


def _clusters(
    values: npt.ArrayLike, groups: npt.ArrayLike, *, level: float = 0.95
) -> tuple[Floats, Ints, int]:
    """Values, group codes 0 … G - 1 and G, checked."""
    y, codes = np.asarray(values, dtype=np.float64), np.asarray(groups)
    if y.ndim != 1 or y.shape != codes.shape:
        raise ValueError(
            f"values and groups must be flat and of one length; found {y.shape} and {codes.shape}"
        )
    if not np.isfinite(y).all():
        raise ValueError(
            f"values must be finite; found {y[~np.isfinite(y)][0]} at {np.argmin(np.isfinite(y))}"
        )
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; found {level}")
    if codes.dtype.kind == "i" and codes.size and codes.min() >= 0 and codes.max() < 4 * codes.size:
        met = np.bincount(codes) > 0  # faster than sorting, and of less memory
        if met.all():
            return y, codes, met.size
        return y, (np.cumsum(met) - 1)[codes], int(np.count_nonzero(met))
    known, dense = np.unique(codes, return_inverse=True)
    return y, dense, known.size


def _variance_of_mean(y: Floats, codes: Ints, count: int) -> float:
    """Cluster-robust variance of the mean: G / (G - 1) · Σ_g (Σ_{i in g} (y_i - mean))² / n²."""
    strays = np.bincount(codes, weights=y - y.mean(), minlength=count)
    return float(count / (count - 1) * (strays @ strays) / y.size**2)


def _degrees_of_freedom(y: Floats, codes: Ints, count: int, variance: float) -> int:
    """Satterthwaite's degrees of freedom of ``variance``, of the mean: G - 1 where groups are of one size.

    A group of m values with the intra-group correlation that the variance tells of has a part of it that is
    proportional to m (1 + correlation · (m - 1)).
    """
    sizes = np.bincount(codes).astype(np.float64)
    excess, spread = float(sizes @ sizes) / y.size - 1, float(np.var(y))
    if excess <= 0 or not spread:
        return count - 1
    design_effect = variance * (y.size - 1) / spread
    parts = sizes * (1 + min(1.0, max(0.0, (design_effect - 1) / excess)) * (sizes - 1))
    return max(1, int(float(parts.sum() ** 2 / (parts @ parts)) * (count - 1) / count + 1e-9))


def _kurtosis_freedom(y: Floats, codes: Ints) -> int:
    """Degrees of freedom of the variance of the mean, by how unequally groups make it up: G if normally."""
    squares = np.bincount(codes, weights=y - y.mean()) ** 2
    total = float(squares.sum())
    spread = float(squares @ squares) - total**2 / squares.size
    return int(min(2 * total**2 / spread, squares.size)) if spread > 0 else squares.size
