"""What a curve is held against: the best ranking and the lower hull (spec: metrics, S.5, S.6)."""

import numpy as np
import numpy.typing as npt

from trivium.trust.resampling import Counts
from trivium.trust.selective.curve import hull
from trivium.trust.selective.ranking import Ranking

Floats = npt.NDArray[np.float64]


def optimal_areas(ranking: Ranking, weights: Counts, *, n_items: Floats) -> tuple[Floats, Floats]:
    """AURC and AUGRC of the best ranking, one prediction a working point (S.5).

    A prediction that counts w times is w working points of loss l, from W to W + w accepted. Along them the
    risk is l + (L - l W) / k at k accepted, so their sum is l w + (L - l W) (H(W + w) - H(W)), H the harmonic
    numbers, and the trapezoids differ from the sum only at the two ends.

    Args:
        ranking: Ranked by rising loss, equal losses in one working point.
        weights: How often each group counts, shape (groups, b).
        n_items: All items under each weighting, shape (b,).

    Returns:
        Each (b,), in the unit of the loss; NaN where nothing is accepted.
    """
    harmonic = np.append(0.0, np.cumsum(1 / np.arange(1, n_items.max() + 1)))
    starts = ranking.starts(weights)
    accepted, loss = starts[:, :-1]
    aurc, augrc = np.zeros((2, *accepted.shape))
    least = np.full(weights.shape[1], np.inf)
    for value, added, lost in ranking.added(weights):
        for v, w, more in zip(value, added, lost, strict=True):
            after, summed = accepted + w, loss + more
            step = harmonic[after.astype(np.int64)] - harmonic[accepted.astype(np.int64)]
            aurc += more + (loss - v * accepted) * step
            augrc += w * (loss + summed)
            least = np.minimum(least, np.where(w > 0, v, np.inf).min(axis=0))
            accepted, loss = after, summed
    some = starts[0, -1] > 0
    with np.errstate(invalid="ignore"):
        ends = (least - starts[1, -1] / np.maximum(starts[0, -1], 1)) / 2
        aurc_all = (aurc.sum(axis=0) + ends) / n_items
    augrc_all = augrc.sum(axis=0) / (2 * n_items * n_items)
    return np.where(some, aurc_all, np.nan), np.where(some, augrc_all, np.nan)


def lower_hull_areas(ranking: Ranking, weights: Counts, *, n_items: Floats) -> Floats:
    """AURC over the lower hull of the working points (S.6), one weighting after the other.

    Args and shapes are those of :func:`optimal_areas`; the ranking is the curve's own.
    """
    added = list(ranking.added(weights))
    # Lane after lane, each from its first working point.
    w, lost = (
        np.concatenate(parts).transpose(1, 0, 2) for parts in ([a[1] for a in added], [a[2] for a in added])
    )
    w, lost = w.reshape(-1, n_items.size), lost.reshape(-1, n_items.size)
    accepted, loss = np.cumsum(w, axis=0), np.cumsum(lost, axis=0)
    return np.array(
        [
            _hull_area(accepted[there, b] / n_items[b], loss[there, b] / accepted[there, b])
            for b in range(n_items.size)
            for there in [w[:, b] > 0]
        ]
    )


def _hull_area(x: Floats, y: Floats) -> float:
    if not x.size:
        return np.nan
    kept_x, kept_y = hull(x.tolist(), y.tolist())
    return float(np.trapezoid([kept_y[0], *kept_y], [0.0, *kept_x]))
