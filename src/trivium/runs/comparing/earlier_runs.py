"""Finds earlier runs: of the compared versions, and of the suite, to tell how far its versions differ."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from trivium.runs.comparing.confirmed import Confirmed, calls_of
from trivium.runs.comparing.decision import incomparabilities
from trivium.runs.comparing.pairing import Methods, Pairing, ScoredRun
from trivium.runs.run import Run
from trivium.runs.versions import confirming_runs, confirms, version_of
from trivium.store.records import RunRecord
from trivium.trust.decision import (
    DEFAULT_PRIOR,
    FEWEST_COMPARISONS,
    DifferencePrior,
    learned_prior,
    standard_error,
)
from trivium.trust.paired import paired_means

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


NONE_EARLIER = EarlierRuns()


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
    if version_of(base.record) == version_of(head.record):
        return EarlierRuns(*confirming)
    earlier = (tuple(islice(_of_version(run, base, head), MOST_EARLIER)) for run in (base, head))
    return EarlierRuns(*(more + each for more, each in zip(confirming, earlier, strict=True)))


def known_costs(**runs: Run) -> dict[str, float]:
    """Return the costs of runs in USD (agents and judges), for runs with any known cost."""
    costs = {word: calls_of([run.record]).cost_usd for word, run in runs.items()}
    return {word: usd for word, usd in costs.items() if usd is not None}


def confirmed_by(base: Run, head: Run) -> Confirmed | None:
    """The further attempts that confirm the comparison of two runs; None if there are none."""
    found = confirming_runs(head.store, base.record, head.record)
    if not any(found):
        return None
    runs = sorted((run for side in found for run in side), key=lambda run: run.number)
    last = confirms(runs[-1])
    return Confirmed(
        base=calls_of(found.base),
        head=calls_of(found.head),
        runs=tuple(run.id for run in runs),
        end=None if last is None else last.end,
    )


def _of_version(run: Run, base: Run, head: Run) -> Iterator[Run]:
    version = version_of(run.record)
    if version is not None:
        compared = [each.record for each in (base, head) if each.store.name == run.store.name]
        yield from _before(
            run, compared, lambda record: record.kind != "live" and version_of(record) == version
        )


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
    scored = [(version_of(run.record), ScoredRun.of(run, methods)) for run in runs]
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
