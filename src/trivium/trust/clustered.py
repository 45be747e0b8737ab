"""Summarises values that come in groups so that the interval of their mean follows (spec: metrics, B.0).

The uncertainty is about which groups were sampled, so the values of one group never count as independent.
A :class:`ClusteredMean` holds a few sums over the groups, from which the interval at any level is computed.
P-values (the level at which an interval touches a value) and needed cases come from that same interval.
"""

from math import inf, isfinite, log10, sqrt
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.distributions import Interval, normal_reach, student_reach

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Kind = Literal["mean", "rate", "difference"]

UNMET = 0.15
"""Groups at the far end of the range that a mean allows for, were all values at the near one (or all
differences 0). By simulation: with 0.1 some means near an end of the range are covered in 93 %, with 0.25
intervals are wide for nothing."""

TOO_FEW_GROUPS = 10
"""Under so many groups of several values, an interval in a closed range is never narrower than that of as
many independent values (spec: metrics, B.3)."""

LEAST_P = 1e-6
"""The smallest p-value that is reported."""

RARE_CHANGES = "cluster t, rare changes"
"""How an interval of differences that are mostly 0 is made."""

SAME = 1e-12
"""Spread and differences below this, as a share of the range, are rounding."""


class ClusteredMean(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The mean of values in groups, summed up as far as intervals need it.

    Attributes:
        kind: What the values are: any numbers (``mean``), 0 or 1 (``rate``), or differences in [-1, 1].
        mean: The mean over values that weigh the same.
        n: Number of values.
        groups: Number of groups, at least 2.
        several: Whether a group holds several values.
        equal: Whether all groups have the same mean up to rounding, and none has a spread to go by.
        spread: Variance of one value.
        squares: Sum over groups of the squared sum of deviations from the mean.
        cross: Sum over groups of that sum times the group's size.
        sizes: Sum over groups of the squared size.
        freedom: Satterthwaite's degrees of freedom of the variance of the mean.
        tail_freedom: Degrees of freedom by the kurtosis of the groups: few of a rare thing's groups have
            nearly all of it.
        low: Lower end of the range of a value, or -inf.
        high: Upper end of the range of a value, or inf.
        at_low: Share of the values at the lower end.
        at_high: Share of the values at the upper end.
        unchanged: Share of the values that are 0.
        change: Mean absolute value.
        wins: Groups with a sum above 0.
        losses: Groups with a sum below 0.
    """

    kind: Kind
    mean: float
    n: float
    groups: float
    several: bool
    equal: bool
    spread: float
    squares: float
    cross: float
    sizes: float
    freedom: float
    tail_freedom: float
    low: float
    high: float
    at_low: float
    at_high: float
    unchanged: float
    change: float
    wins: float
    losses: float

    @classmethod
    def of(
        cls,
        values: npt.ArrayLike,
        groups: npt.ArrayLike,
        *,
        kind: Kind = "mean",
        low: float | None = 0.0,
        high: float | None = 1.0,
    ) -> "ClusteredMean | None":
        """Sum up values.

        Args:
            values: Shape (n,), finite.
            groups: Whole-number code of the cluster of each value, shape (n,).
            kind: See above; a rate's range is [0, 1], a difference's [-1, 1].
            low: Lower end of the range of a mean's value; None where there is none.
            high: Upper end of the range of a mean's value; None where there is none.

        Returns:
            None without values or with one group.

        Raises:
            ValueError: If the shapes differ, or a value is not finite or out of range.
        """
        y, codes, count = clusters(values, groups)
        if kind != "mean":
            low, high = (0.0, 1.0) if kind == "rate" else (-1.0, 1.0)
        floor, ceiling = -inf if low is None else low, inf if high is None else high
        if kind == "rate" and not np.isin(y, (0.0, 1.0)).all():
            raise ValueError(f"outcomes must be 0 or 1; found {y[~np.isin(y, (0.0, 1.0))][0]:g}")
        if y.size and not floor <= y.min() <= y.max() <= ceiling:
            raise ValueError(f"values must lie in [{floor:g}, {ceiling:g}]; found {y.min():g} to {y.max():g}")
        if count < 2:
            return None
        mean, spread = float(np.clip(y.mean(), y.min(), y.max())), float(np.var(y))
        sizes = np.bincount(codes, minlength=count).astype(np.float64)
        strays = np.bincount(codes, weights=y - y.mean(), minlength=count).astype(np.float64)
        squares = float(strays @ strays)
        width = ceiling - floor
        scale = max(abs(y.min()), abs(y.max()), width if isfinite(width) else 0.0)
        variance = count / (count - 1) * squares / y.size**2
        # Outcomes that differ within groups alone do have a spread; see `variance`.
        equal = spread == 0 if kind == "rate" else sqrt(variance) <= SAME * scale
        sums = strays + sizes * mean
        closed = isfinite(width)
        return cls(
            kind=kind,
            mean=mean,
            n=y.size,
            groups=count,
            several=count < y.size,
            equal=equal,
            spread=spread,
            squares=squares,
            cross=float(strays @ sizes),
            sizes=float(sizes @ sizes),
            freedom=_freedom(sizes, variance, spread),
            tail_freedom=_kurtosis_freedom(strays),
            low=floor,
            high=ceiling,
            at_low=float((y <= floor + SAME * width).mean()) if closed else 0.0,
            at_high=float((y >= ceiling - SAME * width).mean()) if closed else 0.0,
            unchanged=float((np.abs(y) <= SAME).mean()),
            change=float(np.abs(y).mean()),
            wins=int(np.count_nonzero(sums > SAME)),
            losses=int(np.count_nonzero(sums < -SAME)),
        )

    @property
    def variance(self) -> float:
        """Cluster-robust variance of the mean; of a rate at least that of independent outcomes."""
        return self._with_unmet(0.0, 0.0)[1]

    def interval(self, level: float = 0.95) -> Interval | None:
        """The interval of the mean; None where all values are equal and the range has an open end.

        Raises:
            ValueError: If ``level`` does not lie between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must lie between 0 and 1; found {level}")
        found = self.ends(level)
        if found is None:
            return None
        low, high, method = found
        return Interval(
            low=low,
            high=high,
            level=level,
            method=method,
            n=int(self.n),
            groups=int(self.groups),
            std_error=self._std_error(high - low, level, method),
        )

    def _std_error(self, width: float, level: float, method: str) -> float:
        """Standard error of the mean; of rare changes the one that matches the width of the interval."""
        if self.equal:
            return 0.0
        if method == RARE_CHANGES:
            return width / 2 / student_reach(level, max(1, int(self.freedom)))
        return sqrt(self.variance)

    def ends(self, level: float) -> tuple[float, float, str] | None:
        """Both ends of the interval, and how it was made."""
        found: tuple[float, float, str] | None
        if self.kind == "rate":
            found = self._of_rate(level)
        elif self.equal:
            found = self._of_equal_values(level)
        elif self.kind == "difference" and self.unchanged > 0.5:
            found = self._of_rare_changes(level)
        else:
            found = self._of_mean(level)
        closed = isfinite(self.high - self.low)
        if found is None or not (self.several and closed) or self.groups >= TOO_FEW_GROUPS:
            return found
        low, high, method = found
        least, most = self._of_as_many_values(level)
        return min(low, least), max(high, most), method

    def p_value(self, value: float) -> float | None:
        """Two-sided p-value of a true mean of ``value``: below 1 - level where the interval is off it.

        Returns:
            From ``LEAST_P`` to 1; None where there is no interval.
        """

        def off(alpha: float) -> bool | None:
            found = self.ends(1 - alpha)
            return None if found is None else not found[0] <= value <= found[1]

        if off(LEAST_P) is None:
            return None
        few, many = log10(LEAST_P), 0.0
        if off(LEAST_P):
            return LEAST_P
        for _ in range(32):
            middle = (few + many) / 2
            few, many = (few, middle) if off(10**middle) else (middle, many)
        return float(10**many)

    def _of_rate(self, level: float) -> tuple[float, float, str]:
        """Wilson's interval of outcomes of which each is a group's only one, or all are equal."""
        if self.equal or not self.several:
            low, high = score_ends(self.mean, self.groups, normal_reach(level))
            return low, high, "Wilson, one outcome a group" if self.several else "Wilson"
        return self._of_scores(level)

    def _of_equal_values(self, level: float) -> tuple[float, float, str] | None:
        """What as many groups as were met leave open, were all of them equal."""
        if not isfinite(self.high - self.low):
            return None
        unseen = self._unseen(level)
        low, high = self.mean - unseen * (self.mean - self.low), self.mean + unseen * (self.high - self.mean)
        return low, high, "rule of three"

    def _of_mean(self, level: float) -> tuple[float, float, str]:
        reach = student_reach(level, max(1, int(self.freedom))) * sqrt(self.variance)
        low, high, width = self.mean - reach, self.mean + reach, self.high - self.low
        inside = self.low < low and high < self.high
        middle = abs(self.mean - self.low - width / 2) <= width / 4
        if isfinite(width) and (self.several or not (inside and middle)):
            return self._of_scores(level)
        return max(self.low, low), min(self.high, high), "cluster t"

    def _of_scores(self, level: float) -> tuple[float, float, str]:
        """Ends with an error that shrinks towards the ends of the range."""
        width = self.high - self.low
        upper = self.mean >= self.low + width / 2
        freedom = max(1, int(self.freedom))
        t = student_reach(level, freedom)
        far_t = student_reach(level, min(freedom, max(3, int(self.tail_freedom))))

        def share_ends(unmet: float, t: float) -> tuple[float, float]:
            mean, variance = self._with_unmet(unmet, self.low if upper else self.high)
            share = min(1.0, max(0.0, (mean - self.low) / width))
            return score_ends(share, share * (1 - share) * width**2 / variance, t)

        near = share_ends(0.0, t)
        far = share_ends(UNMET * (self.at_high if upper else self.at_low), far_t)
        low, high = (far[0], near[1]) if upper else (near[0], far[1])
        return self.low + width * low, self.low + width * high, "cluster t, score"

    def _of_rare_changes(self, level: float) -> tuple[float, float, str]:
        """Ends of the mean of differences that are mostly 0; see :func:`difference_interval`."""
        from trivium.trust.multiple_testing import (
            sign_test,  # SciPy takes long to import, and only this needs it
        )

        t = student_reach(level, max(1, int(self.freedom)))
        unmet, unseen = UNMET * self.unchanged, self._unseen(level)
        change = (self.groups * self.change + unmet) / (self.groups + unmet)
        reaches = []
        for side in (-1.0, 1.0):
            mean, variance = self._with_unmet(unmet, side)
            one_sided = min(1.0, max(0.0, side * mean / change))
            skew = t * t * variance / change * one_sided / 2
            reach = side * mean + skew + sqrt(skew**2 + t * t * variance)
            reaches.append(min(1.0, max(reach, side * self.mean + unseen * (1 - side * self.mean))))
        low, high, reach = -reaches[0], reaches[1], t * sqrt(self.variance)
        sure = (sign_test(int(self.wins), int(self.losses)) or 1.0) <= 1 - level
        if self.mean < 0:
            high = self.mean + reach if sure and self.losses > self.wins else max(0.0, high)
        elif self.mean > 0:
            low = self.mean - reach if sure and self.wins > self.losses else min(0.0, low)
        return max(-1.0, low), min(1.0, high), RARE_CHANGES

    def _of_as_many_values(self, level: float) -> tuple[float, float]:
        """Ends of the interval of as many independent values as there are groups, of the same spread."""
        variance = self.spread / (self.groups - 1)
        width = self.high - self.low
        if self.equal and not variance:
            return self.mean, self.mean
        if self.kind == "rate":
            return score_ends(self.mean, self.groups, normal_reach(level))
        t = student_reach(level, max(1, int(self.groups - 1)))
        if self.kind == "mean":
            share = (self.mean - self.low) / width
            low, high = score_ends(share, share * (1 - share) * width**2 / variance, t)
            return self.low + width * low, self.low + width * high
        reach = t * sqrt(variance)
        return max(self.low, self.mean - reach), min(self.high, self.mean + reach)

    def _unseen(self, level: float) -> float:
        """Share of groups unlike those met that is still left open: about 3 in G (rule of three)."""
        return float(1 - (1 - level) ** (1 / self.groups))

    def _with_unmet(self, unmet: float, value: float) -> tuple[float, float]:
        """Mean and its variance with so many groups more, of mean size and all at ``value``."""
        groups, size = self.groups + unmet, self.n / self.groups
        total = groups * size
        mean = (self.groups * self.mean + unmet * value) / groups
        shift = self.mean - mean
        squares = self.squares + 2 * shift * self.cross + shift**2 * self.sizes
        squares += unmet * (size * (value - mean)) ** 2
        variance = groups / (groups - 1) * squares / total**2
        if self.kind == "rate":
            variance = max(variance, mean * (1 - mean) / (total - 1))
        return mean, variance


def score_ends(rate: float, n: float, z: float) -> tuple[float, float]:
    """The q with (q - rate)² <= z² q (1 - q) / n: Wilson's ends for a rate in [0, 1] of n outcomes."""
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if rate == 0 else max(0.0, centre - reach)
    high = 1.0 if rate == 1 else min(1.0, centre + reach)
    return low, high


def clusters(values: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[Floats, Ints, int]:
    """Values, group codes 0 … G - 1 and G, checked.

    Raises:
        ValueError: If the shapes differ or a value is not finite.
    """
    y, codes = np.asarray(values, dtype=np.float64), np.asarray(groups)
    if y.ndim != 1 or y.shape != codes.shape:
        raise ValueError(
            f"values and groups must be flat and of one length; found {y.shape} and {codes.shape}"
        )
    if not np.isfinite(y).all():
        raise ValueError(
            f"values must be finite; found {y[~np.isfinite(y)][0]} at {np.argmin(np.isfinite(y))}"
        )
    if codes.dtype.kind == "i" and codes.size and codes.min() >= 0 and codes.max() < 4 * codes.size:
        met = np.bincount(codes) > 0  # faster than sorting, and of less memory
        if met.all():
            return y, codes, met.size
        return y, (np.cumsum(met) - 1)[codes], int(np.count_nonzero(met))
    known, dense = np.unique(codes, return_inverse=True)
    return y, dense, known.size


def _freedom(sizes: Floats, variance: float, spread: float) -> int:
    """Satterthwaite's degrees of freedom of the variance of the mean: G - 1 where groups are of one size.

    A group of m values with the intra-group correlation that the variance implies has a part of it that is
    proportional to m (1 + correlation · (m - 1)).
    """
    n, count = float(sizes.sum()), sizes.size
    excess = float(sizes @ sizes) / n - 1
    if excess <= 0 or not spread:
        return count - 1
    design_effect = variance * (n - 1) / spread
    parts = sizes * (1 + min(1.0, max(0.0, (design_effect - 1) / excess)) * (sizes - 1))
    return max(1, int(float(parts.sum() ** 2 / (parts @ parts)) * (count - 1) / count + 1e-9))


def _kurtosis_freedom(strays: Floats) -> int:
    """Degrees of freedom of the variance of the mean, by how unequally groups make it up: G if normally."""
    squares = strays**2
    total = float(squares.sum())
    spread = float(squares @ squares) - total**2 / squares.size
    return int(min(2 * total**2 / spread, squares.size)) if spread > 0 else squares.size
