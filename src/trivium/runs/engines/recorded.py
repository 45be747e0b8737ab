"""The attempts that a run scores: recorded outputs, or those of a stored run."""

from collections.abc import Callable, Iterator, Set

from trivium.agents.attempt import Attempt
from trivium.agents.recorded import Carried, Partitioned, Recorded
from trivium.errors import OutputsError
from trivium.runs.engines.agent import InTurn, ask_and_score
from trivium.runs.engines.job import AttemptKeys, Task, not_stored
from trivium.runs.pipeline import Pipeline, Planned, in_batches
from trivium.store.records import RunRecord, StoredAttempt, decoded_attempt
from trivium.store.store import Store
from trivium.suites.suite import Suite


class RecordedAttempts:
    """Recorded outputs that are not stored yet; see :class:`~trivium.runs.engines.processes.Source`.

    Args:
        recorded: The outputs.
        suite: The suite with the cases.
        store: The store.
        run: The run.
    """

    def __init__(self, recorded: Recorded, *, suite: Suite, store: Store, run: RunRecord) -> None:
        self.done = AttemptKeys(store.attempt_keys(run))
        self._all = recorded
        self._parted = recorded if isinstance(recorded, Partitioned) else None
        self._carried = recorded if isinstance(recorded, Carried) else None
        self.in_parts = self._parted is not None
        self.recorded = None if self._carried is not None else self._parted
        self._suite = suite
        self._store = store
        self._run = run

    def __len__(self) -> int:
        return len(self._all)

    def tasks(self) -> Iterator[Task]:
        """Yield the parts of the outputs in order."""
        for part in () if self._parted is None else self._parted.parts():
            rows = None if self._carried is None else tuple(self._carried.rows(part))
            yield Task(part, rows)

    def attempts(self, task: Task) -> Iterator[StoredAttempt]:
        """Yield the attempts of a part, without those that are stored."""
        pairs = () if self._parted is None else self._parted.read(task.indices)
        return not_stored(pairs, self._suite, self.done)

    def left(self) -> Iterator[StoredAttempt]:
        """Yield all attempts that are not stored yet."""
        self.done = AttemptKeys(self._store.attempt_keys(self._run))
        return not_stored(self._all, self._suite, self.done)

    async def score_until_decided(self, attempts: InTurn, pipeline: Pipeline, *, repeats: int) -> None:
        """Score attempts in the order in which they are handed out, as if they were made only now.

        Args:
            attempts: The attempts.
            pipeline: Scores and stores them.
            repeats: Number of attempts at each case.

        Raises:
            OutputsError: If an attempt that may be wanted was not recorded.
        """
        recorded = self._parted
        if recorded is None:
            raise OutputsError("", "until_decided needs outputs from a file of outputs, or in memory")
        indices: dict[tuple[int | None, int], int] = {}
        for index, (case, attempt) in enumerate(recorded):
            indices[self._suite.position(case.id), attempt.repeat] = index
        self._check_complete(indices.keys(), repeats)

        async def read(planned: Planned, _alone: Callable[[], bool]) -> Attempt:
            position, _, repeat = planned
            index = indices[position, repeat]
            ((_, attempt),) = recorded.read(range(index, index + 1))
            return attempt

        await ask_and_score(attempts, read, pipeline, concurrency=1)

    def _check_complete(self, recorded: Set[tuple[int | None, int]], repeats: int) -> None:
        """Refuse outputs of only some cases: which they are might depend on how good they are."""
        missing = [
            case.id
            for position, case in enumerate(self._suite)
            if any((position, repeat) not in recorded for repeat in range(repeats))
        ]
        if missing:
            what = (
                f"until_decided needs every output; {len(missing):,} of {len(self._suite):,} cases lack one "
                f"(first: {missing[0]})"
            )
            raise OutputsError("", what)


class StoredAttempts:
    """Stored attempts without evaluations; see :class:`~trivium.runs.engines.processes.Source`.

    Only the main process reads the store: their rows travel with each task, undecoded.

    Args:
        store: The store.
        run: The run that scores them, also those of another run.
    """

    def __init__(self, store: Store, run: RunRecord) -> None:
        self.recorded: Partitioned | None = None
        self.in_parts = True
        self.done = AttemptKeys()
        self._store = store
        self._run = run

    def __len__(self) -> int:
        keys = self._store.attempt_keys
        return sum(1 for _ in keys(self._run)) - sum(1 for _ in keys(self._run, scored_only=True))

    def tasks(self) -> Iterator[Task]:
        """Yield parts in suite order, each bounded in number and in size."""
        first = 0
        for rows in in_batches(
            self._store.attempt_rows(self._run, unscored_only=True), lambda row: len(row[2])
        ):
            yield Task(range(first, first + len(rows)), tuple(rows))
            first += len(rows)

    def attempts(self, task: Task) -> Iterator[StoredAttempt]:
        """Yield the attempts of a part."""
        yield from (decoded_attempt(row, store=self._store.name) for row in task.rows or ())

    def left(self) -> Iterator[StoredAttempt]:
        """Yield all attempts that have no evaluation."""
        return self._store.attempts(self._run, unscored_only=True)
