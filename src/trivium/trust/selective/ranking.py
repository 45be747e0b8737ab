"""Predictions in the order of acceptance, laid out so that many resamples can be swept over at once.

The order never changes between resamples: a resample only weighs the groups. The working points are cut into
lanes of equal length, which are swept side by side, so that each NumPy call works on (lanes, resamples)
numbers that stay in the processor's cache. Where each lane starts is known beforehand: a sum over the groups.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array

from trivium.trust.resampling import Counts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

STEPS = 16
"""Working points of each lane that are looked up at a time."""
WIDTH = 8192
"""Lanes times resamples that are swept side by side."""
_GROUPS_AT_ONCE = 4096


class Block(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Some successive working points of every lane.

    Attributes:
        value: Mean loss of each working point's own items, shape (steps, lanes, 1).
        spare: Places beyond the last working point, as indices (steps, lanes); they add nothing.
        group: The group of each working point's only item, shape (steps · lanes,); or
        sums: where several share a working point, the sparse matrix from the weights of the groups to what
            each working point adds, to the number accepted and below that to the loss, shape
            (2 · steps · lanes, groups).
    """

    value: Floats
    spare: tuple[Ints, ...]
    group: Ints | None
    sums: Any

    def added(self, weights: Counts | Floats) -> tuple[Floats, Floats]:
        """What each working point adds to the number accepted and to the loss, each (steps, lanes, b)."""
        shape = (*self.value.shape[:2], weights.shape[1])
        if self.group is None:
            both: Floats = (self.sums @ weights).reshape(2, *shape)
            return both[0], both[1]
        accepted = np.take(weights, self.group, axis=0).reshape(shape).astype(np.float64)
        accepted[self.spare] = 0
        return accepted, accepted * self.value


class Ranking(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Working points in order.

    Attributes:
        blocks: Successive steps of all lanes.
        lanes: Number of lanes.
        totals: Sparse matrices, one for each ``_GROUPS_AT_ONCE`` groups, from their weights to what each lane
            adds, to the number accepted and below that to the loss, shape (2 · lanes, groups).
        points: Number of working points.
        tied: Whether several predictions share a working point.
    """

    blocks: tuple[Block, ...]
    lanes: int
    totals: tuple[Any, ...]
    points: int
    tied: bool

    @classmethod
    def of(cls, codes: Ints, loss: Floats, rank: Floats, *, groups: int, at_once: int) -> "Ranking":
        """Rank predictions; those of equal rank share a working point.

        Args:
            codes: Group of each prediction, shape (k,).
            loss: Loss of each, shape (k,).
            rank: What they are ranked by, lowest first, shape (k,).
            groups: Number of groups.
            at_once: Resamples to be swept at once, about.
        """
        order = np.argsort(rank, kind="stable")
        codes, loss, rank = codes[order], loss[order], rank[order]
        new = np.diff(rank, prepend=-np.inf) > 0
        point = np.cumsum(new) - 1
        points = int(np.count_nonzero(new))
        lanes = max(1, min(WIDTH // at_once, -(-points // STEPS)))
        length = max(1, -(-points // lanes))
        lane, step = point // length, point % length
        totals = _sums(lane, codes, loss, lanes, groups).tocsc()
        slices = range(0, groups, _GROUPS_AT_ONCE)
        sizes = np.bincount(point, minlength=lanes * length)
        means = np.bincount(point, weights=loss, minlength=lanes * length) / np.maximum(sizes, 1)
        blocks = []
        by_step = np.argsort(step, kind="stable")
        bounds = np.searchsorted(step[by_step], np.arange(0, length + STEPS, STEPS))
        for number, first in enumerate(range(0, length, STEPS)):
            steps = min(STEPS, length - first)
            inside = by_step[bounds[number] : bounds[number + 1]]
            place = (first + np.arange(steps))[:, None] + length * np.arange(lanes)
            cell = (step[inside] - first) * lanes + lane[inside]
            group = sums = None
            if points < loss.size:
                sums = _sums(cell, codes[inside], loss[inside], steps * lanes, groups)
            else:
                group = np.zeros(steps * lanes, np.int64)
                group[cell] = codes[inside]
            spare = np.nonzero(sizes[place] == 0)
            blocks.append(Block(value=means[place][:, :, None], spare=spare, group=group, sums=sums))
        return cls(
            blocks=tuple(blocks),
            lanes=lanes,
            totals=tuple(totals[:, first : first + _GROUPS_AT_ONCE].tocsr() for first in slices),
            points=points,
            tied=points < loss.size,
        )

    def starts(self, weights: Counts) -> Floats:
        """Number accepted and loss before each lane, and after the last, shape (2, lanes + 1, b).

        Args:
            weights: How often each group counts, shape (groups, b).
        """
        added = np.zeros((2 * self.lanes, weights.shape[1]))
        for number, matrix in enumerate(self.totals):
            first = number * _GROUPS_AT_ONCE
            added += matrix @ weights[first : first + _GROUPS_AT_ONCE].astype(np.float64)
        starts = np.zeros((2, self.lanes + 1, weights.shape[1]))
        np.cumsum(added.reshape(2, self.lanes, -1), axis=1, out=starts[:, 1:])
        return starts

    def added(self, weights: Counts) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Block by block: each working point's mean loss, and what it adds (see :meth:`Block.added`)."""
        ready = weights.astype(np.float64) if self.tied else weights
        for block in self.blocks:
            yield block.value, *block.added(ready)


def _sums(cell: Ints, codes: Ints, loss: Floats, cells: int, groups: int) -> Any:
    rows, columns = np.concatenate([cell, cell + cells]), np.concatenate([codes, codes])
    added = np.concatenate([np.ones(loss.size), loss])
    return coo_array((added, (rows, columns)), shape=(2 * cells, groups)).tocsr()
