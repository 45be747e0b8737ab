"""Finds earlier runs of the versions that are compared."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from trivium.runs.comparing.decision import incomparabilities
from trivium.runs.run import Run
from trivium.runs.versions import version_of

MOST_EARLIER = 20
"""Most earlier runs of a version that are counted, the newest ones."""


class EarlierRuns(NamedTuple):
    """Earlier runs of the same version, newest first."""

    base: tuple[Run, ...] = ()
    head: tuple[Run, ...] = ()


NONE_EARLIER = EarlierRuns()


def earlier_runs(base: Run, head: Run) -> EarlierRuns:
    """Find the runs of both versions that were stored before the later of two runs.

    They are finished runs of the same suite whose numbers mean the same and whose attempts are in neither of
    the two runs. If both are runs of one version, none belongs to one side alone, and there are none.

    Args:
        base: The run compared with.
        head: The run in question.
    """
    if version_of(base.record) == version_of(head.record):
        return NONE_EARLIER
    return EarlierRuns(*(tuple(islice(_earlier(run, base, head), MOST_EARLIER)) for run in (base, head)))


def _earlier(run: Run, base: Run, head: Run) -> Iterator[Run]:
    version, store = version_of(run.record), run.store
    if version is None:
        return
    compared = [each.record for each in (base, head) if each.store.name == store.name]
    known = {record.attempts_from or record.number for record in compared}
    for record in store.finished_runs(run.record.suite_name):
        attempts, found = record.attempts_from or record.number, Run(store, record)
        # Numbers of runs rise within a store.
        before = record.number <= max(each.number for each in compared) and record.kind != "live"
        if not before or attempts in known or version_of(record) != version:
            continue
        if not any(incomparabilities(found, run)):
            known.add(attempts)
            yield found
