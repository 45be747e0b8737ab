"""The cases that two runs scored differently; their texts are read from the stores on demand."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import msgspec

from trivium.agents.attempt import Attempt
from trivium.errors import StoreError
from trivium.metrics.evaluation import Evaluation
from trivium.runs.aggregation import why_not_passed
from trivium.runs.run import Run
from trivium.store.connection import batched
from trivium.suites.case import Case
from trivium.suites.settings import Settings

READ_AT_ONCE = 50
"""Cases that are read from the stores together."""


class CaseChange(msgspec.Struct, frozen=True, kw_only=True):
    """How the scores of a case changed.

    Attributes:
        case: Id of the case.
        by: The first of the deciding metrics that changed.
        better: Whether that metric rose.
        values: By metric: the value in base and in head, each the mean over repeats (or what
            ``settings.reduce`` says).
    """

    case: str
    by: str
    better: bool
    values: dict[str, tuple[float, float]]


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
    """A case that moved, with what both runs made of it.

    Attributes:
        change: How its scores changed.
        case: The case, as head has it.
        base: The attempt in base, of the repeat that changed most.
        head: The attempt in head, of the same repeat.
        repeats: Number of repeats that both runs have; if 0, each attempt is the first of its run.
    """

    change: CaseChange
    case: Case
    base: ScoredAttempt
    head: ScoredAttempt
    repeats: int


class CaseReader:
    """Reads the attempts of cases from both runs.

    Args:
        base: The run compared with.
        head: The run in question.
        places: By case id: its position in base's suite and in head's.
    """

    def __init__(self, base: Run, head: Run, places: Mapping[str, tuple[int, int]]) -> None:
        self._base, self._head, self._places = base, head, places

    def read(self, changes: Iterable[CaseChange]) -> Iterator[MovedCase]:
        """Yield the cases in the order of the changes; memory holds ``READ_AT_ONCE`` of them."""
        for chunk in batched(changes, READ_AT_ONCE):
            places = [self._places[change.case] for change in chunk]
            base = _attempts(self._base, [place for place, _ in places])
            head = _attempts(self._head, [place for _, place in places])
            for change in chunk:
                yield _moved_case(change, base[change.case], head[change.case])


_Attempts = dict[int, tuple[Case, ScoredAttempt]]


def _attempts(run: Run, positions: Sequence[int]) -> dict[str, _Attempts]:
    """Return the attempts at some positions, by case and repeat."""
    settings = msgspec.convert(run.record.settings, Settings)
    found: dict[str, _Attempts] = {}
    for case, attempt, evaluation in run.store.views(run.record, positions=positions):
        why = why_not_passed(evaluation, settings) if evaluation.passed is False else None
        scored = ScoredAttempt(attempt=attempt, evaluation=evaluation, why=why)
        found.setdefault(case.id, {})[attempt.repeat] = (case, scored)
    return found


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
    """The value of a metric for an attempt; ``pass_rate`` is its verdict."""
    if name == "pass_rate":
        return None if evaluation.passed is None else float(evaluation.passed)
    if name == "composite":
        return evaluation.composite.value
    score = evaluation.scores.get(name)
    return None if score is None else score.value


def _row(moved: MovedCase, by: Sequence[str]) -> dict[str, Any]:
    """The case as a row of a frame; the first reference stands for all."""
    change, case = moved.change, moved.case
    row: dict[str, Any] = {
        "case": change.case,
        "by": change.by,
        "better": change.better,
        "repeat": moved.head.attempt.repeat,
        "input": case.input if isinstance(case.input, str) else msgspec.json.encode(case.input).decode(),
        "reference": case.references[0] if case.references else None,
    }
    for side, scored in (("base", moved.base), ("head", moved.head)):
        row[f"{side}_output"] = None if scored.attempt.output is None else scored.attempt.text
        row[f"{side}_passed"] = scored.evaluation.passed
        row[f"{side}_why"] = scored.why
    for name in by:
        row[f"base_{name}"], row[f"head_{name}"] = change.values.get(name, (None, None))
    return row


class MovedCases(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The cases that moved, most changed first; a sequence of :class:`MovedCase`.

    A case moved if its pass rate, its composite or a metric with a gate changed. Cases whose pass rate
    changed most come first, of equal ones those that got worse, then those whose other metrics changed most.
    The changes are in memory; iterating reads inputs, outputs and traces from the stores, a few cases at a
    time.

    Attributes:
        by: The metrics that decide whether a case moved.
        compared: Number of cases that both runs have values of.
        better: Number of cases that got better.
        worse: Number of cases that got worse.
        changes: How each case moved.
    """

    by: tuple[str, ...] = ()
    compared: int = 0
    better: int = 0
    worse: int = 0
    changes: tuple[CaseChange, ...] = ()

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[MovedCase]:
        return self.first(len(self))

    @overload
    def __getitem__(self, at: int) -> MovedCase: ...

    @overload
    def __getitem__(self, at: slice) -> list[MovedCase]: ...

    def __getitem__(self, at: int | slice) -> MovedCase | list[MovedCase]:
        if isinstance(at, slice):
            return list(self._read(self.changes[at]))
        return next(self._read([self.changes[at]]))

    def first(self, count: int) -> Iterator[MovedCase]:
        """Yield the first cases, a few in memory at a time."""
        return self._read(self.changes[:count])

    def _read(self, changes: Sequence[CaseChange]) -> Iterator[MovedCase]:
        if not changes:
            return iter(())
        reader: CaseReader | None = self.__dict__.get("reader")
        if reader is None:
            raise StoreError("the texts of these cases are unknown: compare() did not make this comparison")
        return reader.read(changes)

    def to_polars(self) -> Any:
        """Return one row per case as a ``polars.DataFrame``, with texts, verdicts and values of both runs.

        Raises:
            MissingExtra: If Polars is not installed.
        """
        from trivium.runs.dataframes import frame_of_rows

        return frame_of_rows([_row(moved, self.by) for moved in self], "polars")

    def to_pandas(self) -> Any:
        """Return the same as a ``pandas.DataFrame``.

        Raises:
            MissingExtra: If pandas is not installed.
        """
        from trivium.runs.dataframes import frame_of_rows

        return frame_of_rows([_row(moved, self.by) for moved in self], "pandas")

    def counts(self) -> dict[str, tuple[int, int]]:
        """By metric: the cases that got better and worse by it, each case counted once."""
        found = {name: [0, 0] for name in self.by}
        for change in self.changes:
            found[change.by][not change.better] += 1
        return {name: (better, worse) for name, (better, worse) in found.items() if better or worse}
