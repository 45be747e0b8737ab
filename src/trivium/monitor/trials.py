"""Replays samples with other thresholds of the pass rate, to show what each would have detected."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from trivium.monitor.windows import PASS_RATE, value_of
from trivium.store.live_samples import Sample
from trivium.suites.monitor_settings import MonitorSettings
from trivium.trust.level_sequence import LevelSequence

THRESHOLDS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """How a threshold of the pass rate would have reacted.

    Attributes:
        threshold: The threshold.
        first_sure: Seconds from the beginning until the pass rate was surely below it; None if never.
        first_below: Seconds until the window's pass rate was below it; None if never.
        crossings: How often the window's pass rate fell below it.
    """

    threshold: float
    first_sure: float | None
    first_below: float | None
    crossings: int


def trials(
    samples: Sequence[Sample], settings: MonitorSettings, looks: Sequence[float], *, begin: float
) -> tuple[Trial, ...]:
    """What thresholds of the pass rate would have done.

    Args:
        samples: All samples.
        settings: Settings of the monitor; its window counts.
        looks: Unix times of the looks, rising.
        begin: Unix time of the beginning.
    """
    valued = sorted(
        ((each.time, value, each) for each in samples if (value := value_of(each, PASS_RATE)) is not None),
        key=lambda row: (row[0], row[2].number),
    )
    times = [row[0] for row in valued]
    weights = np.array([1 / row[2].probability for row in valued])
    sums = np.concatenate([[0.0], np.cumsum(weights * np.array([row[1] for row in valued]))])
    totals = np.concatenate([[0.0], np.cumsum(weights)])
    means: list[float | None] = []
    for look in looks:
        last = bisect_right(times, look)
        first = (
            bisect_left(times, look - settings.window)
            if settings.window_samples is None
            else max(0, last - settings.window_samples)
        )
        total = totals[last] - totals[first]
        means.append(float((sums[last] - sums[first]) / total) if total else None)
    sequence = LevelSequence(settings.alpha / (2 * max(1, len(settings.figures))), 200, THRESHOLDS)
    sure: dict[float, float] = {}
    for time, value, sample in valued:
        sequence.update(value, sample.weight)
        for threshold in THRESHOLDS:
            if threshold not in sure and sequence.sure_below(threshold):
                sure[threshold] = time - begin
    found = []
    for threshold in THRESHOLDS:
        below = [mean is not None and mean < threshold for mean in means]
        first_below = next((look for look, low in zip(looks, below, strict=True) if low), None)
        crossings = int(below[0]) + sum(after and not before for before, after in pairwise(below))
        found.append(
            Trial(
                threshold=threshold,
                first_sure=sure.get(threshold),
                first_below=None if first_below is None else first_below - begin,
                crossings=crossings,
            )
        )
    return tuple(found)
