"""Computes quantiles of the normal and the Student t distribution.

SciPy has them too, but importing its special functions takes longer than all else that a summary needs.
"""

from functools import lru_cache
from math import exp, lgamma, log1p, pi, sqrt, tan
from statistics import NormalDist

import msgspec
import numpy as np

MANY = 10_000
"""Degrees of freedom from which the first terms of a series are as good as the sum."""

_MOST_STEPS = 100


def normal_reach(level: float) -> float:
    """How far from 0 a standard normal variable stays with probability ``level``, in (0, 1)."""
    return NormalDist().inv_cdf((1 + level) / 2)


@lru_cache(maxsize=64)
def student_reach(level: float, freedom: int) -> float:
    """How far from 0 a variable of Student's distribution stays with probability ``level``.

    That probability is a finite sum of powers of a cosine (Abramowitz & Stegun 26.7.3 and 26.7.4), concave
    in the reach, so that Newton's steps from the normal's reach, which is smaller, rise to the one that is
    sought. For many degrees of freedom it is a series in their inverse (26.7.5).

    Args:
        level: In (0, 1).
        freedom: Degrees of freedom, at least 1.
    """
    if freedom == 1:
        return tan(pi * level / 2)
    z = normal_reach(level)
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


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A two-sided confidence interval.

    Attributes:
        low: Lower end, inside the figure's range.
        high: Upper end, inside the figure's range.
        level: Nominal coverage, in (0, 1).
        method: How it was made, in a few words.
        n: Values that entered.
        groups: Clusters that entered; what is uncertain is which groups were met.
        std_error: Standard error of the figure, in its unit; 0 where all values are equal.
    """

    low: float
    high: float
    level: float
    method: str
    n: int
    groups: int
    std_error: float
