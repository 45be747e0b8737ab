"""What other processes need to score parts of a run's attempts, and how it is sent to them."""

import copyreg
import io
import pickle
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from trivium.agents.recorded import Partitioned
from trivium.errors import TriviumError
from trivium.number_buffer import Kind, NoRoom, NumberBuffer, SpillFile
from trivium.store.records import AttemptRow, RunRecord
from trivium.suites.settings import Settings
from trivium.suites.suite import Suite

_STRETCH = 512
"""Positions of which one number says whether they are in a set."""


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
