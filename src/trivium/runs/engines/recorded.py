"""Scores recorded outputs: in this process, or in several once that pays."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from trivium.agents.attempt import Attempt
from trivium.agents.recorded import Partitioned, Recorded
from trivium.metrics.metric import Metric
from trivium.metrics.text.encoders.encoder import cores
from trivium.runs.pipeline import Pipeline
from trivium.store.records import RunRecord, StoredAttempt
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

if TYPE_CHECKING:
    from trivium.runs.engines.workers import Workers

log = logging.getLogger(__name__)

SECONDS_BEFORE_WORKERS = 1.0
SECONDS_WORTH_WORKERS = 4.0
"""Without a stated number of workers, they are started once a run has scored for the first, if it would score
for the second more: a worker takes about half a second to start."""


class RecordedScoring:
    """Scores the recorded attempts that are not stored yet, and stores them with their evaluations.

    Args:
        recorded: The attempts.
        suite: The suite with the cases.
        settings: Settings of the run.
        store: The store.
        run: The run.
        pipeline: Stores what is scored.
    """

    def __init__(
        self,
        recorded: Recorded,
        *,
        suite: Suite,
        settings: Settings,
        store: Store,
        run: RunRecord,
        pipeline: Pipeline,
    ) -> None:
        self._recorded = recorded
        self._suite = suite
        self._settings = settings
        self._run = run
        self._pipeline = pipeline
        self._done = frozenset(store.attempt_keys(run))

    async def score(self, metrics: Sequence[Metric], names: Sequence[str], *, workers: int | None) -> None:
        """Score all attempts.

        Args:
            metrics: The metrics.
            names: The names that they are built from.
            workers: Number of processes; None for one, and as many as there are cores if the run takes long.
        """
        count = _processes(workers, self._recorded, metrics)
        if count == 1 or not isinstance(self._recorded, Partitioned):
            await self._pipeline.score_all(self._remaining(self._recorded), save=True)
            return
        from trivium.runs.engines.partition import Job
        from trivium.runs.engines.workers import Workers

        recorded = self._recorded
        job = Job(recorded, self._suite, self._settings, tuple(names), self._run, self._done)
        pool = Workers(job, metrics, count)
        self._pipeline.closes(pool.stop)
        await self._pipeline.in_thread(lambda: self._score(recorded, pool, at_once=workers is not None))

    def _score(self, recorded: Partitioned, pool: "Workers", *, at_once: bool) -> None:
        parts = recorded.parts()
        from trivium.runs.engines.partition import decode_usages

        for part in () if at_once else _before_workers(parts, len(recorded)):
            self._pipeline.score_now(self._remaining(recorded.read(part)), save=True)
            if self._pipeline.closed:
                return
        for scored in pool.scored(parts):
            for name, level, line in scored.warnings:
                logging.getLogger(name).log(level, "%s", line)
            self._pipeline.save_scored(scored.rows, scored.clusters, decode_usages(scored.usages))
            if self._pipeline.closed:
                return

    def _remaining(self, pairs: Iterable[tuple[Case, Attempt]]) -> Iterator[StoredAttempt]:
        for case, attempt in pairs:
            position = self._suite.position(case.id)
            if position is not None and (position, attempt.repeat) not in self._done:
                yield StoredAttempt(position=position, attempt=attempt, case=case)


def _processes(workers: int | None, recorded: Recorded, metrics: Sequence[Metric]) -> int:
    """Number of processes that can score."""
    if workers == 1 or not isinstance(recorded, Partitioned):
        return 1
    for metric in metrics:
        # Judges share connections, limits and a budget in this process; a class that a script or a notebook
        # defines cannot be imported in another.
        if metric.prefetches or type(metric).__module__ == "__main__":
            if workers is not None:
                log.warning("%s can only be computed in one process: --workers has no effect", metric.name)
            return 1
    return workers or cores()


def _before_workers(parts: Iterator[range], total: int) -> Iterator[range]:
    """Yield the parts to be scored in this process: the first, and all if the others would not take long."""
    began = time.monotonic()
    for part in parts:
        yield part
        seconds = time.monotonic() - began
        left = seconds / part.stop * (total - part.stop)
        if seconds >= SECONDS_BEFORE_WORKERS and left >= SECONDS_WORTH_WORKERS:
            return
