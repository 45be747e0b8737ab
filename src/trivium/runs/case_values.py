"""Reduces the values of a case's attempts to one, and keeps those of all cases.

Definition: docs/definitions/scores.md#repeats.

Arrays hold a value for each case, and the cluster of each case; of many cases, most are in a file.
"""

# ruff: noqa: SLF001 - what is merged is of the same class

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, groupby
from math import comb, fsum, isfinite, nan
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from trivium.number_buffer import NumberBuffer, SpillFile, ascending, ranges
from trivium.trust.arrays import Floats, Ints
from trivium.trust.clustered import ClusteredMean, Groups

Reducer = Callable[[Sequence[float]], float]


def average(values: Sequence[float]) -> float:
    """The mean of values, of which there is at least one."""
    return sum(values) / len(values)


def _majority(values: Sequence[float]) -> float:
    """The most frequent value; in a tie, the smallest."""
    counts = Counter(values)
    highest = max(counts.values())
    return min(value for value, count in counts.items() if count == highest)


REDUCERS: dict[str, Reducer] = {"mean": average, "best": max, "worst": min, "majority": _majority}


def pass_at_k(attempts: int, successes: int, k: int) -> float:
    """Probability that at least one of k attempts succeeds: 1 − C(n−c, k)/C(n, k) (Chen et al. 2021).

    Definition: docs/definitions/scores.md#pass-at-k.

    Args:
        attempts: n, at least k.
        successes: c, in [0, n].
        k: Number of attempts drawn, at least 1.

    """
    return 1 - comb(attempts - successes, k) / comb(attempts, k)


def pass_hat_k(attempts: int, successes: int, k: int) -> float:
    """Probability that all of k attempts succeed: C(c, k)/C(n, k) (Yao et al. 2024, τ-bench).

    Definition: docs/definitions/scores.md#pass-hat-k.

    Args are those of :func:`pass_at_k`.
    """
    return comb(successes, k) / comb(attempts, k)


LARGE = 1 << 16
"""Cases from which on the mean and its interval are computed in parts (``ClusteredMean.of_parts``)."""


class Sum:
    """A sum of numbers, at twice the precision of a float: it does not depend on the parts they come in.

    Attributes:
        value: The sum, correctly rounded; infinite if it is too large for a float.
        count: How many numbers were added.
    """

    def __init__(self) -> None:
        self.value = 0.0
        self.count = 0
        self._rest = 0.0

    @property
    def mean(self) -> float | None:
        """The mean of the numbers; None without any."""
        return self.value / self.count if self.count else None

    def add(self, numbers: Sequence[float]) -> None:
        """Add finite numbers."""
        self.count += len(numbers)
        terms = [self.value, self._rest, *numbers]
        try:
            self.value = fsum(terms)
        except (OverflowError, ValueError):  # ValueError: of both infinities
            self.value = sum(terms)
        self._rest = fsum([-self.value, *terms]) if isfinite(self.value) else 0.0

    def merge(self, other: "Sum") -> None:
        """Add another sum."""
        count = self.count + other.count
        self.add([other.value, other._rest])
        self.count = count


class Clusters(NumberBuffer[int]):
    """The cluster of each case, as an integer code; its file is also that of the columns.

    Args:
        names: The cluster of each case, which get codes from 0.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__("q")
        numbers: dict[str, int] = {}
        self.extend(numbers.setdefault(name, len(numbers)) for name in names)
        self._ranks = np.empty(0, np.int64)
        self._distinct = (0, True)

    @property
    def distinct(self) -> bool:
        """Whether no two codes are equal."""
        if self._distinct[0] != len(self):
            parts = (codes for codes, _ in ascending(self))
            self._distinct = len(self), not any((codes[1:] == codes[:-1]).any() for codes in parts)
        return self._distinct[1]

    def ranks(self) -> npt.NDArray[np.int64]:
        """Return the rank of each code from 0, shape (n,); equal codes have equal ranks."""
        if self._ranks.size != len(self):
            ranks = self.all()
            order = ranks.argsort()
            rising = ranks[order]
            rising[1:] = rising[1:] != rising[:-1]
            rising[0] = 0
            ranks[order] = rising.cumsum(out=rising)
            self._ranks = ranks
        return self._ranks


class CaseValues:
    """One reduced value per case, NaN if a case has none.

    Args:
        file: The temporary file for many of them.
        reduce: Reduces several values of a case to one.
    """

    def __init__(self, file: SpillFile, reduce: Reducer) -> None:
        self._flat: NumberBuffer[float] = NumberBuffer("d", file)
        self._reduce = reduce
        self.sum = Sum()
        """Sum and number of the values before reducing."""

    def add(self, cases: Sequence[int], values: Sequence[float | None]) -> None:
        """Set the value of each case, reducing several values of a case to one."""
        present = finite([value for value in values if value is not None])
        if not present:
            return
        if len(present) < len(values):
            cases = list(compress(cases, [value is not None and isfinite(value) for value in values]))
        first = len(self._flat)
        if len(set(cases)) < len(cases):
            cases, present = self._reduced(cases, present)
        else:
            self.sum.add(present)
        if cases[-1] + 1 - first > len(cases):
            of_case = dict(zip(cases, present, strict=True))
            present = [of_case.get(case, nan) for case in range(first, cases[-1] + 1)]
        self._flat.extend(present)

    def _reduced(self, cases: Sequence[int], values: Sequence[float]) -> tuple[list[int], list[float]]:
        """Reduce several values of a case to one; return the cases and their values."""
        indices, reduced = [], []
        for case, pairs in groupby(zip(cases, values, strict=True), itemgetter(0)):
            of_case = [value for _, value in pairs]
            self.sum.add(of_case)
            indices.append(case)
            reduced.append(self._reduce(of_case) if len(of_case) > 1 else of_case[0])
        return indices, reduced

    def merge(self, other: "CaseValues", *, first: int) -> None:
        """Add the values of further cases, whose indices begin with ``first``."""
        self.sum.merge(other.sum)
        if len(other._flat):
            self._flat.extend([nan] * (first - len(self._flat)))
            self._flat.join(other._flat)

    def all(self) -> Floats:
        """Return the values of all cases up to the last that has one, shape (n,)."""
        all_values: Floats = self._flat.all()
        return all_values

    @property
    def large(self) -> bool:
        """Whether they are too many to be all in memory."""
        return len(self._flat) > LARGE

    def parts(self) -> Iterator[Floats]:
        """Yield the values of all cases that have one, in parts."""
        for block in self._flat.blocks():
            yield block[~np.isnan(block)]

    def clustered_mean(self, clusters: Clusters) -> ClusteredMean | None:
        """The clustered mean, computed in parts."""
        groups = partial(groups_in_parts, self._flat, clusters, distinct=clusters.distinct)
        rate = all(((part == 0) | (part == 1)).all() for part in self.parts())
        return ClusteredMean.of_parts(self.parts, groups, kind="rate" if rate else "mean")


def finite(values: list[Any]) -> list[Any]:
    """Drop infinite values and NaN: JSON cannot store them, so they would differ when read back."""
    return values if isfinite(sum(values)) else [value for value in values if isfinite(value)]


def mean_of_parts(parts: Iterator[Floats]) -> float | None:
    """Mean of the values of all parts; None if there are none."""
    sums, count = [], 0
    for part in parts:
        sums.append(float(part.sum()))
        count += part.size
    return fsum(sums) / count if count else None


def groups_in_parts(
    values: NumberBuffer[float], codes: NumberBuffer[int], center: float, *, distinct: bool
) -> Iterator[Groups]:
    """Yield the groups in parts, each with its sum and its size; see :meth:`ClusteredMean.of_parts`.

    Args:
        values: The values; NaN for none.
        codes: Code of the group of each value, from 0, and perhaps of more.
        center: The number from which the values are to differ.
        distinct: Whether no two codes are equal.
    """
    if distinct:
        for value in values.blocks():
            alone = value[~np.isnan(value)] - center
            yield alone, np.ones(alone.size)
        return
    for first, last in ranges(codes):
        found = []
        for code, value in zip(codes.blocks(), values.blocks(), strict=False):
            code = code[: len(value)]  # noqa: PLW2901
            chosen = (code >= first) & (code <= last) & ~np.isnan(value)
            found.append(_grouped(code[chosen], value[chosen] - center, np.ones(chosen.sum())))
        _, sums, sizes = _grouped(*map(np.concatenate, zip(*found, strict=True)))
        yield sums, sizes


def _grouped(codes: Ints, sums: Floats, sizes: Floats) -> tuple[Ints, Floats, Floats]:
    """Add up the sums and sizes of equal codes; return each code once, ascending."""
    order = codes.argsort(kind="stable")
    codes = codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    if not starts.size:
        return codes, sums, sizes
    return codes[starts], np.add.reduceat(sums[order], starts), np.add.reduceat(sizes[order], starts)
