"""Columns: the scores of a run gathered by metric, one reduced value a case, in flat memory."""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from math import nan
from operator import itemgetter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from trivium.metrics.score import Score, Status, Tier
from trivium.runs.reducers import Reducer
from trivium.runs.summary import Figure
from trivium.store.outline import ScoreOutline
from trivium.trust.interval import Interval
from trivium.trust.intervals import mean_interval, rate_interval

T = TypeVar("T")

_REASONS_KEPT = 20
_NUMBERS = frozenset({float, int})


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
        self._values = array("d")
        self._with_value = 0
        self._sum = 0.0
        self._raw_sum = 0.0
        self._raw_count = 0

    def add(self, cases: Sequence[int], scores: Sequence[Score | ScoreOutline], reduce: Reducer) -> None:
        """Take in scores of attempts.

        Args:
            cases: Place of the case of each among the cases met; it rises, and no case comes again later.
            scores: As many.
            reduce: Makes several values of one case one.
        """
        self.status.update([score.status for score in scores])
        reasons = [(score.status, score.reason) for score in scores if score.reason is not None]
        self._note(self.reasons, [(status, reason) for status, reason in reasons if status != "ok"])
        self._note(self.methods, [score.method for score in scores if score.method is not None])
        raw = [score.raw for score in scores if type(score.raw) in _NUMBERS]
        self._raw_sum = sum(raw, self._raw_sum)
        self._raw_count += len(raw)
        self._place(cases, [score.value for score in scores], reduce)

    def add_values(
        self,
        cases: Sequence[int],
        values: Sequence[float | None],
        reduce: Reducer,
        *,
        statuses: Iterable[Status] | None = None,
    ) -> None:
        """Take in bare values as those of scores.

        Args:
            cases: See :meth:`add`.
            values: As many; None is a value that is not there.
            reduce: See :meth:`add`.
            statuses: As many; ``skipped`` for None and ``ok`` for others where they are not given.
        """
        if values:
            self.status.setdefault("ok", 0)  # named first, and where there is none too
        self.status.update(statuses or ["skipped" if value is None else "ok" for value in values])
        self._place(cases, values, reduce)

    def _place(self, cases: Sequence[int], values: Sequence[float | None], reduce: Reducer) -> None:
        """Put the value of each case, several made one, where the case stands."""
        present = [(case, value) for case, value in zip(cases, values, strict=True) if value is not None]
        if not present:
            return
        self._with_value += len(present)
        self._values.extend([nan] * (present[-1][0] + 1 - len(self._values)))
        for case, value in present:
            self._values[case] = value
        if len(set(cases)) == len(cases):
            self._sum = sum([value for _, value in present], self._sum)
            return
        for case, together in groupby(present, itemgetter(0)):
            of_case = [value for _, value in together]
            self._sum += sum(of_case)
            if len(of_case) > 1:
                self._values[case] = reduce(of_case)

    @staticmethod
    def _note(counter: Counter[T], wordings: Iterable[T]) -> None:
        """Count wordings; those without end (they may quote the input) are counted up to a number."""
        for wording, times in Counter(wordings).items():
            if wording in counter or len(counter) < _REASONS_KEPT:
                counter[wording] += times

    @property
    def attempts(self) -> int:
        """Attempts (cases, for a figure of a case) that were taken in."""
        return self.status.total()

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
