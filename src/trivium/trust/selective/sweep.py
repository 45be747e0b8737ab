"""Computes risk-coverage curves and their areas under many weightings of the groups at once.

With W accepted and L their summed loss after a working point, w its own weight, and r = L / W: 2 N · AURC
= Σ w (r + r'), with r' the r before (r itself at the first point), and 2 N² · AUGRC = Σ w (L + L'). An
working point with weight 0 adds nothing.

The order is the same in all resamples, which only weight the groups differently. The working points are cut
into lanes of equal length, which are swept side by side, so that each NumPy call works on (lanes, resamples)
numbers that stay in the processor's cache. The sums at the start of each lane are computed beforehand.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from scipy.sparse import coo_array

from trivium.trust.arrays import Floats, Ints
from trivium.trust.resampling import Counts

STEPS = 16
"""Working points of each lane in a block."""
WIDTH = 8192
"""Lanes times resamples that are swept side by side."""
_GROUPS_AT_ONCE = 4096


class Block(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Successive working points of every lane.

    Attributes:
        value: Mean loss of the items at each working point, shape (steps, lanes, 1).
        weight: How many times the only item at each working point counts, shape (steps, lanes, 1); None for
            once.
        padding: Places beyond the last working point, as indices (steps, lanes); they add nothing.
        group: The group of the only item at each working point, shape (steps · lanes,); or
        sums: if several items share a working point, the sparse matrix that maps group weights to the
            number accepted and, below it, the loss that each working point adds, shape (2 · steps · lanes,
            groups).
    """

    value: Floats
    weight: Floats | None
    padding: tuple[Ints, ...]
    group: Ints | None
    sums: Any

    def added(self, weights: Counts | Floats) -> tuple[Floats, Floats]:
        """Number accepted and loss that each working point adds, each (steps, lanes, b)."""
        shape = (*self.value.shape[:2], weights.shape[1])
        if self.group is None:
            both: Floats = (self.sums @ weights).reshape(2, *shape)
            return both[0], both[1]
        accepted = np.take(weights, self.group, axis=0).reshape(shape).astype(np.float64)
        accepted[self.padding] = 0
        if self.weight is not None:
            accepted *= self.weight
        return accepted, accepted * self.value


class Ranking(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Working points in order.

    Attributes:
        blocks: Successive steps of all lanes.
        lanes: Number of lanes.
        totals: Sparse matrices, one per ``_GROUPS_AT_ONCE`` groups, that map group weights to the number
            accepted and, below it, the loss that each lane adds, shape (2 · lanes, groups).
        points: Number of working points.
        tied: Whether several predictions share a working point.
        weighted: Whether predictions count other than once each.
    """

    blocks: tuple[Block, ...]
    lanes: int
    totals: tuple[Any, ...]
    points: int
    tied: bool
    weighted: bool

    @classmethod
    def of(
        cls,
        codes: Ints,
        loss: Floats,
        rank: Floats,
        *,
        groups: int,
        at_once: int,
        weights: Floats | None = None,
    ) -> "Ranking":
        """Rank predictions; those of equal rank share a working point.

        Args:
            codes: Group of each prediction, shape (k,).
            loss: Loss of each, shape (k,).
            rank: Sort key, lowest first, shape (k,).
            groups: Number of groups.
            at_once: Approximate number of resamples per sweep.
            weights: How many times each prediction counts, shape (k,); once by default.
        """
        order = np.argsort(rank, kind="stable")
        codes, loss, rank = codes[order], loss[order], rank[order]
        each = np.ones(loss.size) if weights is None else weights[order]
        new = np.diff(rank, prepend=-np.inf) > 0
        point = np.cumsum(new) - 1
        points = int(np.count_nonzero(new))
        lanes = max(1, min(WIDTH // at_once, -(-points // STEPS)))
        length = max(1, -(-points // lanes))
        lane, step = point // length, point % length
        totals = _sums(lane, codes, each, loss, lanes, groups).tocsc()
        slices = range(0, groups, _GROUPS_AT_ONCE)
        sizes = np.bincount(point, weights=each, minlength=lanes * length)
        there = np.where(sizes > 0, sizes, 1)
        means = np.bincount(point, weights=each * loss, minlength=lanes * length) / there
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
                sums = _sums(cell, codes[inside], each[inside], loss[inside], steps * lanes, groups)
            else:
                group = np.zeros(steps * lanes, np.int64)
                group[cell] = codes[inside]
            padding = np.nonzero(sizes[place] == 0)
            value, weight = means[place][:, :, None], sizes[place][:, :, None]
            blocks.append(
                Block(
                    value=value,
                    weight=None if weights is None else weight,
                    padding=padding,
                    group=group,
                    sums=sums,
                )
            )
        return cls(
            blocks=tuple(blocks),
            lanes=lanes,
            totals=tuple(totals[:, first : first + _GROUPS_AT_ONCE].tocsr() for first in slices),
            points=points,
            tied=points < loss.size,
            weighted=weights is not None,
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
        """For each block: mean loss of each working point, and what it adds (see :meth:`Block.added`)."""
        ready = weights.astype(np.float64) if self.tied else weights
        for block in self.blocks:
            yield block.value, *block.added(ready)


def _sums(cell: Ints, codes: Ints, each: Floats, loss: Floats, cells: int, groups: int) -> Any:
    rows, columns = np.concatenate([cell, cell + cells]), np.concatenate([codes, codes])
    added = np.concatenate([each, each * loss])
    return coo_array((added, (rows, columns)), shape=(2 * cells, groups)).tocsr()


_TINY = 1e-300
"""Used for zero accepted: adding any weight absorbs it, and 0 divided by it is 0."""

_NOTHING = 1e-200
"""Fewer accepted than this are none."""


class SweepResult(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Metrics under each weighting; all except ``cmax`` are NaN if nothing is accepted.

    Attributes:
        cmax: Share accepted, shape (b,).
        aurc: Shape (b,).
        augrc: Shape (b,).
        aurc_to: Area up to each requested coverage, shape (t, b); the whole one if it is not reached.
        augrc_to: The same of the AUGRC.
        risk_at: Risk at each requested coverage, shape (t, b); NaN if it is not reached.
    """

    cmax: Floats
    aurc: Floats
    augrc: Floats
    aurc_to: Floats
    augrc_to: Floats
    risk_at: Floats


class _State(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Running sums of each lane.

    Attributes:
        accepted: W, shape (lanes, b).
        risk_loss: r and L, shape (2, lanes, b).
        areas: 2 N · AURC and 2 N² · AUGRC of the lane so far, shape (2, lanes, b).
    """

    accepted: Floats
    risk_loss: Floats
    areas: Floats


def sweep(
    ranking: Ranking, weights: Counts, *, n_items: Floats, coverages: Sequence[float] = ()
) -> SweepResult:
    """Sweep once over the working points, under every weighting.

    Args:
        ranking: The working points.
        weights: How often each group counts, shape (groups, b).
        n_items: Number of all items under each weighting, shape (b,), positive.
        coverages: Coverages in (0, 1] at which areas and the risk are requested too, t of them.
    """
    starts = ranking.starts(weights)
    accepted = starts[0, :-1] + _TINY
    state = _State(
        accepted=accepted,
        risk_loss=np.stack([starts[1, :-1] / accepted, starts[1, :-1]]),
        areas=np.zeros((2, *accepted.shape)),
    )
    shares, columns = np.reshape(coverages, (-1, 1)), np.arange(n_items.size)
    # Only the last lane that begins below a coverage can reach it: one place to look at per weighting.
    begun = [(starts[0, :-1] / n_items < share).sum(axis=0) for share in coverages]
    lanes = np.maximum(np.reshape(begun, (-1, n_items.size)).astype(np.int64) - 1, 0)
    reached = np.full((3, len(coverages), n_items.size), np.nan)
    for _, added, loss in ranking.added(weights):
        before_block, state = state, _advance(state, added, loss)
        first, last = (each.accepted[lanes, columns] / n_items for each in (before_block, state))
        crossed = (first < shares) & (last >= shares)
        for place in np.flatnonzero(crossed.any(axis=1)):
            there = np.flatnonzero(crossed[place])
            share, inside = float(shares[place, 0]), (lanes[place, there], there)
            reached[:, place, there] = _at_coverage(share, n_items[there], before_block, added, loss, inside)
    some = starts[0, -1] > 0
    before = np.zeros((2, accepted.shape[0] + 1, accepted.shape[1]))
    np.cumsum(state.areas, axis=1, out=before[:, 1:])
    scale = np.stack([2 * n_items, 2 * n_items * n_items])
    aurc, augrc = np.where(some, before[:, -1] / scale, np.nan)
    aurc_to, augrc_to = (before[:, lanes, columns] + reached[:2]) / scale[:, None]
    return SweepResult(
        cmax=starts[0, -1] / n_items,
        aurc=aurc,
        augrc=augrc,
        aurc_to=np.where(np.isnan(aurc_to), aurc, aurc_to),
        augrc_to=np.where(np.isnan(augrc_to), augrc, augrc_to),
        risk_at=reached[2],
    )


def _advance(before_block: _State, added: Floats, loss: Floats) -> _State:
    """Sweep over one block, all lanes side by side; arguments have shape (steps, lanes, b)."""
    accepted, before, areas = (
        before_block.accepted.copy(),
        before_block.risk_loss.copy(),
        before_block.areas.copy(),
    )
    _count_first(before_block.accepted, added, loss, areas[0])
    after = np.empty_like(before)
    for w, lost in zip(added, loss, strict=True):
        accepted += w
        np.add(before[1], lost, out=after[1])
        np.divide(after[1], accepted, out=after[0])
        before += after
        before *= w
        areas += before
        before, after = after, before
    return _State(accepted=accepted, risk_loss=before, areas=areas)


def _count_first(accepted: Floats, added: Floats, loss: Floats, aurc: Floats) -> None:
    """Add to 2 N · AURC the term of a first working point, which has no r' before it."""
    lanes, columns = np.nonzero(accepted < _NOTHING)
    if lanes.size:
        first = np.argmax(added[:, lanes, columns] > 0, axis=0)
        aurc[lanes, columns] += loss[first, lanes, columns]


def _at_coverage(
    share: float,
    n_items: Floats,
    before_block: _State,
    added: Floats,
    loss: Floats,
    places: tuple[Ints, Ints],
) -> Floats:
    """Both areas of a lane up to a coverage that is first reached inside a block, and the risk there.

    Args:
        share: The coverage.
        n_items: Number of all items in each place, shape (places,).
        before_block: The sums before the block.
        added: See :meth:`Block.added`.
        loss: See :meth:`Block.added`.
        places: The lanes and columns where the coverage is reached.

    Returns:
        Shape (3, places); the risk is that of the first working point with at least the coverage.
    """
    w, each = added[:, *places], np.arange(n_items.size)
    accepted = _running(before_block.accepted[places], w)
    lost = _running(before_block.risk_loss[1, *places], loss[:, *places])
    risk = lost / accepted
    earlier = np.where(accepted[:-1] < _NOTHING, risk[1:], risk[:-1])
    aurc = _running(before_block.areas[0, *places], w * (risk[1:] + earlier))
    augrc = _running(before_block.areas[1, *places], w * (lost[1:] + lost[:-1]))
    below = (accepted[1:] / n_items < share).sum(axis=0)  # the last point below; 0 is the block's start
    x = share * n_items - accepted[below, each]
    part = x / w[below, each]
    r0, r1 = earlier[below, each], risk[below + 1, each]
    l0, l1 = lost[below, each], lost[below + 1, each]
    return np.stack(
        [
            aurc[below, each] + x * (2 * r0 + (r1 - r0) * part),
            augrc[below, each] + x * (2 * l0 + (l1 - l0) * part),
            r1,
        ]
    )


def _running(before: Floats, added: Floats) -> Floats:
    """Running sums along the first axis, including the start: (points + 1, places)."""
    return np.concatenate([before[None], before + np.cumsum(added, axis=0)])
