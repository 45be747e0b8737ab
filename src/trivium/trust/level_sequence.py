"""Keeps the confidence sequence of a level that is watched value by value, and says when it is sure.

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

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from math import log, log1p, sqrt
from typing import Any

import msgspec
import numpy as np

from trivium.errors import TrustError
from trivium.trust.arrays import Floats, check_inside_unit
from trivium.trust.gamblers import STAKES, ClusterWeight, Gamblers
from trivium.values import resolved

ALL_STARTS = 2.1098
"""Upper bound of the sum of 1 / (k ln²(k)) over k from 2, by which the starting capital is divided."""

LARGEST_STAKE = 0.5
"""Share of the capital that may be lost with one value; with all of it, one value could end the game."""

FIRST_MEAN, FIRST_VARIANCE = 0.5, 0.25
"""What one imagined value of weight 1 contributes to mean and variance before there are any."""

_STATE_VERSION = 2


class LevelSequence:
    """The betting confidence sequence of a mean, value by value, with a small state.

    Definitions: docs/definitions/monitoring.md#confidence-sequence, docs/definitions/monitoring.md#sure.

    The stake on the t-th value is √(2 ln(2 / alpha) / (V t ln(1 + t))), where V is the variance of the
    earlier ones, but at most half of the capital (the "hedged capital" of Waudby-Smith & Ramdas 2024, section
    4.2). An update costs some 20 µs.

    The intervals assume one constant mean. The one-sided answers (:meth:`sure_below`, :meth:`sure_above`) do
    not: they refute that the mean was on the other side of a threshold *all the time*. Bets from the first
    value on become sure soon if the mean was on this side from the beginning, but have a long past to
    overcome if it crossed the threshold late. For the ``thresholds`` named beforehand half of ``alpha`` goes
    to gamblers who start again and again: those of the k-th start bring 1 / (c (k + 1) ln²(k + 1)) of the
    capital of their stake, which is 1 in all. So a late crossing takes little longer than an early one. Small
    stakes win slowly, and start as rarely as costs them little: fewer starts leave more to each.

    Attributes:
        alpha: Probability that any interval misses the mean, and that a one-sided answer is ever wrong.
        grid: Number of steps into which [0, 1] is divided.
        n: Number of values so far.
        surely_above: The largest grid point that the mean is surely above (one-sided), or None.
        surely_below: The smallest grid point that the mean is surely below (one-sided), or None.
        moved: Whether some candidate was excluded from both sides, so that the mean cannot have been
            constant; the ends then stay as they are.
    """

    def __init__(self, alpha: float = 0.05, grid: int = 1000, thresholds: Iterable[float] = ()) -> None:
        """Begin a sequence without values.

        Args:
            alpha: In (0, 1).
            grid: Number of steps, at least 2.
            thresholds: Those that :meth:`sure_below` and :meth:`sure_above` will be asked about, each in (0,
                1); they may be asked about others.

        Raises:
            TrustError: If an option is out of range.
        """
        check_inside_unit(alpha=alpha)
        if grid < 2:
            raise TrustError(f"grid must be at least 2; found {grid}")
        self.alpha, self.grid, self.n = alpha, grid, 0
        self._low, self._high = -1, grid + 1  # numbers of the last candidates excluded on each side
        self.surely_above: float | None = None
        self.surely_below: float | None = None
        self.moved = False
        self._scale = ClusterWeight()
        self._weight, self._weighted_sum, self._squares = 1.0, FIRST_MEAN, FIRST_VARIANCE
        self._keep(0, np.zeros((2, grid + 1)))
        self._crossings = {float(threshold): _Crossings.none(float(threshold)) for threshold in thresholds}

    @property
    def lower(self) -> float:
        """Lower end: the largest candidate that was ever excluded as too low, or 0."""
        return max(self._low, 0) / self.grid

    @property
    def upper(self) -> float:
        """Upper end: the smallest candidate that was ever excluded as too high, or 1."""
        return min(self._high, self.grid) / self.grid

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Where late crossings are noticed, too."""
        return tuple(self._crossings)

    def update(self, value: float, weight: float = 1.0) -> None:
        """Add a value.

        Args:
            value: In [0, 1]; the weighted mean of a cluster, if values come in clusters.
            weight: Smallest sampling probability of the rules divided by that of the value; the sum of these
                over a cluster. Above 0; see :class:`~trivium.trust.gamblers.ClusterWeight`.

        Raises:
            TrustError: If the value or the weight is out of range.
        """
        if not 0 <= value <= 1:
            raise TrustError(f"a value must lie in [0, 1]; found {value}")
        weight = self._scale.scaled(weight)
        self.n += 1
        if not self.moved:
            staked = sqrt(2 * log(2 / self.alpha) / (self._squares * log1p(self.n)))
            gain = weight * (value - self._points)
            self._log_capital[0] += np.log1p(np.minimum(staked, self._most_up) * gain)
            self._log_capital[1] += np.log1p(np.minimum(staked, self._most_down) * -gain)
            self._exclude()
        for crossings in self._crossings.values():
            crossings.update(value, weight, self.n, 2 / self.alpha)
        self._weight += weight
        self._weighted_sum += weight * value
        self._squares += (weight * (value - self._weighted_sum / self._weight)) ** 2

    def sure_below(self, threshold: float) -> bool:
        """Whether "the mean was always at least ``threshold``" is refuted, one-sided at ``alpha``.

        Over a whole life of a sequence whose mean is at least ``threshold``, the answer is ever yes with
        probability at most ``alpha``. Once given it stays. Thresholds between grid points are rounded down.
        """
        threshold = float(threshold)
        if threshold in self._crossings:
            return self._high / self.grid <= threshold or self._crossings[threshold].fell
        return self.surely_below is not None and self.surely_below <= threshold

    def sure_above(self, threshold: float) -> bool:
        """Whether "the mean was always at most ``threshold``" is refuted, one-sided at ``alpha``."""
        threshold = float(threshold)
        if threshold in self._crossings:
            return self._low / self.grid >= threshold or self._crossings[threshold].rose
        return self.surely_above is not None and self.surely_above >= threshold

    def to_state(self) -> dict[str, Any]:
        """What :meth:`from_state` needs, as plain values that JSON can hold.

        The capital is kept only for candidates that are not excluded: some 20 kB at first, 5 kB after a
        hundred values, less than 2 kB after a thousand; and 1 kB for each threshold.
        """
        return {
            "version": _STATE_VERSION,
            "alpha": self.alpha,
            "grid": self.grid,
            "n": self.n,
            "low": self._low,
            "high": self._high,
            "surely_above": self.surely_above,
            "surely_below": self.surely_below,
            "moved": self.moved,
            "largest_weight": self._scale.largest,
            "weight": self._weight,
            "weighted_sum": self._weighted_sum,
            "squares": self._squares,
            "first": self._first,
            "log_capital": b64encode(self._log_capital.astype("<f8").tobytes()).decode("ascii"),
            "crossings": msgspec.to_builtins(list(self._crossings.values())),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "LevelSequence":
        """Continue a sequence where :meth:`to_state` left it, with the same figures.

        Raises:
            TrustError: If the state is not one of this version.
        """
        try:
            if state["version"] != _STATE_VERSION:
                raise ValueError(f"version {state['version']}")
            sequence = cls(float(state["alpha"]), int(state["grid"]))
            sequence._low, sequence._high = int(state["low"]), int(state["high"])
            for name in ("surely_above", "surely_below"):
                setattr(sequence, name, None if state[name] is None else float(state[name]))
            sequence.n, sequence.moved = int(state["n"]), bool(state["moved"])
            sequence._scale = ClusterWeight(float(state["largest_weight"]))
            sequence._weight = float(state["weight"])
            sequence._weighted_sum = float(state["weighted_sum"])
            sequence._squares = float(state["squares"])
            stored = np.frombuffer(b64decode(state["log_capital"], validate=True), dtype="<f8")
            sequence._keep(int(state["first"]), stored.astype(np.float64).reshape(2, -1))
            crossings = msgspec.convert(state["crossings"], list[_Crossings])
            sequence._crossings = {each.threshold: each for each in crossings}
        except (KeyError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise TrustError(f"not the state of a LevelSequence: {error}") from error
        return sequence

    def _keep(self, first: int, log_capital: Floats) -> None:
        """Go on with the candidates from number ``first`` on whose capital is given, shape (2, k)."""
        self._first, self._log_capital = first, log_capital
        self._points = np.arange(first, first + log_capital.shape[1]) / self.grid
        with np.errstate(divide="ignore"):
            self._most_up, self._most_down = LARGEST_STAKE / self._points, LARGEST_STAKE / (1 - self._points)

    def _exclude(self) -> None:
        """Leave out the candidates against which a gambler is rich enough.

        Against a higher candidate the gambler on values above never has more, whatever the values; so the
        excluded ones lie at the ends. The last excluded on each side is kept: if it is excluded from the
        other side, too, the mean has moved.
        """
        up, down = self._log_capital
        one_sided, two_sided = -log(self.alpha), -log(self.alpha / 2)
        first, after = self._first, self._first + up.size
        sure_above, sure_below = _at_least(up[::-1], one_sided), _at_least(down, one_sided)
        if sure_above:
            self.surely_above = max(self.surely_above or 0.0, (first + sure_above - 1) / self.grid)
        if sure_below:
            self.surely_below = min(self.surely_below or 1.0, (after - sure_below) / self.grid)
        low = max(self._low, first - 1 + _at_least(up[::-1], two_sided))
        high = min(self._high, after - _at_least(down, two_sided))
        if low >= high:
            self.moved = True
        elif (low, high) != (self._low, self._high):
            self._low, self._high = low, high
            self._keep(max(low, 0), self._log_capital[:, max(low, 0) - first : high + 1 - first].copy())


@resolved
class _Crossings(msgspec.Struct, kw_only=True):
    """Whether the mean was surely below, and surely above, a threshold at some time, early or late."""

    threshold: float
    fell: bool
    rose: bool
    falls: Gamblers
    rises: Gamblers

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise TrustError(f"a threshold must lie between 0 and 1; found {self.threshold}")

    @classmethod
    def none(cls, threshold: float) -> "_Crossings":
        falls, rises = Gamblers.none(), Gamblers.none()
        return cls(threshold=threshold, fell=False, rose=False, falls=falls, rises=rises)

    def update(self, value: float, weight: float, step: int, enough: float) -> None:
        """Let the gamblers bet on the ``step``-th value; a capital of ``enough`` makes sure."""
        sides = ((self.falls, self.threshold, value), (self.rises, 1 - self.threshold, 1 - value))
        self.falls, self.rises = (
            side.bet(limit, at, weight, brought=[_brought(step, each) for each in _periods(limit)], time=step)
            for side, limit, at in sides
        )
        self.fell = self.fell or self.falls.capital >= enough
        self.rose = self.rose or self.rises.capital >= enough


@cache
def _periods(limit: float) -> tuple[int, ...]:
    """Values between two starts of each stake, by which it wins half a unit of log capital at most.

    If the mean falls to (1 - f) limit, where the stake f wins fastest, that is f² limit / (2 (1 - limit)) a
    value.
    """
    return tuple(max(1, int((1 - limit) / (each**2 * limit))) for each in STAKES)


def _brought(step: int, period: int) -> float:
    """What those bring who start at the ``step``-th value with a stake that starts every ``period``-th."""
    start, waits = divmod(step - 1, period)
    return 0.0 if waits else 1 / (ALL_STARTS * len(STAKES) * (start + 2) * log1p(start + 1) ** 2)


def _at_least(rising: Floats, limit: float) -> int:
    """Number of entries that are at least ``limit``."""
    return rising.size - int(rising.searchsorted(limit))
