"""Scores a part of recorded outputs, or of a stored run, by itself, so that any process can do it."""

import logging
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

import msgspec

from trivium.errors import StoreError
from trivium.metrics.evaluation import evaluation
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import Scores, batch_size, score_attempts
from trivium.records.lines import PART_RECORDS
from trivium.runs.aggregation import IncrementalAggregation
from trivium.runs.engines.job import Job, Task, not_stored
from trivium.store.partitions.file import Partition, PartitionFile
from trivium.store.records import (
    Rows,
    StoredAttempt,
    StoredEvaluation,
    decoded_attempt,
    encode,
)
from trivium.suites.case import Case
from trivium.values import batched

log = logging.getLogger(__name__)

LOST = "the process that scored it ended unexpectedly (out of memory, or killed)"
"""Reason of the scores of an attempt that no process survived."""

LogLine = tuple[str, int, str]
"""Name of the logger, level and text."""


class ScoredPart(NamedTuple):
    """Rows of scored attempts, ready to be stored, or only their scores.

    Attributes:
        rows: Rows of the attempts and of their evaluations.
        aggregation: The evaluations, aggregated.
        warnings: What was logged meanwhile.
        partition: The partition that the rows point at, if they do.
        scores: Scores of each attempt in JSON, in place of rows, if the main process evaluates it. A
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
        for module in job.modules:
            import_module(module)
        self._metrics = build_metrics(job.metrics, job.settings)
        self._starts = array("Q")

    def score(self, task: Task) -> ScoredPart:
        """Score the attempts of a task, leaving out those that are stored already.

        Raises:
            TriviumError: If the outputs or the cases have changed since they were checked.
        """
        with _Warnings() as warnings:
            if self._job.partitions is not None and len(task.indices) > PART_RECORDS:
                return self._partition(task.indices, self._job.partitions, warnings)
            stored = self._read(task)
            return self._part(stored, self._scores(stored), warnings)

    def _scores(self, stored: Sequence[StoredAttempt]) -> list[Scores]:
        scores: list[Scores] = []
        for batch in batched(stored, batch_size(self._metrics, PART_RECORDS)):
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
        pairs = () if job.recorded is None else job.recorded.read(task.indices)
        return list(not_stored(pairs, job.suite, job.done))

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
    """Collects what is logged meanwhile, so that the main process can log it."""

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
