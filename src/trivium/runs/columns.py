"""Stores the values of each metric in compact arrays, and computes means and intervals from them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, groupby
from math import isfinite, nan
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trivium.metrics.metric import (
    INCOMPLETE_TRACE,
    Score,
    Status,
    Tier,
    is_judge_fallback,
    is_missing,
    is_unavailable,
)
from trivium.metrics.registry import JUDGE_FALLBACK
from trivium.number_buffer import NumberBuffer, SpillFile, ascending
from trivium.runs.large_columns import groups_in_parts, mean_of_parts
from trivium.runs.reducers import REDUCERS, Reducer
from trivium.runs.summary import Aside, Figure
from trivium.store.records import ScoreOutline
from trivium.suites.rubrics.rubric import INPUT_NAMES
from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Interval

NO_JUDGE = "no judge"
"""Prefix of the reason of a judgement that no judge could make."""

T = TypeVar("T")
Floats = npt.NDArray[np.float64]


class Clusters(NumberBuffer[int]):
    """The cluster of each case, as an integer code; its file is also that of the columns."""

    def __init__(self) -> None:
        super().__init__("q")
        self._ranks = np.empty(0, np.int64)
        self._distinct = (0, True)

    @property
    def distinct(self) -> bool:
        """Whether no two codes are equal."""
        if self._distinct[0] != len(self):
            parts = (codes for codes, _ in ascending(self))
            self._distinct = len(self), not any((codes[1:] == codes[:-1]).any() for codes in parts)
        return self._distinct[1]

    def ranks(self) -> npt.NDArray[np.int64]:
        """Return the rank of each code from 0, shape (n,); equal codes have equal ranks."""
        if self._ranks.size != len(self):
            ranks = self.all()
            order = ranks.argsort()
            rising = ranks[order]
            rising[1:] = rising[1:] != rising[:-1]
            rising[0] = 0
            ranks[order] = rising.cumsum(out=rising)
            self._ranks = ranks
        return self._ranks


LARGE = 1 << 16
"""Cases from which on the mean and its interval are computed in parts (``ClusteredMean.of_parts``)."""

_MAX_REASONS = 20
_NUMBERS = frozenset({float, int})
_UNITS = ("characters", "steps")


class _CaseValues:
    """One reduced value per case, NaN if a case has none."""

    def __init__(self, file: SpillFile) -> None:
        self._flat: NumberBuffer[float] = NumberBuffer("d", file)
        self.count = 0
        """Number of values before reducing."""
        self.sum = 0.0
        """Sum of the values before reducing."""

    def add(self, cases: Sequence[int], values: Sequence[float | None], reduce: Reducer) -> None:
        """Set the value of each case, reducing several values of a case to one."""
        present = _finite([value for value in values if value is not None])
        if not present:
            return
        if len(present) < len(values):
            cases = list(compress(cases, [value is not None and isfinite(value) for value in values]))
        self.count += len(present)
        first = len(self._flat)
        if len(set(cases)) < len(cases):
            cases, present = self._reduced(cases, present, reduce)
        else:
            self.sum = _add_in_order(present, self.sum)
        if cases[-1] + 1 - first > len(cases):
            of_case = dict(zip(cases, present, strict=True))
            present = [of_case.get(case, nan) for case in range(first, cases[-1] + 1)]
        self._flat.extend(present)

    def _reduced(
        self, cases: Sequence[int], values: Sequence[float], reduce: Reducer
    ) -> tuple[list[int], list[float]]:
        """Reduce several values of a case to one; return the cases and their values."""
        indices, reduced = [], []
        for case, pairs in groupby(zip(cases, values, strict=True), itemgetter(0)):
            of_case = [value for _, value in pairs]
            self.sum += _add_in_order(of_case, 0.0)
            indices.append(case)
            reduced.append(reduce(of_case) if len(of_case) > 1 else of_case[0])
        return indices, reduced

    def all(self) -> Floats:
        """Return the values of all cases up to the last that has one, shape (n,)."""
        all_values: Floats = self._flat.all()
        return all_values

    @property
    def large(self) -> bool:
        """Whether they are too many to be all in memory."""
        return len(self._flat) > LARGE

    def parts(self) -> Iterator[Floats]:
        """Yield the values of all cases that have one, in parts."""
        for block in self._flat.blocks():
            yield block[~np.isnan(block)]

    def clustered_mean(self, clusters: Clusters) -> ClusteredMean | None:
        """The clustered mean, computed in parts."""
        groups = partial(groups_in_parts, self._flat, clusters, distinct=clusters.distinct)
        rate = all(((part == 0) | (part == 1)).all() for part in self.parts())
        return ClusteredMean.of_parts(self.parts, groups, kind="rate" if rate else "mean")


class Column:
    """Values of one metric over the cases of a run.

    A fallback measures something else than the metric's definition (spec: metrics, "Fallback values are
    another quantity"), so the two are never averaged together. If both occur, the mean is that of the values
    computed as defined; fallbacks for judgements never enter a mean.

    Args:
        name: Name of the metric.
        tier: text, judge, trace or composite.
        clusters: The cluster of every case, shared by the columns; it grows while cases are added.
        absent: Number of missing attempts by index of the case, shared by the columns.
    """

    def __init__(
        self, name: str, tier: Tier | str, clusters: Clusters, absent: Mapping[int, int] | None = None
    ) -> None:
        self.name = name
        self.tier = tier
        self._clusters = clusters
        self._absent = {} if absent is None else absent
        self.status: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.caveats: Counter[str] = Counter()
        """Reasons of scores that were computed from incomplete traces."""
        self.methods: Counter[str] = Counter()
        self._reasons_missing: Counter[str] = Counter()
        self._missing = 0
        self.unavailable = 0
        """Number of scores that are missing because of an error or because no judge answered."""
        self._gaps: dict[int, tuple[list[float], list[float]]] = {}
        """By index, for each case with a missing score: its values with the missing ones at their lowest,
        and at their highest."""
        self.truncated: dict[tuple[str, str], tuple[int, int, int]] = {}
        """For each text truncated for a judge, by name and unit: attempts, size shown, full size."""
        self._defined = _CaseValues(clusters.file)
        self._fallback = _CaseValues(clusters.file)
        self._computed = 0
        """Number of values computed as defined; the 0 of a failed attempt is not computed."""
        self._raw_sum = 0.0
        self._raw_count = 0
        self._reduce: Reducer | None = None
        self._in_parts: tuple[int, ClusteredMean | None] = (0, None)
        """Number of attempts, and their clustered mean if they are many."""

    def add(
        self,
        cases: Sequence[int],
        scores: Sequence[Score | ScoreOutline],
        reduce: Reducer,
        *,
        failed: Sequence[bool] | None = None,
    ) -> None:
        """Add scores of attempts.

        Args:
            cases: Index of the case of each score, ascending; a case never occurs in two calls.
            scores: The scores, one for each entry of ``cases``.
            reduce: Reduces several values of a case to one.
            failed: Whether each attempt failed; None if none did.
        """
        self._reduce = reduce
        statuses = [score.status for score in scores]
        self._count_statuses(statuses)
        reasons = [(score.status, score.reason) for score in scores if score.reason is not None]
        if reasons:
            of_missing = [(status, reason) for status, reason in reasons if status != "ok"]
            self._count_reasons(self.reasons, of_missing)
            self._count_reasons(self.caveats, [why for _, why in reasons if why.startswith(INCOMPLETE_TRACE)])
        methods = [score.method for score in scores if score.method is not None]
        if methods:
            self._count_reasons(self.methods, methods)
        if self.tier == "judge":
            self._count_truncated([score.shown for score in scores])
        raw = _finite([score.raw for score in scores if type(score.raw) in _NUMBERS])
        self._raw_sum = _add_in_order(raw, self._raw_sum)
        self._raw_count += len(raw)
        values = [score.value for score in scores]
        if statuses.count("ok") < len(statuses) or self._absent:
            bounds = [(0.0, 1.0) if is_missing(score) else None for score in scores]
            self._add_bounds(cases, [_value_if_judged(score) for score in scores], bounds)
            missing = [score for score in scores if is_missing(score)]
            self._count_reasons(self._reasons_missing, [score.reason or score.status for score in missing])
            self.unavailable += sum(map(is_unavailable, missing))
        if failed is None and "fallback" not in statuses:
            self._defined.add(cases, values, reduce)
            self._computed += len(values) - values.count(None)
            return
        known = failed or [False] * len(scores)
        fallback = [status == "fallback" for status in statuses]
        self._defined.add(cases, _where(values, [not flag for flag in fallback]), reduce)
        fallback_or_known = [flag or other for flag, other in zip(fallback, known, strict=True)]
        self._fallback.add(cases, _where(values, fallback_or_known), reduce)
        self._computed += sum(
            value is not None and not flag for value, flag in zip(values, fallback_or_known, strict=True)
        )

    def add_values(
        self,
        cases: Sequence[int],
        values: Sequence[float | None],
        reduce: Reducer,
        *,
        statuses: Sequence[Status] | None = None,
        bounds: Sequence[tuple[float, float] | None] | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        """Add values that do not come from scores.

        Args:
            cases: See :meth:`add`.
            values: The values, or None, one for each entry of ``cases``.
            reduce: See :meth:`add`.
            statuses: The status of each value; by default ``skipped`` for None, else ``ok``.
            bounds: For each value, its lowest and highest possible value if something is missing, else None.
            missing: The reason, for each value with bounds.
        """
        self._reduce = reduce
        if values:
            self.status.setdefault("ok", 0)  # so that reports list it first, even with a count of 0
        self._count_statuses(statuses or ["skipped" if value is None else "ok" for value in values])
        if missing or self._absent:
            self._add_bounds(cases, values, bounds or [None] * len(values))
            self._count_reasons(self._reasons_missing, missing)
        self._defined.add(cases, values, reduce)
        self._computed += len(values) - values.count(None)

    def _count_truncated(self, shown: Iterable[Any]) -> None:
        """Count texts that were truncated for a judge; imported files may contain any JSON here."""
        for texts in shown:
            for name, part in texts.items() if isinstance(texts, dict) else ():
                size, full, unit = _part(part)
                if name in INPUT_NAMES and type(size) is int and type(full) is int and unit in _UNITS:
                    before = self.truncated.get((name, unit), (0, 0, 0))
                    self.truncated[name, unit] = (before[0] + 1, before[1] + size, before[2] + full)

    def _count_statuses(self, statuses: Sequence[str]) -> None:
        if statuses and statuses.count("ok") == len(statuses):  # the usual case, and faster than a Counter
            self.status["ok"] += len(statuses)
        else:
            self.status.update(statuses)

    def _add_bounds(
        self,
        cases: Sequence[int],
        values: Sequence[float | None],
        bounds: Sequence[tuple[float, float] | None],
    ) -> None:
        """Store the lowest and highest possible values of cases with missing scores."""
        self._missing += len(bounds) - bounds.count(None)
        gaps = {case for case, ends in zip(cases, bounds, strict=True) if ends is not None}
        gaps |= self._absent.keys() & set(cases)
        if not gaps:
            return
        for case, value, ends in zip(cases, values, bounds, strict=True):
            if case in gaps and (value is not None or ends is not None):
                low, high = ends or (value, value)
                lows, highs = self._gaps.setdefault(case, ([], []))
                lows.append(low)  # type: ignore[arg-type]
                highs.append(high)  # type: ignore[arg-type]

    @staticmethod
    def _count_reasons(counter: Counter[T], reasons: Iterable[T]) -> None:
        """Count reasons, but at most ``_MAX_REASONS`` different ones: they may quote the input."""
        for reason, count in Counter(reasons).items():
            if reason in counter or len(counter) < _MAX_REASONS:
                counter[reason] += count

    @property
    def attempts(self) -> int:
        """Number of attempts added (of cases, for scores of cases)."""
        return self.status.total()

    @property
    def missing(self) -> int:
        """Number of missing scores, those of missing attempts included."""
        return self._missing + sum(self._absent.values())

    @property
    def due(self) -> int:
        """Number of scores that should be present: present and missing ones."""
        return self._values.count + self.missing

    @property
    def reasons_missing(self) -> Counter[str]:
        """Reasons why scores are missing, with their counts."""
        absent = sum(self._absent.values())
        return self._reasons_missing + Counter({"the attempt is missing": absent} if absent else {})

    @property
    def _values(self) -> _CaseValues:
        fallback = self.tier != "judge" and self._fallback.count and not self._computed
        return self._fallback if fallback else self._defined

    @property
    def aside(self) -> tuple[int, float] | None:
        """Number and mean of the fallback values that the mean leaves out; None if there are none."""
        if not self.status["fallback"] or self._values is self._fallback or not self._fallback.count:
            return None
        return self.status["fallback"], self._fallback.sum / self._fallback.count

    @property
    def values(self) -> Floats:
        """Reduced value of each case that has one, shape (n,)."""
        all_values = self._values.all()
        absent = np.isnan(all_values)
        return all_values[~absent] if absent.any() else all_values

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """Number of the cluster of each value, shape (n,)."""
        return self._groups(self._values.all())

    @property
    def cases(self) -> npt.NDArray[np.int64]:
        """Index of the case of each value, shape (n,)."""
        indices: npt.NDArray[np.int64] = np.flatnonzero(~np.isnan(self._values.all()))
        return indices

    def _groups(self, all_values: Floats) -> npt.NDArray[np.int64]:
        clusters = self._clusters.ranks()[: len(all_values)]
        absent = np.isnan(all_values)
        return clusters[~absent] if absent.any() else clusters

    @property
    def mean(self) -> float | None:
        """Mean over the cases that have a value."""
        if self._values.large:
            return mean_of_parts(self._values.parts())
        return float(self.values.mean()) if self._values.count else None

    def interval(self, level: float) -> Interval | None:
        """Confidence interval: of a rate if every value is 0 or 1, else of a mean (spec: metrics, B.0)."""
        clustered_mean = self.clustered_mean
        return None if clustered_mean is None else clustered_mean.interval(level)

    @property
    def clustered_mean(self) -> ClusteredMean | None:
        """The clustered mean, from which intervals are computed."""
        values = self._values
        if not values.large:
            return clustered(self.values, self.groups)
        if self._in_parts[0] != self.attempts:
            self._in_parts = self.attempts, values.clustered_mean(self._clusters)
        return self._in_parts[1]

    def extreme_intervals(self, level: float) -> tuple[Interval | None, Interval | None]:
        """Return the intervals with every missing score at its lowest, and at its highest."""
        low, high = (clustered(filled[~np.isnan(filled)], self._groups(filled)) for filled in self._filled())
        return (None if low is None else low.interval(level)), (
            None if high is None else high.interval(level)
        )

    def extreme_values(self) -> tuple[Floats, Floats]:
        """Value of each case, with missing scores at their lowest, and at their highest."""
        low, high = self._filled()
        return low[~np.isnan(low)], high[~np.isnan(high)]

    def _filled(self) -> tuple[Floats, Floats]:
        """Value of each case with every missing score at its lowest, and at its highest; else NaN."""
        all_values = self._values.all()
        last = max([len(all_values) - 1, *self._gaps, *self._absent])
        padded = np.concatenate([all_values, np.full(last + 1 - len(all_values), nan)])
        reduce = self._reduce or REDUCERS["mean"]
        ends = []
        for side, filling in ((0, 0.0), (1, 1.0)):
            filled = padded.copy()
            for index in self._gaps.keys() | self._absent.keys():
                of_case = list(self._gaps[index][side]) if index in self._gaps else []
                filled[index] = reduce([*of_case, *[filling] * self._absent.get(index, 0)])
            ends.append(filled)
        return ends[0], ends[1]

    def figure(self, *, level: float) -> Figure:
        """Compute the mean, its interval at a confidence level in (0, 1), and the counts."""
        interval = self.interval(level)
        due = self.attempts + sum(self._absent.values())
        present = self._values.count
        absent = due - present
        aside = self.aside
        return Figure(
            mean=self.mean,
            ci95=None if interval is None else (interval.low, interval.high),
            n=present,
            coverage=present / due if due else 0.0,
            groups=interval.groups if interval is not None else int(present > 0),
            status=dict(self.status),
            method=None if interval is None else interval.method,
            level=level,
            bounds=(self._values.sum / due, (self._values.sum + absent) / due) if due else None,
            raw_mean=self._raw_sum / self._raw_count if self._raw_count else None,
            tier=self.tier,
            missing=self.missing,
            aside=None if aside is None else Aside(method=self._method_aside, n=aside[0], mean=aside[1]),
        )

    @property
    def _method_aside(self) -> str:
        """The method of the fallback values that the mean leaves out."""
        return JUDGE_FALLBACK if self.tier == "judge" else "fewer parts"


def most_frequent(reasons: Mapping[str, int]) -> str:
    """Return the most frequent reason, with the number of other reasons."""
    if not reasons:
        return "no reason is known"
    top = max(reasons.items(), key=lambda item: (item[1], item[0]))[0].removeprefix(f"{NO_JUDGE}: ")
    others = len(reasons) - 1
    return top if not others else f"{top} (and {others} other {'reason' if others == 1 else 'reasons'})"


def _value_if_judged(score: Score | ScoreOutline) -> float | None:
    """The value of a score, unless it stands in for a judgement."""
    return None if is_judge_fallback(score) else score.value


def _part(raw: Any) -> tuple[Any, Any, Any]:
    """Size shown, full size and unit of a truncated text."""
    return (raw.get("shown"), raw.get("of"), raw.get("unit")) if isinstance(raw, dict) else (None, None, None)


def _where(values: Sequence[float | None], mask: Sequence[bool]) -> list[float | None]:
    return [value if flag else None for value, flag in zip(values, mask, strict=True)]


def clustered(values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64]) -> ClusteredMean | None:
    """Clustered mean of values in [0, 1]: a rate if every value is 0 or 1 (spec: metrics, B.0)."""
    rate = bool(((values == 0) | (values == 1)).all())
    return ClusteredMean.of(values, groups, kind="rate" if rate else "mean")


def _finite(values: list[Any]) -> list[Any]:
    """Drop infinite values and NaN: JSON cannot store them, so they would differ when read back."""
    return values if isfinite(sum(values)) else [value for value in values if isfinite(value)]


def _add_in_order(values: Iterable[float], start: float) -> float:
    """Add values one by one; from Python 3.12 on, ``sum`` rounds differently for other batch sizes."""
    for value in values:
        start += value
    return start
