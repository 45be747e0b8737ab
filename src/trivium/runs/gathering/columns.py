"""Columns: the scores of a run gathered by metric, one reduced value a case, in flat memory."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress, groupby
from math import isfinite, nan
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trivium.metrics.score import Score, Status, Tier
from trivium.runs.gathering.flat import Clusters, Flat
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
        clusters: Code of the cluster of every case, shared by the columns; they grow as cases are met.
    """

    def __init__(self, name: str, tier: Tier | str, clusters: Clusters) -> None:
        self.name = name
        self.tier = tier
        self._clusters = clusters
        self.status: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.methods: Counter[str] = Counter()
        self._values: Flat[float] = Flat("d")
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
        self._count_statuses([score.status for score in scores])
        reasons = [(score.status, score.reason) for score in scores if score.reason is not None]
        if reasons:
            self._note(self.reasons, [(status, reason) for status, reason in reasons if status != "ok"])
        methods = [score.method for score in scores if score.method is not None]
        if methods:
            self._note(self.methods, methods)
        raw = _finite([score.raw for score in scores if type(score.raw) in _NUMBERS])
        self._raw_sum = _added(raw, self._raw_sum)
        self._raw_count += len(raw)
        self._place(cases, [score.value for score in scores], reduce)

    def add_values(
        self,
        cases: Sequence[int],
        values: Sequence[float | None],
        reduce: Reducer,
        *,
        statuses: Sequence[Status] | None = None,
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
        self._count_statuses(statuses or ["skipped" if value is None else "ok" for value in values])
        self._place(cases, values, reduce)

    def _count_statuses(self, statuses: Sequence[str]) -> None:
        if statuses and statuses.count("ok") == len(statuses):  # as nearly always, and counted faster
            self.status["ok"] += len(statuses)
        else:
            self.status.update(statuses)

    def _place(self, cases: Sequence[int], values: Sequence[float | None], reduce: Reducer) -> None:
        """Put the value of each case, several made one, where the case stands; nan where one has none."""
        present = _finite([value for value in values if value is not None])
        if not present:
            return
        if len(present) < len(values):
            cases = list(compress(cases, [value is not None and isfinite(value) for value in values]))
        self._with_value += len(present)
        first = len(self._values)
        if len(set(cases)) < len(cases):
            cases, present = self._reduced(cases, present, reduce)
        else:
            self._sum = _added(present, self._sum)
        if cases[-1] + 1 - first > len(cases):
            of_case = dict(zip(cases, present, strict=True))
            present = [of_case.get(case, nan) for case in range(first, cases[-1] + 1)]
        self._values.extend(present)

    def _reduced(
        self, cases: Sequence[int], values: Sequence[float], reduce: Reducer
    ) -> tuple[list[int], list[float]]:
        """Each case once, with its value."""
        places, reduced = [], []
        for case, together in groupby(zip(cases, values, strict=True), itemgetter(0)):
            of_case = [value for _, value in together]
            self._sum += _added(of_case, 0.0)
            places.append(case)
            reduced.append(reduce(of_case) if len(of_case) > 1 else of_case[0])
        return places, reduced

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
        every: npt.NDArray[np.float64] = self._values.all()
        absent = np.isnan(every)
        return every[~absent] if absent.any() else every

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """Number of the cluster of each value."""
        clusters = self._clusters.ranks()[: len(self._values)]
        absent = np.isnan(self._values.all())
        return clusters[~absent] if absent.any() else clusters

    @property
    def mean(self) -> float | None:
        """Mean over the cases that have a value."""
        return float(self.values.mean()) if self._with_value else None

    def interval(self, level: float) -> Interval | None:
        """Of a rate where every value is 0 or 1, else of a mean (spec: metrics, B.0)."""
        values = self.values
        if ((values == 0) | (values == 1)).all():
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
            groups=interval.groups if interval is not None else int(self._with_value > 0),
            status=dict(self.status),
            method=None if interval is None else interval.method,
            level=level,
            bounds=(self._sum / due, (self._sum + absent) / due) if due else None,
            raw_mean=self._raw_sum / self._raw_count if self._raw_count else None,
            tier=self.tier,
        )


def _finite(values: list[Any]) -> list[Any]:
    """Values without those that JSON does not have: they are not there when they are read back."""
    return values if isfinite(sum(values)) else [value for value in values if isfinite(value)]


def _added(values: Iterable[float], start: float) -> float:
    """The sum, added one by one: that of ``sum`` depends, from Python 3.12 on, on how many come at once."""
    for value in values:
        start += value
    return start
