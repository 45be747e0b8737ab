"""Scores recorded outputs: in this process, or in several once that pays."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import TYPE_CHECKING

from trivium.agents.attempt import Attempt
from trivium.agents.recorded import Partitioned, Recorded
from trivium.errors import OutputsError, TriviumError
from trivium.metrics.metric import Metric
from trivium.metrics.text.encoders.encoder import cores
from trivium.runs.engines.agent import Planned, ask_and_score
from trivium.runs.pipeline import Pipeline
from trivium.runs.until_decided import Asker
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
        self._store = store
        self._run = run
        self._pipeline = pipeline
        self._done = frozenset(store.attempt_keys(run))

    async def score(
        self,
        metrics: Sequence[Metric],
        names: Sequence[str],
        *,
        workers: int | None,
        asker: Asker | None,
    ) -> None:
        """Score all attempts.

        Args:
            metrics: The metrics.
            names: The names that they are built from.
            workers: Number of processes; None for one, and as many as there are cores if the run takes long.
            asker: Decides which attempts are scored, in which order; None for all.

        Raises:
            OutputsError: If an attempt that the asker may want was not recorded.
        """
        if asker is not None:
            await self._score_until_decided(asker)
            return
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

    async def _score_until_decided(self, asker: Asker) -> None:
        """Score attempts in the order of the asker, as if they were made only now."""
        recorded = self._recorded
        if not isinstance(recorded, Partitioned):
            raise OutputsError("", "until_decided needs outputs from a file of outputs, or in memory")
        indices: dict[tuple[int | None, int], int] = {}
        for index, (case, attempt) in enumerate(recorded):
            indices[self._suite.position(case.id), attempt.repeat] = index
        self._check_complete(indices.keys())

        async def read(planned: Planned, _alone: Callable[[], bool]) -> Attempt:
            position, _, repeat = planned
            index = indices[position, repeat]
            ((_, attempt),) = recorded.read(range(index, index + 1))
            return attempt

        await ask_and_score(asker.remaining(self._done), read, self._pipeline, concurrency=1, room=asker.room)

    def _check_complete(self, recorded: Set[tuple[int | None, int]]) -> None:
        """Refuse outputs of only some cases: which they are might depend on how good they are."""
        repeats = range(self._settings.repeats)
        missing = [
            case.id
            for position, case in enumerate(self._suite)
            if any((position, repeat) not in recorded for repeat in repeats)
        ]
        if missing:
            what = (
                f"until_decided needs every output; {len(missing):,} of {len(self._suite):,} cases lack one "
                f"(first: {missing[0]})"
            )
            raise OutputsError("", what)

    def _score(self, recorded: Partitioned, pool: "Workers", *, at_once: bool) -> None:
        parts = recorded.parts()
        from trivium.runs.engines.partition import decode_usages
        from trivium.runs.engines.workers import NoWorkers

        for part in () if at_once else _before_workers(parts, len(recorded)):
            self._pipeline.score_now(self._remaining(recorded.read(part)), save=True)
            if self._pipeline.closed:
                return
        try:
            for scored in pool.scored(parts):
                for name, level, line in scored.warnings:
                    logging.getLogger(name).log(level, "%s", line)
                self._pipeline.save_scored(scored.rows, scored.clusters, decode_usages(scored.usages))
                if self._pipeline.closed:
                    return
        except NoWorkers:
            if at_once:
                raise
            log.warning("scoring goes on in one process")
            self._done = frozenset(self._store.attempt_keys(self._run))
            self._pipeline.score_now(self._remaining(recorded), save=True)

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
        # Judges share connections, limits and a budget in this process.
        if metric.prefetches or not _can_be_imported(type(metric)):
            if workers is not None:
                log.warning("%s can only be computed in one process: --workers has no effect", metric.name)
            return 1
    if workers is None and any(metric.uses_all_cores and _is_installed(metric) for metric in metrics):
        return 1  # each process would load the encoder, which may take gigabytes
    return workers or cores()


def _can_be_imported(cls: type) -> bool:
    """Whether another process finds a class by its name; not one of a script, a notebook or a function."""
    found: object = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls and cls.__module__ != "__main__"


def _is_installed(metric: Metric) -> bool:
    try:
        metric.check()
    except TriviumError:
        return False
    return True


def _before_workers(parts: Iterator[range], total: int) -> Iterator[range]:
    """Yield the parts to be scored in this process: the first, and all if the others would not take long."""
    began = time.monotonic()
    for part in parts:
        yield part
        seconds = time.monotonic() - began
        left = seconds / part.stop * (total - part.stop)
        if seconds >= SECONDS_BEFORE_WORKERS and left >= SECONDS_WORTH_WORKERS:
            return
