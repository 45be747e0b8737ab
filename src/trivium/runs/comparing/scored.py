"""Scored: the scores of a run by attempt, one array a metric."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Hashable
from functools import cached_property
from math import isnan, nan

import msgspec

from trivium.metrics.evaluation import Evaluation, verdict_is_missing
from trivium.metrics.score import Score, is_missing, is_unavailable, stands_in
from trivium.runs.run import Run
from trivium.suites.settings import Settings

Key = tuple[str, int]
"""Case and repeat. The repeat ``WHOLE`` stands for the case as a whole."""

WHOLE = -1
ANY_MAKE = 0
"""Make of a value that may be compared with any: that of a failed attempt."""


class Makes:
    """How values were made, numbered: values of unlike makes are not compared."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def number(self, make: Hashable) -> int:
        """The number of a make, from 1."""
        return self._numbers.setdefault(make, len(self._numbers) + 1)

    def named(self, number: int) -> str:
        """A make in words."""
        return str(list(self._numbers)[number - 1])


class Scored:
    """Every score of a run, in arrays whose rows are its attempts.

    Args:
        run: The run.
        makes: Shared by the runs that are compared.
    """

    def __init__(self, run: Run, makes: Makes) -> None:
        self.settings = msgspec.convert(run.record.settings, Settings)
        self.rows: dict[Key, int] = {}
        self.values: dict[str, array[float]] = {}
        self.makes: dict[str, array[int]] = {}
        self.tiers: dict[str, str] = {}
        self.positions: dict[int, str] = {}
        self.attempts = 0
        self.bounds: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
        """Of each figure the rows at which it was due and is missing: its least and greatest value there."""
        self.unavailable: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Of each figure why it is missing where an error or the want of a judge is why, with how often."""
        self._makes = makes
        for stored in run.store.evaluations(run.record):
            self.positions[stored.position] = stored.evaluation.case
            self._take(stored.evaluation)
        self.attempts = len(self.rows)
        for position, scores in run.store.case_scores(run.record):
            self.rows[self.positions[position], WHOLE] = len(self.rows)
            for name, score in scores.items():
                self._put(name, score.tier, score.value, self._make(score))
        self._even()

    @cached_property
    def cases(self) -> dict[str, None]:
        """Cases with an attempt, in the order of the suite."""
        return dict.fromkeys(self.positions.values())

    @property
    def scored(self) -> list[str]:
        """Figures that have a value anywhere."""
        return [name for name, values in self.values.items() if not all(map(isnan, values))]

    def _take(self, evaluation: Evaluation) -> None:
        self.rows[evaluation.case, evaluation.repeat] = len(self.rows)
        failed = evaluation.failed is not None
        if failed and self.settings.failed_attempts == "skip":
            return
        self._take_verdict(evaluation, failed=failed)
        row = len(self.rows) - 1
        for name, score in evaluation.scores.items():
            value = None if stands_in(score) else score.value
            self._put(name, score.tier, value, ANY_MAKE if failed else self._make(score))
            if is_missing(score):
                self.bounds[name][row] = (0.0, 1.0)
            if is_unavailable(score):
                self.unavailable[name][score.reason or score.status] += 1

    def _take_verdict(self, evaluation: Evaluation, *, failed: bool) -> None:
        folded, row = evaluation.composite, len(self.rows) - 1
        parts = frozenset(name for name, value in folded.parts.items() if value is not None)
        make = ANY_MAKE if failed else self._makes.number(("parts", parts))
        self._put("composite", "composite", folded.value if folded.bounds is None else None, make)
        if folded.bounds is not None:
            self.bounds["composite"][row] = folded.bounds
        verdict = None if evaluation.passed is None else float(evaluation.passed)
        self._put("pass_rate", "composite", verdict, ANY_MAKE)
        if verdict_is_missing(evaluation.passed, evaluation.scores, folded, self.settings):
            self.bounds["pass_rate"][row] = (0.0, 1.0)

    def _make(self, score: Score) -> int:
        return self._makes.number(
            ("fallback, " if score.status == "fallback" else "") + (score.method or score.name)
        )

    def _put(self, name: str, tier: str, value: float | None, make: int) -> None:
        if name not in self.values:
            self.values[name], self.makes[name], self.tiers[name] = array("d"), array("q"), tier
        values, makes = self.values[name], self.makes[name]
        gap = len(self.rows) - 1 - len(values)
        values.extend([nan] * gap)
        makes.extend([ANY_MAKE] * gap)
        values.append(nan if value is None else value)
        makes.append(make)

    def _even(self) -> None:
        """Make all arrays as long as there are rows."""
        for name, values in self.values.items():
            gap = len(self.rows) - len(values)
            values.extend([nan] * gap)
            self.makes[name].extend([ANY_MAKE] * gap)
