"""Scores recorded outputs: in this process, or in several once that pays."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Literal, get_args

from trivium.agents.attempt import Attempt
from trivium.agents.recorded import Partitioned, Recorded
from trivium.errors import InputError, MissingExtra, OutputsError, TriviumError
from trivium.metrics.metric import Metric
from trivium.metrics.scoring import is_third_party
from trivium.metrics.text.encoders.encoder import cores
from trivium.runs.engines.agent import Planned, ask_and_score
from trivium.runs.pipeline import Pipeline
from trivium.runs.until_decided.asker import Asker
from trivium.store.partitions.writer import PartitionWriter
from trivium.store.records import RunRecord, StoredAttempt
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

if TYPE_CHECKING:
    from trivium.metrics.judge.client.executor import JudgeExecutor
    from trivium.runs.engines.partition import Job, LogLine, ScoredPart
    from trivium.runs.engines.ray_workers import RayWorkers
    from trivium.runs.engines.workers import Workers

log = logging.getLogger(__name__)

MOST_TOGETHER = 4096
PARTS_A_WORKER = 8
"""A worker writes partitions of up to so many attempts, and several, so that all end at about one time."""

JUDGES = "trivium.metrics.judge.judge"
"""The logger of judges, each of which says once why it cannot be asked."""

SECONDS_BEFORE_WORKERS = 1.0
SECONDS_WORTH_WORKERS = 4.0
"""Without a stated number of workers, they are started once a run has scored for the first, if it would score
for the second more: a worker takes about half a second to start."""


Engine = Literal["local", "ray"]
"""Where recorded outputs are scored: in processes of this machine, or of a Ray cluster."""


def check_engine(
    engine: Engine, recorded: Recorded | None, metrics: Sequence[Metric], settings: Settings
) -> None:
    """Refuse what an engine cannot score.

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
    if recorded is None:
        problem = "scores recorded outputs only (--outputs)"
    elif not isinstance(recorded, Partitioned):
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


class RecordedScoring:
    """Scores the recorded attempts that are not stored yet, and stores them with their evaluations.

    Args:
        recorded: The attempts.
        suite: The suite with the cases.
        settings: Settings of the run.
        store: The store.
        run: The run.
        pipeline: Stores what is scored.
        partitions: Where rows are stored, if not in the store itself.
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
        partitions: PartitionWriter | None = None,
    ) -> None:
        self._partitions = partitions
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
        engine: Engine,
        asker: Asker | None,
    ) -> None:
        """Score all attempts.

        Args:
            metrics: The metrics.
            names: The names that they are built from.
            workers: Number of processes. None on this machine: one, and as many as there are cores if the
                run takes long; on a cluster: as many as it has CPUs.
            engine: Where the processes run; see :func:`check_engine`.
            asker: Decides which attempts are scored, in which order; None for all.

        Raises:
            OutputsError: If an attempt that the asker may want was not recorded.
        """
        if asker is not None:
            await self._score_until_decided(asker)
            return
        recorded = self._recorded
        count = 1 if engine == "ray" else _processes(workers, recorded, metrics, self._settings)
        if not isinstance(recorded, Partitioned) or (engine == "local" and count == 1):
            await self._pipeline.score_all(self._remaining(recorded), save=True)
            return
        at_once = engine == "ray" or workers is not None

        def pool() -> "Workers | RayWorkers":
            from trivium.runs.engines.partition import Job

            place = None
            if self._partitions is not None:
                place = self._partitions.folder, self._partitions.reserve(len(recorded))
            job = Job(recorded, self._suite, self._settings, tuple(names), self._run, self._done, place)
            if engine == "ray":
                return _on_cluster(job, metrics, workers)
            return _on_this_machine(job, metrics, count)

        together = 1
        if self._partitions is not None:
            together = min(MOST_TOGETHER, len(recorded) // (PARTS_A_WORKER * (workers or cores())))
        await self._pipeline.in_thread(
            lambda: self._score(recorded, pool, at_once=at_once, together=together)
        )

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

    def _score(
        self,
        recorded: Partitioned,
        pool: "Callable[[], Workers | RayWorkers]",
        *,
        at_once: bool,
        together: int,
    ) -> None:
        parts = recorded.parts()
        for part in () if at_once else _before_workers(parts, len(recorded)):
            self._pipeline.score_now(self._remaining(recorded.read(part)), save=True)
            if self._pipeline.closed:
                return
        if (first := next(parts, None)) is not None:
            joined = _joined(chain([first], parts), together)
            self._score_in_workers(recorded, pool(), joined, at_once=at_once)

    def _score_in_workers(
        self, recorded: Partitioned, pool: "Workers | RayWorkers", parts: Iterator[range], *, at_once: bool
    ) -> None:
        from trivium.runs.engines.workers import NoWorkers

        self._pipeline.closes(pool.stop)
        logged: set[str] = set()
        try:
            for scored in pool.scored(parts):
                _log(scored.warnings, logged)
                self._save(scored)
                if self._pipeline.closed:
                    return
        except NoWorkers:
            if at_once:
                raise
            log.warning("scoring goes on in one process")
            self._done = frozenset(self._store.attempt_keys(self._run))
            self._pipeline.score_now(self._remaining(recorded), save=True)

    def _save(self, scored: "ScoredPart") -> None:
        from trivium.runs.engines.partition import decode_outlines, decode_usages

        usages = decode_usages(scored.usages)
        if scored.partition is None or self._partitions is None:
            self._pipeline.save_scored(scored.rows, scored.clusters, usages, scored.rows.outlines)
            return
        self._pipeline.save_scored(
            scored.rows,
            scored.clusters,
            usages,
            lambda: decode_outlines(scored.outlines),
            write=partial(self._partitions.add, partition=scored.partition),
        )

    def _remaining(self, pairs: Iterable[tuple[Case, Attempt]]) -> Iterator[StoredAttempt]:
        for case, attempt in pairs:
            position = self._suite.position(case.id)
            if position is not None and (position, attempt.repeat) not in self._done:
                yield StoredAttempt(position=position, attempt=attempt, case=case)


def _log(warnings: Iterable["LogLine"], logged: set[str]) -> None:
    """Log what workers have logged; what every judge says once is said once of all workers."""
    for name, level, line in warnings:
        if name == JUDGES:
            if line in logged:
                continue
            logged.add(line)
        logging.getLogger(name).log(level, "%s", line)


def _on_this_machine(job: "Job", metrics: Sequence[Metric], count: int) -> "Workers":
    from trivium.runs.engines.workers import Workers

    return Workers(job, metrics, count, _executor(metrics))


def _on_cluster(job: "Job", metrics: Sequence[Metric], count: int | None) -> "RayWorkers":
    from trivium.runs.engines.ray_workers import RayWorkers

    return RayWorkers(job, metrics, count, _executor(metrics))


def _executor(metrics: Sequence[Metric]) -> "JudgeExecutor | None":
    """What sends the requests of the judges, if there are any."""
    if not any(metric.tier == "judge" for metric in metrics):
        return None
    from trivium.metrics.judge.metrics import executor_of

    return executor_of(metrics)


def _processes(workers: int | None, recorded: Recorded, metrics: Sequence[Metric], settings: Settings) -> int:
    """Number of processes that can score."""
    if workers == 1 or not isinstance(recorded, Partitioned):
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


def _joined(parts: Iterator[range], together: int) -> Iterator[range]:
    """Join parts that follow one another to ranges of up to so many attempts."""
    whole = range(0)
    for part in parts:
        if whole and len(whole) + len(part) <= together:
            whole = range(whole.start, part.stop)
        else:
            if whole:
                yield whole
            whole = part
    if whole:
        yield whole


def _before_workers(parts: Iterator[range], total: int) -> Iterator[range]:
    """Yield the parts to be scored in this process: the first, and all if the others would not take long."""
    began = time.monotonic()
    for part in parts:
        yield part
        seconds = time.monotonic() - began
        left = seconds / part.stop * (total - part.stop)
        if seconds >= SECONDS_BEFORE_WORKERS and left >= SECONDS_WORTH_WORKERS:
            return
