"""Summarises clustered values and computes the interval of their mean.

Definition: docs/definitions/intervals.md#standard-error.

Groups are sampled independently; values of one group may be correlated. A :class:`ClusteredMean` holds a few
sums over the groups, from which it computes the interval at any level. P-values (the level at which an
interval touches a value) and the number of cases needed use the same interval.
"""

from collections.abc import Callable, Iterator
from math import fsum, inf, isfinite, log10, sqrt
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import Floats, Ints, check_finite, check_inside_unit, check_lengths, floats
from trivium.trust.distributions import Interval, normal_critical_value, t_critical_value

Groups = tuple[Floats, Floats]
"""Of each of some groups, the sum over its values of their difference to a number, and its size."""

Kind = Literal["mean", "rate", "difference"]

UNSEEN_GROUPS = 0.15
"""Number of unseen groups assumed to lie at the far end of the range when all values lie at the near end (or
all differences are 0). In simulations, 0.1 covers some means near an end of the range in 93 % of samples
only; 0.25 widens intervals without improving coverage."""

TOO_FEW_GROUPS = 10
"""With fewer groups than this, some holding several values, an interval in a closed range is at least as wide
as that of as many independent values (docs/definitions/intervals.md#few-groups)."""

LEAST_P = 1e-6
"""The smallest p-value that is reported."""

RARE_CHANGES = "cluster t, rare changes"
"""Method name of the interval of differences most of which are 0."""

SAME = 1e-12
"""Spread and differences below this share of the range count as rounding errors."""


class ClusteredMean(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The mean of clustered values, with the sums that its interval needs.

    Definition: docs/definitions/intervals.md#standard-error.

    Attributes:
        kind: Type of value: any number (``mean``), 0 or 1 (``rate``), or a difference in [-1, 1].
        mean: The mean over values, all weighted equally.
        n: Number of values.
        groups: Number of groups, at least 2.
        several: Whether any group holds several values.
        equal: Whether all groups have the same mean up to rounding, so that the variance cannot be estimated.
        spread: Variance of one value.
        squares: Sum over groups of the squared sum of deviations from the mean.
        cross: Sum over groups of that sum times the group's size.
        sizes: Sum over groups of the squared size.
        freedom: Satterthwaite's degrees of freedom of the variance of the mean.
        tail_freedom: Degrees of freedom derived from the kurtosis of the groups; small when a few groups hold
            nearly all of the variance.
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
        """Summarise values.

        Args:
            values: Shape (n,), finite.
            groups: Whole-number code of the cluster of each value, shape (n,).
            kind: Type of value, see the class. The range of a rate is [0, 1], that of a difference [-1, 1].
            low: Lower end of the range of values of kind ``mean``; None if unbounded.
            high: Upper end of the range of values of kind ``mean``; None if unbounded.

        Returns:
            None without values or with a single group.

        Raises:
            ValueError: If the shapes differ, or a value is not finite or out of range.
        """
        y, codes, count = clusters(values, groups)
        if kind != "mean":
            low, high = (0.0, 1.0) if kind == "rate" else (-1.0, 1.0)
        floor, ceiling = -inf if low is None else low, inf if high is None else high
        if kind == "rate" and (other := y[(y != 0.0) & (y != 1.0)]).size:
            raise ValueError(f"outcomes must be 0 or 1; found {other[0]:g}")

        def grouped(center: float) -> Iterator[Groups]:
            sizes = np.bincount(codes, minlength=count).astype(np.float64)
            yield np.bincount(codes, weights=y - center, minlength=count).astype(np.float64), sizes

        return cls.of_parts(lambda: iter((y,)), grouped, kind=kind, low=floor, high=ceiling)

    @classmethod
    def of_parts(
        cls,
        values: Callable[[], Iterator[Floats]],
        groups: Callable[[float], Iterator[Groups]],
        *,
        kind: Kind,
        low: float = 0.0,
        high: float = 1.0,
    ) -> "ClusteredMean | None":
        """Summarise values of which only a part is in memory.

        Args:
            values: Yields all values in parts, whenever it is called: finite; those of a rate 0 or 1.
            groups: Yields all groups in parts: of each group the sum over its values of their difference to
                the given number, and its size. No group may be in two parts.
            kind: Type of value.
            low: Lower end of the range of values, or -inf.
            high: Upper end, or inf.

        Returns:
            None without values or with a single group.

        Raises:
            ValueError: If a value is out of range.
        """
        found = _Values(values(), low, high)
        if not found.n:
            return None
        center = found.total / found.n
        sums = _GroupSums(groups(center), mean := min(max(center, found.least), found.most))
        if sums.count < 2:
            return None
        spread = fsum([float(((part - center) ** 2).sum()) for part in values()]) / found.n
        scale = max(abs(found.least), abs(found.most), high - low if isfinite(high - low) else 0.0)
        variance = sums.count / (sums.count - 1) * sums.squares / found.n**2
        return cls(
            kind=kind,
            mean=mean,
            n=found.n,
            groups=sums.count,
            several=sums.count < found.n,
            # Outcomes that vary only within groups still have a variance; see `variance`.
            equal=spread == 0 if kind == "rate" else sqrt(variance) <= SAME * scale,
            spread=spread,
            squares=sums.squares,
            cross=sums.cross,
            sizes=sums.sizes[2],
            freedom=sums.freedom(variance, spread),
            tail_freedom=sums.kurtosis_freedom(),
            low=low,
            high=high,
            at_low=found.at_low / found.n,
            at_high=found.at_high / found.n,
            unchanged=found.unchanged / found.n,
            change=found.change / found.n,
            wins=sums.wins,
            losses=sums.losses,
        )

    @property
    def variance(self) -> float:
        """Cluster-robust variance of the mean; for a rate at least that of independent outcomes."""
        return self._with_unseen_groups(0.0, 0.0)[1]

    def interval(self, level: float = 0.95) -> Interval | None:
        """The interval of the mean; None if all values are equal and the range is unbounded.

        Raises:
            ValueError: If ``level`` does not lie between 0 and 1.
        """
        check_inside_unit(level=level)
        ends = self.ends(level)
        if ends is None:
            return None
        low, high, method = ends
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
        """Standard error of the mean; for rare changes it is derived from the width of the interval."""
        if self.equal:
            return 0.0
        if method == RARE_CHANGES:
            return width / 2 / t_critical_value(level, max(1, int(self.freedom)))
        return sqrt(self.variance)

    def ends(self, level: float) -> tuple[float, float, str] | None:
        """Lower end, upper end and method of the interval; None as for :meth:`interval`."""
        ends: tuple[float, float, str] | None
        if self.kind == "rate":
            ends = self._rate_ends(level)
        elif self.equal:
            ends = self._equal_values_ends(level)
        elif self.kind == "difference" and self.unchanged > 0.5:
            ends = self._rare_changes_ends(level)
        else:
            ends = self._mean_ends(level)
        closed = isfinite(self.high - self.low)
        if ends is None or not (self.several and closed) or self.groups >= TOO_FEW_GROUPS:
            return ends
        low, high, method = ends
        unclustered_low, unclustered_high = self._unclustered_ends(level)
        return min(low, unclustered_low), max(high, unclustered_high), method

    def p_value(self, value: float) -> float | None:
        """Two-sided p-value of the hypothesis that the true mean is ``value``.

        Definition: docs/definitions/intervals.md#p-value.

        It is below 1 - level exactly when the interval at that level excludes ``value``.

        Returns:
            In [``LEAST_P``, 1]; None if there is no interval.
        """

        def excludes(alpha: float) -> bool | None:
            ends = self.ends(1 - alpha)
            return None if ends is None else not ends[0] <= value <= ends[1]

        if excludes(LEAST_P) is None:
            return None
        low_log_p, high_log_p = log10(LEAST_P), 0.0
        if excludes(LEAST_P):
            return LEAST_P
        for _ in range(32):
            middle = (low_log_p + high_log_p) / 2
            low_log_p, high_log_p = (low_log_p, middle) if excludes(10**middle) else (middle, high_log_p)
        return float(10**high_log_p)

    def _rate_ends(self, level: float) -> tuple[float, float, str]:
        """Wilson's interval if each group holds one outcome or all are equal, else the score interval."""
        if self.equal or not self.several:
            low, high = score_ends(self.mean, self.groups, normal_critical_value(level))
            return low, high, "Wilson, one outcome a group" if self.several else "Wilson"
        return self._score_ends(level)

    def _equal_values_ends(self, level: float) -> tuple[float, float, str] | None:
        """Rule of three: room for unseen groups when all observed groups are equal.

        Definition: docs/definitions/intervals.md#equal-values.
        """
        if not isfinite(self.high - self.low):
            return None
        unseen_share = self._unseen_share(level)
        low, high = (
            self.mean - unseen_share * (self.mean - self.low),
            self.mean + unseen_share * (self.high - self.mean),
        )
        return low, high, "rule of three"

    def _mean_ends(self, level: float) -> tuple[float, float, str]:
        reach = t_critical_value(level, max(1, int(self.freedom))) * sqrt(self.variance)
        low, high, width = self.mean - reach, self.mean + reach, self.high - self.low
        inside = self.low < low and high < self.high
        middle = abs(self.mean - self.low - width / 2) <= width / 4
        if isfinite(width) and (self.several or not (inside and middle)):
            return self._score_ends(level)
        return max(self.low, low), min(self.high, high), "cluster t"

    def _score_ends(self, level: float) -> tuple[float, float, str]:
        """Ends with a standard error that shrinks towards the ends of the range."""
        width = self.high - self.low
        upper = self.mean >= self.low + width / 2
        freedom = max(1, int(self.freedom))
        t = t_critical_value(level, freedom)
        far_t = t_critical_value(level, min(freedom, max(3, int(self.tail_freedom))))

        def share_ends(unseen_groups: float, t: float) -> tuple[float, float]:
            mean, variance = self._with_unseen_groups(unseen_groups, self.low if upper else self.high)
            share = min(1.0, max(0.0, (mean - self.low) / width))
            return score_ends(share, share * (1 - share) * width**2 / variance, t)

        near = share_ends(0.0, t)
        far = share_ends(UNSEEN_GROUPS * (self.at_high if upper else self.at_low), far_t)
        low, high = (far[0], near[1]) if upper else (near[0], far[1])
        return self.low + width * low, self.low + width * high, "cluster t, score"

    def _rare_changes_ends(self, level: float) -> tuple[float, float, str]:
        """Ends of the mean of differences that are mostly 0; see :func:`difference_interval`."""
        from trivium.trust.multiple_testing import sign_test  # imports SciPy, which is slow

        t = t_critical_value(level, max(1, int(self.freedom)))
        unseen_groups, unseen_share = UNSEEN_GROUPS * self.unchanged, self._unseen_share(level)
        change = (self.groups * self.change + unseen_groups) / (self.groups + unseen_groups)
        reaches = []
        for side in (-1.0, 1.0):
            mean, variance = self._with_unseen_groups(unseen_groups, side)
            one_sided = min(1.0, max(0.0, side * mean / change))
            skew = t * t * variance / change * one_sided / 2
            reach = side * mean + skew + sqrt(skew**2 + t * t * variance)
            reaches.append(min(1.0, max(reach, side * self.mean + unseen_share * (1 - side * self.mean))))
        low, high, reach = -reaches[0], reaches[1], t * sqrt(self.variance)
        significant = (sign_test(int(self.wins), int(self.losses)) or 1.0) <= 1 - level
        if self.mean < 0:
            high = self.mean + reach if significant and self.losses > self.wins else max(0.0, high)
        elif self.mean > 0:
            low = self.mean - reach if significant and self.wins > self.losses else min(0.0, low)
        return max(-1.0, low), min(1.0, high), RARE_CHANGES

    def _unclustered_ends(self, level: float) -> tuple[float, float]:
        """Ends of the interval of independent values, one per group, with the same spread."""
        variance = self.spread / (self.groups - 1)
        width = self.high - self.low
        if self.equal and not variance:
            return self.mean, self.mean
        if self.kind == "rate":
            return score_ends(self.mean, self.groups, normal_critical_value(level))
        t = t_critical_value(level, max(1, int(self.groups - 1)))
        if self.kind == "mean":
            share = (self.mean - self.low) / width
            low, high = score_ends(share, share * (1 - share) * width**2 / variance, t)
            return self.low + width * low, self.low + width * high
        reach = t * sqrt(variance)
        return max(self.low, self.mean - reach), min(self.high, self.mean + reach)

    def _unseen_share(self, level: float) -> float:
        """Upper bound on the share of groups that differ from those observed: about 3 / G (rule of three)."""
        return float(1 - (1 - level) ** (1 / self.groups))

    def _with_unseen_groups(self, unseen_groups: float, value: float) -> tuple[float, float]:
        """Mean and variance after adding this many groups of mean size with all values at ``value``."""
        groups, size = self.groups + unseen_groups, self.n / self.groups
        total = groups * size
        mean = (self.groups * self.mean + unseen_groups * value) / groups
        shift = self.mean - mean
        squares = self.squares + 2 * shift * self.cross + shift**2 * self.sizes
        squares += unseen_groups * (size * (value - mean)) ** 2
        variance = groups / (groups - 1) * squares / total**2
        if self.kind == "rate":
            variance = max(variance, mean * (1 - mean) / (total - 1))
        return mean, variance


def score_ends(rate: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's interval: all q with (q - rate)² <= z² q (1 - q) / n, for a rate in [0, 1] of n outcomes."""
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if rate == 0 else max(0.0, centre - reach)
    high = 1.0 if rate == 1 else min(1.0, centre + reach)
    return low, high


def clusters(values: npt.ArrayLike, groups: npt.ArrayLike) -> tuple[Floats, Ints, int]:
    """Check the values; return them, their group codes 0 … G - 1, and G.

    Raises:
        ValueError: If the shapes differ or a value is not finite.
    """
    (y,), codes = floats(values), np.asarray(groups)
    check_lengths(values=y, groups=codes)
    check_finite(values=y)
    if codes.dtype.kind == "i" and codes.size and codes.min() >= 0 and codes.max() < 4 * codes.size:
        used = np.bincount(codes) > 0  # faster than sorting, and needs less memory
        if used.all():
            return y, codes, used.size
        return y, (np.cumsum(used) - 1)[codes], int(np.count_nonzero(used))
    distinct, dense = np.unique(codes, return_inverse=True)
    return y, dense, distinct.size


class _Values:
    """Number, sum and range of values, how many lie at the ends of a range, and their mean absolute value."""

    def __init__(self, parts: Iterator[Floats], low: float, high: float) -> None:
        self.n = self.at_low = self.at_high = self.unchanged = 0
        self.least, self.most = inf, -inf
        sums, changes = [], []
        width = high - low
        for y in parts:
            if not y.size:
                continue
            self.n += y.size
            self.least, self.most = min(self.least, float(y.min())), max(self.most, float(y.max()))
            if isfinite(width):
                self.at_low += int(np.count_nonzero(y <= low + SAME * width))
                self.at_high += int(np.count_nonzero(y >= high - SAME * width))
            size = np.abs(y)
            self.unchanged += int(np.count_nonzero(size <= SAME))
            sums.append(float(y.sum()))
            changes.append(float(size.sum()))
        self.total, self.change = fsum(sums), fsum(changes)
        if self.n and not low <= self.least <= self.most <= high:
            found = f"{self.least:g} to {self.most:g}"
            raise ValueError(f"values must lie in [{low:g}, {high:g}]; found {found}")


class _GroupSums:
    """Sums over groups; those of parts are added without a rounding error.

    Attributes:
        count: Number of groups.
        squares: Of the squared sum of deviations of each.
        cross: Of that sum times the size.
        sizes: Of the size to the power of 0, 1, 2, 3 and 4.
        wins: Groups with a sum above 0.
        losses: Groups with a sum below 0.
    """

    def __init__(self, parts: Iterator[Groups], mean: float) -> None:
        self.wins = self.losses = 0
        squares, crosses, fourths, sizes_of = [], [], [], []
        for deviations, sizes in parts:
            squared = deviations**2
            squares.append(float(deviations @ deviations))
            fourths.append(float(squared @ squared))
            crosses.append(float(deviations @ sizes))
            sizes_of.append([float((sizes**power).sum()) for power in range(5)])
            sums = deviations + sizes * mean
            self.wins += int(np.count_nonzero(sums > SAME))
            self.losses += int(np.count_nonzero(sums < -SAME))
        self.sizes = [fsum(of_parts) for of_parts in zip(*sizes_of, strict=True)] or [0.0] * 5
        self.count = int(self.sizes[0])
        self.squares, self.cross, self._fourths = fsum(squares), fsum(crosses), fsum(fourths)

    def freedom(self, variance: float, spread: float) -> int:
        """Satterthwaite's degrees of freedom of the variance of the mean; G - 1 for groups of equal size.

        With the intra-group correlation c that the variance implies, a group of m values contributes in
        proportion to m (1 + c (m - 1)) = (1 - c) m + c m².
        """
        _, n, second, third, fourth = self.sizes
        excess = second / n - 1
        if excess <= 0 or not spread:
            return self.count - 1
        design_effect = variance * (n - 1) / spread
        correlation = min(1.0, max(0.0, (design_effect - 1) / excess))
        apart = 1 - correlation
        total = apart * n + correlation * second
        squares = apart**2 * second + 2 * apart * correlation * third + correlation**2 * fourth
        return max(1, int(total**2 / squares * (self.count - 1) / self.count + 1e-9))

    def kurtosis_freedom(self) -> int:
        """Degrees of freedom of the variance of the mean from the groups' kurtosis: G for normal ones."""
        spread = self._fourths - self.squares**2 / self.count
        return int(min(2 * self.squares**2 / spread, self.count)) if spread > 0 else self.count
