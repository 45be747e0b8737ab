"""Tests differences: counts of signs and wins, the sign test, Holm's adjustment.

Definitions: docs/definitions/comparisons.md#sign-test, docs/definitions/comparisons.md#holm.
"""

from collections.abc import Sequence
from math import inf

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import bdtr, ndtri

from trivium.trust.arrays import Floats, check_between, check_inside_unit, floats


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
    return float(ndtri((1 + level) / 2) + ndtri(power)) * std_error
