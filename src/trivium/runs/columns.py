"""Holds the values of each metric in compact arrays, and computes means and intervals from them."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, groupby
from math import isfinite, nan
from operator import itemgetter
from typing import Any, Generic, Literal, TypeVar

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
from trivium.runs.reducers import REDUCERS, Reducer
from trivium.runs.summary import Aside, Figure
from trivium.store.records import ScoreOutline
from trivium.suites.rubrics.rubric import INPUT_NAMES
from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Interval

Number = TypeVar("Number", int, float)

_BLOCK = 4096
_KINDS = {"d": np.float64, "q": np.int64, "I": np.uint32}


class NumberBuffer(Generic[Number]):
    """A growing sequence of numbers, stored in blocks that are never moved.

    A single growing array would be copied again and again, and many of them side by side fragment the memory.

    Args:
        kind: As in :mod:`array`: ``d`` (8 bytes), ``q`` (8) or ``I`` (4).
    """

    def __init__(self, kind: Literal["d", "q", "I"]) -> None:
        self._kind = kind
        self._blocks: list[array[Number]] = []
        self._latest: array[Number] = array(kind)
        self._in_blocks = 0

    def __len__(self) -> int:
        return self._in_blocks + len(self._latest)

    def extend(self, numbers: Iterable[Number]) -> None:
        """Add numbers at the end."""
        self._latest.extend(array(self._kind, numbers))
        if len(self._latest) >= _BLOCK:
            self._blocks.append(self._latest[:])  # a slice has no spare capacity
            self._in_blocks += len(self._latest)
            del self._latest[:]

    def all(self) -> npt.NDArray[Any]:
        """A copy of all numbers, shape (n,)."""
        kind = _KINDS[self._kind]
        blocks: list[array[Any]] = [*self._blocks, self._latest]
        return np.concatenate(
            [np.frombuffer(block, kind) if block else np.empty(0, kind) for block in blocks]
        )


class Clusters(NumberBuffer[int]):
    """Codes of the clusters of cases."""

    def __init__(self) -> None:
        super().__init__("q")
        self._ranks = np.empty(0, np.int64)

    def ranks(self) -> npt.NDArray[np.int64]:
        """Rank of each code, shape (n,), from 0: equal codes have equal ranks."""
        if self._ranks.size != len(self):
            ranks = self.all()
            order = ranks.argsort()
            rising = ranks[order]
            rising[1:] = rising[1:] != rising[:-1]
            rising[0] = 0
            ranks[order] = rising.cumsum(out=rising)
            self._ranks = ranks
        return self._ranks


NO_JUDGE = "no judge"
"""Beginning of the reason of a judgement that no judge could give."""

T = TypeVar("T")
Floats = npt.NDArray[np.float64]

_REASONS_KEPT = 20
_NUMBERS = frozenset({float, int})
_UNITS = ("characters", "steps")


class _Values:
    """One reduced value a case, nan if a case has none."""

    def __init__(self) -> None:
        self._flat: NumberBuffer[float] = NumberBuffer("d")
        self.count = 0
        """Number of values, before they were reduced by case."""
        self.sum = 0.0
        """Their sum."""

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
            self.sum = _added(present, self.sum)
        if cases[-1] + 1 - first > len(cases):
            of_case = dict(zip(cases, present, strict=True))
            present = [of_case.get(case, nan) for case in range(first, cases[-1] + 1)]
        self._flat.extend(present)

    def _reduced(
        self, cases: Sequence[int], values: Sequence[float], reduce: Reducer
    ) -> tuple[list[int], list[float]]:
        """Each case once, with its reduced value."""
        places, reduced = [], []
        for case, together in groupby(zip(cases, values, strict=True), itemgetter(0)):
            of_case = [value for _, value in together]
            self.sum += _added(of_case, 0.0)
            places.append(case)
            reduced.append(reduce(of_case) if len(of_case) > 1 else of_case[0])
        return places, reduced

    def all(self) -> Floats:
        """Values of all cases up to the last that has one, shape (n,)."""
        every: Floats = self._flat.all()
        return every


class Column:
    """One figure over the cases of a run.

    A fallback is another quantity than the metric as it is defined (spec: metrics, "Fallback values are
    another quantity"), so the two are never averaged together. If both occur, the figure is the mean of the
    values computed as defined; values that stand in for judgements never enter a figure.

    Args:
        name: The metric.
        tier: text, judge, trace or composite.
        clusters: Code of the cluster of every case, shared by the columns; it grows while cases are added.
        absent: Number of attempts missing entirely, by the index of their case; shared as well.
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
        """Reasons of scores that were computed from incomplete data."""
        self.methods: Counter[str] = Counter()
        self._reasons_missing: Counter[str] = Counter()
        self._missing = 0
        self.unavailable = 0
        """Number of scores that are missing because of an error or because no judge answered."""
        self._gaps: dict[int, tuple[list[float], list[float]]] = {}
        """For each case with a missing score, by index: its values with the missing ones at their lowest, and
        at their highest."""
        self.cut: dict[tuple[str, str], tuple[int, int, int]] = {}
        """By name and unit of each text truncated for a judge: attempts, size shown, full size."""
        self._defined = _Values()
        self._fallback = _Values()
        self._computed = 0
        """Number of values computed as defined; the 0 of a failed attempt is known without computing."""
        self._raw_sum = 0.0
        self._raw_count = 0
        self._reduce: Reducer | None = None

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
            cases: Index of the case of each score, ascending; a case never comes again in a later call.
            scores: The scores, as many.
            reduce: Reduces several values of a case to one.
            failed: Whether each attempt failed; None if none did.
        """
        self._reduce = reduce
        statuses = [score.status for score in scores]
        self._count_statuses(statuses)
        reasons = [(score.status, score.reason) for score in scores if score.reason is not None]
        if reasons:
            of_gaps = [(status, reason) for status, reason in reasons if status != "ok"]
            self._count_reasons(self.reasons, of_gaps)
            self._count_reasons(self.caveats, [why for _, why in reasons if why.startswith(INCOMPLETE_TRACE)])
        methods = [score.method for score in scores if score.method is not None]
        if methods:
            self._count_reasons(self.methods, methods)
        if self.tier == "judge":
            self._count_cut([score.shown for score in scores])
        raw = _finite([score.raw for score in scores if type(score.raw) in _NUMBERS])
        self._raw_sum = _added(raw, self._raw_sum)
        self._raw_count += len(raw)
        values = [score.value for score in scores]
        if statuses.count("ok") < len(statuses) or self._absent:
            bounds = [(0.0, 1.0) if is_missing(score) else None for score in scores]
            self._add_bounds(cases, [_judged(score) for score in scores], bounds)
            missing = [score for score in scores if is_missing(score)]
            self._count_reasons(self._reasons_missing, [score.reason or score.status for score in missing])
            self.unavailable += sum(map(is_unavailable, missing))
        if failed is None and "fallback" not in statuses:
            self._defined.add(cases, values, reduce)
            self._computed += len(values) - values.count(None)
            return
        known = failed or [False] * len(scores)
        fallback = [status == "fallback" for status in statuses]
        self._defined.add(cases, _only(values, [not one for one in fallback]), reduce)
        either = [one or other for one, other in zip(fallback, known, strict=True)]
        self._fallback.add(cases, _only(values, either), reduce)
        self._computed += sum(
            value is not None and not one for value, one in zip(values, either, strict=True)
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
        """Add values that are not those of scores.

        Args:
            cases: See :meth:`add`.
            values: The values, as many; None if there is none.
            reduce: See :meth:`add`.
            statuses: As many; by default ``skipped`` for None and ``ok`` for other values.
            bounds: As many: lowest and highest possible value if something is missing, else None.
            missing: The reason, for each value with bounds.
        """
        self._reduce = reduce
        if values:
            self.status.setdefault("ok", 0)  # comes first in reports, even with a count of 0
        self._count_statuses(statuses or ["skipped" if value is None else "ok" for value in values])
        if missing or self._absent:
            self._add_bounds(cases, values, bounds or [None] * len(values))
            self._count_reasons(self._reasons_missing, missing)
        self._defined.add(cases, values, reduce)
        self._computed += len(values) - values.count(None)

    def _count_cut(self, shown: Iterable[Any]) -> None:
        """Count texts that were truncated for a judge; an imported file may hold any JSON there."""
        for texts in shown:
            for name, part in texts.items() if isinstance(texts, dict) else ():
                some, every, unit = _part(part)
                if name in INPUT_NAMES and type(some) is int and type(every) is int and unit in _UNITS:
                    before = self.cut.get((name, unit), (0, 0, 0))
                    self.cut[name, unit] = (before[0] + 1, before[1] + some, before[2] + every)

    def _count_statuses(self, statuses: Sequence[str]) -> None:
        if statuses and statuses.count("ok") == len(statuses):  # nearly always so, and faster to count
            self.status["ok"] += len(statuses)
        else:
            self.status.update(statuses)

    def _add_bounds(
        self,
        cases: Sequence[int],
        values: Sequence[float | None],
        bounds: Sequence[tuple[float, float] | None],
    ) -> None:
        """Keep the lowest and highest possible values of cases in which something is missing."""
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
    def _count_reasons(counter: Counter[T], wordings: Iterable[T]) -> None:
        """Count reasons; of different ones (they may quote the input) only the first few are counted."""
        for wording, times in Counter(wordings).items():
            if wording in counter or len(counter) < _REASONS_KEPT:
                counter[wording] += times

    @property
    def attempts(self) -> int:
        """Number of attempts added (cases, for a figure of a case)."""
        return self.status.total()

    @property
    def missing(self) -> int:
        """Number of missing scores, those of missing attempts included."""
        return self._missing + sum(self._absent.values())

    @property
    def due(self) -> int:
        """Number of scores that were due: present and missing ones."""
        return self._used.count + self.missing

    @property
    def reasons_missing(self) -> Counter[str]:
        """Why scores are missing, and how often."""
        absent = sum(self._absent.values())
        return self._reasons_missing + Counter({"the attempt is missing": absent} if absent else {})

    @property
    def _used(self) -> _Values:
        fallback = self.tier != "judge" and self._fallback.count and not self._computed
        return self._fallback if fallback else self._defined

    @property
    def aside(self) -> tuple[int, float] | None:
        """Number and mean of the fallback values that the figure leaves out; None without any."""
        if not self.status["fallback"] or self._used is self._fallback or not self._fallback.count:
            return None
        return self.status["fallback"], self._fallback.sum / self._fallback.count

    @property
    def values(self) -> Floats:
        """Reduced value of each case that has one."""
        every = self._used.all()
        absent = np.isnan(every)
        return every[~absent] if absent.any() else every

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """Number of the cluster of each value."""
        return self._groups(self._used.all())

    def _groups(self, every: Floats) -> npt.NDArray[np.int64]:
        clusters = self._clusters.ranks()[: len(every)]
        absent = np.isnan(every)
        return clusters[~absent] if absent.any() else clusters

    @property
    def mean(self) -> float | None:
        """Mean over the cases that have a value."""
        return float(self.values.mean()) if self._used.count else None

    def interval(self, level: float) -> Interval | None:
        """Interval of a rate if every value is 0 or 1, else of a mean (spec: metrics, B.0)."""
        found = self.found
        return None if found is None else found.interval(level)

    @property
    def found(self) -> ClusteredMean | None:
        """The mean by clusters, from which intervals are computed."""
        return clustered(self.values, self.groups)

    def extreme_intervals(self, level: float) -> tuple[Interval | None, Interval | None]:
        """The interval with everything that is missing at its least, and at its most."""
        every = self._used.all()
        last = max([len(every) - 1, *self._gaps, *self._absent])
        padded = np.concatenate([every, np.full(last + 1 - len(every), nan)])
        reduce = self._reduce or REDUCERS["mean"]
        found = []
        for side, filling in ((0, 0.0), (1, 1.0)):
            filled = padded.copy()
            for place in self._gaps.keys() | self._absent.keys():
                of_case = list(self._gaps[place][side]) if place in self._gaps else []
                filled[place] = reduce([*of_case, *[filling] * self._absent.get(place, 0)])
            known = clustered(filled[~np.isnan(filled)], self._groups(filled))
            found.append(None if known is None else known.interval(level))
        return found[0], found[1]

    def figure(self, *, level: float) -> Figure:
        """The figure, with what is not there counted.

        Args:
            level: Of the interval.
        """
        interval = self.interval(level)
        due = self.attempts + sum(self._absent.values())
        there = self._used.count
        absent = due - there
        aside = self.aside
        return Figure(
            mean=self.mean,
            ci95=None if interval is None else (interval.low, interval.high),
            n=there,
            coverage=there / due if due else 0.0,
            groups=interval.groups if interval is not None else int(there > 0),
            status=dict(self.status),
            method=None if interval is None else interval.method,
            level=level,
            bounds=(self._used.sum / due, (self._used.sum + absent) / due) if due else None,
            raw_mean=self._raw_sum / self._raw_count if self._raw_count else None,
            tier=self.tier,
            missing=self.missing,
            aside=None if aside is None else Aside(method=self._method_aside, n=aside[0], mean=aside[1]),
        )

    @property
    def _method_aside(self) -> str:
        """The method of the fallback values that the figure leaves out."""
        return JUDGE_FALLBACK if self.tier == "judge" else "fewer parts"


def most_frequent(reasons: Mapping[str, int]) -> str:
    """The most frequent reason, and how many others there are."""
    if not reasons:
        return "no reason is known"
    most = max(reasons.items(), key=lambda one: (one[1], one[0]))[0].removeprefix(f"{NO_JUDGE}: ")
    others = len(reasons) - 1
    return most if not others else f"{most} (and {others} other {'reason' if others == 1 else 'reasons'})"


def _judged(score: Score | ScoreOutline) -> float | None:
    """The value of a score, unless it stands in for a judgement."""
    return None if is_judge_fallback(score) else score.value


def _part(raw: Any) -> tuple[Any, Any, Any]:
    """Size shown, full size and unit of a truncated text."""
    return (raw.get("shown"), raw.get("of"), raw.get("unit")) if isinstance(raw, dict) else (None, None, None)


def _only(values: Sequence[float | None], wanted: Sequence[bool]) -> list[float | None]:
    return [value if one else None for value, one in zip(values, wanted, strict=True)]


def clustered(values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64]) -> ClusteredMean | None:
    """Mean by clusters of values in [0, 1]: a rate if every value is 0 or 1 (spec: metrics, B.0)."""
    rate = bool(((values == 0) | (values == 1)).all())
    return ClusteredMean.of(values, groups, kind="rate" if rate else "mean")


def _finite(values: list[Any]) -> list[Any]:
    """Drop values that JSON cannot hold, because they would be missing when read from the store."""
    return values if isfinite(sum(values)) else [value for value in values if isfinite(value)]


def _added(values: Iterable[float], start: float) -> float:
    """Add one by one: from Python 3.12 on, the result of ``sum`` depends on how many are summed at once."""
    for value in values:
        start += value
    return start
