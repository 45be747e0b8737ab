"""Counts the attempts and passes of each case on both sides of a comparison.

Definition: docs/definitions/comparisons.md#case-counts.
"""

import msgspec
import numpy as np

from trivium.runs.comparing.earlier_runs import NONE_EARLIER, EarlierRuns
from trivium.runs.comparing.pairing import ANY_METHOD, NO_PAIR, Floats, Methods, Pairing, ScoredRun
from trivium.runs.comparing.rows import Ints, numbers_of
from trivium.runs.run import Run


class SideCounts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The values of a metric in all attempts of one version, by case; arrays of shape (n,).

    Attributes:
        attempts: Number of attempts with a value: those of the run and those of earlier runs.
        passes: Number of passes, if the values are verdicts; else the rounded sum of the values.
        sums: Sum of the values.
        squares: Sum of the squares of the values.
        earlier: How many of the attempts are of earlier runs of the same version.
    """

    attempts: Ints
    passes: Ints
    sums: Floats
    squares: Floats
    earlier: Ints


class CaseCounts(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The values of one metric on both sides, by case.

    Attributes:
        cases: Ids of the n cases that both runs have an attempt of, or should have.
        groups: Number of the group of each case, shape (n,).
        base: Counts of base.
        head: Counts of head.
    """

    cases: list[str]
    groups: Ints
    base: SideCounts
    head: SideCounts


def case_counts(
    base: ScoredRun,
    head: ScoredRun,
    pairing: Pairing,
    methods: Methods,
    name: str = "pass_rate",
    *,
    earlier: EarlierRuns = NONE_EARLIER,
) -> CaseCounts:
    """Count the values of a metric by case: all repeats of both runs, and their earlier runs.

    The counts leave out attempts without a value (a missing judgement, no verdict), and values of another
    method than the one that the paired comparison of their case uses.

    Args:
        base: Scores of base.
        head: Scores of head.
        pairing: Their pairing, which says which cases are counted.
        methods: Numbers of the methods and cases, shared by both.
        name: The metric; both sides must have it.
        earlier: Earlier runs of the version of base and of head. One is in memory at a time.
    """
    totals = CaseTotals(pairing, methods, name)
    sides = {"base": totals.of_side(base, earlier.base), "head": totals.of_side(head, earlier.head)}
    return CaseCounts(cases=pairing.cases, groups=pairing.groups, **sides)


class CaseTotals:
    """Adds up the values of a metric by case.

    Args:
        pairing: The pairing of two runs.
        methods: Numbers of the methods and cases.
        name: The metric.
    """

    def __init__(self, pairing: Pairing, methods: Methods, name: str) -> None:
        self._methods, self._name = methods, name
        self._places = {case: place for place, case in enumerate(pairing.cases)}
        self._method_of = np.append(pairing.methods_of_cases(name), NO_PAIR)  # the last: of all other cases

    def of_side(self, scored: ScoredRun, earlier: tuple[Run, ...]) -> SideCounts:
        """Count a run, and earlier runs of its version."""
        own = self.of_scores(scored)
        before = np.zeros_like(own)
        for run in earlier:
            counted = self._name == "pass_rate" and run.record.settings.failed_attempts != "skip"
            before += self._of_verdicts(run) if counted else self.of_scores(ScoredRun.of(run, self._methods))
        sums, squares = (own + before)[1:]
        counts = np.rint([own[0] + before[0], sums, before[0]]).astype(np.int64)
        return SideCounts(attempts=counts[0], passes=counts[1], earlier=counts[2], sums=sums, squares=squares)

    def of_scores(self, scored: ScoredRun) -> Floats:
        """Return number, sum and sum of squares of the values of each case, shape (3, n)."""
        count = len(self._places)
        if self._name not in scored.values:
            return np.zeros((3, count))
        values, methods = (np.asarray(each[self._name]) for each in (scored.values, scored.methods))
        place_of = np.array([self._places.get(case, count) for case in self._methods.cases.names])
        at = place_of[numbers_of(scored.rows.codes)]
        wanted = self._method_of[at]
        # Values that may be compared with all others, such as the 0 of a failed attempt, have any method.
        alike = (methods == wanted) | (methods == ANY_METHOD) | (wanted == ANY_METHOD)
        counted = alike & (wanted != NO_PAIR) & ~np.isnan(values)
        at, values = at[counted], values[counted]
        return np.array([np.bincount(at, weights, count) for weights in (None, values, values**2)])

    def _of_verdicts(self, run: Run) -> Floats:
        """Return the counts of a run's verdicts, which the store computes."""
        count, verdicts = len(self._places), run.store.verdicts(run.record)
        rows = ((self._places.get(case, count), attempts, passes) for case, attempts, passes in verdicts)
        at, attempts, passes = np.fromiter(rows, np.dtype((np.int64, 3))).T
        return np.array([np.bincount(at, many, count + 1)[:-1] for many in (attempts, passes, passes)])
