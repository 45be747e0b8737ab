"""Pipeline: attempts in, evaluations stored. The one path of asked, recorded and stored attempts."""

import logging
from collections.abc import Iterable, Iterator, Sequence

from trivium.metrics.evaluation import evaluation
from trivium.metrics.metric import Metric
from trivium.metrics.scoring import score_attempts
from trivium.runs.progress import Progress
from trivium.store.records import RunRecord, StoredAttempt, StoredEvaluation
from trivium.store.store import Store
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

log = logging.getLogger(__name__)

ATTEMPTS_AT_ONCE = 256
CHARACTERS_AT_ONCE = 8_000_000
"""A batch is closed at either, so that its size in memory is bounded however large the outputs are."""


class Pipeline:
    """Scores batches of attempts and stores what comes of them, each batch in one transaction.

    Args:
        store: Where it goes.
        run: The run, owned by this process.
        suite: Gives the cases.
        metrics: As ``build_metrics`` orders them.
        settings: The suite's.
        progress: Told about every batch.
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
    ) -> None:
        self._store = store
        self._run = run
        self._suite = suite
        self._metrics = metrics
        self._settings = settings
        self._progress = progress

    def keep(self, batch: Sequence[StoredAttempt]) -> None:
        """Store attempts that cost something to get, before anything else is done with them."""
        self._store.save(self._run, attempts=batch)

    def score(self, batch: Sequence[StoredAttempt], *, keep: bool) -> None:
        """Score attempts and store their evaluations.

        Args:
            batch: The attempts.
            keep: Store the attempts too, in the same transaction.
        """
        cases = self._suite.cases
        pairs = [(stored.case or cases[stored.position], stored.attempt) for stored in batch]
        scored = score_attempts(self._metrics, pairs)
        evaluations = [
            StoredEvaluation(
                position=stored.position, evaluation=evaluation(stored.attempt, scores, self._settings)
            )
            for stored, scores in zip(batch, scored, strict=True)
        ]
        own_cases = self._run.kind == "human"
        attempts = batch if keep else ()
        self._store.save(self._run, attempts=attempts, evaluations=evaluations, own_cases=own_cases)
        failed = sum(stored.attempt.failed for stored in batch)
        self._progress.advance(done=len(batch), failed=failed)


def batches(attempts: Iterable[StoredAttempt]) -> Iterator[list[StoredAttempt]]:
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
