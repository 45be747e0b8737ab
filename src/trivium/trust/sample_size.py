"""Estimates how many further groups would settle a gate or a comparison.

Definition: docs/definitions/intervals.md#groups-to-settle.
"""

from collections.abc import Callable
from math import isfinite, sqrt
from statistics import NormalDist

import msgspec

from trivium.trust.clustered import ClusteredMean, crossing, excess_of

MOST_NEEDED = 10_000
"""Further groups (cases, if each is its own group) above which no number is reported."""

MOST_PLANNED = 1_000_000
"""Groups above which a plan gives no number."""

POWER = 0.8
"""Probability with which the reported number settles the question."""

TARGET_POWER = 0.85
"""The power that numbers are computed for. It exceeds ``POWER`` because the spread is estimated too, and
normal approximations err. In ``benchmarks/needed_cases.py`` it settles 85 to 90 % if the true mean equals the
estimate, and 71 to 80 % if the estimate misses the true mean by its own error."""

_FAR = 9.0
"""Standard errors from the estimate beyond which a mean is considered impossible."""


def needed_groups(
    clustered: ClusteredMean, *, above: float, below: float, level: float = 0.95, power: float = TARGET_POWER
) -> int | None:
    """Number of further groups with which the interval clears one of two limits, at a given power.

    If the true mean equals the estimate, the mean of G observed and m further groups is normal around it with
    the standard deviation √(G m) / (G + m) · SE. The result is the least m for which the interval around that
    mean, by the same method over all G + m groups, settles the question with probability ``power``. The
    estimate itself is uncertain: if it lies nearer to the limit than the true mean, the number is too large,
    and if farther, too small; see docs/compare-runs.md.

    Args:
        clustered: The observed mean.
        above: The question is settled if the low end is at least this, or
        below: if the high end is below this. For a gate both are its limit. A difference is settled below 0
            if its loss is significant.
        level: Level of the interval.
        power: Probability of settling the question, in (0, 1).

    Returns:
        0 if it is settled; None if more than ``MOST_NEEDED`` are needed.
    """

    def chance(further: int) -> float:
        return _chance_to_settle(clustered, further, above=above, below=below, level=level)

    if chance(0) >= power:
        return 0
    return fewest_groups(lambda further: chance(further) >= power, least=1, most=MOST_NEEDED)


def _chance_to_settle(
    clustered: ClusteredMean, further: int, *, above: float, below: float, level: float
) -> float:
    """Probability that this many further groups settle the question, if the true mean equals the estimate."""
    alpha = (1 - level) / 2
    total = clustered.groups + further
    spread = 0.0 if clustered.equal else sqrt(clustered.variance * clustered.groups * further) / total

    def short_of_passing(mean: float) -> float:
        if mean <= above:
            return excess_of(1.0, alpha)
        return excess_of(extrapolated(clustered, total, mean).tail(above), alpha)

    def sure_of_failing(mean: float) -> float:
        if mean >= below:
            return -excess_of(1.0, alpha)
        found = extrapolated(clustered, total, mean)
        tail = found.sign_flip_tail() if found.kind == "difference" else found.tail(below)
        return -excess_of(tail, alpha)

    if not spread:
        return float(short_of_passing(clustered.mean) <= 0 or sure_of_failing(clustered.mean) >= 0)
    least, most = clustered.mean - _FAR * spread, clustered.mean + _FAR * spread
    low_enough = _last(short_of_passing, least, most)
    high_too_low = _last(sure_of_failing, least, most)
    normal = NormalDist(clustered.mean, spread)
    return 1 - normal.cdf(low_enough) + normal.cdf(high_too_low)


def groups_to_detect(
    clustered: ClusteredMean, difference: float, *, level: float = 0.95, power: float = 0.8
) -> int | None:
    """The fewest groups with which the interval of a mean difference leaves out 0, at a given power.

    The groups are like the observed ones, except that the true mean is ``difference``. Their mean is normal
    around it; the interval is that which comparisons use, with its allowance for rare changes.

    Args:
        clustered: Observed differences, which need not be of that size.
        difference: The true mean difference, above 0.
        level: Level of the interval, in (0, 1).
        power: Probability that the low end exceeds 0, in (0, 1).

    Returns:
        At least 2; None if the observed groups are all equal or more than ``MOST_PLANNED`` are needed.
    """
    if not clustered.variance:
        return None
    return fewest_groups(
        lambda groups: _chance_to_detect(clustered, groups, difference, level=level) >= power
    )


def detectable_difference(
    clustered: ClusteredMean, *, level: float = 0.95, power: float = 0.8
) -> float | None:
    """The least true mean difference that as many groups as were observed detect at a given power.

    Args:
        clustered: Observed differences; see :func:`groups_to_detect`.
        level: Level of the interval, in (0, 1).
        power: Probability that the low end exceeds 0, in (0, 1).

    Returns:
        In (0, 1]; None if the observed groups are all equal or even a difference of 1 is not detected.
    """

    def missed(difference: float) -> float:
        return -excess_of(_chance_to_detect(clustered, clustered.groups, difference, level=level), power)

    if not clustered.variance or missed(1.0) > 0:
        return None
    return _last(missed, 0.0, 1.0)


def _chance_to_detect(clustered: ClusteredMean, groups: float, difference: float, *, level: float) -> float:
    """Probability that the low end exceeds 0 with this many groups and this true mean."""
    spread = sqrt(clustered.variance * clustered.groups / groups)

    def includes_0(mean: float) -> float:
        tail = extrapolated(clustered, groups, mean).sign_flip_tail() if mean > 0 else 1.0
        return excess_of(tail, (1 - level) / 2)

    limit = _last(includes_0, difference - _FAR * spread, difference + _FAR * spread)
    return 1 - NormalDist(difference, spread).cdf(limit)


def shown_margin(
    clustered: ClusteredMean, groups: float | None = None, *, level: float = 0.95, power: float = POWER
) -> float:
    """Return the smallest margin for which a comparison shows that an unchanged mean lost no more.

    Definition: docs/definitions/comparisons.md#shown-margin.

    Args:
        clustered: Observed differences, for their spread; their mean does not count.
        groups: Number of groups of the comparison, at least 2; by default that of the observed ones.
        level: Level of the interval whose low end must exceed the negative margin, in (0, 1).
        power: Probability of that, in (0, 1).

    Returns:
        In (0, 1], in the unit of the differences.
    """
    ends = _unlucky(clustered, clustered.groups if groups is None else groups, power).ends(level)
    return 1.0 if ends is None else -ends[0]


def _unlucky(clustered: ClusteredMean, groups: float, power: float) -> ClusteredMean:
    """So many groups of which the true mean is 0, with a mean that so large a share of samples exceeds."""
    spread = sqrt(clustered.variance * clustered.groups / groups)
    return extrapolated(clustered, groups, NormalDist().inv_cdf(1 - power) * spread)


def groups_to_show(
    clustered: ClusteredMean, margin: float, *, level: float = 0.95, power: float = POWER
) -> int | None:
    """The fewest groups that show a margin; see :func:`shown_margin`.

    Args:
        clustered: Observed differences, for their spread.
        margin: The margin, 0 or more.
        level: Level of the interval, in (0, 1).
        power: Probability of showing it, in (0, 1).

    Returns:
        At least 2; None if more than ``MOST_PLANNED`` are needed.
    """

    def shows(groups: int) -> bool:
        found = _unlucky(clustered, groups, power)
        return found.mean > -margin and found.tail(-margin) <= (1 - level) / 2

    return fewest_groups(shows)


def fewest_groups(enough: Callable[[int], bool], *, least: int = 2, most: int = MOST_PLANNED) -> int | None:
    """The smallest number of groups, at least ``least``, that is enough; None if more than ``most``."""
    few, many = least - 1, least
    while not enough(many):
        if many >= most:
            return None
        few, many = many, min(2 * many, most)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if enough(middle) else (middle, many)
    return many


def with_variance(clustered: ClusteredMean, variance: float) -> ClusteredMean:
    """The same groups if their mean had another variance, in score²; unchanged if theirs is 0."""
    if not clustered.variance:
        return clustered
    return msgspec.structs.replace(clustered, **_scaled(clustered, 1.0, variance / clustered.variance))


def _scaled(clustered: ClusteredMean, share: float, scale: float) -> dict[str, float]:
    """The sums of deviations if there were `share` as many groups and the variance were `scale` times it."""
    powers = {
        "squares": 1.0,
        "cubes": 1.5,
        "cross": 0.5,
        "cross_squares": 1.0,
        "cross_sizes": 0.5,
        "change": 0.5,
    }
    return {name: getattr(clustered, name) * share * scale**power for name, power in powers.items()}


def _last(excess: Callable[[float], float], least: float, most: float) -> float:
    """The largest number in [least, most] up to which a function is above 0."""
    at_least, at_most = excess(least), excess(most)
    if at_least <= 0:
        return least
    return most if at_most > 0 else crossing(excess, most, least, at_most, at_least)


def extrapolated(clustered: ClusteredMean, groups: float, mean: float) -> ClusteredMean:
    """The summary expected of this many groups like the observed ones, with another mean.

    In a closed range the variance scales with the distances from its ends, as that of a rate does, and the
    skewness changes as that of a rate does.
    """
    share, low, high = groups / clustered.groups, clustered.low, clustered.high
    scale, tilt = 1.0, 0.0
    if isfinite(high - low) and not clustered.equal:
        margin = 1e-9 * (high - low)
        mean = min(high - margin, max(low + margin, mean))
        if clustered.kind != "difference":
            room = (clustered.mean - low) * (high - clustered.mean)
            scale = (mean - low) * (high - mean) / room
            tilt = 2 * (clustered.mean - mean) * clustered.squares / (clustered.n * room)
    sums = _scaled(clustered, share, scale)
    sums["cubes"] = sums["squares"] * (clustered.cubes / (clustered.squares or 1.0) + tilt)
    sums["change"] = max(sums["change"], abs(mean) * clustered.n * share)
    return msgspec.structs.replace(
        clustered,
        mean=mean,
        n=clustered.n * share,
        groups=groups,
        sizes=clustered.sizes * share,
        size_cubes=clustered.size_cubes * share,
        freedom=(clustered.freedom + 1) * share - 1,
        **sums,
    )
