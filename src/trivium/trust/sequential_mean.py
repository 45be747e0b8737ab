"""Decides on which side of a limit a mean lies, by a test that may stop after any group.

Definition: docs/definitions/comparisons.md#sequential-mean.

A fixed-size interval holds for a number of groups chosen beforehand. To look after each group and stop at the
first answer requires a test that holds at every look: a bet (Waudby-Smith & Ramdas 2024). If the mean is at
most the limit m, a gambler who stakes on values above it multiplies the capital by

    1 + f w (x - m) / m

with each value x of weight w <= 1, and does not expect to win; so the capital ever reaches 1 / p with
probability at most p (Ville). The stakes f are those of ``STAKES``, between which the starting capital is
divided evenly: small ones win when the mean lies near the limit, large ones soon where it lies far off.

All candidates that a gambler became rich against lie at one end, since against a higher one he never has
more; so the interval is found by bisection.

``benchmarks/until_decided.py`` compares it with looks that were set beforehand. A single stake that follows
the variance of the values so far, as in ``level_sequence``, decides as soon where the mean lies towards
the middle of the range, and half as often where it lies towards the nearer end.
"""

from collections.abc import Mapping
from math import isfinite, log
from typing import Final

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
    weights_of,
)

METHOD: Final = "betting, valid at every look"
"""Name of the intervals and tests."""

STAKES: Final = np.geomspace(0.02, 0.9, 8)
"""Shares of the capital that are lost with the worst value, if its weight is 1."""

STEPS = 40
"""Steps of bisection; the ends of intervals are exact up to 2 ** -40."""


class SequentialMean:
    """Tests whether the mean of values in [0, 1], one a group, lies above or below a limit.

    Definition: docs/definitions/comparisons.md#sequential-mean.

    The probability that an answer is ever wrong is at most ``alpha``, at any length. An answer, once given,
    stays.

    Args:
        limit: In [0, 1].
        alpha: Probability of a wrong answer, half of it for each side, in (0, 1).

    Attributes:
        at_least: Whether the mean is surely at least the limit.
        at_most: Whether it is surely at most the limit.
        n: Number of values.

    Raises:
        TrustError: If an option is out of range.
    """

    def __init__(self, limit: float, *, alpha: float = 0.05) -> None:
        if not (isfinite(limit) and 0 <= limit <= 1):
            raise TrustError(f"a limit must lie in [0, 1]; found {limit}")
        self._limit, self._rich = limit, _rich(alpha)
        self._up, self._down = np.zeros(STAKES.size), np.zeros(STAKES.size)
        self.at_least, self.at_most, self.n = limit == 0, limit == 1, 0

    def bet(self, value: float, weight: float = 1.0, *, handicap: float = 0.0) -> None:
        """Add the value of a group.

        Args:
            value: In [0, 1]; the mean of a group with several values.
            weight: In (0, 1]; the size of the group over that of the largest, if they differ.
            handicap: By how much the logarithm of the capital must lie above what is otherwise enough, at
                least 0: in an order that is not random alone, what could be expected up to this value if the
                mean were the limit.

        Raises:
            TrustError: If the value or the weight is out of range.
        """
        x, w = np.array([value]), np.array([weight])
        if not (0 <= value <= 1 and 0 < weight <= 1):
            _check(x, w)
        rich = self._rich + handicap
        self.n += 1
        self._up += _growth(x, w, self._limit)[0]
        self._down += _growth(1 - x, w, 1 - self._limit)[0]
        self.at_least = self.at_least or bool(_capital(self._up) >= rich)
        self.at_most = self.at_most or bool(_capital(self._down) >= rich)


class MeanBetweenEnds:
    """Tests of a mean whose values are known to lie between two ends each, as where scores are missing.

    Args:
        limits: Limits of the mean by name, each in [0, 1].
        level: 1 minus the probability that an answer on a limit is ever wrong, in (0, 1).
    """

    def __init__(self, limits: Mapping[str, float], *, level: float) -> None:
        self._alpha = round(1 - level, 12)
        self._lows, self._highs = (
            {name: SequentialMean(limit, alpha=self._alpha) for name, limit in limits.items()}
            for _ in range(2)
        )
        self._seen: list[tuple[float, float, float, float]] = []

    def bet(self, low: float, high: float, weight: float, *, handicap: float = 0.0) -> None:
        """Add the value of a group, which lies between two ends in [0, 1]; see :meth:`SequentialMean.bet`."""
        self._seen.append((low, high, weight, handicap))
        for tests, value in ((self._lows, low), (self._highs, high)):
            for test in tests.values():
                test.bet(value, weight, handicap=handicap)

    def at_least(self, name: str) -> bool:
        """Whether the mean is surely at least a limit, wherever the values lie."""
        return bool(self._seen) and self._lows[name].at_least

    def at_most(self, name: str) -> bool:
        """Whether the mean is surely at most a limit, wherever the values lie."""
        return bool(self._seen) and self._highs[name].at_most

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the mean that holds at every look; None without a value."""
        if not self._seen:
            return None
        lows, highs, weights, handicaps = zip(*self._seen, strict=True)
        low, _ = sequential_interval(lows, weights, alpha=self._alpha, handicaps=handicaps)
        _, high = sequential_interval(highs, weights, alpha=self._alpha, handicaps=handicaps)
        return min(low, high), max(low, high)


def sequential_interval(
    values: npt.ArrayLike,
    weights: npt.ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    handicaps: npt.ArrayLike = 0.0,
) -> tuple[float, float]:
    """Compute the interval of a mean that holds at every look, and agrees with :class:`SequentialMean`.

    Definition: docs/definitions/comparisons.md#sequential-mean.

    Args:
        values: Shape (n,), in [0, 1], in the order in which they were seen, one a group.
        weights: Shape (n,), in (0, 1]; 1 by default.
        alpha: Probability that any of the intervals after 1, 2, …, n values misses the mean, in (0, 1).
        handicaps: See :meth:`SequentialMean.bet`; shape (n,), or one for all.

    Returns:
        The lower end and the upper one, in [0, 1].

    Raises:
        TrustError: If a value, a weight or ``alpha`` is out of range.
    """
    (x,) = floats(values)
    check_lengths(values=x)
    w = weights_of(weights, x.size)
    _check(x, w)
    rich = _rich(alpha) + np.broadcast_to(np.asarray(handicaps, dtype=np.float64), x.shape)
    low, high = _last_refuted(x, w, rich), 1 - _last_refuted(1 - x, w, rich)
    return (low, high) if low <= high else (high, low)  # the mean cannot have been constant


def _last_refuted(x: Floats, w: Floats, rich: Floats) -> float:
    """The largest candidate that was ever refuted as too low, or 0."""
    refuted, possible = 0.0, 1.0
    for _ in range(STEPS):
        middle = (refuted + possible) / 2
        if (_capital(np.cumsum(_growth(x, w, middle), axis=0)) >= rich).any():
            refuted = middle
        else:
            possible = middle
    return refuted


def _growth(x: Floats, w: Floats, limit: float) -> Floats:
    """Log of the factor by which each value changes the capital at each stake, shape (n, stakes)."""
    if limit == 0:
        return np.where(x > 0, np.inf, 0.0)[:, None] + np.zeros(STAKES.size)
    with np.errstate(over="ignore"):  # of a limit that is hardly above 0
        gain = w * (x - limit) / limit
        return np.asarray(np.log1p(np.multiply.outer(gain, STAKES)), dtype=np.float64)


def _capital(logs: Floats) -> Floats:
    """Log of the mean capital over the stakes, the last axis."""
    return np.asarray(np.logaddexp.reduce(logs, axis=-1) - log(STAKES.size))


def _rich(alpha: float) -> float:
    check_inside_unit(alpha=alpha)
    return log(2 / alpha)


def _check(x: Floats, w: Floats) -> None:
    check_between(0, 1, values=x)
    check_positive(1, weights=w)
