"""Estimates how many further groups would settle a gate or a comparison (spec: metrics, B.5)."""

from collections.abc import Callable
from math import isfinite, sqrt
from statistics import NormalDist

import msgspec

from trivium.trust.clustered import ClusteredMean

MOST_NEEDED = 10_000
"""Further groups (cases, where each is its own group) beyond which no number is reported."""

POWER = 0.8
"""How often the announced number settles it."""

PLANNED = 0.85
"""The power that numbers are computed for: the spread is estimated too, and normal approximations err. By
``benchmarks/needed_cases.py`` that settles 85 to 90 % where the truth is where the estimate is, and 71 to
80 % where further cases come from the truth that the estimate misses by its own error."""

_STEPS = 40
_FAR = 9.0
"""Standard errors from the estimate beyond which no mean is met."""


def needed_groups(
    found: ClusteredMean, *, above: float, below: float, level: float = 0.95, power: float = PLANNED
) -> int | None:
    """Further groups with which the interval lies above one limit or below the other, at a given power.

    Were the truth where the estimate is, the mean of G groups met and m like them still to come is normal
    around the estimate, with the standard deviation √(G m) / (G + m) · SE. The number is the least m for
    which that mean, with the very interval that decides over all G + m groups, settles it with probability
    ``power``. The estimate itself is uncertain: where it lies nearer to the limit than the truth does, the
    number is too large, and too small where it lies farther; see docs/compare-runs.md.

    Args:
        found: What was met.
        above: It is settled where the low end is at least this, or
        below: where the high end is below this. A gate's limit is both.
        level: Of the interval.
        power: Probability of settling it, in (0, 1).

    Returns:
        0 where it is settled; None where more than ``MOST_NEEDED`` would be.
    """

    def chance(further: int) -> float:
        return _chance_to_settle(found, further, above=above, below=below, level=level)

    if chance(0) >= power:
        return 0
    few, many = 0, 1
    while chance(many) < power:
        if many == MOST_NEEDED:
            return None
        few, many = many, min(2 * many, MOST_NEEDED)
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if chance(middle) >= power else (middle, many)
    return many


def _chance_to_settle(
    found: ClusteredMean, further: int, *, above: float, below: float, level: float
) -> float:
    """Probability that so many further groups settle it, were the truth where the estimate is."""
    total = found.groups + further
    spread = 0.0 if found.equal else sqrt(found.variance * found.groups * further) / total
    if not spread:
        ends = grown(found, total, found.mean).ends(level)
        return float(ends is not None and (ends[0] >= above or ends[1] < below))
    least, most = found.mean - _FAR * spread, found.mean + _FAR * spread

    def low_enough(mean: float) -> bool:
        ends = grown(found, total, mean).ends(level)
        return ends is not None and ends[0] < above

    def high_too_low(mean: float) -> bool:
        ends = grown(found, total, mean).ends(level)
        return ends is not None and ends[1] < below

    normal = NormalDist(found.mean, spread)
    passes = 1 - normal.cdf(_last(low_enough, least, most))
    return passes + normal.cdf(_last(high_too_low, least, most))


def _last(holds: Callable[[float], bool], least: float, most: float) -> float:
    """The largest number up to which something holds."""
    if not holds(least):
        return least
    if holds(most):
        return most
    for _ in range(_STEPS):
        middle = (least + most) / 2
        least, most = (middle, most) if holds(middle) else (least, middle)
    return most


def grown(found: ClusteredMean, groups: float, mean: float) -> ClusteredMean:
    """What so many groups like those that were met would sum up to, had they another mean.

    In a closed range the variance goes with the distance from its ends, as that of a rate does.
    """
    share, width = groups / found.groups, found.high - found.low
    scale = 1.0
    if isfinite(width) and not found.equal:
        mean = min(found.high - 1e-9 * width, max(found.low + 1e-9 * width, mean))
        if found.kind != "difference":
            scale = (mean - found.low) * (found.high - mean)
            scale /= (found.mean - found.low) * (found.high - found.mean)
    outcomes = found.kind == "rate" and not found.equal
    # A mean that lies so many standard errors from the one met comes with groups moved one way likewise.
    changed, net = (found.wins + found.losses) * share, (found.wins - found.losses) * share
    if found.variance:
        tilt = (found.wins + found.losses) / found.groups - ((found.wins - found.losses) / found.groups) ** 2
        net += (mean - found.mean) * groups * sqrt(tilt / (found.variance * found.groups))
    net = min(changed, max(-changed, net))
    return msgspec.structs.replace(
        found,
        mean=mean,
        n=found.n * share,
        groups=groups,
        spread=found.spread * scale,
        squares=found.squares * share * scale,
        cross=found.cross * share * sqrt(scale),
        sizes=found.sizes * share,
        freedom=(found.freedom + 1) * share - 1,
        tail_freedom=found.tail_freedom * share,
        at_low=1 - mean if outcomes else found.at_low,
        at_high=mean if outcomes else found.at_high,
        wins=(changed + net) / 2,
        losses=(changed - net) / 2,
    )
