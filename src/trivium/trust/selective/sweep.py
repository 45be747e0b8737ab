"""Computes risk-coverage curves and their areas under many weightings of the groups at once.

With W accepted and L their summed loss after a working point, w its own weight, and r = L / W: 2 N · AURC
= Σ w (r + r'), with r' the r before (r itself at the first point), and 2 N² · AUGRC = Σ w (L + L'). A
working point with weight 0 adds nothing.

The order is the same in all resamples, which only weight the groups differently.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from scipy.sparse import csr_array

from trivium.trust.arrays import Floats, Ints
from trivium.trust.resampling import Counts

_AT_ONCE = 1 << 15
"""Working points times resamples in a block, so that it stays in the processor's cache."""

_FEW = 64
"""With fewer resamples NumPy's cumsum, which walks down one column at a time, is faster than adding rows."""

_TINY = 1e-300
"""Added to a number accepted, so that 0 divided by it is 0."""


class Block(NamedTuple):
    """Successive working points, in each of b resamples. Its arrays are overwritten by the next block.

    Attributes:
        value: Mean loss of the predictions at each working point, shape (points, 1).
        added: Number that each accepts, shape (points, b).
        lost: Their loss, shape (points, b).
        accepted: Number accepted before each and after the last, shape (points + 1, b).
        loss: Their loss, shape (points + 1, b).
    """

    value: Floats
    added: Floats
    lost: Floats
    accepted: Floats
    loss: Floats


class Ranking(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Working points in order.

    Attributes:
        value: Mean loss of the predictions at each working point, shape (points,).
        group: If each has one prediction, its group, shape (points,); or
        shares: the sparse matrix that maps group weights to the number accepted and the loss that each point
            adds, shape (2 · points, groups).
        weight: How many times the only prediction at each counts, shape (points, 1); None for once.
        weighted: Whether predictions count other than once each.
    """

    value: Floats
    group: Ints | None
    shares: Any
    weight: Floats | None
    weighted: bool

    @classmethod
    def of(
        cls, codes: Ints, loss: Floats, rank: Floats, *, groups: int, weights: Floats | None = None
    ) -> "Ranking":
        """Rank predictions; those of equal rank share a working point.

        Args:
            codes: Group of each prediction, shape (k,).
            loss: Loss of each, shape (k,).
            rank: Sort key, lowest first, shape (k,).
            groups: Number of groups.
            weights: How many times each prediction counts, shape (k,); once by default.
        """
        order = np.argsort(rank, kind="stable")
        codes, loss = codes[order], loss[order]
        each = np.ones(loss.size) if weights is None else weights[order]
        point = np.cumsum(np.diff(rank[order], prepend=-np.inf) > 0) - 1
        points = int(point[-1]) + 1 if point.size else 0
        if points == loss.size:
            weight = None if weights is None else each[:, None]
            return cls(value=loss, group=codes, shares=None, weight=weight, weighted=weights is not None)
        rows = np.concatenate([2 * point, 2 * point + 1])
        added = np.concatenate([each, each * loss]), (rows, np.concatenate([codes, codes]))
        value = np.bincount(point, each * loss) / np.bincount(point, each)
        shares = csr_array(added, shape=(2 * points, groups))
        return cls(value=value, group=None, shares=shares, weight=None, weighted=weights is not None)

    def blocks(self, weights: Counts) -> Iterator[Block]:
        """The working points, some at a time.

        Args:
            weights: How often each group counts, shape (groups, b).
        """
        b = weights.shape[1]
        ready = weights.astype(np.float64) if self.group is None else weights
        at_once = max(1, _AT_ONCE // b)
        added, lost = np.empty((at_once, b)), np.empty((at_once, b))
        accepted, loss = np.zeros((at_once + 1, b)), np.zeros((at_once + 1, b))
        for first in range(0, self.value.size, at_once):
            value = self.value[first : first + at_once, None]
            points = len(value)
            if self.group is None:
                both = self.shares[2 * first : 2 * (first + points)] @ ready
                added[:points], lost[:points] = both[::2], both[1::2]
            else:
                added[:points] = ready[self.group[first : first + points]]
                if self.weight is not None:
                    added[:points] *= self.weight[first : first + points]
                np.multiply(added[:points], value, out=lost[:points])
            for sums, more in ((accepted, added), (loss, lost)):
                _add_up(sums[: points + 1], more[:points])
            yield Block(value, added[:points], lost[:points], accepted[: points + 1], loss[: points + 1])
            accepted[0], loss[0] = accepted[points], loss[points]


def _add_up(sums: Floats, more: Floats) -> None:
    """Fill the sums after the first: each is the one before and one row more."""
    if sums.shape[1] < _FEW:
        np.cumsum(more, axis=0, out=sums[1:])
        sums[1:] += sums[0]
    else:
        for before, row, after in zip(sums[:-1], more, sums[1:], strict=True):
            np.add(before, row, out=after)


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
    b = n_items.size
    areas, parts = np.zeros((2, b)), np.full((len(area_to), 2, b), np.nan)
    risks, accepted = np.full((len(risk_at), b), np.nan), np.zeros(b)
    for block in ranking.blocks(weights):
        points = _Points(block)
        for place, share in enumerate(area_to):
            there = points.reach(share * n_items)
            parts[place][:, there] = areas[:, there] + points.areas_to(share * n_items[there], there)
        for place, share in enumerate(risk_at):
            there = points.reach(share * n_items)
            risks[place, there] = points.risk_at(share * n_items[there], there)
        areas += points.areas
        accepted = block.accepted[-1].copy()
    areas = np.where(accepted > 0, areas, np.nan)
    parts = np.where(np.isnan(parts), areas, parts) / np.stack([2 * n_items, 2 * n_items * n_items])
    areas = areas / np.stack([2 * n_items, 2 * n_items * n_items])
    return SweepResult(
        cmax=accepted / n_items,
        aurc=areas[0],
        augrc=areas[1],
        aurc_to=parts[:, 0],
        augrc_to=parts[:, 1],
        risk_at=risks,
    )


class _Points:
    """The working points of a block, with the risk before and after each.

    Attributes:
        areas: What they add to 2 N · AURC and 2 N² · AUGRC, shape (2, b).
    """

    def __init__(self, block: Block) -> None:
        self._added, self._accepted, loss = block.added, block.accepted, block.loss
        risk = loss / (self._accepted + _TINY)
        before = risk[:-1]
        fresh = np.flatnonzero(self._accepted[0] == 0)
        if fresh.size:  # the first working point has no r before it
            before = before.copy()
            first = np.argmax(self._added[:, fresh] > 0, axis=0)
            before[first, fresh] = risk[first + 1, fresh]
        self._ends = (before, risk[1:]), (loss[:-1], loss[1:])
        self.areas = np.stack([_areas(self._added, low, high) for low, high in self._ends])

    def reach(self, wanted: Floats) -> Ints:
        """The columns in which the number accepted reaches one that is wanted, each (b,)."""
        return np.flatnonzero((self._accepted[0] < wanted) & (self._accepted[-1] >= wanted))

    def areas_to(self, wanted: Floats, columns: Ints) -> Floats:
        """The areas up to that number in some columns, shape (2, columns)."""
        at = self._first_with(wanted, columns)
        before = np.arange(len(self._added))[:, None] < at
        added = np.where(before, self._added[:, columns], 0)
        x = wanted - self._accepted[at, columns]
        part = x / self._added[at, columns]
        found = []
        for low, high in self._ends:
            start, end = low[at, columns], high[at, columns]
            area = _areas(added, low[:, columns], high[:, columns])
            found.append(area + x * (2 * start + (end - start) * part))
        return np.stack(found)

    def risk_at(self, wanted: Floats, columns: Ints) -> Floats:
        """The risk at the first working point with that number accepted, in some columns."""
        risk: Floats = self._ends[0][1][self._first_with(wanted, columns), columns]
        return risk

    def _first_with(self, wanted: Floats, columns: Ints) -> Ints:
        first: Ints = np.count_nonzero(self._accepted[1:, columns] < wanted, axis=0)
        return first


def _areas(added: Floats, low: Floats, high: Floats) -> Floats:
    areas: Floats = np.einsum("pb,pb->b", added, low + high)
    return areas
