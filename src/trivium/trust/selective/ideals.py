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
    b = weights.shape[1]
    harmonic = np.append(0.0, np.cumsum(1 / np.arange(1, n_items.max() + 1)))
    accepted, loss, aurc, augrc = np.zeros((4, b))
    least = np.full(b, np.nan)
    for value, w, added in ranking.points(weights):
        after = accepted + np.cumsum(w, axis=0)
        summed = loss + np.cumsum(added, axis=0)
        before, summed_before = after - w, summed - added
        step = harmonic[after.astype(np.int64)] - harmonic[before.astype(np.int64)]
        aurc += (added + (summed_before - value * before) * step).sum(axis=0)
        augrc += (w * (summed + summed_before)).sum(axis=0)
        present = np.where(w > 0, value, np.inf).min(axis=0, initial=np.inf)
        least = np.where(np.isnan(least) & np.isfinite(present), present, least)
        accepted, loss = after[-1], summed[-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        aurc = (aurc + (least - loss / accepted) / 2) / n_items
        return aurc, np.where(accepted > 0, augrc / (2 * n_items * n_items), np.nan)


def lower_hull_areas(ranking: Ranking, weights: Counts, *, n_items: Floats) -> Floats:
    """AURC over the lower hull of the working points (S.6), one weighting after the other.

    Args and shapes are those of :func:`optimal_areas`; the ranking is the curve's own.
    """
    coverage, risk = [], []
    accepted, loss = np.full((1, n_items.size), 1e-300), np.zeros((1, n_items.size))
    for _, w, added in ranking.points(weights):
        accepted, loss = accepted[-1] + np.cumsum(w, axis=0), loss[-1] + np.cumsum(added, axis=0)
        coverage.append(np.where(w > 0, accepted / n_items, np.nan))
        risk.append(loss / accepted)
    if not coverage:
        return np.full(n_items.size, np.nan)
    x, y = np.concatenate(coverage), np.concatenate(risk)
    return np.array([_hull_area(x[:, b], y[:, b]) for b in range(n_items.size)])


def _hull_area(x: Floats, y: Floats) -> float:
    there = ~np.isnan(x)
    if not there.any():
        return np.nan
    kept_x, kept_y = hull(x[there].tolist(), y[there].tolist())
    return float(np.trapezoid([kept_y[0], *kept_y], [0.0, *kept_x]))
