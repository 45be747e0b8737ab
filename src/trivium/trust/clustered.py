"""Summarises clustered values and computes the interval of their mean.

Definition: docs/definitions/intervals.md#standard-error.

Groups are sampled independently; values of one group may be correlated. A :class:`ClusteredMean` holds a few
sums over the groups, from which it computes the one-sided p-value of any value (:meth:`ClusteredMean.tail`).
The interval holds the values that neither side rejects. Gates, comparisons and the number of cases needed use
the same tails.
"""

from collections.abc import Callable, Iterator
from math import fsum, inf, isfinite, sqrt
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.arrays import Floats, Ints, check_finite, check_inside_unit, check_lengths, floats
from trivium.trust.distributions import Interval, beta_probability, t_critical_value

Groups = tuple[Floats, Floats]
"""Of each of some groups, the sum over its values of their difference to a number, and its size."""

Kind = Literal["mean", "rate", "difference"]

SAME = 1e-12
"""Spread and differences below this share of the range count as rounding errors."""

FEW_GROUPS, TOO_FEW_GROUPS = 20, 10
"""Intervals of fewer groups have a warning, and intervals of too few are not labelled with a level.

Definition: docs/definitions/intervals.md#groups.
"""

_ALIKE_POWER = 6
"""Turns how alike changes are into the size of the steps in which their sum can vary, in mean changes. In
simulations 8 keeps the error of the sign-flip test as well, and 4 finds fewer losses."""

_LEAST_COUNT = 1e-100
_LEAST_TAIL = 1e-15
_MOST_STEPS, _STRAIGHT_STEPS = 100, 12


class ClusteredMean(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The mean of clustered values, with the sums that its interval needs.

    Definition: docs/definitions/intervals.md#standard-error.

    Attributes:
        kind: Type of value: any number (``mean``), 0 or 1 (``rate``), or a difference in [-1, 1].
        mean: The mean over values, all weighted equally.
        n: Number of values.
        groups: Number of groups, at least 2.
        equal: Whether all groups have the same mean up to rounding, so that the variance cannot be estimated.
        squares: Sum over groups of d², where d is the sum of deviations from the mean in a group.
        cubes: Sum over groups of d³.
        cross: Sum over groups of d · size.
        cross_squares: Sum over groups of d² · size.
        cross_sizes: Sum over groups of d · size².
        sizes: Sum over groups of size².
        size_cubes: Sum over groups of size³.
        change: Sum over groups of the absolute sum of their values.
        alike: How alike the absolute sums s of the groups are, from 0 to 1: (Σ s²)² / (Σ s · Σ s³).
        freedom: Satterthwaite's degrees of freedom of the variance of the mean.
        low: Lower end of the range of a value, or -inf.
        high: Upper end of the range of a value, or inf.
    """

    kind: Kind
    mean: float
    n: float
    groups: float
    equal: bool
    squares: float
    cubes: float
    cross: float
    cross_squares: float
    cross_sizes: float
    sizes: float
    size_cubes: float
    change: float
    alike: float
    freedom: float
    low: float
    high: float

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
        """Summarise values too large for memory, read in chunks.

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
        sums = _GroupSums(groups(center), center)
        if sums.count < 2:
            return None
        spread = fsum([float(((part - center) ** 2).sum()) for part in values()]) / found.n
        scale = max(abs(found.least), abs(found.most), high - low if isfinite(high - low) else 0.0)
        variance = sums.count / (sums.count - 1) * sums.squares / found.n**2
        return cls(
            kind=kind,
            mean=min(max(center, found.least), found.most),
            n=found.n,
            groups=sums.count,
            equal=sqrt(variance) <= SAME * scale,
            squares=sums.squares,
            cubes=sums.cubes,
            cross=sums.cross,
            cross_squares=sums.cross_squares,
            cross_sizes=sums.cross_sizes,
            sizes=sums.sizes[2],
            size_cubes=sums.sizes[3],
            change=sums.change,
            alike=sums.alike,
            freedom=sums.freedom(variance, spread),
            low=low,
            high=high,
        )

    @property
    def variance(self) -> float:
        """Cluster-robust variance of the mean."""
        return self.groups / (self.groups - 1) * self.squares / self.n**2

    @property
    def effective_groups(self) -> float:
        """Number of groups of equal size that weigh as much: n² / Σ size² (Kish 1965)."""
        return self.n**2 / self.sizes

    def interval(self, level: float = 0.95) -> Interval | None:
        """The interval of the mean; None if all values are equal and the range is unbounded.

        Raises:
            ValueError: If ``level`` does not lie between 0 and 1.
        """
        check_inside_unit(level=level)
        ends = self.ends(level)
        if ends is None:
            return None
        return Interval(
            low=ends[0],
            high=ends[1],
            level=level,
            method="Gaffke" if self._closed else "cluster t",
            n=int(self.n),
            groups=int(self.groups),
            std_error=0.0 if self.equal else sqrt(self.variance),
        )

    def ends(self, level: float) -> tuple[float, float] | None:
        """Lower and upper end of the interval; None as for :meth:`interval`."""
        if self._closed:
            return self._end(self.low, (1 - level) / 2), self._end(self.high, (1 - level) / 2)
        if self.equal:
            return None
        reach = t_critical_value(level, max(1, int(self.freedom))) * sqrt(self.variance)
        return max(self.low, self.mean - reach), min(self.high, self.mean + reach)

    def tail(self, value: float) -> float:
        """One-sided p-value of the hypothesis that the true mean lies at ``value`` or beyond it.

        Definitions: docs/definitions/intervals.md#cluster-mean, docs/definitions/intervals.md#p-value.

        Returns:
            In [0, 1]; 1 if ``value`` is the mean.
        """
        side = 1.0 if value < self.mean else -1.0
        shift = side * (self.mean - value)
        if not shift or (self.equal and not self._closed):
            return 1.0
        if not self._closed:
            t2, freedom = shift**2 / self.variance, max(1, int(self.freedom))
            return beta_probability(freedom / (freedom + t2), freedom / 2, 0.5) / 2
        width = self.high - self.low
        room = (value - self.low if side > 0 else self.high - value) / width
        if room <= SAME:
            return 0.0
        # Sums over groups, one unseen one among them, of e, e² and e³: e is the sum of the differences of a
        # group's values to `value`, away from the end of the range at which the unseen group lies, as a share
        # of the range.
        shift, cross, cross_sizes = shift / width, side * self.cross / width, side * self.cross_sizes / width
        squares, cross_squares = self.squares / width / width, self.cross_squares / width / width
        unseen = room * self.sizes / self.n
        first = shift * self.n - unseen
        second = squares + 2 * shift * cross + shift**2 * self.sizes + unseen**2
        third = side * self.cubes / width / width / width + 3 * shift * cross_squares
        third += 3 * shift**2 * cross_sizes + shift**3 * self.size_cubes - unseen**3
        # Gains of `gain` and losses of `loss` whose numbers have gamma distributions of the same three sums.
        loss = max(unseen, -1.0001 * third / second)
        spare = second + loss * first
        if spare <= 0:
            return 1.0
        losses = (second**2 - first * third) / (loss * (loss * spare + loss * second + third))
        gain = (third + loss * second) / spare
        gains = (first + loss * losses) / gain
        return beta_probability(loss / (gain + loss), max(_LEAST_COUNT, gains), max(_LEAST_COUNT, losses))

    def sign_flip_tail(self) -> float:
        """One-sided p-value of the hypothesis that values above and below 0 are equally likely in each group.

        Definition: docs/definitions/comparisons.md#p-value.

        Returns:
            In (0, 1]; 1 if the mean is 0.
        """
        total = abs(self.n * self.mean)
        squares = self.squares + 2 * self.mean * self.cross + self.mean**2 * self.sizes
        if not total or not squares:
            return 1.0
        changed = self.change**2 / squares
        lead = changed * min(1.0, total / self.change)
        step = self.alike**_ALIKE_POWER
        return beta_probability(0.5, (changed + lead + 1 - step) / 2, (changed - lead + 1 + step) / 2)

    @property
    def _closed(self) -> bool:
        return isfinite(self.high - self.low)

    def _end(self, limit: float, alpha: float) -> float:
        """The value between the mean and a limit of the range at which the tail is ``alpha``.

        Found on the normal scale, on which tails are nearly straight.
        """

        def excess(value: float) -> float:
            return excess_of(self.tail(value), alpha)

        return crossing(excess, limit, self.mean, excess_of(0.0, alpha), excess_of(1.0, alpha))


def excess_of(tail: float, alpha: float) -> float:
    """By how much a p-value exceeds ``alpha`` on the normal scale; finite also for 0 and 1."""
    score = NormalDist().inv_cdf
    return score(min(1 - _LEAST_TAIL, max(_LEAST_TAIL, tail))) - score(alpha)


def crossing(
    excess: Callable[[float], float], outside: float, inside: float, below: float, above: float
) -> float:
    """The number between two others at which a function is 0.

    Found by false position, which gives less weight to an end that stays twice (the Illinois method), and
    where that takes long, by bisection, too.

    Args:
        excess: The function.
        outside: Where it is below 0.
        inside: Where it is above 0.
        below: Its value ``outside``.
        above: Its value ``inside``.
    """
    was_below: bool | None = None
    for step in range(_MOST_STEPS):
        share = 0.5 if step > _STRAIGHT_STEPS and step % 3 == 0 else below / (below - above)
        at = outside + share * (inside - outside)
        found = excess(at)
        if abs(found) < 1e-12 or at in {outside, inside}:
            return at
        if found < 0:
            outside, below, above = at, found, above / 2 if was_below is True else above
        else:
            inside, above, below = at, found, below / 2 if was_below is False else below
        was_below = found < 0
    return inside


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
    """Number, sum and range of values."""

    def __init__(self, parts: Iterator[Floats], low: float, high: float) -> None:
        self.n, self.least, self.most = 0, inf, -inf
        sums = []
        for y in parts:
            if y.size:
                self.n += y.size
                self.least, self.most = min(self.least, float(y.min())), max(self.most, float(y.max()))
                sums.append(float(y.sum()))
        self.total = fsum(sums)
        if self.n and not low <= self.least <= self.most <= high:
            found = f"{self.least:g} to {self.most:g}"
            raise ValueError(f"values must lie in [{low:g}, {high:g}]; found {found}")


class _GroupSums:
    """Sums over groups; those of parts are added without a rounding error.

    Attributes:
        count: Number of groups.
        sizes: Of the size to the power of 0, 1, 2, 3 and 4.
        squares, cubes, cross, cross_squares, cross_sizes, change, alike: See :class:`ClusteredMean`.
    """

    def __init__(self, parts: Iterator[Groups], mean: float) -> None:
        sums, sizes_of = [[0.0] * 8], [[0.0] * 5]
        for d, sizes in parts:
            squared = d**2
            pairs = (d, d), (squared, d), (d, sizes), (squared, sizes), (d, sizes**2)
            moved = np.abs(d + mean * sizes)
            powers = [float((moved**power).sum()) for power in (1, 2, 3)]
            sums.append([*(float(left @ right) for left, right in pairs), *powers])
            sizes_of.append([float((sizes**power).sum()) for power in range(5)])
        self.sizes = [fsum(of_parts) for of_parts in zip(*sizes_of, strict=True)]
        self.count = int(self.sizes[0])
        added = [fsum(of_parts) for of_parts in zip(*sums, strict=True)]
        self.squares, self.cubes, self.cross, self.cross_squares, self.cross_sizes = added[:5]
        self.change, squares, cubes = added[5:]
        self.alike = min(1.0, squares**2 / (self.change * cubes)) if self.change * cubes else 1.0

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


def about_groups(groups: int, equal: float, *, level: float) -> Iterator[str]:
    """Yield a warning if intervals rest on few groups, or on many of which few hold most of the values.

    Args:
        groups: Number of groups; 0 for none.
        equal: As many groups of equal size weigh the same (``ClusteredMean.effective_groups``).
        level: Level of the intervals.
    """
    if groups == 1:
        yield "one group gives no interval: how much another group would differ is unknown"
    elif 1 < groups < TOO_FEW_GROUPS:
        yield f"intervals rest on {groups} groups: too few to call them {100 * level:g} % intervals"
    elif TOO_FEW_GROUPS <= groups < FEW_GROUPS:
        yield f"intervals rest on {groups} groups: with fewer than 20 they are wide"
    elif groups and equal < FEW_GROUPS:
        yield (
            f"intervals rest on {groups:,} unequal groups that weigh as much as {equal:.0f} equal ones: "
            "with fewer than 20 they are wide"
        )
