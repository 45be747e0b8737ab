"""Computes critical values of the normal and Student's t distribution, and probabilities of the beta's.

SciPy provides them too, but importing ``scipy.special`` takes longer than all other work of a summary.
"""

from functools import lru_cache
from math import exp, inf, lgamma, log, log1p, pi, sqrt, tan
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np

Answer = Literal["pass", "fail", "inconclusive"]
"""Answer that an interval proves about a limit, or that a policy derives from it."""

MANY = 10_000
"""Degrees of freedom above which the first terms of the series are exact enough."""

_MOST_STEPS = 100
_MOST_TERMS = 100_000


def normal_critical_value(level: float) -> float:
    """The z for which a standard normal variable lies in [-z, z] with probability ``level``, in (0, 1)."""
    return NormalDist().inv_cdf((1 + level) / 2)


@lru_cache(maxsize=64)
def t_critical_value(level: float, freedom: int) -> float:
    """The t for which a Student variable lies in [-t, t] with probability ``level``.

    That probability is a finite sum of powers of a cosine (Abramowitz & Stegun 26.7.3 and 26.7.4). It is
    concave in t, so Newton's method converges from below when it starts at the normal critical value, which
    is smaller. For many degrees of freedom a series in their inverse is used (26.7.5).

    Args:
        level: In (0, 1).
        freedom: Degrees of freedom, at least 1.
    """
    if freedom == 1:
        return tan(pi * level / 2)
    z = normal_critical_value(level)
    if freedom > MANY:
        first = (z**3 + z) / 4
        second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
        third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
        return z + first / freedom + second / freedom**2 + third / freedom**3
    k = np.arange(2 + freedom % 2, freedom - 1, 2)
    ratios = (k - 1) / k
    height = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(pi * freedom)
    reach = z
    for _ in range(_MOST_STEPS):
        square = reach * reach / freedom
        cosine2 = 1 / (1 + square)
        share = sqrt(square * cosine2) * (1 + float(np.cumprod(ratios * cosine2).sum()))
        if freedom % 2:
            share = (np.arctan(sqrt(square)) + share * sqrt(cosine2)) * 2 / pi
        step = (level - share) / (2 * height * exp(-(freedom + 1) / 2 * log1p(square)))
        reach += step
        if step <= 1e-14 * reach:
            break
    return float(reach)


def beta_probability(x: float, p: float, q: float) -> float:
    """Probability that a beta variable with parameters ``p`` and ``q``, above 0, is at most ``x``.

    The continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8), by Lentz's method.
    """
    if not 0 < x < 1:
        return float(x >= 1)
    swapped = x > (p + 1) / (p + q + 2)
    if swapped:
        x, p, q = 1 - x, q, p
    front = exp(lgamma(p + q) - lgamma(p) - lgamma(q) + p * log(x) + q * log1p(-x)) / p
    fraction, above, below = 1.0, inf, 1.0
    for step in range(1, _MOST_TERMS):
        m = step // 2
        factor = -(p + m) * (p + q + m) if step % 2 else m * (q - m)
        term = factor * x / ((p + (step - 1)) * (p + step))
        above, below = 1 + term / above, 1 / (1 + term * below)
        fraction *= above * below
        if abs(above * below - 1) < 1e-15:
            break
    below_x = min(1.0, front * fraction)
    return 1 - below_x if swapped else below_x


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A two-sided confidence interval.

    Definition: docs/definitions/intervals.md#choice.

    Attributes:
        low: Lower end, inside the range of the estimate.
        high: Upper end, inside the range of the estimate.
        level: Nominal coverage, in (0, 1).
        method: Short name of the method.
        n: Number of values.
        groups: Number of clusters.
        std_error: Standard error of the estimate, in its unit; 0 if all values are equal.
    """

    low: float
    high: float
    level: float
    method: str
    n: int
    groups: int
    std_error: float
