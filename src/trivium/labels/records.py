"""Records of labels: a queue, a task that a person has in hand, a label, and the items of a queue."""

from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import InputError
from trivium.values import resolved

__all__ = ["Answer", "Choice", "How", "LabelQueue", "Population", "QueueSettings", "StoredLabel", "Task"]

Answer = Literal["label", "cannot_tell", "skip"]
How = Literal["uniform", "active", "volunteered", "imported", "adjudicated"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LONGEST_NAME, LONGEST_NOTE = 200, 4000
"""Characters of a person's name, and of a note."""


class Choice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One answer that a labeller can choose by a key.

    Attributes:
        key: The key, ``1`` to ``9``.
        value: The score that it stands for, in [0, 1].
        name: Its name, such as ``good``.
        means: What an output of this level looks like; empty if nothing is said.
    """

    key: str
    value: float
    name: str
    means: str = ""


@resolved
class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of a queue, which do not change after it is made.

    Attributes:
        overlap: Share of the items, in [0, 1], that ``people`` label instead of one.
        people: How many label an item of the overlap, at least 2.
        lease_seconds: For how long an item is reserved for the person who has it in hand.
        uncertainty: Name of the judge's confidence from which the uncertainty comes; None: all alike.
        uniform: Whether all items are equally likely throughout, so that a certificate can use every label.
        asks: What the labeller assesses.
        choices: Answers by key; other values can be given as numbers.
        by: Who made the queue.
        volunteered: Why its labels never enter an estimate; empty if they do.
    """

    overlap: float = 0.0
    people: int = 2
    lease_seconds: float = 900.0
    uncertainty: str | None = None
    uniform: bool = False
    asks: str = ""
    choices: tuple[Choice, ...] = ()
    by: str = ""
    volunteered: str = ""


class LabelQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue of labels.

    Attributes:
        number: Its key in the store.
        id: Id shown to users.
        run: Id of the run whose attempts it asks about, or None.
        monitor: Name of the monitor whose samples it asks about, or None.
        dimension: The dimension that is labelled.
        seed: Seed of the draws.
        population: Number of items that may be asked.
        created: Unix time.
        closed: Unix time, or None.
        settings: Its settings.
    """

    number: int
    id: str
    run: str | None
    monitor: str | None
    dimension: str
    seed: int
    population: int
    created: float
    closed: float | None
    settings: QueueSettings


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """An item that a person is asked to label.

    Attributes:
        queue: Id of the queue.
        place: Its place in the queue, from 1, in the order of drawing.
        run: Id of the run.
        case: Id of the case.
        position: Position of the case in the suite.
        repeat: Number of the repeat.
        dimension: The dimension to label.
        until: Unix time until which it is reserved for this person.
    """

    queue: str
    place: int
    run: str
    case: str
    position: int
    repeat: int
    dimension: str
    until: float


class StoredLabel(msgspec.Struct, frozen=True, kw_only=True):
    """What a person said about a dimension of an attempt.

    Attributes:
        number: Its key in the store; rises with every label.
        run: Id of the run, which may have been deleted since.
        case: Id of the case.
        repeat: Number of the repeat.
        dimension: The dimension.
        answer: ``label``, ``cannot_tell`` or ``skip``.
        value: The score in [0, 1]; None unless the answer is ``label``.
        by: Name of the person.
        at: Unix time.
        how: How it was asked. Only uniform and active ones, and adjudications of them, enter an estimate.
        probability: Probability with which it was asked, just before the draw; None if it was not drawn.
        queue: Number of its queue, or None.
        place: Place of its task in the queue, or None.
        undone: Unix time at which it was taken back, or None.
        key: The same for every try to send it.
        note: What the person wrote beside it, or None.
    """

    number: int
    run: str
    case: str
    repeat: int
    dimension: str
    answer: Answer
    value: float | None
    by: str
    at: float
    how: How
    probability: float | None
    queue: int | None
    place: int | None
    undone: float | None
    key: str
    note: str | None


class Population(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The n items of a queue, fixed when it was made.

    Attributes:
        runs: Ids of the runs.
        run: Index in ``runs`` of each item, shape (n,).
        position: Position of its case in the suite, shape (n,).
        repeat: Number of its repeat, shape (n,).
        group: Number of its cluster, shape (n,).
        prediction: The judge's score, in [0, 1], shape (n,); the mean of the others where there is none.
        uncertainty: How unsure the judge is, on any scale; NaN where unknown. Shape (n,).
        cases: Ids of the cases.
    """

    runs: tuple[str, ...]
    run: Ints
    position: Ints
    repeat: Ints
    group: Ints
    prediction: Floats
    uncertainty: Floats
    cases: tuple[str, ...]

    def __len__(self) -> int:
        return self.position.size

    def packed(self) -> bytes:
        """The same as bytes."""
        columns = {name: getattr(self, name).astype(kind).tobytes() for name, kind in _COLUMNS.items()}
        return msgspec.msgpack.encode({"runs": self.runs, "cases": self.cases, **columns})


_COLUMNS = {
    "run": "<i4",
    "position": "<i4",
    "repeat": "<i4",
    "group": "<i4",
    "prediction": "<f8",
    "uncertainty": "<f8",
}


def unpacked(body: bytes) -> Population:
    """Return the items that ``Population.packed`` wrote."""
    raw: dict[str, Any] = msgspec.msgpack.decode(body)
    columns: dict[str, Any] = {
        name: np.frombuffer(raw[name], kind).astype(np.int64 if "i" in kind else np.float64)
        for name, kind in _COLUMNS.items()
    }
    return Population(runs=tuple(raw["runs"]), cases=tuple(raw["cases"]), **columns)


def checked_value(answer: Answer, value: float | None, *, source: str = "the label") -> float | None:
    """Return the value that belongs to an answer.

    Raises:
        InputError: If a label has no value in [0, 1].
    """
    if answer != "label":
        return None
    if value is None or not 0 <= value <= 1:
        found = "none" if value is None else f"{value:g}"
        raise InputError(source, f"found the value {found}, expected a number from 0 to 1")
    return float(value)
