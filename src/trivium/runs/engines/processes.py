"""Scores the attempts of a run: in this process, or in several once that pays.

Workers compute the metrics that can run outside the main process. If that covers all metrics, they also make
the rows. Otherwise the main process adds the scores that only it can compute, such as judgements.
"""

import logging
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Literal

from trivium.errors import TriviumError
from trivium.metrics.metric import Metric
from trivium.metrics.registry import CASE_FIGURES, metric_class
from trivium.metrics.text.encoders.encoder import cores
from trivium.runs.pipeline import PartlyScored, Pipeline
from trivium.suites.settings import Settings

if TYPE_CHECKING:
    from trivium.runs.engines.job import Task
    from trivium.runs.engines.partition import LogLine
    from trivium.runs.engines.ray_workers import RayWorkers
    from trivium.runs.engines.recorded import RecordedAttempts, StoredAttempts
    from trivium.runs.engines.workers import Workers

    Source = RecordedAttempts | StoredAttempts

log = logging.getLogger(__name__)

MOST_TOGETHER = 4096
PARTS_A_WORKER = 8
"""A worker writes partitions of up to so many attempts, and several, so that all end at about one time."""

SECONDS_BEFORE_WORKERS = 1.0
SECONDS_WORTH_WORKERS = 4.0
"""Without a stated number of workers, they are started once a run has scored for the first, if it would score
for the second more: a worker takes about half a second to start."""

Engine = Literal["local", "ray"]
"""Where attempts are scored: in processes of this machine, or of a Ray cluster."""


class Scoring:
    """Scores all attempts of a source with the metrics of a run, and stores their evaluations.

    Args:
        pipeline: Stores what is scored.
        source: The attempts.
        workers: Number of processes. None on this machine: one, and as many as there are cores if the run
            takes long; on a cluster: as many as it has CPUs.
        engine: Where the processes run.
        save: Also store the attempts.
    """

    def __init__(
        self, pipeline: Pipeline, source: "Source", *, workers: int | None, engine: Engine, save: bool
    ) -> None:
        self._suite, self._settings, self._names, self._metrics = pipeline.prepared
        self._leaving = leaving(self._metrics, self._settings)
        certified = self._settings.judge is not None and self._settings.judge.certificate
        self._evaluated_there = len(self._leaving) == len(self._metrics) and not certified
        self._pipeline, self._source, self._save = pipeline, source, save
        self._workers, self._engine = workers, engine
        self._count = process_count(workers, self._metrics, self._leaving) if source.in_parts else 1
        """Processes on this machine."""

    async def score(self) -> None:
        """Score all attempts."""
        there = self._engine == "ray"
        if self._metrics and not self._leaving and (there or self._workers not in {None, 1}):
            names = ", ".join(metric.name for metric in self._metrics)
            log.warning("only the main process can compute %s: no workers are started", names)
        if self._leaving and (there or self._count > 1):
            await self._pipeline.in_thread(self._score)
        else:
            await self._pipeline.score_all(self._source.left(), save=self._save)

    def _score(self) -> None:
        from trivium.runs.engines.workers import NoWorkers

        at_once = self._engine == "ray" or self._workers is not None
        tasks = self._source.tasks()
        for task in () if at_once else _before_workers(tasks, len(self._source)):
            self._pipeline.score_now(self._source.attempts(task), save=self._save)
            if self._pipeline.closed:
                return
        first = next(tasks, None)
        if first is None:
            return
        try:
            self._score_in_workers(chain([first], tasks))
        except NoWorkers:
            if at_once:
                raise
            log.warning("scoring goes on in one process")
            self._pipeline.score_now(self._source.left(), save=self._save)

    def _score_in_workers(self, tasks: "Iterator[Task]") -> None:
        source, pipeline = self._source, self._pipeline
        partitions = pipeline.partitions if self._evaluated_there and source.recorded is not None else None
        place = None if partitions is None else (partitions.folder, partitions.reserve(len(source)))
        pool = self._pool(place)
        pipeline.closes(pool.stop)
        if not self._evaluated_there:
            with closing(_partly_scored(pool, source, tasks)) as attempts:
                pipeline.score_now(attempts, save=self._save)
            return
        if partitions is not None:
            most = len(source) // (PARTS_A_WORKER * (self._workers or cores()))
            tasks = _joined(tasks, min(MOST_TOGETHER, most))
        for _, scored in pool.scored(tasks):
            _log(scored.warnings)
            write = None
            if scored.partition is not None and partitions is not None:
                write = partial(partitions.add, partition=scored.partition)
            pipeline.save_scored(scored.rows, scored.aggregation, write=write)
            if pipeline.closed:
                return

    def _pool(self, place: tuple[str, int] | None) -> "Workers | RayWorkers":
        from trivium.runs.engines.job import Job

        job = Job(
            self._source.recorded,
            self._suite,
            self._settings,
            self._names_there(),
            self._pipeline.run,
            self._source.done,
            partitions=place,
            evaluates=self._evaluated_there,
            save=self._save,
            aggregates=self._pipeline.incremental.active,
            modules=tuple(sorted({type(metric).__module__ for metric in self._leaving})),
        )
        if self._engine == "ray":
            from trivium.runs.engines.ray_workers import RayWorkers

            return RayWorkers(job, self._workers)
        from trivium.runs.engines.workers import Workers

        return Workers(job, self._count)

    def _names_there(self) -> tuple[str, ...]:
        """The names that the metrics of workers are built from."""
        there = {metric.name for metric in self._leaving}
        wanted = [*self._names, *(need for metric in self._metrics for need in metric.needs)]
        return tuple(
            name
            for name in dict.fromkeys(wanted)
            if name not in CASE_FIGURES and metric_class(name, self._settings).name in there
        )


def _partly_scored(
    pool: "Workers | RayWorkers", source: "Source", tasks: "Iterator[Task]"
) -> Generator[PartlyScored, None, None]:
    """Yield the attempts of a source, in order, with the scores that workers have computed."""
    from trivium.runs.engines.partition import decoded_scores

    for task, part in pool.scored(tasks):
        _log(part.warnings)
        for stored, scores in zip(source.attempts(task), decoded_scores(part.scores), strict=True):
            yield PartlyScored(
                position=stored.position, attempt=stored.attempt, case=stored.case, scores=scores
            )


def _log(warnings: Iterable["LogLine"]) -> None:
    """Log what workers have logged."""
    for name, level, line in warnings:
        logging.getLogger(name).log(level, "%s", line)


def process_count(workers: int | None, metrics: Sequence[Metric], there: Sequence[Metric]) -> int:
    """Number of processes of this machine that score.

    Args:
        workers: The wanted number; None for as many as are of use.
        metrics: The metrics of the run.
        there: Those that other processes can compute.
    """
    if workers == 1 or not there or (workers is None and len(there) < len(metrics)):
        return 1  # a judged run mostly waits for its provider
    if workers is None and any(metric.uses_all_cores and _is_installed(metric) for metric in metrics):
        return 1  # each process would load the encoder, which may take gigabytes
    return workers or cores()


def leaving(metrics: Sequence[Metric], settings: Settings) -> list[Metric]:
    """Return the metrics that other processes can compute.

    Args:
        metrics: The metrics of a run, each after those that it needs.
        settings: Settings of the run.
    """
    left: set[str] = set()
    for metric in metrics:
        if _can_leave(metric) and all(metric_class(need, settings).name in left for need in metric.needs):
            left.add(metric.name)
    return [metric for metric in metrics if metric.name in left]


def _can_leave(metric: Metric) -> bool:
    """Whether other processes can compute a metric, if they can compute all that it needs.

    Metrics that prefetch, such as judges, mostly wait and share what they wait for. A class of a script, a
    notebook or a function is not found by its name.
    """
    cls = type(metric)
    found: object = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return not metric.prefetches and found is cls and cls.__module__ != "__main__"


def _is_installed(metric: Metric) -> bool:
    try:
        metric.check()
    except TriviumError:
        return False
    return True


def _joined(tasks: "Iterator[Task]", together: int) -> "Iterator[Task]":
    """Join consecutive parts of recorded outputs to parts of up to a number of attempts."""
    whole: Task | None = None
    for task in tasks:
        if whole is not None and len(whole.indices) + len(task.indices) <= together:
            whole = whole._replace(indices=range(whole.indices.start, task.indices.stop))
        else:
            if whole is not None:
                yield whole
            whole = task
    if whole is not None:
        yield whole


def _before_workers(tasks: "Iterator[Task]", total: int) -> "Iterator[Task]":
    """Yield the parts to be scored in this process: the first, and all if the others would not take long."""
    began = time.monotonic()
    for task in tasks:
        yield task
        seconds, done = time.monotonic() - began, task.indices.stop
        if seconds >= SECONDS_BEFORE_WORKERS and seconds / done * (total - done) >= SECONDS_WORTH_WORKERS:
            return
