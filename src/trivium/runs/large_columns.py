"""Summarises columns of more values than are kept in memory, a part at a time (spec: metrics, B.0)."""

from collections.abc import Callable, Iterator
from math import fsum, sqrt

import numpy as np
import numpy.typing as npt

from trivium.number_buffer import NumberBuffer, ranges
from trivium.trust.clustered import SAME, ClusteredMean

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Groups = tuple[Floats, Ints]
"""Of each of some groups, the sum over its values of their difference to a number, and its size."""


def mean_of_parts(parts: Iterator[Floats]) -> float | None:
    """Mean of the values of all parts; None if there are none."""
    sums, count = [], 0
    for part in parts:
        sums.append(float(part.sum()))
        count += part.size
    return fsum(sums) / count if count else None


def clustered_mean_of_parts(
    values: Callable[[], Iterator[Floats]], groups: Callable[[float], Iterator[Groups]]
) -> ClusteredMean | None:
    """Clustered mean of values in [0, 1]: a rate if every value is 0 or 1.

    Equals ``ClusteredMean.of`` up to rounding; the sums of the parts are added exactly.

    Args:
        values: Yields all values in parts, whenever it is called.
        groups: Yields all groups in parts, for the number from which their values are to differ.

    Returns:
        None without values or with a single group.

    Raises:
        ValueError: If a value is not in [0, 1].
    """
    center = mean_of_parts(values())
    if center is None:
        return None
    n = at_low = at_high = unchanged = fractions = 0
    low, high = np.inf, -np.inf
    changes, spreads = [], []
    for y in values():
        if not y.size:
            continue
        n += y.size
        low, high = min(low, float(y.min())), max(high, float(y.max()))
        fractions += int(np.count_nonzero((y != 0.0) & (y != 1.0)))
        at_low += int(np.count_nonzero(y <= SAME))
        at_high += int(np.count_nonzero(y >= 1.0 - SAME))
        unchanged += int(np.count_nonzero(np.abs(y) <= SAME))
        changes.append(float(np.abs(y).sum()))
        spreads.append(float(((y - center) ** 2).sum()))
    if not 0.0 <= low <= high <= 1.0:
        raise ValueError(f"values must lie in [0, 1]; found {low:g} to {high:g}")
    mean, spread = min(max(center, low), high), fsum(spreads) / n
    sums = _Sums(groups(center), mean)
    if sums.count < 2:
        return None
    variance = sums.count / (sums.count - 1) * sums.squares / n**2
    rate = not fractions
    return ClusteredMean(
        kind="rate" if rate else "mean",
        mean=mean,
        n=n,
        groups=sums.count,
        several=sums.count < n,
        equal=spread == 0 if rate else sqrt(variance) <= SAME,
        spread=spread,
        squares=sums.squares,
        cross=sums.cross,
        sizes=sums.sizes[2],
        freedom=sums.freedom(variance, spread),
        tail_freedom=sums.kurtosis_freedom(),
        low=0.0,
        high=1.0,
        at_low=at_low / n,
        at_high=at_high / n,
        unchanged=unchanged / n,
        change=fsum(changes) / n,
        wins=sums.wins,
        losses=sums.losses,
    )


class _Sums:
    """Sums over groups.

    Attributes:
        count: Number of groups.
        squares: Of the squared sum of deviations of each.
        cross: Of that sum times the size.
        sizes: Of the size to the power of each index.
        wins: Groups with a sum above 0.
        losses: Groups with a sum below 0.
    """

    def __init__(self, parts: Iterator[Groups], mean: float) -> None:
        self.sizes = [0.0] * 5
        self.wins = self.losses = 0
        squares, crosses, fourths = [], [], []
        for deviations, sizes in parts:
            for power in range(5):
                self.sizes[power] += float((sizes.astype(np.float64) ** power).sum())
            squared = deviations**2
            squares.append(float(squared.sum()))
            fourths.append(float((squared**2).sum()))
            crosses.append(float((deviations * sizes).sum()))
            sums = deviations + sizes * mean
            self.wins += int(np.count_nonzero(sums > SAME))
            self.losses += int(np.count_nonzero(sums < -SAME))
        self.count = int(self.sizes[0])
        self.squares, self.cross, self._fourths = fsum(squares), fsum(crosses), fsum(fourths)

    def freedom(self, variance: float, spread: float) -> int:
        """Satterthwaite's degrees of freedom, as in ``clustered``: its sums are polynomials of the sizes."""
        _, n, second, third, fourth = self.sizes
        count = self.count
        excess = second / n - 1
        if excess <= 0 or not spread:
            return count - 1
        design_effect = variance * (n - 1) / spread
        correlation = min(1.0, max(0.0, (design_effect - 1) / excess))
        apart = 1 - correlation
        total = apart * n + correlation * second
        squares = apart**2 * second + 2 * apart * correlation * third + correlation**2 * fourth
        return max(1, int(total**2 / squares * (count - 1) / count + 1e-9))

    def kurtosis_freedom(self) -> int:
        """Degrees of freedom of the variance from the kurtosis of the groups, as in ``clustered``."""
        spread = self._fourths - self.squares**2 / self.count
        return int(min(2 * self.squares**2 / spread, self.count)) if spread > 0 else self.count


def groups_in_parts(
    values: NumberBuffer[float], codes: NumberBuffer[int], center: float, *, distinct: bool
) -> Iterator[Groups]:
    """Yield the groups in parts; see :func:`clustered_mean_of_parts`.

    Args:
        values: The values; NaN for none.
        codes: Code of the group of each value, from 0, and perhaps of more.
        center: The number from which the values are to differ.
        distinct: Whether no two codes are equal.
    """
    if distinct:
        for value in values.blocks():
            alone = value[~np.isnan(value)] - center
            yield alone, np.ones(alone.size, np.int64)
        return
    for first, last in ranges(codes):
        found = []
        for code, value in zip(codes.blocks(), values.blocks(), strict=False):
            code = code[: len(value)]  # noqa: PLW2901
            chosen = (code >= first) & (code <= last) & ~np.isnan(value)
            found.append(_grouped(code[chosen], value[chosen] - center, np.ones(chosen.sum(), np.int64)))
        _, sums, sizes = _grouped(*map(np.concatenate, zip(*found, strict=True)))
        yield sums, sizes


def _grouped(codes: Ints, sums: Floats, sizes: Ints) -> tuple[Ints, Floats, Ints]:
    """Add up the sums and sizes of equal codes; return each code once, ascending."""
    order = codes.argsort(kind="stable")
    codes = codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    if not starts.size:
        return codes, sums, sizes
    return codes[starts], np.add.reduceat(sums[order], starts), np.add.reduceat(sizes[order], starts)
