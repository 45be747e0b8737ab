"""Computes intervals of means and rates of clustered values, and answers gates.

Definitions: docs/definitions/intervals.md#choice, docs/definitions/intervals.md#gate.

Every function takes values of shape (n,) and a group code for each. Groups are sampled independently; values
of one group may be correlated. A single group gives no interval.
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

    In a closed range it is Gaffke's interval over groups: the group weights have exponential distributions,
    and one unseen group lies at the far end of the range (:meth:`ClusteredMean.tail`). Of single outcomes 0
    and 1 that is the interval of Clopper and Pearson, and of equal values the rule of three
    (docs/definitions/intervals.md#equal-values); skewed values
    have a longer side where rare ones may have gone unseen. In an unbounded range it is m ± t · SE, with the
    cluster-robust (linearised) standard error SE of the mean m and Satterthwaite's degrees of freedom.

    ``benchmarks/coverage.py`` compares this with m ± t · SE and with the bootstrap. Those cover too little
    for correlated values, unequal groups, or scores that crowd at one end of the range with a few far below.

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

    That of :func:`mean_interval`. If no group holds several outcomes, it is the exact one of Clopper and
    Pearson (1934).

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


def probability_of_change(clustered: ClusteredMean | None, thresholds: Sequence[float]) -> float | None:
    """Probability that other cases would put a mean between other thresholds.

    Definition: docs/definitions/scores.md#probability-of-change.

    The probability that the true mean lies beyond a threshold is the one-sided p-value of that threshold, by
    the method of the mean's interval. So it agrees with that interval, and is not 0 because a few observed
    values happen to be equal.

    Args:
        clustered: The mean (:meth:`ClusteredMean.of`), or None.
        thresholds: Where one class of means ends and the next begins; a threshold belongs to the upper class.

    Returns:
        In [0, 1]; None without a mean or without an interval.
    """
    if clustered is None or clustered.ends(0.5) is None:
        return None
    below = max((edge for edge in thresholds if edge <= clustered.mean), default=None)
    above = min((edge for edge in thresholds if edge > clustered.mean), default=None)
    tails = (clustered.tail(edge) for edge in (below, above) if edge is not None)
    return min(1.0, sum(min(0.5, tail) for tail in tails))


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
