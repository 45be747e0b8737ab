"""Pairs the attempts of two runs and stores their scores in arrays."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Sequence
from functools import cached_property
from math import isnan, nan
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.metrics.evaluation import verdict_is_missing
from trivium.metrics.metric import Score, is_judge_fallback, is_missing, is_unavailable
from trivium.metrics.registry import CASE_FIGURES
from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.comparing.comparison import Move
from trivium.runs.reducers import REDUCERS, Reducer
from trivium.runs.run import Run
from trivium.store.records import ScoreOutline
from trivium.suites.settings import Settings

Key = tuple[str, int]
"""Case and repeat. The repeat ``WHOLE`` stands for the case as a whole."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WHOLE = -1
ABSENT = -1
"""Row of an attempt that a run lacks."""

ANY_METHOD = 0
"""Method number of values that may be compared with all others, such as the 0 of a failed attempt."""


class Methods:
    """Numbers the methods by which values were computed; values of different methods are not compared."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, method: Hashable) -> int:
        """Return the number of a method, from 1."""
        return self._numbers.setdefault(method, len(self._numbers) + 1)

    def named(self, number: int) -> str:
        """Return the name of the method with this number."""
        return str(list(self._numbers)[number - 1])


class ScoredRun:
    """All scores of a run in arrays by metric, one row per attempt.

    Args:
        settings: Settings of the run.
        evaluations: Its evaluations, each with the position of its case, in suite order.
        methods: Numbers of the methods, shared by the compared runs.
        case_scores: Scores of whole cases, by the position of the case.
    """

    def __init__(
        self,
        settings: Settings,
        evaluations: Iterable[tuple[int, AnyEvaluation]],
        methods: Methods,
        *,
        case_scores: Iterable[tuple[int, dict[str, Score]]] = (),
    ) -> None:
        self.settings = settings
        self.rows: dict[Key, int] = {}
        self.values: dict[str, array[float]] = {}
        self.methods: dict[str, array[int]] = {}
        self.tiers: dict[str, str] = {}
        self.positions: dict[int, str] = {}
        self.attempts = 0
        self.bounds: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        """By metric and row of a missing value: its lowest and highest possible value."""
        self.unavailable: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By metric: the errors and unavailable judges that made values missing, with their counts."""
        self._methods = methods
        for position, evaluation in evaluations:
            self.positions[position] = evaluation.case
            self._add(evaluation)
        self.attempts = len(self.rows)
        for position, scores in case_scores:
            self.rows[self.positions[position], WHOLE] = len(self.rows)
            for name, score in scores.items():
                self._put(name, score.tier, score.value, self._method_of(name, score))
        self._pad()

    @classmethod
    def of(cls, run: Run, methods: Methods) -> Self:
        """Read the scores of a stored run."""
        stored = run.store.evaluations(run.record)
        return cls(
            msgspec.convert(run.record.settings, Settings),
            ((each.position, each.evaluation) for each in stored),
            methods,
            case_scores=run.store.case_scores(run.record),
        )

    @cached_property
    def cases(self) -> dict[str, None]:
        """Cases with an attempt, in suite order."""
        return dict.fromkeys(self.positions.values())

    @property
    def scored(self) -> list[str]:
        """Metrics that have at least one value."""
        return [name for name, values in self.values.items() if not all(map(isnan, values))]

    def _add(self, evaluation: AnyEvaluation) -> None:
        self.rows[evaluation.case, evaluation.repeat] = len(self.rows)
        failed = evaluation.failed is not None
        if failed and self.settings.failed_attempts == "skip":
            return
        self._add_verdict(evaluation, failed=failed)
        row = len(self.rows) - 1
        for name, score in evaluation.scores.items():
            value = None if is_judge_fallback(score) else score.value
            self._put(name, score.tier, value, ANY_METHOD if failed else self._method_of(name, score))
            if is_missing(score):
                self.bounds[name][row] = (0.0, 1.0)
            if is_unavailable(score):
                self.unavailable[name][score.reason or score.status] += 1

    def _add_verdict(self, evaluation: AnyEvaluation, *, failed: bool) -> None:
        composite, row = evaluation.composite, len(self.rows) - 1
        parts = frozenset(name for name, value in composite.parts.items() if value is not None)
        method = ANY_METHOD if failed else self._methods.number(("parts", parts))
        self._put("composite", "composite", composite.value if composite.bounds is None else None, method)
        if composite.bounds is not None:
            self.bounds["composite"][row] = composite.bounds
        verdict = None if evaluation.passed is None else float(evaluation.passed)
        self._put("pass_rate", "composite", verdict, ANY_METHOD)
        if verdict_is_missing(evaluation.passed, evaluation.scores, composite, self.settings):
            self.bounds["pass_rate"][row] = (0.0, 1.0)

    def _method_of(self, name: str, score: Score | ScoreOutline) -> int:
        return self._methods.number(
            ("fallback, " if score.status == "fallback" else "") + (score.method or name)
        )

    def _put(self, name: str, tier: str, value: float | None, method: int) -> None:
        if name not in self.values:
            self.values[name], self.methods[name], self.tiers[name] = array("d"), array("q"), tier
        values, methods = self.values[name], self.methods[name]
        gap = len(self.rows) - 1 - len(values)
        values.extend([nan] * gap)
        methods.extend([ANY_METHOD] * gap)
        values.append(nan if value is None else value)
        methods.append(method)

    def _pad(self) -> None:
        """Pad every array to the number of rows."""
        for name, values in self.values.items():
            gap = len(self.rows) - len(values)
            values.extend([nan] * gap)
            self.methods[name].extend([ANY_METHOD] * gap)


class PairedScores(msgspec.Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """One metric over the paired cases.

    Attributes:
        cases: Ids of the n paired cases.
        base: Reduced value of each case in base, NaN without a pair, shape (n,).
        head: The same for head.
        pairs: Attempts with values of the same method on both sides.
        one_sided: Attempts with a value on one side only.
        unlike: Attempts whose values have different methods, by the methods (base, head).
        wholly_unlike: Whether no attempt has values of the same method.
        left_out: Attempts with a value on either side that are not paired.
        missing: Attempts with a missing value on a side, unless the other side has no value for another
            reason.
        at_worst: The values of both sides with base's missing ones at their highest and head's at their
            lowest, shape (2, n); None if none is missing.
        at_best: The same with base's missing values at their lowest and head's at their highest.
    """

    cases: list[str]
    base: Floats
    head: Floats
    pairs: int
    one_sided: int
    unlike: Counter[tuple[int, int]]
    wholly_unlike: bool
    left_out: int
    missing: int = 0
    at_worst: Floats | None = None
    at_best: Floats | None = None

    @cached_property
    def has_pair(self) -> npt.NDArray[np.bool_]:
        """Which cases have a pair, shape (n,)."""
        return ~np.isnan(self.base)

    @cached_property
    def deltas(self) -> Floats:
        """Head minus base, NaN without a pair, shape (n,)."""
        return self.head - self.base

    def moved(self, at_most: int) -> tuple[Move, ...]:
        """Return the cases that changed most, largest change first, without unchanged ones."""
        return self._moves(-np.abs(self.deltas), at_most)

    def worst(self, at_most: int) -> tuple[Move, ...]:
        """Return the cases that lost most, the worst first."""
        return self._moves(np.where(self.deltas < 0, self.deltas, 0.0), at_most)

    def _moves(self, keys: Floats, at_most: int) -> tuple[Move, ...]:
        order = np.argsort(keys, kind="stable")[:at_most]  # NaN comes last
        return tuple(
            Move(
                case=self.cases[at],
                base=float(self.base[at]),
                head=float(self.head[at]),
                delta=float(self.deltas[at]),
            )
            for at in order.tolist()
            if keys[at] < 0
        )


class Pairing:
    """Pairs the attempts of two runs by case and repeat.

    Args:
        base: Scores of base.
        head: Scores of head.
        clusters: Cluster of every case of head that has an attempt, or should have one.
        absent: Attempts that one run has and the other should have but lacks.
        only: The cases to pair; None pairs all.
    """

    def __init__(
        self,
        base: ScoredRun,
        head: ScoredRun,
        *,
        clusters: dict[str, str],
        absent: Sequence[Key] = (),
        only: Container[str] | None = None,
    ) -> None:
        self._base, self._head = base, head
        keys = [key for key in head.rows if key in base.rows and (only is None or key[0] in only)]
        if only is not None:
            absent = [key for key in absent if key[0] in only]
        self.attempts = sum(repeat != WHOLE for _, repeat in keys)
        keys += absent
        places = {case: place for place, case in enumerate(dict.fromkeys(case for case, _ in keys))}
        self.cases = list(places)
        self._base_rows, self._head_rows = (
            np.fromiter((side.rows.get(key, ABSENT) for key in keys), np.int64, len(keys))
            for side in (base, head)
        )
        self._case_of = np.fromiter((places[case] for case, _ in keys), np.int64, len(keys))
        codes = {name: code for code, name in enumerate(dict.fromkeys(clusters[case] for case in places))}
        self.groups: Ints = np.fromiter((codes[clusters[case]] for case in places), np.int64, len(places))

    @property
    def names(self) -> list[str]:
        """Metrics that both runs have: composite and pass rate first, then in head's order."""
        return [name for name in self._head.values if name in self._base.values]

    def reduced(self, name: str, *, same_method: bool) -> PairedScores:
        """Reduce a metric to one value per case on each side.

        Args:
            name: The metric.
            same_method: Whether to leave out pairs whose values have different methods.
        """
        base, ours = _at_rows(self._base, name, self._base_rows)
        head, theirs = _at_rows(self._head, name, self._head_rows)
        both = ~np.isnan(base) & ~np.isnan(head)
        with_method = both & (ours != ANY_METHOD) & (theirs != ANY_METHOD)
        different = with_method & (ours != theirs)
        paired = both & ~different if same_method else both
        one_sided = int(np.count_nonzero(np.isnan(base) != np.isnan(head)))
        reduce = self._head.settings.reduce
        left, right = self._with_bounds(self._base, name, base), self._with_bounds(self._head, name, head)
        # Pairs with a value, or bounds of a missing value, on both sides.
        filled = (paired | (np.isnan(base) | np.isnan(head))) & ~np.isnan(left[0]) & ~np.isnan(right[0])
        missing = int(np.count_nonzero(filled & ~paired))
        one_sided -= int(np.count_nonzero(filled & (np.isnan(base) != np.isnan(head))))
        return PairedScores(
            cases=self.cases,
            base=self._by_case(base, paired, reduce),
            head=self._by_case(head, paired, reduce),
            pairs=int(np.count_nonzero(paired)),
            one_sided=one_sided,
            unlike=Counter(zip(ours[different].tolist(), theirs[different].tolist(), strict=True)),
            wholly_unlike=bool(with_method.any() and (different == with_method).all()),
            left_out=one_sided + int(np.count_nonzero(both & ~paired)),
            missing=missing,
            at_worst=self._sides(left[1], right[0], filled, reduce) if missing else None,
            at_best=self._sides(left[0], right[1], filled, reduce) if missing else None,
        )

    def _with_bounds(self, side: ScoredRun, name: str, values: Floats) -> tuple[Floats, Floats]:
        """Return the values of a side with the missing ones at their lowest, and at their highest."""
        low, high = values.copy(), values.copy()
        rows = self._base_rows if side is self._base else self._head_rows
        missing = side.bounds[name]
        absent = name not in CASE_FIGURES  # a score of a case is not missing in single attempts
        for at in np.flatnonzero(np.isnan(values)).tolist():
            row = int(rows[at])
            ends = missing.get(row) if row != ABSENT else (0.0, 1.0) if absent else None
            if ends is not None:
                low[at], high[at] = ends
        return low, high

    def _sides(self, base: Floats, head: Floats, selected: npt.NDArray[np.bool_], reduce: str) -> Floats:
        return np.array([self._by_case(base, selected, reduce), self._by_case(head, selected, reduce)])

    def _by_case(self, values: Floats, paired: npt.NDArray[np.bool_], reduce: str) -> Floats:
        reducer: Reducer = REDUCERS[reduce]
        rows = np.flatnonzero(paired)
        rows = rows[np.argsort(self._case_of[rows], kind="stable")]
        reduced = np.full(len(self.cases), np.nan)
        cases, starts = np.unique(self._case_of[rows], return_index=True)
        for case, of_case in zip(cases, np.split(values[rows], starts)[1:], strict=True):
            reduced[case] = reducer(of_case.tolist())
        return reduced


def _at_rows(side: ScoredRun, name: str, rows: Ints) -> tuple[Floats, Ints]:
    """Return the values of a metric and their methods at the given rows; NaN at absent rows."""
    values, methods = (
        np.array(side.values[name], np.float64)[rows],
        np.array(side.methods[name], np.int64)[rows],
    )
    values[rows == ABSENT] = np.nan
    return values, methods
