"""Areas and readings of the risk-coverage curve under many weightings at once (spec: metrics, S.3–S.8, B.1).

With W accepted and L their summed loss after a working point, w what it adds to W, and r = L / W:
2 N · AURC = Σ w (r + r'), r' the one before (for the first: r itself), and 2 N² · AUGRC = Σ w (L + L').
A working point without weight adds nothing, as if it were not there.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.trust.resampling import Counts
from trivium.trust.selective.ranking import Ranking, in_order

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NONE = 1e-300
"""Stands for none accepted: any whole number swallows it, and 0 divided by it is 0."""


class Swept(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Figures of each weighting; all but ``cmax`` are NaN where nothing is accepted.

    Attributes:
        cmax: Share accepted, shape (b,).
        aurc: Shape (b,).
        augrc: Shape (b,).
        aurc_to: Up to each of the wished coverages, shape (t, b).
        augrc_to: Up to each of the wished coverages, shape (t, b).
        risk_at: At each of the wished coverages, shape (u, b); NaN where it is not reached.
    """

    cmax: Floats
    aurc: Floats
    augrc: Floats
    aurc_to: Floats
    augrc_to: Floats
    risk_at: Floats


class _State(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Where a sweep stands: W, L, 2 N · AURC and 2 N² · AUGRC so far, each of shape (b,)."""

    accepted: Floats
    loss: Floats
    aurc: Floats
    augrc: Floats


def sweep(
    ranking: Ranking,
    weights: Counts,
    *,
    n_items: Floats,
    area_to: Sequence[float] = (),
    risk_at: Sequence[float] = (),
) -> Swept:
    """Sweep once over the working points, under every weighting.

    Args:
        ranking: The working points.
        weights: How often each group counts, shape (groups, b).
        n_items: All items under each weighting, shape (b,), positive.
        area_to: Coverages in (0, 1] up to which areas are wished too, t of them.
        risk_at: Coverages in (0, 1] at which the risk is wished, u of them.
    """
    b = weights.shape[1]
    ready = ranking.prepared(weights)
    now = _State(accepted=np.full(b, _NONE), loss=np.zeros(b), aurc=np.zeros(b), augrc=np.zeros(b))
    to, at = np.full((2, len(area_to), b), np.nan), np.full((len(risk_at), b), np.nan)
    wished = [*area_to, *risk_at]
    for block in ranking.blocks:
        accepted, loss = block.added(ready)
        was, now = now, _advance(now, accepted, loss)
        here = [(was.accepted / n_items < share) & (now.accepted / n_items >= share) for share in wished]
        columns = np.flatnonzero(np.logical_or.reduce(here)) if wished else np.empty(0, np.int64)
        if columns.size:
            inside = _Inside(was, accepted, loss, columns)
            size = n_items[columns]
            for place, share in enumerate(area_to):
                landed = np.flatnonzero(here[place][columns])
                to[:, place, columns[landed]] = inside.areas(landed, share, size)
            for place, share in enumerate(risk_at):
                landed = np.flatnonzero(here[len(area_to) + place][columns])
                at[place, columns[landed]] = inside.risks(landed, share, size)
    some = now.accepted >= 1
    aurc = np.where(some, now.aurc / (2 * n_items), np.nan)
    augrc = np.where(some, now.augrc / (2 * n_items * n_items), np.nan)
    return Swept(
        cmax=np.where(some, now.accepted, 0) / n_items,
        aurc=aurc,
        augrc=augrc,
        aurc_to=np.where(np.isnan(to[0]), aurc, to[0]),
        augrc_to=np.where(np.isnan(to[1]), augrc, to[1]),
        risk_at=at,
    )


def _advance(was: _State, accepted: Floats, loss: Floats) -> _State:
    """Go through one block, all lanes side by side; what points add is of shape (steps, lanes, b)."""
    w_total, w_before = _lanes(was.accepted, accepted)
    l_total, l_before = _lanes(was.loss, loss)
    r_before = l_before / w_before
    l_after, r_after = np.empty_like(l_before), np.empty_like(r_before)
    aurc, augrc = np.zeros_like(r_before), np.zeros_like(l_before)
    for w, added in zip(accepted, loss, strict=True):
        w_before += w
        np.add(l_before, added, out=l_after)
        np.divide(l_after, w_before, out=r_after)
        r_before += r_after
        r_before *= w
        aurc += r_before
        l_before += l_after
        l_before *= w
        augrc += l_before
        l_before, l_after = l_after, l_before
        r_before, r_after = r_after, r_before
    return _State(
        accepted=w_total,
        loss=l_total,
        aurc=was.aurc + aurc.sum(axis=0) + _first(was, accepted, loss),
        augrc=was.augrc + augrc.sum(axis=0),
    )


def _lanes(before: Floats, added: Floats) -> tuple[Floats, Floats]:
    """Sum after the block, (b,), and at the start of each lane, (lanes, b)."""
    ends = before + np.cumsum(added.sum(axis=0), axis=0)
    return ends[-1], np.concatenate([before[None], ends[:-1]])


def _first(was: _State, accepted: Floats, loss: Floats) -> Floats:
    """What 2 N · AURC lacks for the first working point, which has no r', where it lies in this block."""
    new = np.flatnonzero(was.accepted < 1)
    found = np.zeros(was.accepted.size)
    if new.size:
        first = np.argmax(in_order(accepted[:, :, new]) > 0, axis=0)
        found[new] = in_order(loss[:, :, new])[first, np.arange(new.size)]
    return found


class _Inside:
    """Every working point of a block, for the weightings that have something to be read there."""

    def __init__(self, was: _State, accepted: Floats, loss: Floats, columns: Ints) -> None:
        self.w = in_order(accepted[:, :, columns])
        self.accepted = _running(was.accepted[columns], self.w)
        self.loss = _running(was.loss[columns], in_order(loss[:, :, columns]))
        self.was = was
        self.columns = columns
        self.summed: tuple[Floats, Floats] | None = None

    def risks(self, landed: Ints, share: float, n_items: Floats) -> Floats:
        """Risk at the first working point that covers ``share``, at some of the columns."""
        after = self._before(landed, share, n_items[landed]) + 1
        return self.loss[after, landed] / self.accepted[after, landed]

    def areas(self, landed: Ints, share: float, n_items: Floats) -> tuple[Floats, Floats]:
        """AURC and AUGRC up to a coverage inside the block, at some of the columns."""
        n_items = n_items[landed]
        before = self._before(landed, share, n_items)
        w0, l0 = self.accepted[before, landed], self.loss[before, landed]
        w1, l1 = self.accepted[before + 1, landed], self.loss[before + 1, landed]
        r1 = l1 / w1
        r0 = np.where(w0 < 1, r1, l0 / w0)
        x = share * n_items - w0
        aurc, augrc = self._areas()
        part = x / (w1 - w0)
        aurc_there = aurc[before, landed] + x * (2 * r0 + (r1 - r0) * part)
        augrc_there = augrc[before, landed] + x * (2 * l0 + (l1 - l0) * part)
        return aurc_there / (2 * n_items), augrc_there / (2 * n_items * n_items)

    def _before(self, landed: Ints, share: float, n_items: Floats) -> Ints:
        """Place of the last working point below a coverage; 0 is the end of the block before."""
        short = self.accepted[1:, landed] / n_items < share
        before: Ints = short.sum(axis=0)
        return before

    def _areas(self) -> tuple[Floats, Floats]:
        if self.summed is None:
            risk = self.loss / self.accepted
            earlier = np.where(self.accepted[:-1] < 1, risk[1:], risk[:-1])
            aurc = _running(self.was.aurc[self.columns], self.w * (risk[1:] + earlier))
            augrc = _running(self.was.augrc[self.columns], self.w * (self.loss[1:] + self.loss[:-1]))
            self.summed = aurc, augrc
        return self.summed


def _running(before: Floats, added: Floats) -> Floats:
    """Running sums along the first axis, the start included: (points + 1, columns)."""
    return np.concatenate([before[None], before + np.cumsum(added, axis=0)])
