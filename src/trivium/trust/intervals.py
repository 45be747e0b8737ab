"""Computes intervals of means and rates of clustered values, and answers gates.

Definitions: docs/definitions/intervals.md#choice, docs/definitions/intervals.md#gate.

Every function takes values of shape (n,) and a group code for each. Groups are sampled independently; values
of one group may be correlated. A single group gives no interval. With fewer than ten groups, some holding
several values, no interval is narrower than that of as many independent values
(docs/definitions/intervals.md#few-groups).
"""

from collections.abc import Sequence

import numpy.typing as npt

from trivium.trust.arrays import check_inside_unit
from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Answer, Interval
from trivium.trust.sample_size import TARGET_POWER, needed_groups


def mean_interval(
    values: npt.ArrayLike,
    groups: npt.ArrayLike,
    *,
    level: float = 0.95,
    low: float | None = 0.0,
    high: float | None = 1.0,
) -> Interval | None:
    """Cluster-robust interval of the mean over equally weighted values.

    Definition: docs/definitions/intervals.md#cluster-mean.

    The standard error SE is that of the cluster-robust (linearised) mean m. The quantile is Student's t with
    the effective degrees of freedom of the group sizes (Satterthwaite 1946, rounded down; G - 1 for groups of
    equal size). The interval is m ± t · SE if the range is unbounded, or if values are independent (one per
    group), the interval lies inside the range, and m lies in its middle half.

    Otherwise the error shrinks towards the ends of the range: in [0, 1] the interval holds every q with (q -
    m)² <= t² · SE² · q (1 - q) / (m (1 - m)), as Wilson's does for a rate. The end far from m also allows for
    unseen groups: if a share s of all values lies at the near end of the range, ``UNSEEN_GROUPS`` · s groups
    of mean size are assumed at the far end. Since a few groups may hold nearly all rare values, the degrees
    of freedom of that end are at most those that the kurtosis of the groups implies (but at least 3).

    ``benchmarks/coverage.py`` compares this with m ± t · SE and with the bootstrap. Those cover too little
    for correlated values, unequal groups, or scores that crowd at one end of the range with a few far below.

    If all values (or all groups) are equal up to rounding, the variance cannot be estimated. If a share p of
    groups were different, G equal ones would be observed with probability (1 - p)^G, so p is at most 1 - (1 -
    level)^(1/G), about 3/G for 95 %, and the mean can lie that share of the distance to either end of the
    range.

    Args:
        values: Shape (n,), finite.
        groups: Whole-number code of the cluster of each value, shape (n,).
        level: Nominal coverage, in (0, 1).
        low: Lower end of the range of values; None if unbounded.
        high: Upper end of the range of values; None if unbounded.

    Returns:
        The interval, inside the range; None without values, with a single group, or if all are equal and the
        range is unbounded.

    Raises:
        ValueError: If the shapes differ, a value is not finite or out of range, or ``level`` is not in (0,
            1).
    """
    check_inside_unit(level=level)
    clustered = ClusteredMean.of(values, groups, low=low, high=high)
    return None if clustered is None else clustered.interval(level)


def rate_interval(outcomes: npt.ArrayLike, groups: npt.ArrayLike, *, level: float = 0.95) -> Interval | None:
    """Interval of a rate (docs/definitions/intervals.md#rate).

    Wilson's interval if no group holds several outcomes. Otherwise that of :func:`mean_interval`, which
    allows for unseen groups, with a variance of at least that of independent outcomes. In
    ``benchmarks/coverage.py``, with an intra-group correlation of 0.5 and groups of 1 to 60, Wilson's
    interval on n / design effect covers a rate of 0.02 in 90 % of samples, this one in 95 %. If all outcomes
    are equal the intra-group correlation is unknown, and each group counts as one outcome.

    Args:
        outcomes: 0 or 1 (or bool), shape (n,).
        groups: Whole-number code of the cluster of each outcome, shape (n,).
        level: Nominal coverage, in (0, 1).

    Returns:
        The interval, inside [0, 1]; None without outcomes or with a single group.

    Raises:
        ValueError: If the shapes differ, an outcome is neither 0 nor 1, or ``level`` is not in (0, 1).
    """
    check_inside_unit(level=level)
    clustered = ClusteredMean.of(outcomes, groups, kind="rate")
    return None if clustered is None else clustered.interval(level)


def difference_interval(
    differences: npt.ArrayLike, groups: npt.ArrayLike, *, level: float = 0.95
) -> Interval | None:
    """Cluster-robust interval of the mean of paired differences, which allows for unseen changes.

    Definition: docs/definitions/comparisons.md#difference-interval.

    If at most half of the differences are 0 it is that of :func:`mean_interval` in [-1, 1]. Otherwise changes
    are rare and may come in clusters, of which the sample may hold none or only small ones:

    * each end allows for ``UNSEEN_GROUPS`` · s groups of mean size at that end of the range, where s is the
      share of differences that are 0, and for an error that grows with rare changes in one direction as that
      of a Poisson count does: the half-width x solves x² = t² · SE² · (1 + k x / c), where c is the mean
      absolute difference and k (0 to 1) how far changes go in that direction only;
    * each end lies at least as far from the mean as the rule of three allows for G groups without any change,
      so that losing one case never gives a narrower interval than losing none;
    * the end towards 0 is m ± t · SE if an exact sign test over groups is significant, and otherwise does not
      exclude 0.

    In ``benchmarks/coverage.py`` m ± t · SE covers a true loss of one case in twenty in 83 % of samples (20
    documents of 8 cases, intra-group correlation 0.5).

    Args:
        differences: Shape (n,), in [-1, 1].
        groups: Whole-number code of the cluster of each, shape (n,).
        level: Nominal coverage, in (0, 1).

    Returns:
        The interval, inside [-1, 1]; None without differences or with a single group.

    Raises:
        ValueError: If the shapes differ, a difference is not finite or out of range, or ``level`` is not in
            (0, 1).
    """
    check_inside_unit(level=level)
    clustered = ClusteredMean.of(differences, groups, kind="difference")
    return None if clustered is None else clustered.interval(level)


def probability_of_change(clustered: ClusteredMean | None, thresholds: Sequence[float]) -> float | None:
    """Probability that other cases would put a mean between other thresholds.

    Definition: docs/definitions/scores.md#probability-of-change.

    The probability that the true mean lies beyond a threshold is half the p-value of that threshold, by the
    method of the mean's interval. So it agrees with that interval, and is not 0 because a few observed values
    happen to be equal.

    Args:
        clustered: The mean (:meth:`ClusteredMean.of`), or None.
        thresholds: Where one class of means ends and the next begins; a threshold belongs to the upper class.

    Returns:
        In [0, 1]; None without a mean or without an interval.
    """
    if clustered is None or clustered.p_value(clustered.mean) is None:
        return None
    below = max((edge for edge in thresholds if edge <= clustered.mean), default=None)
    above = min((edge for edge in thresholds if edge > clustered.mean), default=None)
    chances = [clustered.p_value(edge) or 0.0 for edge in (below, above) if edge is not None]
    return min(1.0, sum(chances) / 2)


def gate_answer(
    interval: Interval | None,
    point: float | None,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Answer:
    """Answer a gate: pass or fail only if the whole interval is on one side.

    Definition: docs/definitions/intervals.md#gate.

    Args:
        interval: Interval of the metric; None gives ``inconclusive``.
        point: The metric; None gives ``inconclusive``.
        at_least: The gate's lower limit, inclusive; or
        at_most: its upper limit, inclusive. Exactly one is given.

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
    clustered: ClusteredMean | None, limit: float, *, level: float = 0.95, power: float = TARGET_POWER
) -> int | None:
    """Further groups that would settle a gate; see :func:`trivium.trust.sample_size.needed_groups`.

    Definition: docs/definitions/intervals.md#groups-to-settle.

    Args:
        clustered: The mean behind the gate's interval (:meth:`ClusteredMean.of`), or None.
        limit: Limit of the gate.
        level: Level of its interval.
        power: Probability of settling the gate if the true mean equals the estimate.

    Returns:
        0 if the gate is settled; None if more than ``MOST_NEEDED`` are needed or the number is unknown.
    """
    return (
        None
        if clustered is None
        else needed_groups(clustered, above=limit, below=limit, level=level, power=power)
    )
