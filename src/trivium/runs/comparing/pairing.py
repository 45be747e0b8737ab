"""Pairs the attempts of two runs and stores their scores in arrays.

Cases are numbered, so that an attempt takes a few bytes.
"""

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator
from functools import cached_property
from math import nan
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.metrics.evaluation import is_judge_fallback, is_missing, is_unavailable, verdict_is_missing
from trivium.metrics.metric import Score
from trivium.metrics.registry import CASE_FIGURES
from trivium.runs.aggregation import AnyEvaluation
from trivium.runs.case_values import REDUCERS, Reducer
from trivium.runs.comparing.comparison import Move
from trivium.runs.run import Run
from trivium.store.records import ScoreOutline
from trivium.suites.settings import Settings
from trivium.trust.arrays import Floats, Ints

WHOLE = -1
"""Repeat that stands for a case as a whole."""

ABSENT = -1
"""Row of an attempt that a run lacks."""

_REPEAT_BITS = 32


class Numbers(dict[Hashable, int]):
    """Numbers things from 0, in the order in which they are first asked for.

    Attributes:
        names: The things, by number.
    """

    def __init__(self, *names: str) -> None:
        super().__init__(zip(names, range(len(names)), strict=True))
        self.names: list[Any] = [*names]

    def __missing__(self, name: Hashable) -> int:
        number = self[name] = len(self.names)
        self.names.append(name)
        return number


def code_of(number: int, repeat: int) -> int:
    """The code of the case with a number and a repeat: the number, and 32 bits with the repeat plus one."""
    return number << _REPEAT_BITS | repeat + 1


def numbers_of(codes: Ints) -> Ints:
    """The number of the case of each code, shape (n,)."""
    return codes >> _REPEAT_BITS


def repeats_of(codes: Ints) -> Ints:
    """The repeat of each code, shape (n,)."""
    return (codes & ((1 << _REPEAT_BITS) - 1)) - 1


ANY_METHOD = 0
"""Method number of values that may be compared with all others, such as the 0 of a failed attempt."""

NO_PAIR = -1
"""In place of the method of a case without a pair of values that may be compared."""


class Methods:
    """Numbers that compared runs share.

    Values of different methods are not compared.

    Attributes:
        cases: Numbers of the cases that have values.
        numbers: Numbers of the methods by which the values were computed.
    """

    def __init__(self) -> None:
        self.cases, self.numbers = Numbers(), Numbers("")  # no metric and no method is called ""


def chosen_of(cases: Numbers, ids: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Which of all numbered cases are among some ids, by number."""
    chosen = np.zeros(len(cases.names), np.bool_)
    chosen[[number for number in map(cases.get, ids) if number is not None]] = True
    return chosen


class Bounds:
    """The lowest and highest possible values of a metric where its value is missing."""

    def __init__(self) -> None:
        self._rows, self._low, self._high = array("q"), array("d"), array("d")

    def put(self, row: int, low: float, high: float) -> None:
        """Add those of a row; rows must rise."""
        self._rows.append(row)
        self._low.append(low)
        self._high.append(high)

    def __len__(self) -> int:
        return len(self._rows)

    def fill(self, rows: Ints, low: Floats, high: Floats) -> None:
        """Write them to two arrays, whose places are those of the given rows; all of shape (n,)."""
        if not self:
            return
        known = np.array(self._rows, np.int64)
        at = np.minimum(np.searchsorted(known, rows), known.size - 1)
        found = np.flatnonzero((known[at] == rows) & np.isnan(low))
        low[found], high[found] = np.array(self._low)[at[found]], np.array(self._high)[at[found]]


class ScoredRun:
    """All scores of a run in arrays by metric, one row per attempt.

    Args:
        settings: Settings of the run.
        evaluations: Its evaluations, each with the position of its case, in suite order.
        methods: Numbers of the methods and cases, shared by the compared runs.
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
        self.values: dict[str, array[float]] = {}
        self.methods: dict[str, array[int]] = {}
        self.tiers: dict[str, str] = {}
        self.bounds: defaultdict[str, Bounds] = defaultdict(Bounds)
        """By metric: the bounds of missing values."""
        self.unavailable: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By metric: the errors and unavailable judges that made values missing, with their counts."""
        self._lacking: set[str] = set()
        """Metrics with a missing value of an attempt that did not fail."""
        self.case_numbers, self._method_numbers = methods.cases, methods.numbers
        self._codes, positions, numbers = array("q"), array("q"), array("q")
        for position, evaluation in evaluations:
            if not positions or positions[-1] != position:
                positions.append(position)
                numbers.append(methods.cases[evaluation.case])
            self._codes.append(code_of(numbers[-1], evaluation.repeat))
            self._add(evaluation)
        self.attempts = len(self._codes)
        for position, scores in case_scores:
            self._codes.append(code_of(numbers[bisect_left(positions, position)], WHOLE))
            for name, score in scores.items():
                self._put(name, score.tier, score.value, self._method_of(name, score))
        self.codes, self.positions, self.cases = (
            np.asarray(each, np.int64) for each in (self._codes, positions, numbers)
        )
        for name in self.values:
            self._pad(name, len(self._codes))
        for name in self.bounds.keys() - self._lacking - set(self.scored):
            if name in self.tiers and self.tiers[name] != "composite":
                del self.bounds[name]  # no attempt has a score: failed ones lack none either

    @classmethod
    def of(cls, run: Run, methods: Methods) -> Self:
        """Read the scores of a stored run."""
        return cls(
            run.record.settings,
            run.store.outlines(run.record),
            methods,
            case_scores=run.store.case_scores(run.record),
        )

    @property
    def names(self) -> Iterator[str]:
        """Ids of the cases with an attempt, in suite order."""
        return (self.case_numbers.names[number] for number in self.cases)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.codes, kind="stable")

    def find(self, codes: Ints) -> Ints:
        """Return the row of each code, ``ABSENT`` where there is none; shape (n,)."""
        if not self.codes.size:
            return np.full(codes.size, ABSENT, np.int64)
        at = np.searchsorted(self.codes, codes, sorter=self._order)
        found = self._order[np.minimum(at, self.codes.size - 1)]
        found[self.codes[found] != codes] = ABSENT
        return found

    def lacking(self, other: "ScoredRun") -> Ints:
        """Return the codes that another run does not have, in the order of the rows."""
        alone: Ints = self.codes[other.find(self.codes) == ABSENT]
        return alone

    def positions_of(self, cases: Iterable[str]) -> Ints:
        """Return the positions of cases that have an attempt, shape (n,)."""
        order = np.argsort(self.cases, kind="stable")
        numbers = np.fromiter(map(self.case_numbers.__getitem__, cases), np.int64)
        found: Ints = self.positions[order[np.searchsorted(self.cases, numbers, sorter=order)]]
        return found

    @cached_property
    def scored(self) -> list[str]:
        """Metrics that have at least one value."""
        return [name for name, values in self.values.items() if not np.isnan(values).all()]

    def _add(self, evaluation: AnyEvaluation) -> None:
        failed = evaluation.failed is not None
        if failed and self.settings.failed_attempts == "skip":
            return
        self._add_verdict(evaluation, failed=failed)
        row = len(self._codes) - 1
        for name, score in evaluation.scores.items():
            value = None if is_judge_fallback(score) else score.value
            self._put(name, score.tier, value, ANY_METHOD if failed else self._method_of(name, score))
            if is_missing(score):
                self.bounds[name].put(row, 0.0, 1.0)
                if not failed:
                    self._lacking.add(name)
            if is_unavailable(score) and not failed:
                self.unavailable[name][score.reason or score.status] += 1

    def _add_verdict(self, evaluation: AnyEvaluation, *, failed: bool) -> None:
        composite, row = evaluation.composite, len(self._codes) - 1
        parts = frozenset(name for name, value in composite.parts.items() if value is not None)
        method = ANY_METHOD if failed else self._method_numbers[("parts", parts)]
        self._put("composite", "composite", composite.value if composite.bounds is None else None, method)
        if composite.bounds is not None:
            self.bounds["composite"].put(row, *composite.bounds)
        verdict = None if evaluation.passed is None else float(evaluation.passed)
        self._put("pass_rate", "composite", verdict, ANY_METHOD)
        if verdict_is_missing(evaluation.passed, evaluation.scores, composite, self.settings):
            self.bounds["pass_rate"].put(row, 0.0, 1.0)

    def _method_of(self, name: str, score: Score | ScoreOutline) -> int:
        fallback = "fallback, " if score.status == "fallback" else ""
        return self._method_numbers[fallback + (score.method or name)]

    def _put(self, name: str, tier: str, value: float | None, method: int) -> None:
        if name not in self.values:
            self.values[name], self.methods[name], self.tiers[name] = array("d"), array("i"), tier
        self._pad(name, len(self._codes) - 1)
        self.values[name].append(nan if value is None else value)
        self.methods[name].append(method)

    def _pad(self, name: str, rows: int) -> None:
        """Pad the arrays of a metric to a number of rows."""
        if gap := rows - len(self.values[name]):
            self.values[name].extend([nan] * gap)
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
    def content(self) -> tuple[object, ...]:
        """Equal for metrics with the same values in every case, on both sides, missing ones included."""
        ends = [values for values in (self.at_worst, self.at_best) if values is not None]
        rounded = (
            np.nan_to_num(np.round(values, 12), nan=-9) + 0.0 for values in (self.base, self.head, *ends)
        )
        return self.pairs, self.left_out, self.missing, *(hash(values.tobytes()) for values in rounded)

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

    Definition: docs/definitions/comparisons.md#pairs.

    Args:
        base: Scores of base.
        head: Scores of head.
        clusters: Cluster of every case of head that has an attempt, or should have one.
        absent: Codes of the attempts that one run has and the other should have but lacks.
        only: The cases to pair; None pairs all.
    """

    def __init__(
        self,
        base: ScoredRun,
        head: ScoredRun,
        *,
        clusters: dict[str, str],
        absent: Ints | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        self._base, self._head = base, head
        cases = head.case_numbers
        paired = head.codes[base.find(head.codes) != ABSENT]
        codes = paired if absent is None else np.concatenate([paired, absent])
        if only is not None:
            chosen = chosen_of(cases, only)
            paired, codes = (each[chosen[numbers_of(each)]] for each in (paired, codes))
        self.attempts = int(np.count_nonzero(repeats_of(paired) != WHOLE))
        numbers, first, of_code = np.unique(numbers_of(codes), return_index=True, return_inverse=True)
        order = np.argsort(first)  # cases are in the order in which they are met
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        self.cases = [cases.names[number] for number in numbers[order]]
        self._case_of: Ints = places[of_code]
        self._base_rows, self._head_rows = base.find(codes), head.find(codes)
        groups: dict[str, int] = {}
        self.groups: Ints = np.fromiter(
            (groups.setdefault(clusters[case], len(groups)) for case in self.cases),
            np.int64,
            len(self.cases),
        )

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

    def methods_of_cases(self, name: str) -> Ints:
        """Return the number of the method by which each case is compared in a metric, shape (n,).

        It is ``ANY_METHOD`` where the values may be compared with all others, ``NO_PAIR`` without a pair.
        """
        base, ours = _at_rows(self._base, name, self._base_rows)
        head, theirs = _at_rows(self._head, name, self._head_rows)
        alike = (ours == ANY_METHOD) | (theirs == ANY_METHOD) | (ours == theirs)
        paired = alike & ~np.isnan(base) & ~np.isnan(head)
        found = np.full(len(self.cases), NO_PAIR, np.int64)
        np.maximum.at(found, self._case_of[paired], np.maximum(ours, theirs)[paired])
        return found

    def _with_bounds(self, side: ScoredRun, name: str, values: Floats) -> tuple[Floats, Floats]:
        """Return the values of a side with the missing ones at their lowest, and at their highest."""
        low, high = values.copy(), values.copy()
        rows = self._base_rows if side is self._base else self._head_rows
        if name not in CASE_FIGURES:  # a score of a case is not missing in single attempts
            lacking = np.isnan(values) & (rows == ABSENT)
            low[lacking], high[lacking] = 0.0, 1.0
        side.bounds[name].fill(rows, low, high)
        return low, high

    def _sides(self, base: Floats, head: Floats, selected: npt.NDArray[np.bool_], reduce: str) -> Floats:
        return np.array([self._by_case(base, selected, reduce), self._by_case(head, selected, reduce)])

    def _by_case(self, values: Floats, paired: npt.NDArray[np.bool_], reduce: str) -> Floats:
        reducer: Reducer = REDUCERS[reduce]
        rows = np.flatnonzero(paired)
        rows = rows[np.argsort(self._case_of[rows], kind="stable")]
        reduced = np.full(len(self.cases), np.nan)
        cases, starts, counts = np.unique(self._case_of[rows], return_index=True, return_counts=True)
        ordered = values[rows]
        once = counts == 1  # every reducer gives a single value back
        reduced[cases[once]] = ordered[starts[once]]
        several = ~once
        for case, start, count in zip(cases[several], starts[several], counts[several], strict=True):
            reduced[case] = reducer(ordered[start : start + count].tolist())
        return reduced


def _at_rows(side: ScoredRun, name: str, rows: Ints) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return the values of a metric and their methods at the given rows; NaN at absent rows."""
    values, methods = (
        np.asarray(side.values[name])[rows],
        np.asarray(side.methods[name])[rows],
    )
    values[rows == ABSENT] = np.nan
    return values, methods
