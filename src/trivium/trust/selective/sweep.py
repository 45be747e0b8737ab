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
from trivium.trust.selective.ranking import Ranking

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
    """Where each lane stands.

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
) -> Swept:
    """Sweep once over the working points, under every weighting.

    Args:
        ranking: The working points.
        weights: How often each group counts, shape (groups, b).
        n_items: All items under each weighting, shape (b,), positive.
        area_to: Coverages in (0, 1] up to which areas are wished too, t of them.
        risk_at: Coverages in (0, 1] at which the risk is wished, u of them.
    """
    starts = ranking.starts(weights)
    accepted = starts[0, :-1] + _NONE
    now = _State(
        accepted=accepted,
        risk_loss=np.stack([starts[1, :-1] / accepted, starts[1, :-1]]),
        areas=np.zeros((2, *accepted.shape)),
    )
    landings = _Landings(n_items, area_to, risk_at)
    for _, added, loss in ranking.added(weights):
        was, now = now, _advance(now, added, loss)
        landings.note(was, now.accepted, added, loss)
    some = starts[0, -1] > 0
    before = np.zeros((2, accepted.shape[0] + 1, accepted.shape[1]))
    np.cumsum(now.areas, axis=1, out=before[:, 1:])
    scale = np.stack([2 * n_items, 2 * n_items * n_items])
    aurc, augrc = np.where(some, before[:, -1] / scale, np.nan)
    aurc_to, augrc_to = landings.areas(before, scale)
    return Swept(
        cmax=starts[0, -1] / n_items,
        aurc=aurc,
        augrc=augrc,
        aurc_to=np.where(np.isnan(aurc_to), aurc, aurc_to),
        augrc_to=np.where(np.isnan(augrc_to), augrc, augrc_to),
        risk_at=landings.risks,
    )


def _advance(was: _State, added: Floats, loss: Floats) -> _State:
    """Go through one block, all lanes side by side; what its points add is of shape (steps, lanes, b)."""
    accepted, before, areas = was.accepted.copy(), was.risk_loss.copy(), was.areas.copy()
    _count_first(was.accepted, added, loss, areas[0])
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
    """Add to 2 N · AURC what the sum lacks for a first working point, which has no r' before it."""
    lanes, columns = np.nonzero(accepted < 1)
    if lanes.size:
        first = np.argmax(added[:, lanes, columns] > 0, axis=0)
        aurc[lanes, columns] += loss[first, lanes, columns]


class _Landings:
    """What is to be read where a coverage is first reached, somewhere inside a block."""

    def __init__(self, n_items: Floats, area_to: Sequence[float], risk_at: Sequence[float]) -> None:
        self.n_items = n_items
        self.area_to = area_to
        self.risk_at = risk_at
        self.lanes = np.zeros((len(area_to), n_items.size), np.int64)
        self.parts = np.full((2, len(area_to), n_items.size), np.nan)
        self.risks = np.full((len(risk_at), n_items.size), np.nan)

    def note(self, was: _State, accepted: Floats, added: Floats, loss: Floats) -> None:
        """Keep what is wished of a block that begins at ``was`` and ends with ``accepted``."""
        if not self.area_to and not self.risk_at:
            return
        start, end = was.accepted / self.n_items, accepted / self.n_items
        for place, share in enumerate(self.area_to):
            lanes, columns = np.nonzero((start < share) & (end >= share))
            if lanes.size:
                self.lanes[place, columns] = lanes
                inside = _Inside(was, added, loss, lanes, columns)
                self.parts[:, place, columns] = inside.areas_to(share, self.n_items[columns])
        for place, share in enumerate(self.risk_at):
            lanes, columns = np.nonzero((start < share) & (end >= share))
            if lanes.size:
                inside = _Inside(was, added, loss, lanes, columns)
                self.risks[place, columns] = inside.risk_at(share, self.n_items[columns])

    def areas(self, before: Floats, scale: Floats) -> Floats:
        """Areas up to the coverages, (2, t, b), from those before each lane; NaN where not reached."""
        columns = np.arange(self.n_items.size)
        areas: Floats = (before[:, self.lanes, columns] + self.parts) / scale[:, None]
        return areas


class _Inside:
    """The working points of a block, in the lanes and columns where something is to be read."""

    def __init__(self, was: _State, added: Floats, loss: Floats, lanes: Ints, columns: Ints) -> None:
        self.w = added[:, lanes, columns]
        self.accepted = _running(was.accepted[lanes, columns], self.w)
        self.loss = _running(was.risk_loss[1, lanes, columns], loss[:, lanes, columns])
        self.start = was.areas[:, lanes, columns]
        self.each = np.arange(lanes.size)

    def risk_at(self, share: float, n_items: Floats) -> Floats:
        """Risk at the first working point that covers ``share``."""
        after = self._below(share, n_items) + 1
        risk: Floats = self.loss[after, self.each] / self.accepted[after, self.each]
        return risk

    def areas_to(self, share: float, n_items: Floats) -> Floats:
        """Both areas of the lane up to the coverage ``share``, shape (2, places)."""
        below = self._below(share, n_items)
        risk = self.loss / self.accepted
        earlier = np.where(self.accepted[:-1] < 1, risk[1:], risk[:-1])
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
        """Place of the last working point below a coverage; 0 is where the block begins."""
        below: Ints = (self.accepted[1:] / n_items < share).sum(axis=0)
        return below


def _running(before: Floats, added: Floats) -> Floats:
    """Running sums along the first axis, the start included: (points + 1, places)."""
    return np.concatenate([before[None], before + np.cumsum(added, axis=0)])
