"""Estimates of the latest traffic: figures with intervals and statuses, by agent, tool, tag and time.

A window is for looking: its intervals hold for one look at it. Whether a status is *sure*, however often one
looks, is decided by :mod:`trivium.monitor.levels`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np

from trivium.store.live_records import FAILED_TOOL
from trivium.store.live_samples import Sample
from trivium.suites.monitor_settings import MonitorSettings, StatusThresholds
from trivium.trust.arrays import Floats
from trivium.trust.decision import probability_of_missing
from trivium.trust.weighted_means import WeightedMean, weighted_mean

Status = Literal["no_data", "insufficient_data", "critical", "warning", "healthy"]

PASS_RATE, COMPOSITE = "pass_rate", "composite"
"""The figures that every window has; the others are metrics."""

MOST_SAMPLES = 20_000
"""Samples of a window that are read: the latest ones."""

MOST_VALUES = 50
"""Values of a facet that a window shows: those with most samples."""

POINTS = 24
"""Points in time of a window."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A mean of a figure over a window, weighted by inverse probability.

    Attributes:
        figure: ``pass_rate``, ``composite`` or a metric.
        facet: ``agent``, ``tool``, ``tag``, ``model``, ``version`` or ``service``; empty for all traffic.
        value: The facet's value.
        samples: Number of samples that have a value.
        sessions: Number of independent clusters among them.
        mean: The estimate, in [0, 1]; None without samples.
        low: Lower end of its interval of 95 %.
        high: Upper end of its interval of 95 %.
        status: By the thresholds of the figure; None if it has none.
        warning: The higher of these thresholds.
        below: Probability that the level is below it (docs/definitions/decisions.md#probability-limit).
        sure: Whether the status is sure, at every look; see :mod:`trivium.monitor.levels`.
        changed: Whether the mean is worse than before the last deployment, by more than the tolerance.
        called: Of a tool, number of samples in which it was called and that say whether its calls failed.
        failed: Number of those in which a call of it failed, whatever became of the interaction.
    """

    figure: str
    facet: str = ""
    value: str = ""
    samples: int = 0
    sessions: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    status: Status | None = None
    warning: float | None = None
    below: float | None = None
    sure: bool = False
    changed: bool = False
    called: int = 0
    failed: int = 0


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """Time and money that interactions took, each weighted by inverse probability.

    Definition: docs/definitions/monitoring.md#resources.

    Attributes:
        facet: As of an :class:`Estimate`; empty for all traffic.
        value: The facet's value.
        samples: Number of samples.
        interactions: Number of interactions that they stand for, estimated.
        timed: Number of samples that state how long they took.
        latency_p50: Seconds that half of the interactions do not exceed; None if none is timed.
        latency_p95: Seconds that 95 % of them do not exceed.
        with_cost: Number of samples whose cost is known.
        cost_usd: Mean cost of an interaction in US dollars, of those; None without them.
    """

    facet: str = ""
    value: str = ""
    samples: int = 0
    interactions: float = 0.0
    timed: int = 0
    latency_p50: float | None = None
    latency_p95: float | None = None
    with_cost: int = 0
    cost_usd: float | None = None


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A mean of a figure, and what interactions took, over a part of a window.

    Attributes:
        time: Unix time at which the part begins.
        samples: Number of samples with a value of the figure.
        mean: The estimate, in [0, 1]; None without samples.
        low: Lower end of its interval of 95 %.
        high: Upper end of its interval of 95 %.
        resources: What its interactions took.
    """

    time: float
    samples: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    resources: Resources


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a window.

    Attributes:
        begin: Unix time at which it begins.
        end: Unix time at which it ends.
        samples: Number of samples.
        figures: Each figure over all traffic.
        by: Each figure by each value of each facet, values with most samples first.
        resources: What interactions took: of all traffic, then of the same values.
        left_out: Number of values that ``by`` leaves out, by facet.
        shortened: Whether there were more samples than are read.
    """

    begin: float
    end: float
    samples: int
    figures: tuple[Estimate, ...] = ()
    by: tuple[Estimate, ...] = ()
    resources: tuple[Resources, ...] = ()
    left_out: Mapping[str, int] = {}
    shortened: bool = False

    def figure(self, name: str) -> Estimate:
        """A figure over all traffic; without samples if the window does not have it."""
        return next((each for each in self.figures if each.figure == name), Estimate(figure=name))


def figures_of(settings: MonitorSettings) -> tuple[str, ...]:
    """The figures of a monitor: pass rate, composite, and those with thresholds."""
    return tuple(dict.fromkeys((PASS_RATE, COMPOSITE, *settings.figures)))


def value_of(sample: Sample, figure: str) -> float | None:
    """A sample's value of a figure, in [0, 1]; None if it has none, or one that is not in [0, 1]."""
    if figure == PASS_RATE:
        return None if sample.passed is None else float(sample.passed)
    value = sample.score if figure == COMPOSITE else sample.scores.get(figure)
    return value if value is not None and 0 <= value <= 1 else None


def status_of_mean(mean: float | None, thresholds: StatusThresholds | None) -> Status | None:
    """The status of a mean; None without thresholds.

    Definition: docs/definitions/monitoring.md#window.
    """
    if thresholds is None:
        return None
    if mean is None:
        return "insufficient_data"
    if mean < thresholds.critical:
        return "critical"
    return "warning" if mean < thresholds.warning else "healthy"


def by_facet(samples: Iterable[Sample], facets: Sequence[str]) -> dict[tuple[str, str], list[Sample]]:
    """Samples by facet and value; one that has several values of a facet counts for each."""
    found: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        for facet in facets:
            for value in sample.facets.get(facet, ()):
                found[facet, value].append(sample)
    return found


def window_of(
    samples: Sequence[Sample],
    settings: MonitorSettings,
    *,
    begin: float,
    end: float,
    intervals: bool = True,
) -> Window:
    """Estimate the figures of a window.

    Means by facet have intervals if they are pass rates or have thresholds: an interval of values between 0
    and 1 takes some 100 ms over ten thousand samples.

    Args:
        samples: Its samples, oldest first.
        settings: Settings of the monitor.
        begin: Unix time at which it begins.
        end: Unix time at which it ends.
        intervals: Whether there are intervals at all, and what interactions took.
    """
    figures = figures_of(settings)
    bounded = {PASS_RATE, *settings.figures} if intervals else set()
    grouped = by_facet(samples, settings.by)
    counts: Counter[str] = Counter()
    rows = []
    took = [resources(samples)] if intervals else []
    for (facet, value), members in sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0])):
        counts[facet] += 1
        if counts[facet] <= MOST_VALUES:
            told = [each for each in members if facet == "tool" and FAILED_TOOL in each.facets]
            failed = sum(value in each.facets[FAILED_TOOL] for each in told)
            found = (
                estimate(members, figure, settings, facet=facet, value=value, interval=figure in bounded)
                for figure in figures
            )
            rows += [msgspec.structs.replace(each, called=len(told), failed=failed) for each in found]
            took += [resources(members, facet=facet, value=value)] if intervals else []
    return Window(
        begin=begin,
        end=end,
        samples=len(samples),
        figures=tuple(estimate(samples, figure, settings, interval=intervals) for figure in figures),
        by=tuple(rows),
        resources=tuple(took),
        left_out={facet: count - MOST_VALUES for facet, count in counts.items() if count > MOST_VALUES},
        shortened=len(samples) >= MOST_SAMPLES,
    )


def estimate(
    samples: Sequence[Sample],
    figure: str,
    settings: MonitorSettings,
    *,
    facet: str = "",
    value: str = "",
    interval: bool = True,
) -> Estimate:
    """Estimate a figure from samples, with its status, and with its interval if that is wanted."""
    thresholds = settings.figures.get(figure)
    if not interval:
        mean, number = _mean(samples, figure)
        status = status_of_mean(mean, thresholds)
        return Estimate(figure=figure, facet=facet, value=value, samples=number, mean=mean, status=status)
    found = mean_of(samples, figure)
    if found is None:
        status = status_of_mean(None, thresholds)
        return Estimate(figure=figure, facet=facet, value=value, status=status)
    return Estimate(
        figure=figure,
        facet=facet,
        value=value,
        samples=found.n,
        sessions=found.groups,
        mean=found.mean,
        low=found.low,
        high=found.high,
        status=status_of_mean(found.mean, thresholds),
        warning=thresholds.warning if thresholds else None,
        below=probability_of_missing(found.mean, found, at_least=thresholds.warning) if thresholds else None,
    )


def mean_of(samples: Iterable[Sample], figure: str, *, confidence: float = 0.95) -> WeightedMean | None:
    """The weighted mean of a figure; samples of one session are a cluster. None without values."""
    values, probabilities, clusters = [], [], []
    codes: dict[str, int] = {}
    smallest = 1.0
    for sample in samples:
        value = value_of(sample, figure)
        if value is None:
            continue
        values.append(value)
        probabilities.append(sample.probability)
        smallest = min(smallest, sample.probability * sample.weight)
        clusters.append(codes.setdefault(session_of(sample), len(codes)))
    return weighted_mean(values, probabilities, confidence=confidence, groups=clusters, smallest=smallest)


def _mean(samples: Iterable[Sample], figure: str) -> tuple[float | None, int]:
    """The weighted mean of a figure, and the number of its values."""
    total = weight = 0.0
    number = 0
    for sample in samples:
        value = value_of(sample, figure)
        if value is not None:
            number += 1
            total += value / sample.probability
            weight += 1 / sample.probability
    return (total / weight if number else None), number


def session_of(sample: Sample) -> str:
    """The cluster of a sample: its session, or else the sample alone."""
    return f"session {sample.session}" if sample.session else f"trace {sample.trace}"


def series(
    samples: Sequence[Sample], figure: str, *, begin: float, end: float, points: int = POINTS
) -> tuple[Point, ...]:
    """A figure over time: a window cut into parts of equal length.

    Args:
        samples: The samples.
        figure: The figure.
        begin: Unix time at which the first part begins.
        end: Unix time at which the last part ends.
        points: Number of parts.
    """
    step = (end - begin) / points
    parts: list[list[Sample]] = [[] for _ in range(points)]
    for sample in samples:
        place = int((sample.time - begin) // step) if step > 0 else 0
        if 0 <= place < points:
            parts[place].append(sample)
    rows = []
    for place, members in enumerate(parts):
        found = mean_of(members, figure)
        point = Point(time=begin + place * step, samples=0, resources=resources(members))
        if found is not None:
            ends = {"low": found.low, "high": found.high}
            point = msgspec.structs.replace(point, samples=found.n, mean=found.mean, **ends)
        rows.append(point)
    return tuple(rows)


def resources(samples: Sequence[Sample], *, facet: str = "", value: str = "") -> Resources:
    """What the interactions of samples took: latency, cost and number, weighted by inverse probability."""
    weights = 1 / np.array([each.probability for each in samples], dtype=float)
    # None becomes NaN.
    took = np.array([each.seconds for each in samples], dtype=float)
    costs = np.array([each.cost_usd for each in samples], dtype=float)
    timed, paid = ~np.isnan(took), ~np.isnan(costs)
    p50, p95 = _quantiles(took[timed], weights[timed], (0.5, 0.95))
    mean = float(np.average(costs[paid], weights=weights[paid])) if paid.any() else None
    return Resources(
        facet=facet,
        value=value,
        samples=len(samples),
        interactions=float(weights.sum()),
        timed=int(timed.sum()),
        latency_p50=p50,
        latency_p95=p95,
        with_cost=int(paid.sum()),
        cost_usd=mean,
    )


def _quantiles(values: Floats, weights: Floats, shares: Sequence[float]) -> list[float | None]:
    """The smallest values that at least these shares of the weight do not exceed; None without values."""
    if not len(values):
        return [None] * len(shares)
    order = values.argsort()
    up_to = weights[order].cumsum()
    # A share that is reached but for rounding is reached.
    places = np.searchsorted(up_to, np.asarray(shares) * up_to[-1] * (1 - 1e-12))
    return [float(each) for each in values[order][places]]
