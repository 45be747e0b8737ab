"""Pairs the attempts of two runs and stores their scores in arrays.

Cases are numbered, so that an attempt takes a few bytes.
"""

from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from math import nan
from typing import Self

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


class CaseNumbers:
    """Numbers the cases of compared runs from 0, in the order in which they are met.

    A case and a repeat together have a code: the number of the case in the upper 32 bits, the repeat plus one
    in the lower.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.names: list[str] = []
        """Id of each case, by number."""

    def number(self, case: str) -> int:
        """Return the number of a case, a new one if it has none yet."""
        number = self._numbers.setdefault(case, len(self.names))
        if number == len(self.names):
            self.names.append(case)
        return number

    def known(self, case: str) -> int | None:
        """Return the number of a case; None if it has none."""
        return self._numbers.get(case)

    def code(self, case: str, repeat: int) -> int:
        """Return the code of a case and a repeat."""
        return code_of(self.number(case), repeat)

    def key(self, code: int) -> tuple[str, int]:
        """Return the case and the repeat with this code."""
        return self.names[code >> _REPEAT_BITS], (code & ((1 << _REPEAT_BITS) - 1)) - 1


def code_of(number: int, repeat: int) -> int:
    """The code of the case with a number and a repeat."""
    return number << _REPEAT_BITS | repeat + 1


def numbers_of(codes: Ints) -> Ints:
    """The number of the case of each code, shape (n,)."""
    return codes >> _REPEAT_BITS


def repeats_of(codes: Ints) -> Ints:
    """The repeat of each code, shape (n,)."""
    return (codes & ((1 << _REPEAT_BITS) - 1)) - 1


class Places:
    """Finds the places of distinct numbers in an array.

    Args:
        numbers: The numbers, in any order.
    """

    def __init__(self, numbers: "array[int]") -> None:
        self.numbers: Ints = np.asarray(numbers, np.int64)

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.numbers, kind="stable")

    def find(self, wanted: Ints) -> Ints:
        """Return the place of each wanted number, ``ABSENT`` if it is not there; shape (n,)."""
        if not self.numbers.size:
            return np.full(wanted.size, ABSENT, np.int64)
        at = np.searchsorted(self.numbers, wanted, sorter=self._order)
        found = self._order[np.minimum(at, self.numbers.size - 1)]
        found[self.numbers[found] != wanted] = ABSENT
        return found

    def find_one(self, wanted: int) -> int:
        """Return the place of a number, ``ABSENT`` if it is not there."""
        at = bisect_left(self._order, wanted, key=self.numbers.__getitem__)
        place = int(self._order[at]) if at < self.numbers.size else ABSENT
        return place if place != ABSENT and self.numbers[place] == wanted else ABSENT


class Rows(Mapping[tuple[str, int], int]):
    """The row of each attempt of a run, by case and repeat.

    Args:
        cases: Numbers of the cases, shared by the compared runs.
        codes: Code of each row, distinct.
    """

    def __init__(self, cases: CaseNumbers, codes: "array[int]") -> None:
        self._cases, self._places = cases, Places(codes)

    @property
    def codes(self) -> Ints:
        """Code of each row, shape (n,)."""
        return self._places.numbers

    def find(self, codes: Ints) -> Ints:
        """Return the row of each code, ``ABSENT`` where there is none; shape (n,)."""
        return self._places.find(codes)

    def lacking(self, other: "Rows") -> Ints:
        """Return the codes that another run does not have, in the order of the rows."""
        alone: Ints = self.codes[other.find(self.codes) == ABSENT]
        return alone

    def __len__(self) -> int:
        return int(self.codes.size)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return (self._cases.key(int(code)) for code in self.codes)

    def __getitem__(self, key: tuple[str, int]) -> int:
        known = self._cases.known(key[0]) is not None
        row = self._places.find_one(self._cases.code(*key)) if known else ABSENT
        if row == ABSENT:
            raise KeyError(key)
        return row


class CasePositions:
    """The cases that a run has attempts of, with their positions in its suite.

    Args:
        cases: Numbers of the cases, shared by the compared runs.
    """

    def __init__(self, cases: CaseNumbers) -> None:
        self._cases = cases
        self._positions, self._numbers = array("q"), array("q")

    def add(self, position: int, case: str) -> int:
        """Add the case at a position, and return its number; positions must not fall."""
        number = self._cases.number(case)
        if not self._positions or self._positions[-1] != position:
            self._positions.append(position)
            self._numbers.append(number)
        return number

    @cached_property
    def _places(self) -> Places:
        return Places(self._numbers)

    @property
    def numbers(self) -> Ints:
        """Numbers of the cases, in suite order; shape (n,)."""
        return self._places.numbers

    def at(self, position: int) -> str | None:
        """Return the case at a position; None if there is none with an attempt."""
        place = bisect_left(self._positions, position)
        there = place < len(self._positions) and self._positions[place] == position
        return self._cases.names[self._numbers[place]] if there else None

    def of(self, case: str) -> int:
        """Return the position of a case that has an attempt."""
        return self._positions[self._places.find_one(self._cases.number(case))]

    def lacking(self, other: "CasePositions") -> list[str]:
        """Return the cases that another run has no attempt of, in suite order."""
        alone = self.numbers[other._places.find(self.numbers) == ABSENT]  # noqa: SLF001 - of the same class
        return [self._cases.names[number] for number in alone]

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[str]:
        return (self._cases.names[number] for number in self._numbers)


Key = tuple[str, int]
"""Case and repeat. The repeat ``WHOLE`` stands for the case as a whole."""

ANY_METHOD = 0
"""Method number of values that may be compared with all others, such as the 0 of a failed attempt."""

NO_PAIR = -1
"""In place of the method of a case without a pair of values that may be compared."""


class Methods:
    """Numbers the methods by which values were computed; values of different methods are not compared.

    Attributes:
        cases: Numbers of the cases that have the values.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.cases = CaseNumbers()

    def number(self, method: Hashable) -> int:
        """Return the number of a method, from 1."""
        return self._numbers.setdefault(method, len(self._numbers) + 1)

    def named(self, number: int) -> str:
        """Return the name of the method with this number."""
        return str(list(self._numbers)[number - 1])


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
        self.cases = CasePositions(methods.cases)
        """Cases with an attempt, in suite order."""
        self.bounds: defaultdict[str, Bounds] = defaultdict(Bounds)
        """By metric: the bounds of missing values."""
        self.unavailable: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """By metric: the errors and unavailable judges that made values missing, with their counts."""
        self._lacking: set[str] = set()
        """Metrics with a missing value of an attempt that did not fail."""
        self._methods = methods
        self._codes = array("q")
        for position, evaluation in evaluations:
            self._codes.append(code_of(self.cases.add(position, evaluation.case), evaluation.repeat))
            self._add(evaluation)
        self.attempts = len(self._codes)
        for position, scores in case_scores:
            case = self.cases.at(position)
            if case is None:
                raise KeyError(position)
            self._codes.append(methods.cases.code(case, WHOLE))
            for name, score in scores.items():
                self._put(name, score.tier, score.value, self._method_of(name, score))
        self.rows = Rows(methods.cases, self._codes)
        self._pad()
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
    def case_numbers(self) -> CaseNumbers:
        """Numbers of the cases, shared by the compared runs."""
        return self._methods.cases

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
        method = ANY_METHOD if failed else self._methods.number(("parts", parts))
        self._put("composite", "composite", composite.value if composite.bounds is None else None, method)
        if composite.bounds is not None:
            self.bounds["composite"].put(row, *composite.bounds)
        verdict = None if evaluation.passed is None else float(evaluation.passed)
        self._put("pass_rate", "composite", verdict, ANY_METHOD)
        if verdict_is_missing(evaluation.passed, evaluation.scores, composite, self.settings):
            self.bounds["pass_rate"].put(row, 0.0, 1.0)

    def _method_of(self, name: str, score: Score | ScoreOutline) -> int:
        return self._methods.number(
            ("fallback, " if score.status == "fallback" else "") + (score.method or name)
        )

    def _put(self, name: str, tier: str, value: float | None, method: int) -> None:
        if name not in self.values:
            self.values[name], self.methods[name], self.tiers[name] = array("d"), array("i"), tier
        values, methods = self.values[name], self.methods[name]
        gap = len(self._codes) - 1 - len(values)
        if gap:
            values.extend([nan] * gap)
            methods.extend([ANY_METHOD] * gap)
        values.append(nan if value is None else value)
        methods.append(method)

    def _pad(self) -> None:
        """Pad every array to the number of rows."""
        for name, values in self.values.items():
            gap = len(self._codes) - len(values)
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
        absent: Attempts that one run has and the other should have but lacks, or their codes.
        only: The cases to pair; None pairs all.
    """

    def __init__(
        self,
        base: ScoredRun,
        head: ScoredRun,
        *,
        clusters: dict[str, str],
        absent: Iterable[Key] | Ints = (),
        only: Collection[str] | None = None,
    ) -> None:
        self._base, self._head = base, head
        cases = head.case_numbers
        paired = head.rows.codes[base.rows.find(head.rows.codes) != ABSENT]
        if not isinstance(absent, np.ndarray):
            absent = np.fromiter((cases.code(*key) for key in absent), np.int64)
        if only is not None:
            chosen = np.zeros(len(cases.names), np.bool_)
            chosen[[number for number in map(cases.known, only) if number is not None]] = True
            paired, absent = (codes[chosen[numbers_of(codes)]] for codes in (paired, absent))
        self.attempts = int(np.count_nonzero(repeats_of(paired) != WHOLE))
        codes = np.concatenate([paired, absent])
        numbers, first, of_code = np.unique(numbers_of(codes), return_index=True, return_inverse=True)
        order = np.argsort(first)  # cases are in the order in which they are met
        places = np.empty(order.size, np.int64)
        places[order] = np.arange(order.size)
        self.cases = [cases.names[number] for number in numbers[order]]
        self._case_of: Ints = places[of_code]
        self._base_rows, self._head_rows = base.rows.find(codes), head.rows.find(codes)
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
