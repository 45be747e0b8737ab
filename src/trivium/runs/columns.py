"""Columns: the scores of a run gathered by metric, one reduced value a case, in flat memory."""

from array import array
from collections import Counter
from collections.abc import Sequence
from math import nan

import numpy as np
import numpy.typing as npt

from trivium.metrics.score import Score, Tier
from trivium.runs.reducers import Reducer
from trivium.runs.summary import Figure
from trivium.trust.interval import Interval
from trivium.trust.intervals import mean_interval, rate_interval

_REASONS_KEPT = 20


class Column:
    """One figure over the cases of a run.

    Args:
        name: The metric.
        tier: text, judge, trace or composite.
        clusters: Code of the cluster of every case, shared by the columns; it grows as cases are met.
    """

    def __init__(self, name: str, tier: Tier | str, clusters: "array[int]") -> None:
        self.name = name
        self.tier = tier
        self._clusters = clusters
        self.status: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.methods: Counter[str] = Counter()
        self.attempts = 0
        self._values = array("d")
        self._with_value = 0
        self._sum = 0.0
        self._raw_sum = 0.0
        self._raw_count = 0

    def add_case(self, scores: Sequence[Score], reduce: Reducer) -> None:
        """Take in the scores of the attempts of the case met last."""
        values = []
        for score in scores:
            status, raw = score.status, score.raw
            self.attempts += 1
            self.status[status] += 1
            if status != "ok" and score.reason is not None:
                self._note(self.reasons, (status, score.reason))
            if score.method is not None:
                self._note(self.methods, score.method)
            if score.value is not None:
                values.append(score.value)
            if type(raw) is float or type(raw) is int:
                self._raw_sum += raw
                self._raw_count += 1
        self._add(values, reduce)

    def add_values(self, values: Sequence[float | None], reduce: Reducer) -> None:
        """Take in bare values of the attempts of the case met last; None is a value that is not there."""
        self.attempts += len(values)
        present = [value for value in values if value is not None]
        self.status["ok"] += len(present)
        if len(present) < len(values):
            self.status["skipped"] += len(values) - len(present)
        self._add(present, reduce)

    def _add(self, values: Sequence[float], reduce: Reducer) -> None:
        if not values:
            return
        self._with_value += len(values)
        self._sum += sum(values)
        gap = len(self._clusters) - 1 - len(self._values)
        if gap:
            self._values.extend([nan] * gap)
        self._values.append(values[0] if len(values) == 1 else reduce(values))

    @staticmethod
    def _note(counter: Counter[str] | Counter[tuple[str, str]], key: str | tuple[str, str]) -> None:
        """Count a wording; wordings without end (they may quote the input) share one place."""
        if key in counter or len(counter) < _REASONS_KEPT:
            counter[key] += 1  # type: ignore[index]

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """Reduced value of each case that has one."""
        return self._every[~np.isnan(self._every)]

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """Code of the cluster of each value."""
        clusters = np.array(self._clusters[: len(self._values)], dtype=np.int64)
        return clusters[~np.isnan(self._every)]

    @property
    def _every(self) -> npt.NDArray[np.float64]:
        return np.array(self._values, dtype=np.float64)

    @property
    def mean(self) -> float | None:
        """Mean over the cases that have a value."""
        return float(self.values.mean()) if self._with_value else None

    def interval(self, level: float) -> Interval | None:
        """Of a rate where every value is 0 or 1, else of a mean (spec: metrics, B.0)."""
        values = self.values
        if np.isin(values, (0.0, 1.0)).all():
            return rate_interval(values, self.groups, level=level)
        return mean_interval(values, self.groups, level=level)

    def figure(self, *, level: float, missing: int) -> Figure:
        """The figure, with what is not there counted.

        Args:
            level: Of the interval.
            missing: Attempts that were due and are not there at all.
        """
        interval = self.interval(level)
        due = self.attempts + missing
        absent = due - self._with_value
        return Figure(
            mean=self.mean,
            ci95=None if interval is None else (interval.low, interval.high),
            n=self._with_value,
            coverage=self._with_value / due if due else 0.0,
            groups=int(np.unique(self.groups).size),
            status=dict(self.status),
            method=None if interval is None else interval.method,
            level=level,
            bounds=(self._sum / due, (self._sum + absent) / due) if due else None,
            raw_mean=self._raw_sum / self._raw_count if self._raw_count else None,
            tier=self.tier,
        )
