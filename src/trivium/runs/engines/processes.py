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
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from trivium.agents.recorded import Partitioned, Recorded
from trivium.errors import InputError, MissingExtra, TriviumError
from trivium.metrics.metric import Metric
from trivium.metrics.registry import CASE_FIGURES, metric_class
from trivium.metrics.text.encoders.encoder import cores
from trivium.runs.pipeline import PartlyScored, Pipeline, Prepared
from trivium.store.partitions.writer import PartitionWriter
from trivium.store.records import RunRecord, StoredAttempt
from trivium.suites.settings import Settings

if TYPE_CHECKING:
    from trivium.runs.engines.job import AttemptKeys, Task
    from trivium.runs.engines.partition import LogLine, ScoredPart
    from trivium.runs.engines.ray_workers import RayWorkers
    from trivium.runs.engines.workers import Workers

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


def check_engine(
    engine: Engine,
    recorded: Recorded | None,
    settings: Settings,
    *,
    stored: bool = False,
) -> None:
    """Refuse what an engine cannot score.

    Args:
        engine: The engine.
        recorded: The recorded outputs of the run, if there are any.
        settings: Its settings.
        stored: Whether it scores the attempts of a stored run.

    Raises:
        InputError: If this needs the main process.
        MissingExtra: If Ray is not installed.
    """
    if engine not in get_args(Engine):
        raise InputError("engine", f'found "{engine}", expected {" or ".join(get_args(Engine))}')
    if engine == "local":
        return
    if recorded is None and not stored:
        problem = "scores recorded outputs only (--outputs)"
    elif not stored and not isinstance(recorded, Partitioned):
        problem = (
            "needs outputs in Trivium's own format: a .jsonl, .csv or .parquet file, several, or in memory"
        )
    elif settings.until_decided:
        problem = "scores many outputs at once, and --until-decided one after the other"
    else:
        if find_spec("ray") is None:
            raise MissingExtra("ray", "--engine ray")
        return
    raise InputError("", f"--engine ray {problem}")


class Source(Protocol):
    """The attempts of a run that are to be scored, a part at a time.

    Attributes:
        recorded: The recorded outputs that other processes read; None if rows come with each task.
        in_parts: Whether there are tasks; only :meth:`left` otherwise.
        done: Position and repeat of the recorded attempts that are left out.
    """

    recorded: Partitioned | None
    in_parts: bool
    done: "AttemptKeys"

    def __len__(self) -> int:
        """Number of attempts in all tasks."""

    def tasks(self) -> "Iterator[Task]":
        """Yield the parts in order."""

    def attempts(self, task: "Task") -> Iterator[StoredAttempt]:
        """Yield the attempts of a part that are to be scored, in this process."""

    def left(self) -> Iterator[StoredAttempt]:
        """Yield all attempts that are not scored yet, in this process."""


class Scoring:
    """Scores attempts with the metrics of a run, and stores their evaluations.

    Args:
        prepared: What the run computes.
        run: The run.
        pipeline: Stores what is scored.
        workers: Number of processes. None on this machine: one, and as many as there are cores if the run
            takes long; on a cluster: as many as it has CPUs.
        engine: Where the processes run; see :func:`check_engine`.
        partitions: Where rows are stored, if not in the store itself.
    """

    def __init__(
        self,
        prepared: Prepared,
        run: RunRecord,
        pipeline: Pipeline,
        *,
        workers: int | None,
        engine: Engine,
        partitions: PartitionWriter | None = None,
    ) -> None:
        self._suite, self._settings, self._names, self._metrics = prepared
        self._leaving = leaving(self._metrics, self._settings)
        certified = self._settings.judge is not None and self._settings.judge.certificate
        self._evaluated_there = len(self._leaving) == len(self._metrics) and not certified
        self._run = run
        self._pipeline = pipeline
        self._workers = workers
        self._engine = engine
        self._partitions = partitions

    async def score(self, source: Source, *, save: bool) -> None:
        """Score all attempts of a source.

        Args:
            source: The attempts.
            save: Also store the attempts.
        """
        if self._metrics and not self._leaving and (self._engine == "ray" or self._workers not in {None, 1}):
            names = ", ".join(metric.name for metric in self._metrics)
            log.warning("only the main process can compute %s: no workers are started", names)
        count = process_count(self._workers, self._metrics, self._leaving) if source.in_parts else 1
        if self._leaving and (self._engine == "ray" or count > 1):
            await self._pipeline.in_thread(lambda: self._score(source, count, save=save))
        else:
            await self._pipeline.score_all(source.left(), save=save)

    def _score(self, source: Source, count: int, *, save: bool) -> None:
        from trivium.runs.engines.workers import NoWorkers

        at_once = self._engine == "ray" or self._workers is not None
        tasks = source.tasks()
        for task in () if at_once else _before_workers(tasks, len(source)):
            self._pipeline.score_now(source.attempts(task), save=save)
            if self._pipeline.closed:
                return
        first = next(tasks, None)
        if first is None:
            return
        try:
            self._score_in_workers(source, chain([first], tasks), count, save=save)
        except NoWorkers:
            if at_once:
                raise
            log.warning("scoring goes on in one process")
            self._pipeline.score_now(source.left(), save=save)

    def _score_in_workers(self, source: Source, tasks: "Iterator[Task]", count: int, *, save: bool) -> None:
        partitions = self._partitions if self._evaluated_there and source.recorded is not None else None
        place = None if partitions is None else (partitions.folder, partitions.reserve(len(source)))
        pool = self._pool(source, count, place=place, save=save)
        self._pipeline.closes(pool.stop)
        if not self._evaluated_there:
            with closing(_partly_scored(pool, source, tasks)) as attempts:
                self._pipeline.score_now(attempts, save=save)
            return
        if partitions is not None:
            most = len(source) // (PARTS_A_WORKER * (self._workers or cores()))
            tasks = _joined(tasks, min(MOST_TOGETHER, most))
        for _, scored in pool.scored(tasks):
            _log(scored.warnings)
            self._save(scored)
            if self._pipeline.closed:
                return

    def _pool(
        self, source: Source, count: int, *, place: tuple[str, int] | None, save: bool
    ) -> "Workers | RayWorkers":
        from trivium.runs.engines.job import Job

        job = Job(
            source.recorded,
            self._suite,
            self._settings,
            self._names_there(),
            self._run,
            source.done,
            partitions=place,
            evaluates=self._evaluated_there,
            save=save,
            aggregates=self._pipeline.aggregates,
        )
        if self._engine == "ray":
            from trivium.runs.engines.ray_workers import RayWorkers

            return RayWorkers(job, self._leaving, self._workers)
        from trivium.runs.engines.workers import Workers

        return Workers(job, self._leaving, count)

    def _names_there(self) -> tuple[str, ...]:
        """The names that the metrics of workers are built from."""
        there = {metric.name for metric in self._leaving}
        wanted = [*self._names, *(need for metric in self._metrics for need in metric.needs)]
        return tuple(
            name
            for name in dict.fromkeys(wanted)
            if name not in CASE_FIGURES and metric_class(name, self._settings).name in there
        )

    def _save(self, scored: "ScoredPart") -> None:
        write = None
        if scored.partition is not None and self._partitions is not None:
            write = partial(self._partitions.add, partition=scored.partition)
        self._pipeline.save_scored(scored.rows, scored.aggregation, write=write)


def _partly_scored(
    pool: "Workers | RayWorkers", source: Source, tasks: "Iterator[Task]"
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
