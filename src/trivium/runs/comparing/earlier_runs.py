"""Finds earlier runs: of the compared versions, and of the suite, to tell how far its versions differ.

How the attempts are counted: docs/definitions/comparisons.md#case-counts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from trivium.runs.comparing.comparison import Calls, Confirmed
from trivium.runs.comparing.decision import incomparabilities
from trivium.runs.comparing.pairing import ANY_METHOD, NO_PAIR, Methods, Pairing, ScoredRun, numbers_of
from trivium.runs.run import Run
from trivium.runs.summary import summary_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.trust.arrays import Floats, Ints
from trivium.trust.case_model import Tally
from trivium.trust.decision import (
    DEFAULT_PRIOR,
    FEWEST_COMPARISONS,
    DifferencePrior,
    learned_prior,
    standard_error,
)
from trivium.trust.paired import paired_means
from trivium.values import sum_known

MOST_EARLIER = 20
"""Most earlier runs of a version that are counted, the newest ones."""

MOST_COMPARED = 24
"""Most earlier runs of a suite that are compared with each other, the newest ones."""

MOST_ATTEMPTS = 50_000
"""Most attempts that these may have together."""


class EarlierRuns(NamedTuple):
    """Other runs of the same version: earlier ones, newest first, and those that confirm the comparison."""

    base: tuple[Run, ...] = ()
    head: tuple[Run, ...] = ()


class ConfirmingRuns(NamedTuple):
    """Runs of further attempts of either side of a comparison, oldest first."""

    base: tuple[RunRecord, ...] = ()
    head: tuple[RunRecord, ...] = ()


def confirming_runs(
    store: Store, base: RunRecord, head: RunRecord, *, finished: bool = True
) -> ConfirmingRuns:
    """Find the runs that confirm the comparison of two runs.

    Args:
        store: The store of both.
        base: The baseline run.
        head: The candidate run.
        finished: Whether to leave out runs that are not finished.
    """
    stored = [run for name in {base.suite_name, head.suite_name} for run in store.confirm_runs(name)]
    found: dict[str, list[RunRecord]] = {base.id: [], head.id: []}
    for run in sorted(stored, key=lambda each: each.number):
        what = run.provenance.confirms
        if what is None or what.refused is not None or (finished and run.state != "done"):
            continue
        if {what.run, what.against} == {base.id, head.id}:
            found[what.run].append(run)
    return ConfirmingRuns(tuple(found[base.id]), tuple(found[head.id]))


def earlier_runs(base: Run, head: Run) -> EarlierRuns:
    """Find the runs of both versions that were stored before the later of two runs, or that confirm them.

    The earlier ones are finished runs of the same suite whose numbers mean the same and whose attempts are in
    neither of the two runs. If both are runs of one version, none of them belongs to one side alone.

    Args:
        base: The baseline run.
        head: The candidate run.
    """
    confirming = [
        tuple(Run(run.store, each) for each in records)
        for run, records in zip(
            (base, head), confirming_runs(head.store, base.record, head.record), strict=True
        )
    ]
    if base.record.version == head.record.version:
        return EarlierRuns(*confirming)
    earlier = (tuple(islice(_of_version(run, base, head), MOST_EARLIER)) for run in (base, head))
    return EarlierRuns(*(more + each for more, each in zip(confirming, earlier, strict=True)))


def known_costs(**runs: Run) -> dict[str, float]:
    """Return the costs of runs in USD (agents and judges), for runs with any known cost."""
    costs = {word: calls_of([run.record]).cost_usd for word, run in runs.items()}
    return {word: usd for word, usd in costs.items() if usd is not None}


def calls_of(runs: Iterable[RunRecord]) -> Calls:
    """Sum the number and costs of attempts over finished runs, from their summaries."""
    summaries = [summary for summary in map(summary_of, runs) if summary is not None]
    costs = [each for summary in summaries for each in (summary.agent, summary.spent) if each is not None]
    return Calls(
        attempts=sum(summary.attempts for summary in summaries),
        failed=sum(summary.errors["attempts"] for summary in summaries),
        cost_usd=sum_known(each.cost_usd for each in costs),
        tokens=sum_known(tokens for each in costs for tokens in (each.input_tokens, each.output_tokens)),
    )


def confirmed_by(base: Run, head: Run) -> Confirmed | None:
    """The further attempts that confirm the comparison of two runs; None if there are none."""
    found = confirming_runs(head.store, base.record, head.record)
    if not any(found):
        return None
    runs = sorted((run for side in found for run in side), key=lambda run: run.number)
    last = runs[-1].provenance.confirms
    return Confirmed(
        base=calls_of(found.base),
        head=calls_of(found.head),
        runs=tuple(run.id for run in runs),
        end=None if last is None else last.end,
    )


def _of_version(run: Run, base: Run, head: Run) -> Iterator[Run]:
    version = run.record.version
    if version is not None:
        compared = [each.record for each in (base, head) if each.store.name == run.store.name]
        yield from _before(run, compared, lambda record: record.kind != "live" and record.version == version)


def _before(run: Run, compared: list[RunRecord], wanted: Callable[[RunRecord], bool]) -> Iterator[Run]:
    """Yield finished runs of a suite whose numbers mean the same as a run's, newest first, attempts once.

    They were stored before the last of the compared runs; numbers of runs rise within a store.
    """
    known = {record.attempts_from or record.number for record in compared}
    for record in run.store.finished_runs(run.record.suite_name):
        attempts, found = record.attempts_from or record.number, Run(run.store, record)
        before = record.number <= max(each.number for each in compared)
        if before and attempts not in known and wanted(record) and not any(incomparabilities(found, run)):
            known.add(attempts)
            yield found


def prior_from_history(head: Run, metric: str, clusters: Mapping[str, str]) -> DifferencePrior:
    """Learn the prior of a metric's difference from earlier runs of the suite, each against the one before.

    Definition: docs/definitions/decisions.md#history.

    Args:
        head: The candidate run; only runs that were stored before it count.
        metric: The metric that decides.
        clusters: Cluster of each case that counts.

    Returns:
        The default if there are too few runs.
    """
    runs = [*islice(_small_enough(head), MOST_COMPARED)][::-1]
    if len(runs) <= FEWEST_COMPARISONS:
        return DEFAULT_PRIOR
    methods = Methods()
    scored = [(run.record.version, ScoredRun.of(run, methods)) for run in runs]
    found = []
    for (before, older), (after, newer) in pairwise(scored):
        pairing = Pairing(older, newer, clusters=dict(clusters), only=clusters.keys())
        if (before is not None and before == after) or metric not in pairing.names or not pairing.attempts:
            continue
        figure = pairing.reduced(metric, same_method=True)
        (estimate,) = paired_means(figure.base[None], figure.head[None], pairing.groups, resamples=1)
        if estimate.interval is not None:
            found.append((estimate.delta, standard_error(estimate.interval)))
    return learned_prior(*np.array(found, np.float64).reshape(-1, 2).T)


def _small_enough(head: Run) -> Iterator[Run]:
    room = MOST_ATTEMPTS
    for run in _before(head, [head.record], lambda record: record.kind == head.record.kind):
        room -= (run.record.summary or {}).get("attempts") or run.record.due or 0
        if room < 0:
            return
        yield run


class SideCounts(Tally, frozen=True, kw_only=True, eq=False):
    """The values of a metric in all attempts of one version, by case; arrays of shape (n,).

    Attributes:
        attempts: Number of attempts with a value: those of the run and those of earlier runs.
        sums: Sum of the values.
        squares: Sum of the squares of the values.
        earlier: How many of the attempts are of earlier runs of the same version.
    """

    earlier: Ints

    @property
    def passes(self) -> Ints:
        """Number of passes, if the values are verdicts; else the rounded sum of the values."""
        return np.rint(self.sums).astype(np.int64)


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


class CaseTotals:
    """Adds up the values of a metric by case.

    The counts leave out attempts without a value (a missing judgement, no verdict), and values of another
    method than the one that the paired comparison of their case uses.

    Args:
        pairing: The pairing of two runs, which says which cases are counted.
        methods: Numbers of the methods and cases.
        name: The metric; both sides must have it.
    """

    def __init__(self, pairing: Pairing, methods: Methods, name: str) -> None:
        self._pairing, self._methods, self._name = pairing, methods, name
        self._places = {case: place for place, case in enumerate(pairing.cases)}
        self._method_of = np.append(pairing.methods_of_cases(name), NO_PAIR)  # the last: of all other cases

    def of_runs(self, base: ScoredRun, head: ScoredRun, earlier: EarlierRuns) -> CaseCounts:
        """Count all repeats of both runs, and of earlier runs of their versions, one in memory at a time."""
        return CaseCounts(
            cases=self._pairing.cases,
            groups=self._pairing.groups,
            base=self._of_side(base, earlier.base),
            head=self._of_side(head, earlier.head),
        )

    def _of_side(self, scored: ScoredRun, earlier: tuple[Run, ...]) -> SideCounts:
        """Count a run, and earlier runs of its version."""
        own = self.of_scores(scored)
        before = np.zeros_like(own)
        for run in earlier:
            counted = self._name == "pass_rate" and run.record.settings.failed_attempts != "skip"
            before += self._of_verdicts(run) if counted else self.of_scores(ScoredRun.of(run, self._methods))
        sums, squares = (own + before)[1:]
        attempts, of_earlier = np.rint([own[0] + before[0], before[0]]).astype(np.int64)
        return SideCounts(attempts=attempts, earlier=of_earlier, sums=sums, squares=squares)

    def of_scores(self, scored: ScoredRun) -> Floats:
        """Return number, sum and sum of squares of the values of each case, shape (3, n)."""
        count = len(self._places)
        if self._name not in scored.values:
            return np.zeros((3, count))
        values, methods = (np.asarray(each[self._name]) for each in (scored.values, scored.methods))
        place_of = np.array([self._places.get(case, count) for case in self._methods.cases.names])
        at = place_of[numbers_of(scored.codes)]
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
