"""Scores a part of recorded outputs, or of a stored run, by itself, so that any process can do it."""

import copyreg
import io
import logging
import pickle
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trivium.agents.recorded import Partitioned
from trivium.agents.recorded.record import PART_ATTEMPTS
from trivium.errors import StoreError, TriviumError
from trivium.metrics.evaluation import evaluation
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import Scores, score_attempts
from trivium.number_buffer import Kind, NoRoom, NumberBuffer, SpillFile
from trivium.runs.incremental_aggregation import IncrementalAggregation
from trivium.runs.pipeline import batch_size
from trivium.store.partitions.reader import Partition
from trivium.store.partitions.writer import PartitionFile
from trivium.store.records import (
    AttemptRow,
    Rows,
    RunRecord,
    StoredAttempt,
    StoredEvaluation,
    decoded_attempt,
    encode,
)
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite
from trivium.values import batched

log = logging.getLogger(__name__)

LOST = "the process that scored it ended unexpectedly (out of memory, or killed)"
"""Reason of the scores of an attempt that no process survived."""

_STRETCH = 512
"""Positions of which one number says whether they are in a set."""

LogLine = tuple[str, int, str]
"""Name of the logger, level and text."""


class Task(NamedTuple):
    """A part to be scored.

    Attributes:
        indices: Indices of its attempts.
        rows: The attempts themselves, if only the process of the run can read them.
    """

    indices: range
    rows: tuple[AttemptRow, ...] | None = None

    def alone(self, index: int) -> "Task":
        """One attempt of the part, by itself."""
        row = None if self.rows is None else self.rows[index - self.indices.start]
        return Task(range(index, index + 1), None if row is None else (row,))


class AttemptKeys:
    """A set of positions and repeats of attempts; neighbours take a bit each.

    Args:
        keys: Position and repeat of each attempt.
    """

    def __init__(self, keys: Iterable[tuple[int, int]] = ()) -> None:
        self._bits: dict[tuple[int, int], int] = {}
        """By the number of a stretch of positions and the repeat: which of these positions are in the set."""
        for position, repeat in keys:
            stretch, place = divmod(position, _STRETCH)
            self._bits[stretch, repeat] = self._bits.get((stretch, repeat), 0) | 1 << place

    def __contains__(self, key: tuple[int, int]) -> bool:
        stretch, place = divmod(key[0], _STRETCH)
        return bool(self._bits.get((stretch, key[1]), 0) >> place & 1)


class Job(NamedTuple):
    """What a process needs to score parts of a run's attempts.

    Attributes:
        recorded: The recorded outputs that every process reads; None if rows come with each task.
        suite: The suite with the cases.
        settings: Settings of the run.
        metrics: Names of the metrics that the process computes.
        run: The run.
        done: Position and repeat of the attempts that are stored already.
        partitions: Folder for partitions, and the number of that which begins with the first attempt; None
            if rows are to be stored by the process of the run.
        evaluates: Whether the process evaluates the attempts. Otherwise it returns their scores, and the
            process of the run adds further ones.
        save: Whether the attempts are to be stored, too.
        aggregates: Whether evaluations are aggregated while they are scored.
    """

    recorded: Partitioned | None
    suite: Suite
    settings: Settings
    metrics: tuple[str, ...]
    run: RunRecord
    done: "AttemptKeys"
    partitions: tuple[str, int] | None = None
    evaluates: bool = True
    save: bool = True
    aggregates: bool = True


class NotPortable(TriviumError):
    """The cases or outputs cannot be sent to another process."""


def packed(job: Job, *, folder: Path | None = None) -> bytes:
    """A job as it is sent to other processes.

    Args:
        job: The job.
        folder: A folder for the indices of many cases and outputs, which all processes of this machine then
            read there; None if the processes are elsewhere, and each needs a copy.

    Raises:
        NotPortable: If the cases or outputs are of a class that cannot be pickled.
        NoRoom: If the folder cannot be written to.
    """
    content = io.BytesIO()
    pickler = pickle.Pickler(content)

    def shared(buffer: NumberBuffer[Any]) -> tuple[Any, ...]:
        if folder is None or not buffer.spilled:
            return buffer.__reduce__()
        path = folder / "numbers"
        try:
            with path.open("ab") as file:
                offset = buffer.save(file)
        except OSError as failure:
            raise NoRoom(failure) from failure
        return _shared_numbers, (path, offset, buffer.kind, len(buffer))

    pickler.dispatch_table = copyreg.dispatch_table | {NumberBuffer: shared}
    try:
        pickler.dump(job)
        return content.getvalue()
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise NotPortable(f"the cases or outputs cannot be sent to another process: {error}") from error


_opened_once = lru_cache(maxsize=1)(SpillFile.opened)


def _shared_numbers(path: Path, offset: int, kind: Kind, length: int) -> NumberBuffer[Any]:
    """Numbers in the file of a job, which a process opens once for all of them."""
    return NumberBuffer.opened(_opened_once(path), offset, kind, length)


class ScoredPart(NamedTuple):
    """Rows of scored attempts, ready to be stored, or only their scores.

    Attributes:
        rows: Rows of the attempts and of their evaluations.
        aggregation: The evaluations, aggregated.
        warnings: What was logged meanwhile.
        partition: The partition that the rows point at, if they do.
        scores: Scores of each attempt in JSON, in place of rows, if the process of the run evaluates it. A
            pickled ``Score`` would state its defaults in its row.
    """

    rows: Rows
    aggregation: IncrementalAggregation
    warnings: list[LogLine]
    partition: Partition | None = None
    scores: str = "[]"


decoded_scores: Callable[[str], list[Scores]] = msgspec.json.Decoder(list[Scores]).decode
"""Reads the scores of a :class:`ScoredPart`."""


class PartScorer:
    """Scores parts of a run's attempts.

    Args:
        job: What is to be scored, and how.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._metrics = build_metrics(job.metrics, job.settings)
        self._starts = array("Q")

    def score(self, task: Task) -> ScoredPart:
        """Score the attempts of a task, leaving out those that are stored already.

        Raises:
            TriviumError: If the outputs or the cases have changed since they were checked.
        """
        with _Warnings() as warnings:
            if self._job.partitions is not None and len(task.indices) > PART_ATTEMPTS:
                return self._partition(task.indices, self._job.partitions, warnings)
            stored = self._read(task)
            return self._part(stored, self._scores(stored), warnings)

    def _scores(self, stored: Sequence[StoredAttempt]) -> list[Scores]:
        scores: list[Scores] = []
        for batch in batched(stored, batch_size(self._metrics)):
            pairs = [(self._case(each), each.attempt) for each in batch]
            scores += score_attempts(self._metrics, pairs)
        return scores

    def _part(
        self, stored: Sequence[StoredAttempt], scores: Sequence[Scores], warnings: list[LogLine]
    ) -> ScoredPart:
        aggregation = self._aggregation()
        if not self._job.evaluates:
            return ScoredPart(Rows(self._job.run), aggregation.finished(), warnings, scores=encode(scores))
        rows = self._rows(stored, scores, aggregation)
        return ScoredPart(rows, aggregation.finished(), warnings)

    def _partition(self, part: range, place: tuple[str, int], warnings: list[LogLine]) -> ScoredPart:
        """Score the parts that a range consists of, and write the rows to a partition."""
        folder, first = place
        file: PartitionFile | None = None
        aggregation = self._aggregation()
        try:
            for each in self._parts_of(part):
                stored = self._read(Task(each))
                rows = self._rows(stored, self._scores(stored), aggregation)
                if rows.evaluations:
                    file = file or PartitionFile(self._job.run, folder, first + part.start)
                    file.write(rows)
            if file is None:
                return ScoredPart(Rows(self._job.run), aggregation.finished(), warnings)
            partition = file.completed()
        except BaseException as error:
            if file is not None:
                file.abandon()
            if isinstance(error, OSError):
                what = f"cannot be written to: {error.strerror or error}. What was stored before is safe."
                raise StoreError(f"{folder}: {what}") from error
            raise
        return ScoredPart(file.pointers, aggregation.finished(), warnings, partition)

    def _parts_of(self, part: range) -> Iterator[range]:
        """The parts of the outputs that a range consists of."""
        recorded = self._job.recorded
        if not self._starts and recorded is not None:
            self._starts = array("Q", (each.start for each in recorded.parts()))
            self._starts.append(len(recorded))
        index = bisect_left(self._starts, part.start)
        while self._starts[index] < part.stop:
            yield range(self._starts[index], self._starts[index + 1])
            index += 1

    def unscored(self, task: Task) -> ScoredPart:
        """Give one attempt an error in place of every score, because no process survives scoring it."""
        stored = self._read(task)
        for each in stored:
            log.warning("%s, repeat %d, is not scored: %s", each.attempt.case, each.attempt.repeat, LOST)
        errors = {metric.name: metric.error(LOST) for metric in self._metrics}
        return self._part(stored, [dict(errors) for _ in stored], [])

    def _read(self, task: Task) -> list[StoredAttempt]:
        job = self._job
        if task.rows is not None:
            found = [decoded_attempt(row, store=f"run {job.run.id}") for row in task.rows]
            return [each for each in found if (each.position, each.attempt.repeat) not in job.done]
        stored = []
        for case, attempt in () if job.recorded is None else job.recorded.read(task.indices):
            position = job.suite.position(case.id)
            if position is not None and (position, attempt.repeat) not in job.done:
                stored.append(StoredAttempt(position=position, attempt=attempt, case=case))
        return stored

    def _case(self, stored: StoredAttempt) -> Case:
        return stored.case or self._job.suite.cases[stored.position]

    def _aggregation(self) -> IncrementalAggregation:
        return IncrementalAggregation(self._job.settings, part=True, unordered=not self._job.aggregates)

    def _rows(
        self,
        stored: Sequence[StoredAttempt],
        scores: Sequence[Scores],
        aggregation: IncrementalAggregation,
    ) -> Rows:
        """The rows of scored attempts, whose evaluations are aggregated."""
        job = self._job
        rows = Rows(job.run)
        evaluations = [
            evaluation(each.attempt, of_attempt, job.settings)
            for each, of_attempt in zip(stored, scores, strict=True)
        ]
        for each, made in zip(stored, evaluations, strict=True):
            if job.save:
                rows.add_attempt(each, own_case=job.run.kind == "human")
            rows.add_evaluation(StoredEvaluation(position=each.position, evaluation=made))
        places = [(each.position, job.suite.group_of(self._case(each))) for each in stored]
        aggregation.add(places, [each.attempt for each in stored], evaluations)
        return rows


class _Warnings(logging.Handler):
    """Collects what is logged meanwhile, so that the process of the run can log it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: list[LogLine] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append((record.name, record.levelno, record.getMessage()))

    def __enter__(self) -> list[LogLine]:
        logging.getLogger().addHandler(self)
        return self._lines

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self)
