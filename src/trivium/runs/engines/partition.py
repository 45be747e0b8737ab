"""Scores a part of recorded outputs by itself, so that any process can do it."""

import logging
import pickle
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from trivium.agents.recorded import Partitioned
from trivium.errors import TriviumError
from trivium.metrics.evaluation import evaluation
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import Scores, score_attempts
from trivium.runs.costs.agent import without_content
from trivium.runs.pipeline import batch_size
from trivium.store.connection import batched
from trivium.store.records import AttemptUsage, Rows, RunRecord, StoredAttempt, StoredEvaluation
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

log = logging.getLogger(__name__)

LOST = "the process that scored it ended unexpectedly (out of memory, or killed)"
"""Reason of the scores of an attempt that no process survived."""

LogLine = tuple[str, int, str]
"""Name of the logger, level and text."""


class Job(NamedTuple):
    """What a process needs to score parts of a run's recorded outputs.

    Attributes:
        recorded: The outputs.
        suite: The suite with the cases.
        settings: Settings of the run.
        metrics: Names of the metrics.
        run: The run.
        done: Position and repeat of the attempts that are stored already.
    """

    recorded: Partitioned
    suite: Suite
    settings: Settings
    metrics: tuple[str, ...]
    run: RunRecord
    done: frozenset[tuple[int, int]]


class NotPortable(TriviumError):
    """The cases or outputs cannot be sent to another process."""


def packed(job: Job) -> bytes:
    """A job as it is sent to other processes.

    Raises:
        NotPortable: If the cases or outputs are of a class that cannot be pickled.
    """
    try:
        return pickle.dumps(job)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise NotPortable(f"the cases or outputs cannot be sent to another process: {error}") from error


class ScoredPart(NamedTuple):
    """Rows of scored attempts, ready to be stored.

    Attributes:
        rows: Rows of the attempts and of their evaluations.
        clusters: Cluster of each.
        usages: What each attempt took: a list of ``AttemptUsage`` as MessagePack, small beside their rows.
        warnings: What was logged meanwhile.
    """

    rows: Rows
    clusters: list[str]
    usages: bytes
    warnings: list[LogLine]


decode_usages = msgspec.msgpack.Decoder(list[AttemptUsage]).decode


class PartScorer:
    """Scores parts of recorded outputs.

    Args:
        job: What is to be scored, and how.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._metrics = build_metrics(job.metrics, job.settings)

    def score(self, part: range) -> ScoredPart:
        """Score the attempts of a range of indices, leaving out those that are stored already.

        Raises:
            TriviumError: If the outputs or the cases have changed since they were checked.
        """
        with _Warnings() as warnings:
            stored = self._read(part)
            scores: list[Scores] = []
            for batch in batched(stored, batch_size(self._metrics)):
                pairs = [(self._case(each), each.attempt) for each in batch]
                scores += score_attempts(self._metrics, pairs)
            return self._rows(stored, scores, warnings)

    def unscored(self, index: int) -> ScoredPart:
        """Give one attempt an error in place of every score, because no process survives scoring it."""
        stored = self._read(range(index, index + 1))
        for each in stored:
            log.warning("%s, repeat %d, is not scored: %s", each.attempt.case, each.attempt.repeat, LOST)
        errors = {metric.name: metric.error(LOST) for metric in self._metrics}
        return self._rows(stored, [dict(errors) for _ in stored], [])

    def _read(self, part: range) -> list[StoredAttempt]:
        job = self._job
        stored = []
        for case, attempt in job.recorded.read(part):
            position = job.suite.position(case.id)
            if position is not None and (position, attempt.repeat) not in job.done:
                stored.append(StoredAttempt(position=position, attempt=attempt, case=case))
        return stored

    def _case(self, stored: StoredAttempt) -> Case:
        return stored.case or self._job.suite.cases[stored.position]

    def _rows(
        self, stored: Sequence[StoredAttempt], scores: Sequence[Scores], warnings: list[LogLine]
    ) -> ScoredPart:
        job = self._job
        rows = Rows(job.run)
        for each, of_attempt in zip(stored, scores, strict=True):
            made = evaluation(each.attempt, of_attempt, job.settings)
            rows.add_attempt(each, own_case=job.run.kind == "human")
            rows.add_evaluation(StoredEvaluation(position=each.position, evaluation=made))
        clusters = [job.suite.group_of(self._case(each)) for each in stored]
        usages = msgspec.msgpack.encode([without_content(each.attempt) for each in stored])
        return ScoredPart(rows, clusters, usages, warnings)


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
