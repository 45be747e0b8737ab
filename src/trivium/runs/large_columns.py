"""Summarises columns of more values than are kept in memory, a part at a time (spec: metrics, B.0)."""

from collections.abc import Iterator
from math import fsum

import numpy as np
import numpy.typing as npt

from trivium.number_buffer import NumberBuffer, ranges
from trivium.trust.clustered import Groups

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


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
