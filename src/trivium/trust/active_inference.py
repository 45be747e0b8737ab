"""Estimates people's mean score from labels that were asked for actively.

Definition: docs/definitions/agreement.md#active-mean.

Active, prediction-powered inference (Zrnic & Candès 2024; Angelopoulos et al. 2023), for draws without
replacement from all items that have no label yet (``active_sampling``).

Given the past, the total of the drawn items plus the next one over its probability estimates the total of
all items without bias (Des Raj 1956), whatever the probabilities depended on. Weighting these estimates as
Farquhar, Gal and Rainforth (2021) do gives equal weights, and so the ordinary sample mean, where all
probabilities are equal. Their errors are martingale differences, so the sum of their squares estimates the
variance.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import sqrt
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import TrustError
from trivium.trust.active_sampling import Sampling, check_arrays, residuals
from trivium.trust.arrays import Floats, Ints, check_inside_unit
from trivium.trust.cluster_bootstrap import Groups
from trivium.trust.distributions import Interval, t_critical_value

FITTED = 2
"""Numbers fitted to the labels: the weight of the judge's scores and the intercept."""

SAME = 1e-12
"""Spread below which errors are equal up to rounding."""


class ActiveMean(msgspec.Struct, frozen=True, kw_only=True):
    """People's mean score, estimated from labels that were asked for actively.

    Definition: docs/definitions/agreement.md#active-mean.

    Attributes:
        value: The estimate; None without labels.
        interval: Its interval for further items like these, by groups; None if there is none.
        interval_items: Its interval for the mean of these very items, which has no width once all of them
            are labelled; None if there is none.
        judge: The judge's mean over all items; None without items.
        weight: Weight of the judge's scores, at least 0 (λ of PPI++); None without labels.
        items: Number of items.
        labels: Number of labels used.
        cannot_tell: Number of items whose label cannot be told. They are taken to be like the others.
        waiting: Items drawn whose labels do not count yet: the first one without an answer, and all that
            were drawn after it.
        bounds: The ends of ``interval`` if the labels that cannot be told were all lowest, and all highest;
            None without an interval.
        effective_labels: Uniform labels that would give ``interval_items`` its width without the judge; None
            if that is unknown.
        saved: 1 - labels / effective_labels, the share of labels that the judge and the active draws save;
            negative if they cost labels. None if that is unknown.
        rho2: Squared correlation between the judge's scores and people's, in [0, 1]; None if either is the
            same throughout.
        reason: Why there is no value or no interval, or None.
    """

    value: float | None
    interval: Interval | None
    interval_items: Interval | None
    judge: float | None
    weight: float | None
    items: int
    labels: int
    cannot_tell: int
    waiting: int
    bounds: tuple[float, float] | None = None
    effective_labels: float | None = None
    saved: float | None = None
    rho2: float | None = None
    reason: str | None = None


class Labelled(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The drawn items up to the first that still waits for an answer.

    Attributes:
        items: Their positions in the population, in the order in which they were drawn, shape (m,).
        weights: How many times each counts, shape (m,), at least 0. The weighted mean of any figure of the
            items, Σ weight · figure / m, is unbiased for its mean over the population. All are 1 if all
            probabilities were uniform.
        factors: What each item's error is multiplied with to give its part of the error of that mean, shape
            (m,).
    """

    items: Ints
    weights: Floats
    factors: Floats

    def mean(self, figures: Floats) -> float:
        """Weighted mean of a figure of the items."""
        return float(self.weights @ figures / self.weights.sum())


def labelled_items(sampling: Sampling, answers: Mapping[int, float | None]) -> Labelled:
    """The items whose labels may be used, with their weights.

    Labels after the first unanswered draw are left out: which of them are there already may depend on how
    hard they were.

    Args:
        sampling: The draws.
        answers: By item; None where it cannot be told.
    """
    waiting = [place for place, draw in enumerate(sampling.draws) if draw.item not in answers]
    draws = sampling.draws[: waiting[0]] if waiting else sampling.draws
    population, drawn = sampling.population, len(draws)
    before = population - np.arange(drawn, dtype=np.float64)
    after = before - 1
    probability = np.array([draw.probability for draw in draws], dtype=np.float64)
    # The last of all items has nothing after it, and its error is known to be 0.
    late = np.divide(population - drawn, after, out=np.zeros(drawn), where=after > 0)
    return Labelled(
        items=np.array([draw.item for draw in draws], dtype=np.int64),
        weights=1 + late * (1 / (before * probability) - 1),
        factors=late * (1 / probability - 1) / (max(1, drawn) * before),
    )


def active_mean(
    sampling: Sampling,
    predictions: npt.ArrayLike,
    answers: Mapping[int, float | None],
    groups: Groups | Sequence[Hashable],
    *,
    level: float = 0.95,
    low: float = 0.0,
    high: float = 1.0,
) -> ActiveMean:
    """Estimate people's mean score over all items, or over further items like them.

    Definition: docs/definitions/agreement.md#active-mean.

    The judge's scores are fitted to the labels by weighted least squares; the estimate is the mean of the
    fitted scores over all items. A judge whose scores predict nothing gets weight 0.

    If all labels lie at the ends of the range (right or wrong), the intervals are computed with one
    disagreement of either kind added, as in ``bias_correction``: a few labels show few disagreements and
    say little about their rate. For other labels, if all errors are equal, the rule of three is added.

    Args:
        sampling: The draws.
        predictions: The judge's score of each item, shape (population,), finite.
        answers: People's score of the items drawn, in [low, high]; None where it cannot be told. An item
            without an answer is still waiting for one. Items that were not drawn are ignored.
        groups: The cluster of each item, ``population`` of them.
        level: Nominal coverage, in (0, 1).
        low: Lowest possible score.
        high: Highest possible score.

    Raises:
        TrustError: If the data or an option are invalid.
    """
    f, codes = _checked(sampling, predictions, groups, level=level)
    drawn = labelled_items(sampling, answers)
    told, y = _scores(drawn, answers, low=low, high=high)
    figures: dict[str, Any] = {
        "judge": float(f.mean()) if f.size else None,
        "items": f.size,
        "labels": int(told.sum()),
        "cannot_tell": int((~told).sum()),
        "waiting": len(sampling.draws) - drawn.items.size,
    }
    if not told.any():
        return ActiveMean(
            value=None,
            interval=None,
            interval_items=None,
            weight=None,
            reason="no item has a label",
            **figures,
        )
    labels, fitted, weights = y[told], f[drawn.items[told]], drawn.weights[told]
    _, _, weight = residuals(fitted, labels, weights)
    moved = weight * (float(f.mean()) - drawn.mean(f[drawn.items]))
    share = drawn.mean(told.astype(np.float64))
    value = (drawn.mean(np.where(told, y, 0.0)) + moved) / share
    shown = min(high, max(low, value))
    clusters = np.unique(codes[drawn.items[told]]).size
    few = labels.size <= FITTED
    if few or clusters < 2:
        reason = (
            f"at most {FITTED} labels give no interval" if few else "one labelled group gives no interval"
        )
        return ActiveMean(
            value=shown, interval=None, interval_items=None, weight=weight, reason=reason, **figures
        )
    errors = _Errors(
        drawn, f, codes, weight, ends=(low, high), binary=bool(np.isin(labels, (low, high)).all())
    )
    freedom = max(1, min(clusters - 1, labels.size - FITTED))
    t = t_critical_value(level, freedom)
    filled = np.where(told, y, value)

    def interval(*, further: bool) -> Interval:
        centre, error, slack = errors.of(filled, level, further=further)
        reach = t * error / share + slack
        return Interval(
            low=max(low, min(shown, value + centre / share - reach)),
            high=min(high, max(shown, value + centre / share + reach)),
            level=level,
            method="active PPI by groups, t" if further else "active PPI, t",
            n=labels.size,
            groups=clusters,
            std_error=error / share,
        )

    def worst(score: float, side: int) -> float:
        """The end of the interval if each label that cannot be told were ``score``."""
        z = np.where(told, y, score)
        centre, error, slack = errors.of(z, level, further=True)
        return min(high, max(low, drawn.mean(z) + moved + centre + side * (t * error + slack)))

    further, items = interval(further=True), interval(further=False)
    missing = not told.all()
    effective = _effective_labels(labels, weights, items.std_error, f.size, errors.added(labels))
    return ActiveMean(
        value=shown,
        interval=further,
        interval_items=items,
        weight=weight,
        bounds=(worst(low, -1), worst(high, 1)) if missing else (further.low, further.high),
        effective_labels=effective,
        saved=1 - labels.size / effective if effective else None,
        rho2=_squared_correlation(fitted, labels, weights),
        **figures,
    )


class _Errors:
    """Standard errors of weighted means of the drawn items, with the judge's scores fitted to them."""

    def __init__(
        self,
        drawn: Labelled,
        f: Floats,
        codes: Ints,
        weight: float,
        *,
        ends: tuple[float, float],
        binary: bool,
    ) -> None:
        self._drawn, self._f, self._codes, self._weight = drawn, f, codes, weight
        self._ends, self._binary = ends, binary

    def of(self, z: Floats, level: float, *, further: bool) -> tuple[float, float, float]:
        """Shift of the centre, standard error and what is added to the reach of the interval.

        Args:
            z: The figure of each drawn item, shape (m,).
            level: Nominal coverage.
            further: Whether the mean is that of further items like these, or that of these items.
        """
        drawn, f, weight = self._drawn, self._f, self._weight
        intercept = drawn.mean(z) - weight * drawn.mean(f[drawn.items])
        e = z - intercept - weight * f[drawn.items]
        low, high = self._ends
        fitted = np.clip(intercept + weight * f, low, high)
        extra = np.array([high - fitted.min(), low - fitted.max()]) if self._binary else np.empty(0)
        m = e.size + extra.size
        unseen = 1 - e.size / f.size
        lost = m / (m - FITTED)
        parts = np.append(drawn.factors * e * (e.size / m), sqrt(unseen) * extra / m)
        variance = lost * float(parts @ parts)
        clusters = np.unique(self._codes[drawn.items])
        slack = (
            (1 - (1 - level) ** (1 / clusters.size)) * (high - low)
            if m == e.size and np.ptp(e) < SAME
            else 0.0
        )
        if not further:
            return unseen * float(extra.sum()) / m, sqrt(variance), unseen * slack
        count = clusters.size + extra.size
        by_cluster = np.bincount(self._codes[drawn.items], drawn.weights * e, minlength=self._codes.max() + 1)
        own = np.append(by_cluster, extra) / m * sqrt(lost * (m - 1) / m * count / (count - 1))
        own[: by_cluster.size] += weight * np.bincount(self._codes, f - f.mean()) / f.size
        return float(extra.sum()) / m, sqrt(max(variance, float(own @ own))), slack

    def added(self, labels: Floats) -> Floats:
        """The labels that are added so that few of them do not look too sure."""
        return np.array(self._ends if self._binary else ())


def _effective_labels(
    labels: Floats, weights: Floats, error: float, population: int, added: Floats
) -> float | None:
    """Number of uniform labels whose mean would have this standard error, at most ``population``."""
    y = np.append(labels, added)
    shares = np.append(weights * labels.size / weights.sum(), np.ones(added.size))
    mean = float(shares @ y) / y.size
    variance = float(shares @ np.square(y - mean)) / (y.size - 1)
    if variance < SAME or labels.size == population:
        return None
    # The labels that were added help both alike.
    return labels.size / y.size / (error**2 / variance + 1 / population)


def _squared_correlation(f: Floats, y: Floats, weights: Floats) -> float | None:
    f, y = (values - float(weights @ values) / weights.sum() for values in (f, y))
    spread = float(weights @ (f * f)) * float(weights @ (y * y))
    return float(weights @ (f * y)) ** 2 / spread if spread > SAME * weights.sum() ** 2 else None


def _scores(
    drawn: Labelled, answers: Mapping[int, float | None], *, low: float, high: float
) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Whether each drawn item could be told, and its score (``low`` where not), or raise TrustError."""
    given = [answers[item] for item in drawn.items.tolist()]
    told = np.array([answer is not None for answer in given], dtype=bool)
    y = np.array([low if answer is None else answer for answer in given], dtype=np.float64)
    fine = (y >= low) & (y <= high)
    if not fine.all():
        at = int(np.argmin(fine))
        raise TrustError(
            f"answers must lie between {low:g} and {high:g}; found {y[at]:g} for item {drawn.items[at]}"
        )
    return told, y


def _checked(
    sampling: Sampling, predictions: npt.ArrayLike, groups: Groups | Sequence[Hashable], *, level: float
) -> tuple[Floats, Ints]:
    """The predictions and the codes of their clusters, or raise TrustError."""
    check_inside_unit(level=level)
    _, f = check_arrays(sampling, np.zeros(sampling.population), predictions)
    clusters = Groups.of(groups)
    if clusters.codes.shape != f.shape:
        raise TrustError(f"each of {f.size} items needs a group; found {clusters.codes.size}")
    return f, clusters.codes
