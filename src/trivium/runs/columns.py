"""Stores the values of each metric in compact arrays, and computes means and intervals from them."""

# ruff: noqa: SLF001 - what is merged is of the same class

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress
from math import inf, nan
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from trivium.metrics.evaluation import is_judge_fallback, is_missing, is_unavailable
from trivium.metrics.metric import CAVEATS, Score, Status, Tier
from trivium.metrics.registry import JUDGE_FALLBACK
from trivium.runs.case_values import CaseValues, Clusters, Reducer, Sum, average, finite, mean_of_parts
from trivium.runs.summary import Aside, Figure
from trivium.store.records import ScoreOutline
from trivium.suites.rubrics.rubric import INPUT_NAMES
from trivium.trust.arrays import Floats
from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Interval
from trivium.values import counted, dict_, list_

NO_JUDGE = "no judge"
"""Prefix of the reason of a judgement that no judge could make."""

T = TypeVar("T")

_MAX_REASONS = 20
_NUMBERS = frozenset({float, int})
_UNITS = ("characters", "steps")


class Column:
    """Values of one metric over the cases of a run.

    A fallback measures something else than the metric's definition (docs/definitions/scores.md#fallback), so
    the two are never averaged together. If both occur, the mean is that of the values computed as defined;
    fallbacks for judgements never enter a mean.

    Args:
        name: Name of the metric.
        tier: text, judge, trace or composite.
        clusters: The cluster of every case, shared by the columns; it grows while cases are added.
        absent: Number of missing attempts by index of the case, shared by the columns.
        reduce: Reduces several values of a case to one.
        part: Whether it is of a part of a run, to be merged with that of the whole run; then it counts all
            reasons, not only the first ones.
    """

    def __init__(
        self,
        name: str,
        tier: Tier | str,
        clusters: Clusters,
        absent: Mapping[int, int] | None = None,
        *,
        reduce: Reducer = average,
        part: bool = False,
    ) -> None:
        self.name = name
        self.tier = tier
        self._clusters = clusters
        self._absent = {} if absent is None else absent
        self._most_reasons = inf if part else _MAX_REASONS
        self.status: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.caveats: Counter[str] = Counter()
        """Reasons of computed scores that begin as one of ``CAVEATS``."""
        self.methods: Counter[str] = Counter()
        self._reasons_missing: Counter[str] = Counter()
        self._missing = 0
        self._missing_of_failed = 0
        self.unavailable = 0
        """Number of scores that are missing because of an error or because no judge answered."""
        self._gaps: dict[int, tuple[list[float], list[float]]] = {}
        """By index, for each case with a missing score: its values with the missing ones at their lowest,
        and at their highest."""
        self.truncated: dict[tuple[str, str], tuple[int, int, int]] = {}
        """For each text truncated for a judge, by name and unit: attempts, size shown, full size."""
        self.not_given: Counter[str] = Counter()
        """Parts that judges' answers lack and that no score needs, by name."""
        self._reduce = reduce
        self._defined = CaseValues(clusters.file, reduce)
        self._fallback = CaseValues(clusters.file, reduce)
        self._computed = 0
        """Number of values computed as defined; the 0 of a failed attempt is not computed."""
        self._raw = Sum()
        self._in_parts: tuple[int, ClusteredMean | None] = (0, None)
        """Number of attempts, and their clustered mean if they are many."""

    def add(
        self,
        cases: Sequence[int],
        scores: Sequence[Score | ScoreOutline],
        *,
        failed: Sequence[bool] | None = None,
    ) -> None:
        """Add scores of attempts.

        Args:
            cases: Index of the case of each score, ascending; a case never occurs in two calls.
            scores: The scores, one for each entry of ``cases``.
            failed: Whether each attempt failed; None if none did.
        """
        statuses = [score.status for score in scores]
        self.status.update(statuses)
        reasons = [(score.status, score.reason) for score in scores if score.reason is not None]
        if reasons:
            of_missing = [(status, reason) for status, reason in reasons if status != "ok"]
            self._count_reasons(self.reasons, of_missing)
            self._count_reasons(self.caveats, [why for _, why in reasons if why.startswith(CAVEATS)])
        methods = [score.method for score in scores if score.method is not None]
        if methods:
            self._count_reasons(self.methods, methods)
        if self.tier == "judge":
            self._count_truncated([score.shown for score in scores])
            lacking = chain.from_iterable(list_(score.not_given) for score in scores)
            self.not_given.update(name for name in lacking if isinstance(name, str))
        self._raw.add(finite([score.raw for score in scores if type(score.raw) in _NUMBERS]))
        values = [score.value for score in scores]
        if statuses.count("ok") < len(statuses) or self._absent:
            bounds = [(0.0, 1.0) if is_missing(score) else None for score in scores]
            judged = [None if is_judge_fallback(score) else score.value for score in scores]
            self._add_bounds(cases, judged, bounds)
            missing = [score for score in scores if is_missing(score)]
            self._count_reasons(self._reasons_missing, [score.reason or score.status for score in missing])
            of_failed = sum(map(is_missing, compress(scores, failed or ())))
            self._missing_of_failed += of_failed
            self.unavailable += sum(map(is_unavailable, missing)) - of_failed
        if failed is None and "fallback" not in statuses:
            self._defined.add(cases, values)
            self._computed += len(values) - values.count(None)
            return
        fallback = [status == "fallback" for status in statuses]
        self._defined.add(cases, _where(values, [not flag for flag in fallback]))
        known = failed or [False] * len(scores)
        fallback_or_known = [flag or other for flag, other in zip(fallback, known, strict=True)]
        self._fallback.add(cases, _where(values, fallback_or_known))
        self._computed += sum(
            value is not None and not flag for value, flag in zip(values, fallback_or_known, strict=True)
        )

    def add_values(
        self,
        cases: Sequence[int],
        values: Sequence[float | None],
        *,
        statuses: Sequence[Status] | None = None,
        bounds: Sequence[tuple[float, float] | None] | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        """Add values that do not come from scores.

        Args:
            cases: See :meth:`add`.
            values: The values, or None, one for each entry of ``cases``.
            statuses: The status of each value; by default ``skipped`` for None, else ``ok``.
            bounds: For each value, its lowest and highest possible value if something is missing, else None.
            missing: The reason, for each value with bounds.
        """
        if values:
            self.status.setdefault("ok", 0)  # so that reports list it first, even with a count of 0
        self.status.update(statuses or ["skipped" if value is None else "ok" for value in values])
        if missing or self._absent:
            self._add_bounds(cases, values, bounds or [None] * len(values))
            self._count_reasons(self._reasons_missing, missing)
        self._defined.add(cases, values)
        self._computed += len(values) - values.count(None)

    def merge(self, other: "Column", *, first: int) -> None:
        """Add the column of a part of the run; the indices of its cases begin with ``first`` in this one."""
        self.status.update(other.status)
        self._count_reasons(self.reasons, other.reasons)
        self._count_reasons(self.caveats, other.caveats)
        self._count_reasons(self.methods, other.methods)
        self._count_reasons(self._reasons_missing, other._reasons_missing)
        self._missing += other._missing
        self._missing_of_failed += other._missing_of_failed
        self.unavailable += other.unavailable
        self._gaps.update({first + index: ends for index, ends in other._gaps.items()})
        for text, (number, shown, full) in other.truncated.items():
            self._add_truncated(text, number, shown, full)
        self.not_given.update(other.not_given)
        self._defined.merge(other._defined, first=first)
        self._fallback.merge(other._fallback, first=first)
        self._computed += other._computed
        self._raw.merge(other._raw)

    def _count_truncated(self, shown: Iterable[Any]) -> None:
        """Count texts that were truncated for a judge; imported files may contain any JSON here."""
        for name, part in chain.from_iterable(dict_(texts).items() for texts in shown):
            size, full, unit = (dict_(part).get(key) for key in ("shown", "of", "unit"))
            if name in INPUT_NAMES and type(size) is int and type(full) is int and unit in _UNITS:
                self._add_truncated((name, unit), 1, size, full)

    def _add_truncated(self, text: tuple[str, str], number: int, shown: int, full: int) -> None:
        before = self.truncated.get(text, (0, 0, 0))
        self.truncated[text] = (before[0] + number, before[1] + shown, before[2] + full)

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

    def _count_reasons(self, counter: Counter[T], reasons: Iterable[T]) -> None:
        """Count reasons, but of those of a run only the first different ones: they may quote the input."""
        for reason, count in Counter(reasons).items():
            if reason in counter or len(counter) < self._most_reasons:
                counter[reason] += count

    @property
    def attempts(self) -> int:
        """Number of attempts added (of cases, for scores of cases)."""
        return self.status.total()

    @property
    def missing(self) -> int:
        """Number of missing scores, those of missing attempts included.

        Where no attempt has a score (such as without traces), failed attempts lack none either.
        """
        of_failed = self._missing_of_failed if self._values.sum.count else 0
        return self._missing - self._missing_of_failed + of_failed + sum(self._absent.values())

    @property
    def due(self) -> int:
        """Number of scores that should be present: present and missing ones."""
        return self._values.sum.count + self.missing

    @property
    def reasons_missing(self) -> Counter[str]:
        """Reasons why scores are missing, with their counts."""
        absent = sum(self._absent.values())
        return self._reasons_missing + Counter({"the attempt is missing": absent} if absent else {})

    @property
    def _values(self) -> CaseValues:
        fallback = self.tier != "judge" and self._fallback.sum.count and not self._computed
        return self._fallback if fallback else self._defined

    @property
    def aside(self) -> Aside | None:
        """The fallback values that the mean leaves out; None if there are none."""
        known, number = self._fallback.sum.mean, self.status["fallback"]
        if not number or self._values is self._fallback or known is None:
            return None
        method = JUDGE_FALLBACK if self.tier == "judge" else "fewer parts"
        return Aside(method=method, n=number, mean=known)

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
        return float(self.values.mean()) if self._values.sum.count else None

    def interval(self, level: float) -> Interval | None:
        """Confidence interval: of a rate if every value is 0 or 1, else of a mean.

        Definition: docs/definitions/intervals.md#choice.
        """
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

    def extreme_means(self) -> tuple[ClusteredMean | None, ClusteredMean | None]:
        """Return the mean with every missing score at its lowest, and at its highest."""
        low, high = (clustered(filled[~np.isnan(filled)], self._groups(filled)) for filled in self._filled())
        return low, high

    def extreme_values(self) -> tuple[Floats, Floats]:
        """Value of each case, with missing scores at their lowest, and at their highest."""
        low, high = self._filled()
        return low[~np.isnan(low)], high[~np.isnan(high)]

    def _filled(self) -> tuple[Floats, Floats]:
        """Value of each case with every missing score at its lowest, and at its highest; else NaN."""
        all_values = self._values.all()
        last = max([len(all_values) - 1, *self._gaps, *self._absent])
        padded = np.concatenate([all_values, np.full(last + 1 - len(all_values), nan)])
        ends = []
        for side, filling in ((0, 0.0), (1, 1.0)):
            filled = padded.copy()
            for index in self._gaps.keys() | self._absent.keys():
                of_case = list(self._gaps[index][side]) if index in self._gaps else []
                filled[index] = self._reduce([*of_case, *[filling] * self._absent.get(index, 0)])
            ends.append(filled)
        return ends[0], ends[1]

    def figure(self, *, level: float) -> Figure:
        """Compute the mean, its interval at a confidence level in (0, 1), and the counts."""
        interval = self.interval(level)
        due = self.attempts + sum(self._absent.values())
        present, total = self._values.sum.count, self._values.sum.value
        return Figure(
            mean=self.mean,
            ci95=None if interval is None else (interval.low, interval.high),
            n=present,
            coverage=present / due if due else 0.0,
            groups=interval.groups if interval is not None else int(present > 0),
            status=dict(self.status),
            method=None if interval is None else interval.method,
            level=level,
            bounds=(total / due, (total + (due - present)) / due) if due else None,
            raw_mean=self._raw.mean,
            tier=self.tier,
            missing=self.missing,
            aside=self.aside,
        )


def most_frequent(reasons: Mapping[str, int]) -> str:
    """Return the most frequent reason, with the number of other reasons."""
    if not reasons:
        return "no reason is known"
    top = max(reasons.items(), key=lambda item: (item[1], item[0]))[0].removeprefix(f"{NO_JUDGE}: ")
    return top if len(reasons) == 1 else f"{top} (and {counted(len(reasons) - 1, 'other reason')})"


def _where(values: Sequence[float | None], mask: Sequence[bool]) -> list[float | None]:
    return [value if flag else None for value, flag in zip(values, mask, strict=True)]


def clustered(values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64]) -> ClusteredMean | None:
    """Clustered mean of values in [0, 1]: a rate if every value is 0 or 1.

    Definition: docs/definitions/intervals.md#choice.
    """
    rate = bool(((values == 0) | (values == 1)).all())
    return ClusteredMean.of(values, groups, kind="rate" if rate else "mean")
