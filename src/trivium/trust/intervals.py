"""Computes intervals of means and rates of clustered values, and answers gates (spec: metrics, B.0, B.5).

Every function takes values of shape (n,) and a group code for each. The uncertainty is about which groups
were sampled, so the values of one group never count as independent, and one group gives no interval. Under
ten groups that hold several values each, no interval is narrower than that of as many values as there are
groups (spec: metrics, B.3).
"""

from collections.abc import Sequence
from typing import Literal

import numpy.typing as npt

from trivium.trust.clustered import ClusteredMean, score_ends
from trivium.trust.distributions import Interval, normal_reach
from trivium.trust.sample_size import PLANNED, needed_groups


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
    the effective degrees of freedom of the group sizes (Satterthwaite 1946, rounded down; G - 1
    where all are of one size). The interval is m ± t · SE without a range, and for independent values (one a
    group) where it lies inside the range and m in its middle half. Else the error shrinks towards the ends of
    the range: in [0, 1] the interval holds every q with (q - m)² <= t² · SE² · q (1 - q) / (m (1 - m)), as
    Wilson's does for a rate. And its end on the far side of m allows for groups that were not met: where a
    share s of all values lies at the near end of the range, for ``UNMET`` · s groups of mean size at the far
    end. Of what is rare a few groups have nearly all: for that end the degrees of freedom are at most what
    the kurtosis of the groups makes of them (but 3 at least).

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
    _check_level(level)
    found = ClusteredMean.of(values, groups, low=low, high=high)
    return None if found is None else found.interval(level)


def rate_interval(outcomes: npt.ArrayLike, groups: npt.ArrayLike, *, level: float = 0.95) -> Interval | None:
    """Interval of a rate (spec: metrics, B.0).

    Wilson's where each outcome is its group's only one; where groups hold several, that of
    :func:`mean_interval`, which allows for what was not met, with a variance of at least that of independent
    outcomes. By ``benchmarks/coverage.py``, with an intra-group correlation of 0.5 and groups of 1 to 60
    Wilson's on n / design effect holds a rate of 0.02 in 90 %, this one in 95 %. Where all outcomes are
    equal it is unknown how alike those of a group are, and each group counts as one outcome.

    Args:
        outcomes: 0 or 1 (or bool), shape (n,).
        groups: Whole-number code of the cluster of each outcome, shape (n,).
        level: Nominal coverage, in (0, 1).

    Returns:
        The interval, inside [0, 1]; None without outcomes or with one group.

    Raises:
        ValueError: If the shapes differ, an outcome is neither 0 nor 1, or ``level`` is none.
    """
    _check_level(level)
    found = ClusteredMean.of(outcomes, groups, kind="rate")
    return None if found is None else found.interval(level)


def difference_interval(
    differences: npt.ArrayLike, groups: npt.ArrayLike, *, level: float = 0.95
) -> Interval | None:
    """Interval of the mean of paired differences, robust to clusters and to what was not met.

    Where at most half of the differences are 0 it is that of :func:`mean_interval` in [-1, 1]. Else changes
    are rare, and may come in bunches of which none, or the small ones, were met:

    * each end allows for ``UNMET`` · s groups of mean size all at the end of the range, where s is the share
      of differences that are 0, and for an error that grows with rare changes of one direction as that of a
      Poisson count does: the reach x solves x² = t² · SE² · (1 + k x / c), with c the mean absolute
      difference and k how far changes go that way only (0 to 1);
    * each end lies at least as far from the mean as G groups without any change leave open (rule of three),
      so that losing a case never looks surer than losing none;
    * the end towards 0 is m ± t · SE where as many more groups moved one way as are more than chance (an
      exact sign test over groups), and else at least 0.

    By ``benchmarks/coverage.py`` m ± t · SE holds a true loss of one case in twenty in 83 % (20 documents of
    8 cases, intra-group correlation 0.5).

    Args:
        differences: Shape (n,), in [-1, 1].
        groups: Whole-number code of the cluster of each, shape (n,).
        level: Nominal coverage, in (0, 1).

    Returns:
        The interval, inside [-1, 1]; None without differences or with one group.

    Raises:
        ValueError: If the shapes differ, a difference is not finite or out of range, or ``level`` is none.
    """
    _check_level(level)
    found = ClusteredMean.of(differences, groups, kind="difference")
    return None if found is None else found.interval(level)


def wilson(rate: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a rate in [0, 1] of ``n`` > 0 (perhaps effective) independent outcomes."""
    return score_ends(rate, n, normal_reach(level))


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


def probability_of_change(found: ClusteredMean | None, thresholds: Sequence[float]) -> float | None:
    """How likely other cases would put a mean between other thresholds (spec: metrics, C.3).

    The chance that the true mean lies beyond a threshold is half the p-value of that threshold, by the
    method of the mean's interval: it agrees with the interval beside it, and is never 0 because a handful of
    values happen to be equal.

    Args:
        found: The mean (:meth:`ClusteredMean.of`); None where there is none.
        thresholds: Where one class of means ends and the next begins; each belongs to the upper one.

    Returns:
        In [0, 1]; None without a mean, or where it has no interval.
    """
    if found is None or found.p_value(found.mean) is None:
        return None
    below = max((edge for edge in thresholds if edge <= found.mean), default=None)
    above = min((edge for edge in thresholds if edge > found.mean), default=None)
    chances = [found.p_value(edge) or 0.0 for edge in (below, above) if edge is not None]
    return min(1.0, sum(chances) / 2)


def gate_answer(
    interval: Interval | None,
    point: float | None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Literal["pass", "fail", "inconclusive"]:
    """Answer a gate: pass or fail only where the whole interval lies on one side (spec: metrics, B.5).

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


def groups_to_settle(
    found: ClusteredMean | None, limit: float, *, level: float = 0.95, power: float = PLANNED
) -> int | None:
    """Estimate how many further groups would settle a gate, as ``sample_size.needed_groups`` does.

    Args:
        found: What the gate's interval rests on (:meth:`ClusteredMean.of`); None where there is none.
        limit: Of the gate.
        level: Of its interval.
        power: Probability of settling it, were the truth where the estimate is.

    Returns:
        0 where the gate is settled; None where more than ``MOST_NEEDED`` would be,
        or it is unknown.
    """
    return None if found is None else needed_groups(found, above=limit, below=limit, level=level, power=power)


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; found {level}")
