"""The job that worker processes need to score parts of a run's attempts, and its pickled form."""

import copyreg
import io
import pickle
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from trivium.agents.attempt import Attempt
from trivium.agents.recorded import Partitioned
from trivium.errors import TriviumError
from trivium.number_buffer import Kind, NoRoom, NumberBuffer, SpillFile
from trivium.store.records import AttemptRow, RunRecord, StoredAttempt
from trivium.suites.case import Case
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

_STRETCH = 512
"""Number of positions that share one bit set."""


class Task(NamedTuple):
    """A part to be scored.

    Attributes:
        indices: Indices of its attempts.
        rows: The attempts themselves, if only the main process can read them.
    """

    indices: range
    rows: tuple[AttemptRow, ...] | None = None

    def alone(self, index: int) -> "Task":
        """Return a task with only one attempt of the part."""
        row = None if self.rows is None else self.rows[index - self.indices.start]
        return Task(range(index, index + 1), None if row is None else (row,))


class AttemptKeys:
    """A set of (position, repeat) pairs of attempts, stored as bit sets.

    Args:
        keys: Position and repeat of each attempt.
    """

    def __init__(self, keys: Iterable[tuple[int, int]] = ()) -> None:
        self._bits: dict[tuple[int, int], int] = {}
        """A bit set of positions, by the number of their stretch and the repeat."""
        for position, repeat in keys:
            stretch, place = divmod(position, _STRETCH)
            self._bits[stretch, repeat] = self._bits.get((stretch, repeat), 0) | 1 << place

    def __contains__(self, key: tuple[int, int]) -> bool:
        stretch, place = divmod(key[0], _STRETCH)
        return bool(self._bits.get((stretch, key[1]), 0) >> place & 1)


class Job(NamedTuple):
    """What a worker process needs to score parts of a run's attempts.

    Attributes:
        recorded: The recorded outputs that each worker reads; None if each task brings its rows.
        suite: The suite with the cases.
        settings: Settings of the run.
        metrics: Names of the metrics that the workers compute.
        run: The run.
        done: Position and repeat of the attempts that are stored already.
        partitions: Folder for partitions, and the number of the partition that begins with the first attempt;
            None if the main process stores the rows.
        evaluates: Whether workers evaluate the attempts. Otherwise they return scores, to which the main
            process adds others.
        save: Whether to store the attempts, too.
        aggregates: Whether to aggregate evaluations while scoring.
        modules: The modules that define the metrics.
    """

    recorded: Partitioned | None
    suite: Suite
    settings: Settings
    metrics: tuple[str, ...]
    run: RunRecord
    done: AttemptKeys
    partitions: tuple[str, int] | None = None
    evaluates: bool = True
    save: bool = True
    aggregates: bool = True
    modules: tuple[str, ...] = ()


def not_stored(
    pairs: Iterable[tuple[Case, Attempt]], suite: Suite, done: AttemptKeys
) -> Iterator[StoredAttempt]:
    """Yield those attempts of cases of a suite that are not stored already."""
    for case, attempt in pairs:
        position = suite.position(case.id)
        if position is not None and (position, attempt.repeat) not in done:
            yield StoredAttempt(position=position, attempt=attempt, case=case)


class NotPortable(TriviumError):
    """The cases or outputs cannot be sent to another process."""


def packed(job: Job, *, folder: Path | None = None) -> bytes:
    """Pickle a job for the worker processes.

    Args:
        job: The job.
        folder: Folder for the indices of many cases and outputs, so that all workers on this machine share
            them; None if workers run on other machines, and each needs a copy.

    Raises:
        NotPortable: If a case or an output cannot be pickled.
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
    """Open numbers in the file of a job; each process opens the file once."""
    return NumberBuffer.opened(_opened_once(path), offset, kind, length)
