"""Scores the attempts of a run: in this process, or in several once that pays."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from trivium.agents.recorded import Partitioned, Recorded
from trivium.errors import InputError, MissingExtra, TriviumError
from trivium.metrics.metric import Metric
from trivium.metrics.scoring import is_third_party
from trivium.metrics.text.encoders.encoder import cores
from trivium.runs.pipeline import Pipeline
from trivium.store.partitions.writer import PartitionWriter
from trivium.store.records import RunRecord, StoredAttempt
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

if TYPE_CHECKING:
    from trivium.metrics.judge.client.executor import JudgeExecutor
    from trivium.runs.engines.partition import AttemptKeys, LogLine, ScoredPart, Task
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
    metrics: Sequence[Metric],
    settings: Settings,
    *,
    stored: bool = False,
) -> None:
    """Refuse what an engine cannot score.

    Args:
        engine: The engine.
        recorded: The recorded outputs of the run, if there are any.
        metrics: Its metrics.
        settings: Its settings.
        stored: Whether it scores the attempts of a stored run.

    Raises:
        InputError: If this needs the process of the run.
        MissingExtra: If Ray is not installed.
    """
    if engine not in get_args(Engine):
        raise InputError("engine", f'found "{engine}", expected {" or ".join(get_args(Engine))}')
    if engine == "local":
        return
    here = [metric.name for metric in metrics if not _can_leave(metric)]
    certified = settings.judge is not None and settings.judge.certificate
    if recorded is None and not stored:
        problem = "scores recorded outputs only (--outputs)"
    elif not stored and not isinstance(recorded, Partitioned):
        problem = (
            "needs outputs in Trivium's own format: a .jsonl, .csv or .parquet file, several, or in memory"
        )
    elif settings.until_decided:
        problem = "scores many outputs at once, and --until-decided one after the other"
    elif certified:
        problem = (
            "cannot apply certificates, which follow all judgements of a run: leave judge.certificate out"
        )
    elif here:
        problem = f"cannot compute {', '.join(here)}, which only the process of the run can: leave it out"
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
        metrics: The metrics.
        names: The names that they are built from.
        suite: The suite.
        settings: Settings of the run.
        run: The run.
        pipeline: Stores what is scored.
        workers: Number of processes. None on this machine: one, and as many as there are cores if the run
            takes long; on a cluster: as many as it has CPUs.
        engine: Where the processes run; see :func:`check_engine`.
        partitions: Where rows are stored, if not in the store itself.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        names: Sequence[str],
        *,
        suite: Suite,
        settings: Settings,
        run: RunRecord,
        pipeline: Pipeline,
        workers: int | None,
        engine: Engine,
        partitions: PartitionWriter | None = None,
    ) -> None:
        self._metrics = metrics
        self._names = tuple(names)
        self._suite = suite
        self._settings = settings
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
        count = 1
        if self._engine == "local":
            count = process_count(self._workers, self._metrics, self._settings) if source.in_parts else 1
            if count == 1:
                await self._pipeline.score_all(source.left(), save=save)
                return
        await self._pipeline.in_thread(lambda: self._score(source, count, save=save))

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
        pool = self._pool(source, count, save=save)
        self._pipeline.closes(pool.stop)
        if self._partitions is not None and source.recorded is not None:
            most = len(source) // (PARTS_A_WORKER * (self._workers or cores()))
            tasks = _joined(tasks, min(MOST_TOGETHER, most))
        logged: set[str] = set()
        for scored in pool.scored(tasks):
            _log(scored.warnings, logged)
            self._save(scored)
            if self._pipeline.closed:
                return

    def _pool(self, source: Source, count: int, *, save: bool) -> "Workers | RayWorkers":
        from trivium.runs.engines.partition import Job

        place = None
        if self._partitions is not None and source.recorded is not None:
            place = self._partitions.folder, self._partitions.reserve(len(source))
        job = Job(
            source.recorded,
            self._suite,
            self._settings,
            self._names,
            self._run,
            source.done,
            partitions=place,
            save=save,
            aggregates=self._pipeline.aggregates,
        )
        if self._engine == "ray":
            from trivium.runs.engines.ray_workers import RayWorkers

            return RayWorkers(job, self._metrics, self._workers, _executor(self._metrics))
        from trivium.runs.engines.workers import Workers

        return Workers(job, self._metrics, count, _executor(self._metrics))

    def _save(self, scored: "ScoredPart") -> None:
        write = None
        if scored.partition is not None and self._partitions is not None:
            write = partial(self._partitions.add, partition=scored.partition)
        self._pipeline.save_scored(scored.rows, scored.aggregation, write=write)


def _log(warnings: Iterable["LogLine"], logged: set[str]) -> None:
    """Log what workers have logged; what each says once is said once of all of them."""
    for name, level, line, once in warnings:
        if once in logged:
            continue
        if once is not None:
            logged.add(once)
        logging.getLogger(name).log(level, "%s", line)


def _executor(metrics: Sequence[Metric]) -> "JudgeExecutor | None":
    """What sends the requests of the judges, if there are any."""
    if not any(metric.tier == "judge" for metric in metrics):
        return None
    from trivium.metrics.judge.metrics import executor_of

    return executor_of(metrics)


def process_count(workers: int | None, metrics: Sequence[Metric], settings: Settings) -> int:
    """Number of processes of this machine that can score.

    Args:
        workers: The wanted number; None for as many as are of use.
        metrics: The metrics.
        settings: The settings of the run.
    """
    if workers == 1:
        return 1
    if settings.judge is not None and settings.judge.certificate:
        if workers is not None:
            log.warning("certificates follow all judgements in one process: --workers has no effect")
        return 1
    if workers is None and any(metric.prefetches for metric in metrics):
        return 1  # a judged run mostly waits for its provider
    for metric in metrics:
        if not _can_leave(metric):
            if workers is not None:
                log.warning("%s can only be computed in one process: --workers has no effect", metric.name)
            return 1
    if workers is None and any(metric.uses_all_cores and _is_installed(metric) for metric in metrics):
        return 1  # each process would load the encoder, which may take gigabytes
    return workers or cores()


def _can_leave(metric: Metric) -> bool:
    """Whether other processes can compute a metric.

    Judges are built from the settings. A class of a script, a notebook or a function is not found by its
    name.
    """
    if metric.tier == "judge" and not is_third_party(metric):
        return True
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
    """Join parts of recorded outputs that follow one another to parts of up to so many attempts."""
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
