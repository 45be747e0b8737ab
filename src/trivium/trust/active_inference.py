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

    value: float | None = None
    interval: Interval | None = None
    interval_items: Interval | None = None
    judge: float | None
    weight: float | None = None
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
        return ActiveMean(reason="no item has a label", **figures)
    fit = _Fit(drawn, f, codes, told, y, ends=(low, high))
    if fit.why_no_interval:
        return ActiveMean(value=fit.shown, weight=fit.weight, reason=fit.why_no_interval, **figures)
    further, items = fit.interval(level, further=True), fit.interval(level, further=False)
    worst_and_best = fit.end(low, -1, level), fit.end(high, 1, level)
    effective = fit.effective_labels(items.std_error)
    return ActiveMean(
        value=fit.shown,
        interval=further,
        interval_items=items,
        weight=fit.weight,
        bounds=(further.low, further.high) if told.all() else worst_and_best,
        effective_labels=effective,
        saved=1 - fit.labels.size / effective if effective else None,
        rho2=_squared_correlation(fit.scores, fit.labels, fit.weights),
        **figures,
    )


class _Fit:
    """The judge's scores, fitted to at least one label.

    Args:
        drawn: The drawn items.
        f: The judge's score of each item of the population.
        codes: The cluster of each.
        told: Whether each drawn item has a label, shape (m,).
        y: Its label, shape (m,); ignored where it has none.
        ends: Lowest and highest possible score.

    Attributes:
        labels: The labels, shape (k,).
        scores: The judge's scores of the labelled items, shape (k,).
        weights: How many times each counts, shape (k,).
        weight: Weight of the judge's scores.
        shown: The estimate, between ``ends``.
        why_no_interval: Empty if there is one.
    """

    def __init__(
        self,
        drawn: Labelled,
        f: Floats,
        codes: Ints,
        told: npt.NDArray[np.bool_],
        y: Floats,
        *,
        ends: tuple[float, float],
    ) -> None:
        self._drawn, self._f, self._codes, self._told, self._y, self._ends = drawn, f, codes, told, y, ends
        self.labels, self.scores, self.weights = y[told], f[drawn.items[told]], drawn.weights[told]
        _, _, self.weight = residuals(self.scores, self.labels, self.weights)
        self._moved = self.weight * (float(f.mean()) - drawn.mean(f[drawn.items]))
        self._share = drawn.mean(told.astype(np.float64))
        self._value = (drawn.mean(np.where(told, y, 0.0)) + self._moved) / self._share
        self.shown = self._within(self._value)
        self._binary = bool(np.isin(self.labels, ends).all())
        self._clusters = np.unique(codes[drawn.items[told]]).size
        self.why_no_interval = ""
        if self.labels.size <= FITTED:
            self.why_no_interval = f"at most {FITTED} labels give no interval"
        elif self._clusters < 2:
            self.why_no_interval = "one labelled group gives no interval"

    def _within(self, value: float) -> float:
        low, high = self._ends
        return min(high, max(low, value))

    def _t(self, level: float) -> float:
        return t_critical_value(level, max(1, min(self._clusters - 1, self.labels.size - FITTED)))

    def interval(self, level: float, *, further: bool) -> Interval:
        """The interval for further items like these, or for the mean of these very items."""
        filled = np.where(self._told, self._y, self._value)
        centre, error, slack = self._errors(filled, level, further=further)
        reach = self._t(level) * error / self._share + slack
        middle = self._value + centre / self._share
        low, high = self._ends
        return Interval(
            low=max(low, min(self.shown, middle - reach)),
            high=min(high, max(self.shown, middle + reach)),
            level=level,
            method="active PPI by groups, t" if further else "active PPI, t",
            n=self.labels.size,
            groups=self._clusters,
            std_error=error / self._share,
        )

    def end(self, score: float, side: int, level: float) -> float:
        """The lower (-1) or upper (1) end of the interval if all untold labels were ``score``."""
        z = np.where(self._told, self._y, score)
        centre, error, slack = self._errors(z, level, further=True)
        reach = self._t(level) * error + slack
        return self._within(self._drawn.mean(z) + self._moved + centre + side * reach)

    def effective_labels(self, error: float) -> float | None:
        """Uniform labels whose mean would have this standard error, at most all; None if that is unknown."""
        labels, population = self.labels, self._f.size
        # The labels that are added so that few of them do not look too sure.
        added = np.array(self._ends if self._binary else ())
        y = np.append(labels, added)
        shares = np.append(self.weights * labels.size / self.weights.sum(), np.ones(added.size))
        mean = float(shares @ y) / y.size
        variance = float(shares @ np.square(y - mean)) / (y.size - 1)
        if variance < SAME or labels.size == population:
            return None
        # They help both alike.
        return labels.size / y.size / (error**2 / variance + 1 / population)

    def _errors(self, z: Floats, level: float, *, further: bool) -> tuple[float, float, float]:
        """Shift of the centre, standard error and what is added to the reach of the interval.

        Args:
            z: The figure of each drawn item, shape (m,).
            level: Nominal coverage.
            further: Whether the mean is that of further items like these, or that of these items.
        """
        drawn, f, weight = self._drawn, self._f, self.weight
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
