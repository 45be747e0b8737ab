"""Holds the cases that two runs scored differently, and reads their texts from the stores on demand.

A case broke, was fixed, is flaky, or it is unclear (docs/definitions/comparisons.md#case-states).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Literal, cast, get_args, overload

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.agents.attempt import Attempt
from trivium.errors import StoreError
from trivium.metrics.evaluation import Evaluation
from trivium.runs.aggregation import why_not_passed
from trivium.runs.run import Run
from trivium.suites.case import Case
from trivium.trust.arrays import Ints
from trivium.trust.subsets import exact_p
from trivium.values import batched

CaseState = Literal["broke", "fixed", "flaky", "unclear"]

STATES: tuple[CaseState, ...] = get_args(CaseState)
BROKE, FIXED, FLAKY, UNCLEAR = range(len(STATES))
SAME = len(STATES)
"""In place of the state of a case whose attempts all passed or all did not, or without a verdict."""

LEVEL = 0.05
"""Largest one-sided p-value of Fisher's test at which the counts of both sides tell them apart."""

_ROUNDING = 1e-9


def case_states(base_passes: Ints, base_attempts: Ints, head_passes: Ints, head_attempts: Ints) -> Ints:
    """Return the state of each case as its place in ``STATES``, or ``SAME``; shape (n,).

    Args:
        base_passes: Passes in base, shape (n,).
        base_attempts: Attempts with a verdict in base, shape (n,).
        head_passes: Passes in head, shape (n,).
        head_attempts: Attempts with a verdict in head, shape (n,).
    """
    table = np.array([base_passes, base_attempts, head_passes, head_attempts])
    counts, of_case = np.unique(table, axis=1, return_inverse=True)  # many cases have the same
    states = np.array([_state(*each) for each in counts.T.tolist()], np.int64)
    return states[of_case.ravel()]


def _state(passed: int, attempts: int, passes: int, tries: int) -> int:
    """The state of a case that passed some of its attempts in base, and some of its tries in head."""
    flaky = 0 < passed < attempts or 0 < passes < tries
    if not (attempts and tries) or (not flaky and (passed > 0) == (passes > 0)):
        return SAME
    steady = not flaky and attempts > 1 and tries > 1
    if steady or exact_p(passes, tries, passed + passes, attempts + tries) <= 2 * LEVEL + _ROUNDING:
        return BROKE if passes * attempts < passed * tries else FIXED
    return FLAKY if flaky else UNCLEAR


READ_AT_ONCE = 50
"""Cases that are read from the stores together."""


class CaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """How the scores of a case changed.

    Attributes:
        case: Id of the case.
        by: The first of the deciding metrics that changed.
        better: Whether that metric rose.
        values: By metric, the value in base and in head: the mean over repeats, unless ``settings.reduce``
            names another reduction.
        state: How its verdicts changed from base to head (docs/definitions/comparisons.md#case-states); None
            if all attempts passed, all failed, or a side has no verdict.
        base_passes: Number of attempts of base's version that passed.
        base_attempts: Number of attempts of base's version with a verdict.
        base_earlier: Number of these attempts that are from earlier runs.
        head_passes: Like ``base_passes``, of head's version.
        head_attempts: Like ``base_attempts``, of head's version.
        head_earlier: Like ``base_earlier``, of head's version.
    """

    case: str
    by: str
    better: bool
    values: dict[str, tuple[float, float]]
    state: CaseState | None = None
    base_passes: int = 0
    base_attempts: int = 0
    base_earlier: int = 0
    head_passes: int = 0
    head_attempts: int = 0
    head_earlier: int = 0

    @property
    def why(self) -> str:
        """Counts behind the state: ``passed 6 of 6 (3 in other runs), then 0 of 3``; empty without one."""
        if self.state is None:
            return ""
        if self.base_attempts == self.head_attempts == 1:
            return "one attempt a side"
        fields = msgspec.structs.astuple(self)
        sides = (fields[-6:-3], fields[-3:])
        counts = [
            f"{passes:,} of {all_:,}{f' ({old:,} in other runs)' * (old > 0)}" for passes, all_, old in sides
        ]
        return f"passed {', then '.join(counts)}"


@dataclass(frozen=True, kw_only=True, eq=False)
class ChangeColumns(Sequence[CaseChange]):
    """Changes of n cases, stored as arrays; each :class:`CaseChange` is created on access.

    Attributes:
        cases: Ids of the cases.
        by: The k deciding metrics.
        decisive: Index of the first metric that changed, shape (n,).
        better: Whether that metric rose, shape (n,).
        base: Values in base, shape (k, n); NaN if one of the runs has no value.
        head: Values in head, likewise.
        states: Index of each case's state in ``STATES``, shape (n,).
        tried: Passes, attempts and earlier attempts of base, then those of head, shape (6, n).
        positions: Position of each case in the suite of base, and in that of head, shape (2, n).
    """

    cases: list[str]
    by: tuple[str, ...]
    decisive: npt.NDArray[np.int32]
    better: npt.NDArray[np.bool_]
    base: npt.NDArray[np.float64]
    head: npt.NDArray[np.float64]
    states: npt.NDArray[np.int64]
    tried: npt.NDArray[np.int32]
    positions: Ints

    def __len__(self) -> int:
        return len(self.cases)

    def __getitem__(self, at: Any) -> Any:  # of single places only
        values = zip(self.by, self.base[:, at].tolist(), self.head[:, at].tolist(), strict=True)
        return CaseChange(
            case=self.cases[at],
            by=self.by[self.decisive[at]],
            better=bool(self.better[at]),
            values={name: (base, head) for name, base, head in values if not isnan(base)},
            state=(*STATES, None)[self.states[at]],
            **dict(zip(CaseChange.__struct_fields__[-6:], self.tried[:, at].tolist(), strict=True)),
        )


class ScoredAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt with its scores.

    Attributes:
        attempt: What the agent did.
        evaluation: Its scores and verdict.
        why: Why it did not pass; None if it passed or has no verdict.
    """

    attempt: Attempt
    evaluation: Evaluation
    why: str | None = None


class MovedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case that moved, with an attempt from each run.

    Attributes:
        change: How its scores changed.
        case: The case as in head's suite.
        base: The attempt in base, of the repeat that changed most.
        head: The attempt in head, of the same repeat.
        repeats: Number of repeats in both runs; if 0, each attempt is the first of its run.
    """

    change: CaseChange
    case: Case
    base: ScoredAttempt
    head: ScoredAttempt
    repeats: int

    @property
    def state(self) -> CaseState | None:
        """Whether the case broke, was fixed, is flaky or unclear; None if its verdicts did not change."""
        return self.change.state


CaseReader = Callable[[Sequence[int]], Iterator[MovedCase]]
"""Reads the attempts of the changes at some places."""


def reader_of(base: Run, head: Run, changes: ChangeColumns) -> CaseReader:
    """Read the attempts of changed cases from both runs."""

    def read(places: Sequence[int]) -> Iterator[MovedCase]:
        sides = zip((base, head), changes.positions[:, places].tolist(), strict=True)
        ours, theirs = (_attempts(run, positions) for run, positions in sides)
        for change in map(changes.__getitem__, places):
            yield _moved_case(change, ours[change.case], theirs[change.case])

    return read


_Attempts = dict[int, tuple[Case, ScoredAttempt]]


def _attempts(run: Run, positions: Sequence[int]) -> dict[str, _Attempts]:
    """Return the attempts at some positions, by case and repeat."""
    attempts: dict[str, _Attempts] = {}
    for case, attempt, evaluation in run.store.views(run.record, positions=positions):
        why = why_not_passed(evaluation, run.record.settings) if evaluation.passed is False else None
        scored = ScoredAttempt(attempt=attempt, evaluation=evaluation, why=why)
        attempts.setdefault(case.id, {})[attempt.repeat] = (case, scored)
    return attempts


def _moved_case(change: CaseChange, base: _Attempts, head: _Attempts) -> MovedCase:
    repeats = sorted(base.keys() & head.keys())
    if not repeats:  # only a score of the case as a whole is in both
        ours, theirs = base[min(base)], head[min(head)]
        return MovedCase(change=change, case=theirs[0], base=ours[1], head=theirs[1], repeats=0)
    chosen = min(repeats, key=lambda repeat: (_unchanged(change, base[repeat][1], head[repeat][1]), repeat))
    return MovedCase(
        change=change,
        case=head[chosen][0],
        base=base[chosen][1],
        head=head[chosen][1],
        repeats=len(repeats),
    )


def _unchanged(change: CaseChange, base: ScoredAttempt, head: ScoredAttempt) -> float:
    """Sort key of repeats: minus the change of the deciding metric, in the direction of the case."""
    before, after = value_of(base.evaluation, change.by), value_of(head.evaluation, change.by)
    if before is None or after is None:
        return 0.0
    return before - after if change.better else after - before


def value_of(evaluation: Evaluation, name: str) -> float | None:
    """Return the value of a metric for an attempt; the ``pass_rate`` is 1 or 0, by the verdict."""
    if name == "pass_rate":
        return None if evaluation.passed is None else float(evaluation.passed)
    if name == "composite":
        return evaluation.composite.value
    score = evaluation.scores.get(name)
    return None if score is None else score.value


def _row(moved: MovedCase, by: Sequence[str]) -> dict[str, object]:
    """Return the case as a row of a data frame, with its first reference only."""
    change, case = moved.change, moved.case
    row = {
        "case": change.case,
        "by": change.by,
        "better": change.better,
        "state": change.state,
        "repeat": moved.head.attempt.repeat,
        "input": case.input_text,
        "reference": case.references[0] if case.references else None,
    }
    for side, scored in (("base", moved.base), ("head", moved.head)):
        row[f"{side}_output"] = None if scored.attempt.output is None else scored.attempt.text
        row[f"{side}_passed"] = scored.evaluation.passed
        row[f"{side}_why"] = scored.why
    for name in by:
        row[f"base_{name}"], row[f"head_{name}"] = change.values.get(name, (None, None))
    return row


class _Changes:
    """The descriptor of ``changes``: stores any sequence of changes, and returns it as a tuple."""

    def __get__(self, owner: "MovedCases | None", of: type | None = None) -> tuple[CaseChange, ...]:
        return () if owner is None else tuple(owner.__dict__["columns"])

    def __set__(self, owner: "MovedCases", changes: Sequence[CaseChange]) -> None:
        owner.__dict__["columns"] = changes


@dataclass(frozen=True, kw_only=True)
class MovedCases:
    """The cases that moved; a sequence of :class:`MovedCase`.

    A case moved if its pass rate, its composite (where the suite does not use it: a part of it but the time)
    or a metric with a gate changed, or if all its attempts together show that it broke or was fixed.

    The order is by state: broken, fixed, flaky, unclear, then all others. Within a state, the largest changes
    of the pass rate come first; of equal ones, cases that got worse; then the largest changes of the other
    metrics. Memory holds the changes, as arrays; iterating reads inputs, outputs and traces from the stores,
    a few cases at a time.

    Attributes:
        by: The metrics that decide whether a case moved.
        compared: Number of cases with values in both runs.
        better: Number of cases that got better.
        worse: Number of cases that got worse.
        states: Number of cases in each state (docs/definitions/comparisons.md#case-states).
        earlier: Number of attempts from earlier runs of the same versions that the states count.
        changes: How each case moved; a new tuple, made from the arrays, at each access.
    """

    by: tuple[str, ...] = ()
    compared: int = 0
    better: int = 0
    worse: int = 0
    states: dict[CaseState, int] = field(default_factory=dict)
    earlier: int = 0
    changes: tuple[CaseChange, ...] = cast("tuple[CaseChange, ...]", _Changes())

    @property
    def _columns(self) -> Sequence[CaseChange]:
        return cast("Sequence[CaseChange]", self.__dict__["columns"])

    def __getstate__(self) -> dict[str, object]:
        """Return the state to copy or pickle: all but the reader, which holds open stores."""
        return {name: value for name, value in self.__dict__.items() if name != "reader"}

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[MovedCase]:
        return self.first(len(self))

    @overload
    def __getitem__(self, at: int) -> MovedCase: ...

    @overload
    def __getitem__(self, at: slice) -> list[MovedCase]: ...

    def __getitem__(self, at: int | slice) -> MovedCase | list[MovedCase]:
        if isinstance(at, slice):
            return list(self._read(range(len(self))[at]))
        return next(self._read([range(len(self))[at]]))

    def each_change(self) -> Iterator[CaseChange]:
        """Yield how each case moved; one change is in memory at a time."""
        return iter(self._columns)

    def first(self, count: int) -> Iterator[MovedCase]:
        """Yield the first cases, a few in memory at a time."""
        return self._read(range(len(self))[:count])

    def _read(self, places: Iterable[int]) -> Iterator[MovedCase]:
        """Yield the cases at some places; memory holds ``READ_AT_ONCE`` of them."""
        reader: CaseReader | None = self.__dict__.get("reader")
        for chunk in batched(places, READ_AT_ONCE):
            if reader is None:
                what = "the texts of these cases are unknown: compare() did not make this comparison"
                raise StoreError(what)
            yield from reader(chunk)

    def to_polars(self) -> Any:
        """Return one row per case as a ``polars.DataFrame``, with texts, verdicts and values of both runs.

        Raises:
            MissingExtra: If Polars is not installed.
        """
        from trivium.runs.rows import frame_of_rows

        return frame_of_rows([_row(moved, self.by) for moved in self], "polars")

    def to_pandas(self) -> Any:
        """Return the same as a ``pandas.DataFrame``.

        Raises:
            MissingExtra: If pandas is not installed.
        """
        from trivium.runs.rows import frame_of_rows

        return frame_of_rows([_row(moved, self.by) for moved in self], "pandas")

    def counts(self) -> dict[str, tuple[int, int]]:
        """Count, by deciding metric, the cases that got better and worse; each case counts once."""
        counts = Counter((change.by, change.better) for change in self._columns)
        both = {name: (counts[name, True], counts[name, False]) for name in self.by}
        return {name: each for name, each in both.items() if any(each)}
