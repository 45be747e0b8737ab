"""Selects what a labeller may see of an item: never the verdicts of judges or other people."""

from typing import Any

import msgspec

from trivium.errors import InputError
from trivium.store.labels import Task
from trivium.store.store import Store
from trivium.suites.chat import dialogue_text
from trivium.traces.trace import Trace


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt without scores, verdicts, confidences, reasons and labels.

    Attributes:
        case: Id of the case.
        repeat: Number of the repeat.
        input: What the agent was asked.
        source: The document that the case is about, or None.
        references: Good outputs, if there are any.
        output: What the agent answered.
        trace: What it did, or None.
    """

    case: str
    repeat: int
    input: Any
    source: str | None
    references: tuple[str, ...]
    output: Any
    trace: Trace | None

    @property
    def input_text(self) -> str:
        """The input as text."""
        return dialogue_text(self.input) or _text(self.input)

    @property
    def output_text(self) -> str:
        """The output as text."""
        if self.output is None:
            return ""
        return _text(self.output)


def material_of(store: Store, task: Task) -> Material:
    """Read what a labeller may see of the item that they have in hand; see :func:`material_at`."""
    return material_at(store, task.run, task.position, task.repeat)


def material_at(store: Store, run: str, position: int, repeat: int) -> Material:
    """Read what a person may see of an attempt before they judge it.

    Scores are not even read. A process metric that the agent recorded itself, and metadata of the case or of
    the attempt, are left out too: they may hold what somebody thought of it.

    Raises:
        InputError: If the run was deleted meanwhile.
    """
    found = store.attempt(run, position, repeat)
    if found is None:
        raise InputError(f"run {run}", "was deleted: its attempt can no longer be seen")
    case, attempt = found
    return Material(
        case=case.id,
        repeat=attempt.repeat,
        input=case.input_shown if case.turns else case.input,
        source=case.source,
        references=case.references,
        output=attempt.shown,
        trace=attempt.trace,
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
