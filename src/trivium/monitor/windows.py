"""Estimates of the latest traffic: figures with intervals and statuses, by agent, tool, tag and time.

A window is for looking: its intervals hold for one look at it. Whether a status is *sure*, however often one
looks, is decided by :mod:`trivium.monitor.levels`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec
import numpy as np

from trivium.store.live_records import FAILED_TOOL
from trivium.store.live_samples import Sample
from trivium.suites.monitor_settings import MonitorSettings, StatusThresholds
from trivium.trust.arrays import Floats, Ints
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

Places = Ints | slice
ALL = slice(None)


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


def by_facet(samples: Iterable[Sample], facets: Sequence[str]) -> dict[tuple[str, str], list[int]]:
    """Places of samples by facet and value; one that has several values of a facet counts for each."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, sample in enumerate(samples):
        for facet in facets:
            for value in sample.facets.get(facet, ()):
                found[facet, value].append(place)
    return found


class Columns:
    """What samples say as arrays, read once for all figures, parts and times.

    Places are the positions of some of the samples; all of them by default.

    Args:
        samples: The samples.
        figures: The figures that are wanted.
    """

    def __init__(self, samples: Sequence[Sample], figures: Iterable[str]) -> None:
        codes: dict[str, int] = {}
        self.samples = samples
        self._probabilities = np.array([each.probability for each in samples], dtype=float)
        self._least = self._probabilities * np.array([each.weight for each in samples], dtype=float)
        self._sessions = np.array(
            [codes.setdefault(session_of(each), len(codes)) for each in samples], dtype=np.int64
        )
        self.times = np.array([each.time for each in samples], dtype=float)
        # None becomes NaN.
        self._took = np.array([each.seconds for each in samples], dtype=float)
        self._costs = np.array([each.cost_usd for each in samples], dtype=float)
        self._values = {
            figure: np.array([value_of(each, figure) for each in samples], dtype=float) for figure in figures
        }

    def _known(self, figure: str, places: Places) -> tuple[Floats, Floats, Ints, Floats]:
        """Values that are known, with their probabilities, clusters and smallest probabilities."""
        values = self._values[figure][places]
        known = ~np.isnan(values)
        others = (self._probabilities[places], self._sessions[places], self._least[places])
        probabilities, sessions, least = (each[known] for each in others)
        return values[known], probabilities, sessions, least

    def mean(self, figure: str, places: Places = ALL, *, confidence: float = 0.95) -> WeightedMean | None:
        """The weighted mean of a figure; samples of one session are a cluster. None without values."""
        values, probabilities, sessions, least = self._known(figure, places)
        smallest = float(least.min(initial=1.0))
        return weighted_mean(values, probabilities, confidence=confidence, groups=sessions, smallest=smallest)

    def plain_mean(self, figure: str, places: Places = ALL) -> tuple[float | None, int]:
        """The weighted mean of a figure, without its interval, and the number of its values."""
        values, probabilities, _, _ = self._known(figure, places)
        if not values.size:
            return None, 0
        return float((values / probabilities).sum() / (1 / probabilities).sum()), values.size

    def resources(self, places: Places = ALL, *, facet: str = "", value: str = "") -> Resources:
        """What the interactions took: latency, cost and number, weighted by inverse probability."""
        weights, took, costs = 1 / self._probabilities[places], self._took[places], self._costs[places]
        timed, paid = ~np.isnan(took), ~np.isnan(costs)
        p50, p95 = _quantiles(took[timed], weights[timed], (0.5, 0.95))
        mean = float(np.average(costs[paid], weights=weights[paid])) if paid.any() else None
        return Resources(
            facet=facet,
            value=value,
            samples=weights.size,
            interactions=float(weights.sum()),
            timed=int(timed.sum()),
            latency_p50=p50,
            latency_p95=p95,
            with_cost=int(paid.sum()),
            cost_usd=mean,
        )


def window_of(
    columns: Columns,
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
        columns: Its samples, oldest first, with the figures of the monitor.
        settings: Settings of the monitor.
        begin: Unix time at which it begins.
        end: Unix time at which it ends.
        intervals: Whether there are intervals at all, and what interactions took.
    """
    figures, samples = figures_of(settings), columns.samples
    bounded = {PASS_RATE, *settings.figures} if intervals else set()
    grouped = by_facet(samples, settings.by)
    counts: Counter[str] = Counter()
    rows = []
    took = [columns.resources()] if intervals else []
    for (facet, value), members in sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0])):
        counts[facet] += 1
        if counts[facet] <= MOST_VALUES:
            places = np.array(members)
            tools = (samples[place].facets for place in members) if facet == "tool" else ()
            told = [each[FAILED_TOOL] for each in tools if FAILED_TOOL in each]
            failed = sum(value in each for each in told)
            found = (
                estimate(
                    columns, figure, settings, places, facet=facet, value=value, interval=figure in bounded
                )
                for figure in figures
            )
            rows += [msgspec.structs.replace(each, called=len(told), failed=failed) for each in found]
            took += [columns.resources(places, facet=facet, value=value)] if intervals else []
    return Window(
        begin=begin,
        end=end,
        samples=len(samples),
        figures=tuple(estimate(columns, figure, settings, interval=intervals) for figure in figures),
        by=tuple(rows),
        resources=tuple(took),
        left_out={facet: count - MOST_VALUES for facet, count in counts.items() if count > MOST_VALUES},
        shortened=len(samples) >= MOST_SAMPLES,
    )


def estimate(
    columns: Columns,
    figure: str,
    settings: MonitorSettings,
    places: Places = ALL,
    *,
    facet: str = "",
    value: str = "",
    interval: bool = True,
) -> Estimate:
    """Estimate a figure from samples, with its status, and with its interval if that is wanted."""
    thresholds = settings.figures.get(figure)
    made = partial(Estimate, figure=figure, facet=facet, value=value)
    if not interval:
        mean, number = columns.plain_mean(figure, places)
        return made(samples=number, mean=mean, status=status_of_mean(mean, thresholds))
    found = columns.mean(figure, places)
    if found is None:
        return made(status=status_of_mean(None, thresholds))
    return made(
        samples=found.n,
        sessions=found.groups,
        mean=found.mean,
        low=found.low,
        high=found.high,
        status=status_of_mean(found.mean, thresholds),
        warning=thresholds.warning if thresholds else None,
        below=probability_of_missing(found.mean, found, at_least=thresholds.warning) if thresholds else None,
    )


def mean_of(samples: Sequence[Sample], figure: str, *, confidence: float = 0.95) -> WeightedMean | None:
    """The weighted mean of a figure; samples of one session are a cluster. None without values."""
    return Columns(samples, [figure]).mean(figure, confidence=confidence)


def session_of(sample: Sample) -> str:
    """The cluster of a sample: its session, or else the sample alone."""
    return f"session {sample.session}" if sample.session else f"trace {sample.trace}"


def series(
    columns: Columns, figure: str, *, begin: float, end: float, points: int = POINTS
) -> tuple[Point, ...]:
    """A figure over time: a window cut into parts of equal length.

    Args:
        columns: The samples, with the figure.
        figure: The figure.
        begin: Unix time at which the first part begins.
        end: Unix time at which the last part ends.
        points: Number of parts.
    """
    step = (end - begin) / points
    parts = np.floor_divide(columns.times - begin, step) if step > 0 else np.zeros(columns.times.size)
    rows = []
    for part in range(points):
        places = np.flatnonzero(parts == part)
        found = columns.mean(figure, places)
        point = Point(time=begin + part * step, samples=0, resources=columns.resources(places))
        if found is not None:
            ends = {"low": found.low, "high": found.high}
            point = msgspec.structs.replace(point, samples=found.n, mean=found.mean, **ends)
        rows.append(point)
    return tuple(rows)


def _quantiles(values: Floats, weights: Floats, shares: Sequence[float]) -> list[float | None]:
    """The smallest values that at least these shares of the weight do not exceed; None without values."""
    if not len(values):
        return [None] * len(shares)
    order = values.argsort()
    up_to = weights[order].cumsum()
    # A share that is reached but for rounding is reached.
    places = np.searchsorted(up_to, np.asarray(shares) * up_to[-1] * (1 - 1e-12))
    return [float(each) for each in values[order][places]]
