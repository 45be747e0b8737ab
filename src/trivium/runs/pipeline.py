"""Scores attempts in batches, stores the evaluations and reports progress."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from trivium.metrics.evaluation import evaluation
from trivium.metrics.metric import Metric, MetricInput, Score, Stopped
from trivium.metrics.scoring import Scores, batch_size, prefetch, score_inputs
from trivium.runs.aggregation import AnyEvaluation, IncrementalAggregation
from trivium.runs.certificates import Certificates, drift_before
from trivium.runs.event_loop import in_worker_thread
from trivium.store.partitions.writer import PartitionWriter
from trivium.store.records import Rows, RunRecord, StoredAttempt, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite
from trivium.values import batched


class Progress(Protocol):
    """Receives the progress of a run, on the thread of the run."""

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """Called when a run begins; ``already`` of ``total`` attempts were done before it was resumed."""

    def advance(self, *, done: int, failed: int) -> None:
        """Called when ``done`` more attempts are scored and stored; ``failed`` of them failed."""

    def end(self) -> None:
        """Called when the run has finished, failed or been interrupted."""


class NoProgress:
    """Ignores the progress of a run."""

    def begin(self, *, run: str, total: int | None, already: int) -> None:
        """Do nothing."""

    def advance(self, *, done: int, failed: int) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BATCH_ATTEMPTS = 256
MAX_BATCH_CHARACTERS = 8_000_000
"""A batch ends at either limit, so that its size in memory is bounded even if outputs are large."""

MAX_PREFETCHED_BATCHES = 4
MAX_PREFETCHED_CHARACTERS = 16_000_000
"""Limits on the batches whose scores metrics prefetch while earlier ones are scored."""


class Prepared(NamedTuple):
    """What a run computes, which is known to be possible.

    Attributes:
        suite: The suite.
        settings: Settings of the run.
        names: The names that its metrics are built from.
        metrics: The metrics, in the order of ``build_metrics``.
    """

    suite: Suite
    settings: Settings
    names: tuple[str, ...]
    metrics: list[Metric]


class PartlyScored(StoredAttempt, frozen=True, kw_only=True):
    """An attempt of which a worker has computed some scores.

    Attributes:
        scores: These scores, by metric.
    """

    scores: Mapping[str, Score]


class PendingAttempt(NamedTuple):
    """An attempt to be scored; metrics may be prefetching its scores."""

    stored: StoredAttempt
    metric_input: MetricInput


Planned = tuple[int, Case, int]
"""Position, case and repeat of an attempt that is to be made."""


Take = Callable[[Iterable[tuple[int, AnyEvaluation]]], None]


class Pipeline:
    """Scores batches of attempts and stores their evaluations, each batch in one transaction.

    Args:
        prepared: What the run computes.
        store: The store for the evaluations.
        run: The run, owned by this process.
        progress: Called after every batch.
        in_order: Whether attempts are scored once each, in suite order.
        take: Receives every evaluation too, each with the position of its case.
        partitions: Stores attempts and evaluations, instead of the store itself.

    Attributes:
        incremental: The evaluations, aggregated as they are made.
        closed: Whether nothing more is to be scored.
    """

    def __init__(
        self,
        prepared: Prepared,
        store: Store,
        run: RunRecord,
        *,
        progress: Progress,
        in_order: bool,
        take: Take | None = None,
        partitions: PartitionWriter | None = None,
    ) -> None:
        self.prepared, self.run, self.partitions, self.closed = prepared, run, partitions, False
        self.incremental = IncrementalAggregation(prepared.settings, unordered=not in_order)
        self._store = store
        self._write = store.write if partitions is None else partitions.write
        self._suite, self._settings, self._metrics = prepared.suite, prepared.settings, prepared.metrics
        self._progress = progress
        self._marked: Callable[[Scores, str], Mapping[str, Score]] = lambda scores, _group: scores
        if prepared.settings.judge is not None:
            before = drift_before(store, prepared.settings)
            self._marked = Certificates(prepared.settings, run.provenance, before=before).marked
        self._take = take
        self._batch_size = batch_size(prepared.metrics, MAX_BATCH_ATTEMPTS)
        self._also_close: list[Callable[[], None]] = []

    def closes(self, stop: Callable[[], None]) -> None:
        """Have :meth:`close` call a function that stops what scores elsewhere. From any thread."""
        self._also_close.append(stop)
        if self.closed:  # perhaps before it was in the list
            stop()

    def save_attempts(self, batch: Sequence[StoredAttempt]) -> None:
        """Store attempts before they are scored, because making them again would cost money."""
        self._store.save(self.run, attempts=batch)

    def prefetch(self, batch: Sequence[StoredAttempt]) -> list[PendingAttempt]:
        """Let metrics start scoring attempts; :meth:`score` waits for the scores."""
        pending = [PendingAttempt(stored, self._metric_input(stored)) for stored in batch]
        prefetch(self._metrics, [each.metric_input for each in pending])
        return pending

    def _metric_input(self, stored: StoredAttempt) -> MetricInput:
        case = stored.case or self._suite.cases[stored.position]
        return MetricInput(case, stored.attempt, stored.scores if isinstance(stored, PartlyScored) else {})

    def score(self, batch: Sequence[PendingAttempt], *, save: bool) -> None:
        """Score attempts that :meth:`prefetch` returned, and store their evaluations.

        After :meth:`close`, only evaluations whose scores are complete are stored.

        Args:
            batch: The attempts.
            save: Also store the attempts, in the same transaction.
        """
        rows = Rows(self.run)
        for part in batched(batch, self._batch_size):
            scored = self._compute_scores(part)
            attempts = [entry.stored.attempt for entry, _ in scored]
            places = [
                (entry.stored.position, self._suite.group_of(entry.metric_input.case)) for entry, _ in scored
            ]
            evaluations = [
                evaluation(attempt, self._marked(scores, group), self._settings)
                for attempt, (_, scores), (_, group) in zip(attempts, scored, places, strict=True)
            ]
            self.incremental.add(places, attempts, evaluations)
            if self._take is not None:
                positions = [position for position, _ in places]
                self._take(zip(positions, evaluations, strict=True))
            for (entry, _), result in zip(scored, evaluations, strict=True):
                if save:
                    rows.add_attempt(entry.stored, own_case=self.run.kind == "human")
                rows.add_evaluation(StoredEvaluation(position=entry.stored.position, evaluation=result))
        self._commit(rows, self._write)

    def save_scored(
        self,
        rows: Rows,
        aggregation: IncrementalAggregation,
        *,
        write: Callable[[Rows], None] | None = None,
    ) -> None:
        """Store attempts that another process has scored.

        Args:
            rows: Their rows.
            aggregation: Their aggregation, of a part of the run.
            write: Stores the rows, if not where those of this process go.
        """
        self.incremental.merge(aggregation)
        self._commit(rows, write or self._write)

    def _commit(self, rows: Rows, write: Callable[[Rows], None]) -> None:
        write(rows)
        self._progress.advance(done=len(rows.evaluations), failed=rows.failed)

    def _compute_scores(self, part: Sequence[PendingAttempt]) -> list[tuple[PendingAttempt, Scores]]:
        """Score attempts; leave out those that a closed metric did not score."""
        try:
            scores = score_inputs(self._metrics, [entry.metric_input for entry in part])
        except Stopped:
            alone = part if len(part) > 1 else ()
            return [scored for entry in alone for scored in self._compute_scores([entry])]
        return list(zip(part, scores, strict=True))

    def close(self) -> None:
        """Close the metrics, which abandon unfinished scores, and whatever else scores for the run."""
        self.closed = True
        for stop in self._also_close:
            stop()
        for metric in self._metrics:
            metric.close()

    async def score_all(self, stored: Iterable[StoredAttempt], *, save: bool) -> None:
        """Read and score attempts on a worker thread, while metrics prefetch scores of the next ones.

        On cancellation the metrics are closed, and evaluations with complete scores are stored.

        Args:
            stored: The attempts.
            save: Also store the attempts.
        """
        await self.in_thread(lambda: self.score_now(stored, save=save))

    async def in_thread(self, work: Callable[[], None]) -> None:
        """Do work on a worker thread; on cancellation, close the metrics and wait for the work to end."""
        scoring = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            await asyncio.shield(scoring)
        except asyncio.CancelledError:
            await in_worker_thread(self.close)
            await asyncio.wait([scoring])
            raise

    def score_now(self, stored: Iterable[StoredAttempt], *, save: bool) -> None:
        """Read and score attempts on this thread; see :meth:`score_all`."""
        for batch in self._prefetched(stored):
            self.score(batch, save=save)
            if self.closed:
                return

    def _prefetched(self, stored: Iterable[StoredAttempt]) -> Iterator[list[PendingAttempt]]:
        """Yield batches in order, prefetching the scores of the next ones if a metric supports it."""
        prefetched: deque[list[PendingAttempt]] = deque()
        max_ahead = MAX_PREFETCHED_BATCHES if any(metric.prefetches for metric in self._metrics) else 0
        for batch in in_batches(stored, lambda each: len(each.attempt.text)):
            prefetched.append(self.prefetch(batch))
            while len(prefetched) > max_ahead or (
                len(prefetched) > 1 and _characters(prefetched) > MAX_PREFETCHED_CHARACTERS
            ):
                yield prefetched.popleft()
        while prefetched:
            yield prefetched.popleft()


def _characters(prefetched: Iterable[list[PendingAttempt]]) -> int:
    return sum(len(entry.stored.attempt.text) for batch in prefetched for entry in batch)


def in_batches(attempts: Iterable[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield attempts, or their rows, in batches of bounded number and size."""
    batch: list[T] = []
    size = 0
    for each in attempts:
        batch.append(each)
        size += size_of(each)
        if len(batch) == MAX_BATCH_ATTEMPTS or size >= MAX_BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
