"""Scores attempts in batches and stores the evaluations; defines the progress protocol."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from trivium.metrics.evaluation import evaluation
from trivium.metrics.metric import Metric, MetricInput, Stopped
from trivium.metrics.scoring import Scores, prefetch, score_inputs
from trivium.runs.aggregation import IncrementalAggregation
from trivium.runs.certificates import Certificates
from trivium.runs.event_loop import in_worker_thread
from trivium.store.connection import batched
from trivium.store.records import Rows, RunRecord, StoredAttempt, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite


class Progress(Protocol):
    """Receives the progress of a run. It is called from the run's own thread."""

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """A run begins; ``already`` of ``total`` attempts were done before it was resumed."""

    def advance(self, *, done: int, failed: int) -> None:
        """``done`` more attempts are scored and stored; ``failed`` of them failed."""

    def end(self) -> None:
        """The run ended: finished, failed or interrupted."""


class NoProgress:
    """Shows no progress."""

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """Nothing."""

    def advance(self, *, done: int, failed: int) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


log = logging.getLogger(__name__)

ATTEMPTS_AT_ONCE = 256
CHARACTERS_AT_ONCE = 8_000_000
"""A batch ends at either limit, so that its size in memory is bounded even if outputs are large."""

ALONE_AT_ONCE = 32
"""Size of a batch if every metric scores attempts one by one: small enough that the scores are still in the
processor's cache when they are aggregated and stored."""

BATCHES_AHEAD = 4
CHARACTERS_AHEAD = 16_000_000
"""Limits of the batches whose scores metrics may prefetch before their turn comes."""


class Due(NamedTuple):
    """An attempt that is due to be scored; metrics may be prefetching its scores."""

    stored: StoredAttempt
    subject: MetricInput


class Pipeline:
    """Scores batches of attempts and stores their evaluations, each batch in one transaction.

    Args:
        store: Where evaluations are stored.
        run: The run, owned by this process.
        suite: Gives the cases.
        metrics: As ``build_metrics`` orders them.
        settings: The suite's.
        progress: Called for every batch.
        following: Told about every evaluation.
        certificates: Mark the judgements that they apply to.
    """

    def __init__(
        self,
        *,
        store: Store,
        run: RunRecord,
        suite: Suite,
        metrics: Sequence[Metric],
        settings: Settings,
        progress: Progress,
        incremental: IncrementalAggregation,
        certificates: Certificates,
    ) -> None:
        self._store = store
        self._run = run
        self._suite = suite
        self._metrics = metrics
        self._settings = settings
        self._progress = progress
        self._incremental = incremental
        self._certificates = certificates
        alone = all(type(metric).score_many is Metric.score_many for metric in metrics)
        self._at_once = ALONE_AT_ONCE if alone else ATTEMPTS_AT_ONCE
        self._closed = False

    def save_attempts(self, batch: Sequence[StoredAttempt]) -> None:
        """Store attempts before they are scored, because asking for them again would cost money."""
        self._store.save(self._run, attempts=batch)

    def begin(self, batch: Sequence[StoredAttempt]) -> list[Due]:
        """Let metrics begin to score attempts; :meth:`score` waits for the scores."""
        cases = self._suite.cases
        pairs = [(stored.case or cases[stored.position], stored.attempt) for stored in batch]
        subjects = prefetch(self._metrics, pairs)
        return [Due(stored, subject) for stored, subject in zip(batch, subjects, strict=True)]

    def score(self, batch: Sequence[Due], *, save: bool) -> None:
        """Score attempts that :meth:`begin` returned, and store their evaluations.

        After :meth:`close` only those whose scores are complete are stored.

        Args:
            batch: The attempts.
            save: Store the attempts too, in the same transaction.
        """
        rows = Rows(self._run)
        for part in batched(batch, self._at_once):
            scored = [(due, self._with_certificates(due, scores)) for due, scores in self._scored(part)]
            folded = [evaluation(due.stored.attempt, scores, self._settings) for due, scores in scored]
            self._incremental.add([(due.stored.position, due.subject.case) for due, _ in scored], folded)
            for (due, _), made in zip(scored, folded, strict=True):
                if save:
                    rows.add_attempt(due.stored, own_case=self._run.kind == "human")
                rows.add_evaluation(StoredEvaluation(position=due.stored.position, evaluation=made))
        self._store.write(rows)
        self._progress.advance(done=len(rows.evaluations), failed=rows.failed)

    def _with_certificates(self, due: Due, scores: Scores) -> Scores:
        """The scores of an attempt, with the decisions of certificates on its judgements."""
        if not self._certificates:
            return scores
        return dict(self._certificates.marked(scores, self._suite.group_of(due.subject.case)))

    def _scored(self, part: Sequence[Due]) -> list[tuple[Due, Scores]]:
        """Attempts with their scores, without those that a closed metric did not score."""
        try:
            return list(zip(part, score_inputs(self._metrics, [due.subject for due in part]), strict=True))
        except Stopped:
            return [(due, scores) for due in part if (scores := self._finished(due)) is not None]

    def _finished(self, due: Due) -> Scores | None:
        try:
            (scores,) = score_inputs(self._metrics, [due.subject])
        except Stopped:
            return None
        return scores

    def close(self) -> None:
        """Close the metrics; they abandon what they are computing."""
        self._closed = True
        for metric in self._metrics:
            metric.close()

    async def score_all(self, stored: Iterable[StoredAttempt], *, save: bool) -> None:
        """Read and score attempts in a thread, while metrics prefetch scores of the next ones.

        On cancellation the metrics are closed, and complete scores are stored.

        Args:
            stored: The attempts.
            save: Store them too.
        """
        scoring = asyncio.ensure_future(asyncio.to_thread(self._score_all, stored, save=save))
        try:
            await asyncio.shield(scoring)
        except asyncio.CancelledError:
            await in_worker_thread(self.close)
            await asyncio.wait([scoring])
            raise

    def _score_all(self, stored: Iterable[StoredAttempt], *, save: bool) -> None:
        for batch in self._prefetched(stored):
            self.score(batch, save=save)
            if self._closed:
                return

    def _prefetched(self, stored: Iterable[StoredAttempt]) -> Iterator[list[Due]]:
        """Batches in order, with the scores of some further ones prefetched if a metric can do that."""
        ahead: deque[list[Due]] = deque()
        most = BATCHES_AHEAD if any(metric.prefetches for metric in self._metrics) else 0
        for batch in _batches(stored):
            ahead.append(self.begin(batch))
            while len(ahead) > most or (len(ahead) > 1 and _characters(ahead) > CHARACTERS_AHEAD):
                yield ahead.popleft()
        while ahead:
            yield ahead.popleft()


def _characters(ahead: Iterable[list[Due]]) -> int:
    return sum(len(due.stored.attempt.text) for batch in ahead for due in batch)


def _batches(attempts: Iterable[StoredAttempt]) -> Iterator[list[StoredAttempt]]:
    """Attempts in batches of bounded number and size."""
    batch: list[StoredAttempt] = []
    size = 0
    for stored in attempts:
        batch.append(stored)
        size += len(stored.attempt.text)
        if len(batch) == ATTEMPTS_AT_ONCE or size >= CHARACTERS_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
