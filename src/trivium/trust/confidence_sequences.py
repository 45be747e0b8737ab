"""Computes confidence sequences: intervals of a mean that hold at every look, however often one looks.

A fixed-size interval covers the mean at one sample size, chosen beforehand. To look after each value and stop
at will requires a confidence sequence: with probability at least 1 - alpha, all of its intervals contain the
mean. It needs two to five times as many values for the same width.

The sequence is a bet (Waudby-Smith & Ramdas 2024). For each candidate mean m two gamblers start with a
capital of 1 and stake on values above and below m; if the mean is m, neither expects to win, so the capital
ever reaches 1 / alpha with probability at most alpha (Ville). Candidates against which a gambler became rich
are excluded.

Weighted samples. A value x that was taken with probability p, where b is the smallest probability of the
sampling rules, has the weight w = b / p, at most 1, and changes the capital by the factor 1 + λ w (x - m).
Let S say whether it is taken: E[S w (x - m)] = E[p · (b / p) · (x - m)] = b · E[x - m] = 0 if the mean is m,
so the capital over taken values alone is a martingale, whatever p depends on; and w <= 1 keeps it above 0.

Values are bets, so they must be independent of one another given the past. Values of one session or document
are not, so make one bet a cluster: give their weighted mean as the value and the sum of their weights as the
weight, which may then be above 1 (:class:`~trivium.trust.gamblers.ClusterWeight`).
"""

from math import log
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError
from trivium.trust.arrays import (
    Floats,
    check_between,
    check_inside_unit,
    check_lengths,
    check_positive,
    floats,
)
from trivium.trust.gamblers import ClusterWeight

LARGEST_STAKE = 0.5
"""Share of the capital that may be lost with one value; with all of it, one value could end the game."""

FIRST_MEAN, FIRST_VARIANCE = 0.5, 0.25
"""What one imagined value of weight 1 contributes to mean and variance before there are any."""


class ConfidenceSequence(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Intervals of a mean after each value; with probability 1 - alpha all of them contain it.

    Definition: docs/definitions/monitoring.md#confidence-sequence.

    Attributes:
        lower: Lower ends, shape (n,), in [0, 1].
        upper: Upper ends, shape (n,), in [0, 1].
        alpha: Probability that any of them misses the mean.
        method: ``betting`` or ``empirical bernstein``.
    """

    lower: Floats
    upper: Floats
    alpha: float
    method: str


def confidence_sequence(
    values: npt.ArrayLike,
    *,
    weights: npt.ArrayLike | None = None,
    alpha: float = 0.05,
    method: Literal["betting", "empirical bernstein"] = "betting",
    grid: int = 1000,
    planned: int | None = None,
    running_intersection: bool = True,
) -> ConfidenceSequence:
    """Compute an interval of the mean after each value.

    Definition: docs/definitions/monitoring.md#confidence-sequence.

    ``betting`` stakes λ = √(2 ln(2 / alpha) / (V t ln(1 + t))) on the t-th value, where V is the variance of
    the earlier ones, but at most half of the capital (the "hedged capital" of Waudby-Smith & Ramdas 2024,
    section 4.2). ``empirical bernstein`` is a closed form (their theorem 2), wider, and for equal weights.

    Args:
        values: Shape (n,), in [0, 1], in the order in which they were seen; one a cluster.
        weights: Smallest sampling probability of the rules divided by that of each value, or the sum of these
            over a cluster, shape (n,), above 0; all 1 by default.
        alpha: Probability that any interval misses the mean, in (0, 1).
        method: ``betting`` or ``empirical bernstein``.
        grid: Number of steps into which [0, 1] is divided for betting; the ends are multiples of 1 / grid,
            rounded outwards.
        planned: Stake for the narrowest interval after this many values (n in place of t ln(1 + t)). The
            sequence is still valid at every look.
        running_intersection: Whether each interval also lies in all earlier ones. It is as valid and
            narrower. If the mean has moved, the lower end may end up above the upper one.

    Raises:
        TrustError: If a value, a weight or an option is out of range, or the shapes differ.
    """
    x, w = _checked(values, weights)
    check_options(alpha, grid)
    if planned is not None and planned < 1:
        raise TrustError(f"planned must be at least 1; found {planned}")
    if method == "betting":
        lower, upper = _betting(x, w, alpha, grid, planned)
    elif method == "empirical bernstein":
        if weights is not None and (w != 1).any():
            raise TrustError('the method "empirical bernstein" takes no weights; use "betting"')
        lower, upper = _empirical_bernstein(x, alpha), 1 - _empirical_bernstein(1 - x, alpha)
    else:
        raise TrustError(f'method must be "betting" or "empirical bernstein"; found {method!r}')
    if running_intersection:
        lower, upper = np.maximum.accumulate(lower), np.minimum.accumulate(upper)
    return ConfidenceSequence(lower=lower, upper=upper, alpha=alpha, method=method)


def final_interval(
    values: npt.ArrayLike, *, weights: npt.ArrayLike | None = None, alpha: float = 0.05, grid: int = 1000
) -> tuple[float, float]:
    """The last interval of :func:`confidence_sequence` with ``planned`` = n, some fifty times as fast.

    It is for one look, so only the capital after the last value counts (no running intersection). A candidate
    is excluded only if all beyond it are, so each end is found by bisection.

    Args:
        values: See :func:`confidence_sequence`; at least one.
        weights: See there.
        alpha: See there.
        grid: See there.

    Returns:
        The lower end, and the upper one; the lower is above the upper if no constant mean is possible.

    Raises:
        TrustError: See there.
    """
    x, w = _checked(values, weights)
    check_options(alpha, grid)
    stakes, rich = _stakes(x, w, alpha, x.size), -log(alpha / 2)

    def last_excluded(values: Floats) -> int:
        """The number of the last candidate that is excluded from below, or 0."""
        excluded, possible = -1, grid + 1
        while possible - excluded > 1:
            middle = (excluded + possible) // 2
            if _log_capital(values, w, stakes, middle / grid)[-1] >= rich:
                excluded = middle
            else:
                possible = middle
        return max(excluded, 0)

    return last_excluded(x) / grid, (grid - last_excluded(1 - x)) / grid


def stake(step: npt.ArrayLike, variance: npt.ArrayLike, alpha: float) -> Floats:
    """The stake λ on the ``step``-th value, given the variance of the earlier ones (both of one shape)."""
    steps, variances = floats(step, variance)
    return np.asarray(np.sqrt(2 * log(2 / alpha) / (variances * steps * np.log1p(steps))))


def _earlier_variance(x: Floats, w: Floats) -> Floats:
    """Mean square of w (x - mean) over the values before each, with the imagined first one."""
    means = (FIRST_MEAN + np.cumsum(w * x)) / (1 + np.cumsum(w))
    squares = np.cumsum(np.concatenate([[FIRST_VARIANCE], (w * (x - means)) ** 2]))[:-1]
    return np.asarray(squares / np.arange(1, x.size + 1), dtype=np.float64)


def _betting(x: Floats, w: Floats, alpha: float, grid: int, planned: int | None) -> tuple[Floats, Floats]:
    """Both ends after each value, without the running intersection; [0, 1] if every mean is excluded."""
    stakes, rich = _stakes(x, w, alpha, planned), -log(alpha / 2)
    below, above = np.zeros(x.size, dtype=np.int64), np.zeros(x.size, dtype=np.int64)
    for point in np.arange(grid + 1) / grid:  # n numbers at a time, not n x grid
        below += _log_capital(x, w, stakes, point) >= rich
        above += _log_capital(1 - x, w, stakes, 1 - point) >= rich
    empty = below + above > grid + 1  # some candidate is excluded from both sides
    lower = np.where(empty, 0.0, np.maximum(below - 1, 0) / grid)
    upper = np.where(empty, 1.0, np.minimum(grid + 1 - above, grid) / grid)
    return lower, upper


def _stakes(x: Floats, w: Floats, alpha: float, planned: int | None) -> Floats:
    variance = _earlier_variance(x, w)
    if planned is not None:
        return np.asarray(np.sqrt(2 * log(2 / alpha) / (planned * variance)), dtype=np.float64)
    return stake(np.arange(1.0, x.size + 1), variance, alpha)


def _log_capital(x: Floats, w: Floats, stakes: Floats, point: float) -> Floats:
    """Return the log capital, after each value, of the gambler who bets on values above a candidate mean."""
    most = LARGEST_STAKE / point if point else np.inf
    return np.cumsum(np.log1p(np.minimum(stakes, most) * w * (x - point)))


def _empirical_bernstein(x: Floats, alpha: float) -> Floats:
    """Lower ends after each value, at alpha / 2; truncated at 0."""
    steps = np.arange(1.0, x.size + 1)
    stakes = np.minimum(stake(steps, _earlier_variance(x, np.ones(x.size)), alpha), LARGEST_STAKE)
    means = np.concatenate([[0.0], (np.cumsum(x) / steps)[:-1]])
    spent = np.cumsum((x - means) ** 2 * (-np.log1p(-stakes) - stakes))
    ends = (np.cumsum(stakes * x) - log(2 / alpha) - spent) / np.cumsum(stakes)
    return np.asarray(np.clip(ends, 0, 1), dtype=np.float64)


def _checked(values: npt.ArrayLike, weights: npt.ArrayLike | None) -> tuple[Floats, Floats]:
    (x,) = floats(values)
    w = np.ones(x.shape) if weights is None else floats(weights)[0]
    check_lengths(values=x, weights=w)
    check_between(0, 1, values=x)
    check_positive(weights=w)
    scale = ClusterWeight()
    return x, w if (w <= 1).all() else np.array([scale.scaled(weight) for weight in w])


def check_options(alpha: float, grid: int) -> None:
    """Raise TrustError if a probability of error or a number of grid steps is out of range."""
    check_inside_unit(alpha=alpha)
    if grid < 2:
        raise TrustError(f"grid must be at least 2; found {grid}")
