"""The records of stored labels and of queue items, and the checks of their fields."""

from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.errors import InputError
from trivium.safe_text import sanitise
from trivium.store.labels import Answer, Choice, How, LabelQueue, QueueSettings, StoredLabel, Task

__all__ = ["Answer", "Choice", "How", "LabelQueue", "Population", "QueueSettings", "StoredLabel", "Task"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LONGEST_NAME, LONGEST_NOTE = 200, 4000
"""Characters of a person's name, and of a note."""


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


def checked_name(by: str) -> str:
    """Return a person's name without what a store cannot hold.

    Raises:
        InputError: If it is empty or too long.
    """
    name = str(sanitise(by)[0]).strip()
    if not name or len(name) > LONGEST_NAME:
        raise InputError("the labeller's name", f"expected 1 to {LONGEST_NAME} characters, found {len(name)}")
    return name


def noted(note: str | None) -> str | None:
    """Return a note without what a store cannot hold, cut to its longest; None if it is empty."""
    return None if note is None else str(sanitise(note)[0]).strip()[:LONGEST_NOTE] or None


def key_of(*parts: str) -> str:
    """Return the key of a label: nobody can use the one of another person or queue."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=24).hexdigest()
