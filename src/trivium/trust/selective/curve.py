"""Computes the risk-coverage curve of a predictor that may abstain, its areas, and the optimal ones."""

import msgspec
import numpy as np
import numpy.typing as npt
from scipy.special import digamma

from trivium.display import HtmlRepr
from trivium.trust.arrays import Floats, Ints, check_finite, check_lengths, floats, weights_of
from trivium.trust.resampling import Counts
from trivium.trust.selective.sweep import Ranking

ROUNDING = 1e-12
"""Relative difference of coverages that is due to rounding."""

COLLINEAR = 1e-10
"""Cross product, in coverage times risk, below which three points count as collinear.

Definition: docs/definitions/selective.md#lower-hull.
"""


class Curve(HtmlRepr, msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Working points of a predictor that may abstain, by descending confidence.

    Each array has shape (j,), one entry per working point.

    Attributes:
        n_items: All items, predicted or not; their weight, if items count other than once each.
        accepted: Number of predictions accepted.
        coverage: Share of ``n_items`` accepted, increasing, in (0, 1].
        selective_risk: Mean loss of the accepted, in the unit of the loss.
        generalized_risk: Their summed loss / ``n_items``, in the unit of the loss.
        threshold: Lowest confidence that is accepted.
    """

    n_items: float
    accepted: Ints
    coverage: Floats
    selective_risk: Floats
    generalized_risk: Floats
    threshold: Floats

    @property
    def cmax(self) -> float:
        """Share of the items that are predicted (docs/definitions/selective.md#coverage)."""
        return float(self.coverage[-1]) if self.coverage.size else 0.0


class RiskAtCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The selective risk at a requested coverage.

    Attributes:
        requested: The requested coverage.
        achieved: Coverage of the first working point that reaches it.
        value: The selective risk at that point.
    """

    requested: float
    achieved: float
    value: float


def risk_coverage(
    loss: npt.ArrayLike, confidence: npt.ArrayLike, *, n_items: float, weights: npt.ArrayLike | None = None
) -> Curve:
    """The curve of predictions accepted by descending confidence, equal ones together.

    Definition: docs/definitions/selective.md#risk-coverage-curve.

    Args:
        loss: Loss of each prediction, shape (k,), finite.
        confidence: Confidence of each, shape (k,), finite; only its order matters.
        n_items: Number (or weight) of all items, including those abstained from; at least k.
        weights: How many times each prediction counts, shape (k,), above 0; once by default.

    Raises:
        ValueError: If the lengths differ, a number is not finite, a weight is not above 0, or ``n_items`` is
            below k.
    """
    wrong, confidences = floats(loss, confidence)
    check_lengths(loss=wrong, confidence=confidences)
    check_finite(loss=wrong, confidence=confidences)
    order = np.argsort(-confidences, kind="stable")
    ends = (
        np.flatnonzero(np.diff(confidences[order], append=-np.inf))
        if confidences.size
        else np.empty(0, np.int64)
    )
    each = weights_of(weights, wrong.size)[order]
    return _curve(wrong[order], each, ends + 1, confidences[order][ends], n_items)


def optimal_curve(loss: npt.ArrayLike, *, n_items: float, weights: npt.ArrayLike | None = None) -> Curve:
    """The curve of the best ranking, by ascending loss, one prediction per working point.

    Definition: docs/definitions/selective.md#optimal-area.

    Args:
        loss: Loss of each prediction, shape (k,), finite.
        n_items: Number (or weight) of all items, including those abstained from; at least k.
        weights: How many times each prediction counts, shape (k,), above 0; once by default.
    """
    wrong = np.asarray(loss, np.float64)
    order = np.argsort(wrong, kind="stable")
    ranked, each = wrong[order], weights_of(weights, wrong.size)[order]
    return _curve(ranked, each, np.arange(1, ranked.size + 1), -ranked, n_items)


def _curve(ranked: Floats, each: Floats, accepted: Ints, threshold: Floats, n_items: float) -> Curve:
    weight = np.cumsum(each)
    if ranked.size and n_items < weight[-1] * (1 - ROUNDING):
        raise ValueError(f"n_items must be at least the {weight[-1]:g} predictions; found {n_items:g}")
    summed, counted = np.cumsum(each * ranked)[accepted - 1], weight[accepted - 1]
    return Curve(
        n_items=n_items,
        accepted=accepted,
        coverage=np.minimum(counted / n_items, 1),
        selective_risk=summed / counted,
        generalized_risk=summed / n_items,
        threshold=threshold,
    )


def aurc(curve: Curve, *, max_coverage: float = 1.0) -> float | None:
    """Area under selective risk against coverage, up to ``max_coverage`` or the largest reached.

    Definitions: docs/definitions/selective.md#aurc, docs/definitions/selective.md#truncated-area.

    The risk at coverage 0 is that of the first working point. The area is not divided by the coverage, so
    abstaining more lowers it.

    Args:
        curve: The curve.
        max_coverage: In (0, 1]; the curve is interpolated there.

    Returns:
        In the unit of the loss; None without predictions.

    Raises:
        ValueError: If ``max_coverage`` is out of range.
    """
    _check_share("max_coverage", max_coverage)
    if not curve.coverage.size:
        return None
    return _area(curve.coverage, curve.selective_risk, float(curve.selective_risk[0]), max_coverage)


def augrc(curve: Curve, *, max_coverage: float = 1.0) -> float | None:
    """Area under generalised risk against coverage, up to ``max_coverage`` or the largest reached.

    Definitions: docs/definitions/selective.md#augrc, docs/definitions/selective.md#truncated-area.

    Args and returns are those of :func:`aurc`; the risk at coverage 0 is 0.
    """
    _check_share("max_coverage", max_coverage)
    if not curve.coverage.size:
        return None
    return _area(curve.coverage, curve.generalized_risk, 0.0, max_coverage)


def hull(x: list[float], y: list[float]) -> tuple[list[float], list[float]]:
    """Lower convex hull of points with ascending x, from the first to the last (Andrew's monotone chain)."""
    hull_x: list[float] = []
    hull_y: list[float] = []
    for px, py in zip(x, y, strict=True):
        while len(hull_x) > 1:
            ax, ay, bx, by = hull_x[-2], hull_y[-2], hull_x[-1], hull_y[-1]
            if (bx - ax) * (py - ay) - (by - ay) * (px - ax) > COLLINEAR:
                break
            hull_x.pop()
            hull_y.pop()
        hull_x.append(px)
        hull_y.append(py)
    return hull_x, hull_y


def risk_at(curve: Curve, target_coverage: float) -> RiskAtCoverage | None:
    """Selective risk at the first working point with coverage of at least ``target_coverage``.

    Definition: docs/definitions/selective.md#risk-at-coverage.

    Args:
        curve: The curve.
        target_coverage: In (0, 1].

    Returns:
        None if no working point reaches the coverage.

    Raises:
        ValueError: If ``target_coverage`` is out of range.
    """
    _check_share("target_coverage", target_coverage)
    place = int(np.searchsorted(curve.coverage, target_coverage * (1 - ROUNDING)))
    if place == curve.coverage.size:
        return None
    return RiskAtCoverage(
        requested=target_coverage,
        achieved=float(curve.coverage[place]),
        value=float(curve.selective_risk[place]),
    )


def _area(x: Floats, y: Floats, at_zero: float, stop: float) -> float:
    """Area under the line through (0, at_zero) and the points (x, y), up to ``stop`` or the last x."""
    x, y = np.append(0.0, x), np.append(at_zero, y)
    if stop < x[-1]:
        inside = int(np.searchsorted(x, stop))
        end_value = float(np.interp(stop, x, y))
        x, y = np.append(x[:inside], stop), np.append(y[:inside], end_value)
    return float(np.trapezoid(y, x))


def _check_share(name: str, share: float) -> None:
    if not 0 < share <= 1:
        raise ValueError(f"{name} must be in (0, 1]; found {share}")


def optimal_areas(ranking: Ranking, weights: Counts, *, n_items: Floats) -> tuple[Floats, Floats]:
    """AURC and AUGRC of the best ranking, one prediction per working point.

    Definition: docs/definitions/selective.md#optimal-area.

    A prediction with weight w is w working points of loss l, from W to W + w accepted, where L is the loss
    summed before. Along them the risk is l + (L - l W) / k at k accepted, so it sums to l w + (L - l W) (H(W
    + w) - H(W)), with H the harmonic numbers, for weights between whole numbers ψ(k + 1) + γ. The trapezoids
    differ from that sum only at the two ends.

    Args:
        ranking: Ranked by ascending loss, equal losses in one working point.
        weights: How often each group counts, shape (groups, b).
        n_items: Number of all items under each weighting, shape (b,).

    Returns:
        Each (b,), in the unit of the loss; NaN where nothing is accepted.
    """
    table = np.append(0.0, np.cumsum(1 / np.arange(1, 1 if ranking.weighted else n_items.max() + 1)))

    def harmonic(k: Floats) -> Floats:  # up to a constant
        return np.asarray(digamma(k + 1) if ranking.weighted else table[k.astype(np.int64)])

    starts = ranking.starts(weights)
    accepted, loss = starts[:, :-1]
    aurc, augrc = np.zeros((2, *accepted.shape))
    least = np.full(weights.shape[1], np.inf)
    for value, added, lost in ranking.added(weights):
        for v, w, more in zip(value, added, lost, strict=True):
            after, summed = accepted + w, loss + more
            step = harmonic(after) - harmonic(accepted)
            aurc += more + (loss - v * accepted) * step
            augrc += w * (loss + summed)
            least = np.minimum(least, np.where(w > 0, v, np.inf).min(axis=0))
            accepted, loss = after, summed
    some = starts[0, -1] > 0
    with np.errstate(invalid="ignore"):
        ends = (least - starts[1, -1] / np.where(some, starts[0, -1], 1)) / 2
        aurc_all = (aurc.sum(axis=0) + ends) / n_items
    augrc_all = augrc.sum(axis=0) / (2 * n_items * n_items)
    return np.where(some, aurc_all, np.nan), np.where(some, augrc_all, np.nan)


def lower_hull_areas(ranking: Ranking, weights: Counts, *, n_items: Floats) -> Floats:
    """AURC over the lower hull of the working points, one weighting after the other.

    Definition: docs/definitions/selective.md#lower-hull.

    Args and shapes are those of :func:`optimal_areas`; the ranking is the curve's own.
    """
    added = list(ranking.added(weights))
    # Concatenate the lanes, each from its first working point.
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
    hull_x, hull_y = hull(x.tolist(), y.tolist())
    return float(np.trapezoid([hull_y[0], *hull_y], [0.0, *hull_x]))
