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
        aurc_to: Area up to each requested coverage, shape (t, b).
        augrc_to: Area up to each requested coverage, shape (t, b).
        risk_at: Risk at each requested coverage, shape (u, b); NaN if it is not reached.
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
    ranking: Ranking,
    weights: Counts,
    *,
    n_items: Floats,
    area_to: Sequence[float] = (),
    risk_at: Sequence[float] = (),
) -> SweepResult:
    """Sweep once over the working points, under every weighting.

    Args:
        ranking: The working points.
        weights: How often each group counts, shape (groups, b).
        n_items: Number of all items under each weighting, shape (b,), positive.
        area_to: Coverages in (0, 1] up to which areas are requested too, t of them.
        risk_at: Coverages in (0, 1] at which the risk is requested, u of them.
    """
    starts = ranking.starts(weights)
    accepted = starts[0, :-1] + _TINY
    state = _State(
        accepted=accepted,
        risk_loss=np.stack([starts[1, :-1] / accepted, starts[1, :-1]]),
        areas=np.zeros((2, *accepted.shape)),
    )
    crossings = _CoverageCrossings(starts[0, :-1], n_items, area_to, risk_at)
    for _, added, loss in ranking.added(weights):
        before_block, state = state, _advance(state, added, loss)
        crossings.note(before_block, state.accepted, added, loss)
    some = starts[0, -1] > 0
    before = np.zeros((2, accepted.shape[0] + 1, accepted.shape[1]))
    np.cumsum(state.areas, axis=1, out=before[:, 1:])
    scale = np.stack([2 * n_items, 2 * n_items * n_items])
    aurc, augrc = np.where(some, before[:, -1] / scale, np.nan)
    aurc_to, augrc_to = crossings.areas(before, scale)
    return SweepResult(
        cmax=starts[0, -1] / n_items,
        aurc=aurc,
        augrc=augrc,
        aurc_to=np.where(np.isnan(aurc_to), aurc, aurc_to),
        augrc_to=np.where(np.isnan(augrc_to), augrc, augrc_to),
        risk_at=crossings.risks,
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


class _CoverageCrossings:
    """Areas and risks at the points where a requested coverage is first reached, inside a block."""

    def __init__(
        self, starts: Floats, n_items: Floats, area_to: Sequence[float], risk_at: Sequence[float]
    ) -> None:
        self.n_items = n_items
        self.area_to = area_to
        self.shares = np.array([*area_to, *risk_at])
        # Only the last lane that begins below a coverage can reach it: one place to look at per weighting.
        reached = starts / n_items
        self.lanes = np.zeros((self.shares.size, n_items.size), np.int64)
        for place, share in enumerate(self.shares):
            self.lanes[place] = np.maximum((reached < share).sum(axis=0) - 1, 0)
        self.parts = np.full((2, len(area_to), n_items.size), np.nan)
        self.risks = np.full((len(risk_at), n_items.size), np.nan)

    def note(self, before_block: _State, accepted: Floats, added: Floats, loss: Floats) -> None:
        """Record the crossings in a block between the sums ``before_block`` and ``accepted``."""
        if not self.shares.size:
            return
        columns = np.arange(self.n_items.size)
        start = before_block.accepted[self.lanes, columns] / self.n_items
        end = accepted[self.lanes, columns] / self.n_items
        crossed = (start < self.shares[:, None]) & (end >= self.shares[:, None])
        for place in np.flatnonzero(crossed.any(axis=1)):
            share, there = float(self.shares[place]), np.flatnonzero(crossed[place])
            inside = _BlockPoints(before_block, added, loss, self.lanes[place, there], there)
            if place < len(self.area_to):
                self.parts[:, place, there] = inside.areas_to(share, self.n_items[there])
            else:
                self.risks[place - len(self.area_to), there] = inside.risk_at(share, self.n_items[there])

    def areas(self, before: Floats, scale: Floats) -> Floats:
        """Areas up to the coverages, (2, t, b), given those before each lane; NaN if not reached."""
        columns = np.arange(self.n_items.size)
        areas: Floats = (before[:, self.lanes[: len(self.area_to)], columns] + self.parts) / scale[:, None]
        return areas


class _BlockPoints:
    """The working points of a block, in the lanes and columns where a coverage is reached."""

    def __init__(self, before_block: _State, added: Floats, loss: Floats, lanes: Ints, columns: Ints) -> None:
        self.w = added[:, lanes, columns]
        self.accepted = _running(before_block.accepted[lanes, columns], self.w)
        self.loss = _running(before_block.risk_loss[1, lanes, columns], loss[:, lanes, columns])
        self.start = before_block.areas[:, lanes, columns]
        self.each = np.arange(lanes.size)

    def risk_at(self, share: float, n_items: Floats) -> Floats:
        """Risk at the first working point with coverage of at least ``share``."""
        after = self._below(share, n_items) + 1
        risk: Floats = self.loss[after, self.each] / self.accepted[after, self.each]
        return risk

    def areas_to(self, share: float, n_items: Floats) -> Floats:
        """Both areas of the lane up to the coverage ``share``, shape (2, places)."""
        below = self._below(share, n_items)
        risk = self.loss / self.accepted
        earlier = np.where(self.accepted[:-1] < _NOTHING, risk[1:], risk[:-1])
        aurc = _running(self.start[0], self.w * (risk[1:] + earlier))
        augrc = _running(self.start[1], self.w * (self.loss[1:] + self.loss[:-1]))
        x = share * n_items - self.accepted[below, self.each]
        part = x / self.w[below, self.each]
        r0, r1 = earlier[below, self.each], risk[below + 1, self.each]
        l0, l1 = self.loss[below, self.each], self.loss[below + 1, self.each]
        return np.stack(
            [
                aurc[below, self.each] + x * (2 * r0 + (r1 - r0) * part),
                augrc[below, self.each] + x * (2 * l0 + (l1 - l0) * part),
            ]
        )

    def _below(self, share: float, n_items: Floats) -> Ints:
        """Index of the last working point below a coverage; 0 is the start of the block."""
        below: Ints = (self.accepted[1:] / n_items < share).sum(axis=0)
        return below


def _running(before: Floats, added: Floats) -> Floats:
    """Running sums along the first axis, including the start: (points + 1, places)."""
    return np.concatenate([before[None], before + np.cumsum(added, axis=0)])
