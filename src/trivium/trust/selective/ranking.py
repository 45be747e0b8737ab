"""Predictions in the order of acceptance, cut so that many resamples can be swept over at once.

The order never changes between resamples: a resample only weighs the groups. A ranking is cut into blocks, a
block into lanes of successive working points. Lanes are swept side by side, so that each NumPy call works on
(lanes, resamples) numbers, which stay in the processor's cache.
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
"""Working points in a lane."""
WIDTH = 4096
"""Lanes times resamples that are swept side by side."""


class Block(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Successive working points as (steps, lanes): point p of the block is step p % steps of lane p // steps.

    Attributes:
        value: Mean loss of each working point's own items, shape (steps, lanes, 1).
        spare: Places beyond the last working point, as indices (steps, lanes); they add nothing.
        group: The group of each working point's only item, shape (steps · lanes,); or
        sums: where several share a working point, the matrix from the weights of the groups to what each
            working point adds, to the number accepted and below that to the loss, shape
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
    """Working points in order, in blocks.

    Attributes:
        blocks: The working points, surest first.
        tied: Whether several predictions share a working point.
    """

    blocks: tuple[Block, ...]
    tied: bool

    def points(self, weights: Counts) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Working points in order, block by block, under every weighting.

        Args:
            weights: How often each group counts, shape (groups, b).

        Yields:
            The mean loss of each working point's items, shape (m, 1), and what it adds to the number accepted
            and to the loss, each (m, b).
        """
        ready = self.prepared(weights)
        for block in self.blocks:
            accepted, loss = block.added(ready)
            yield in_order(block.value), in_order(accepted), in_order(loss)

    def prepared(self, weights: Counts) -> Counts | Floats:
        """Weights of the kind that the blocks are quickest with."""
        return weights.astype(np.float64) if self.tied else weights

    @classmethod
    def of(cls, codes: Ints, loss: Floats, rank: Floats, *, groups: int, at_once: int) -> "Ranking":
        """Rank predictions; those of equal rank share a working point.

        Args:
            codes: Group of each prediction, shape (k,).
            loss: Loss of each, shape (k,).
            rank: What they are ranked by, lowest first, shape (k,).
            groups: Number of groups.
            at_once: Resamples to be swept at once.
        """
        order = np.argsort(rank, kind="stable")
        codes, loss, rank = codes[order], loss[order], rank[order]
        starts = np.flatnonzero(np.diff(rank, prepend=-np.inf))
        points, tied = starts.size, starts.size < rank.size
        steps = max(1, min(STEPS, points))
        lanes = max(1, min(WIDTH // at_once, -(-points // steps)))
        starts = np.append(starts, rank.size)
        blocks = []
        for first in range(0, points, steps * lanes):
            bounds = starts[first : first + steps * lanes + 1]
            inside = slice(bounds[0], bounds[-1])
            blocks.append(
                _block(codes[inside], loss[inside], np.diff(bounds), (steps, lanes), groups, tied=tied)
            )
        return cls(blocks=tuple(blocks), tied=tied)


def in_order(lanes: Floats) -> Floats:
    """Working points in order, (points, b), from (steps, lanes, b)."""
    return lanes.transpose(1, 0, 2).reshape(-1, lanes.shape[2])


def _block(
    codes: Ints, loss: Floats, sizes: Ints, shape: tuple[int, int], groups: int, *, tied: bool
) -> Block:
    steps, lanes = shape
    place = np.arange(steps * lanes).reshape(lanes, steps).T
    point = np.repeat(np.arange(sizes.size), sizes)
    means = np.zeros(steps * lanes)
    means[: sizes.size] = np.bincount(point, weights=loss) / sizes
    group = sums = None
    if tied:
        row = (point % steps) * lanes + point // steps
        rows, columns = np.concatenate([row, row + steps * lanes]), np.concatenate([codes, codes])
        added = np.concatenate([np.ones(loss.size), loss])
        sums = coo_array((added, (rows, columns)), shape=(2 * steps * lanes, groups)).tocsr()
    else:
        group = np.append(codes, np.zeros(steps * lanes - codes.size, np.int64))[place.ravel()]
    return Block(
        value=means[place][:, :, None], spare=np.nonzero(place >= sizes.size), group=group, sums=sums
    )
