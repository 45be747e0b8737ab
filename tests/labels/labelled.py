"""Runs to label, and people who label."""

from collections.abc import Callable
from math import inf

from tests.runs.judged_runs import judged_run, judgement
from trivium.labels.queue import LabelQueues
from trivium.store.labels import LabelQueue, StoredLabel, add_labels
from trivium.store.records import RunRecord
from trivium.store.store import Store


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def judged(store: Store, cases: int = 12, *, prefix: str = "c", low: float = 0.0) -> RunRecord:
    """A run of which a judge scored the clarity, low or 1, each time with another confidence."""
    scores = {
        f"{prefix}{place}": [
            judgement(
                1.0 if place % 2 else low, detail={"confidence": place / cases, "model": "m", "prompt": "p"}
            )
        ]
        for place in range(cases)
    }
    outputs = {case: f"output of {case}" for case in scores}
    return judged_run(store, scores, outputs=outputs, suite=f"digest {prefix}").record


def label_all(
    queues: LabelQueues,
    queue: LabelQueue,
    by: str,
    value: Callable[[str], float] = lambda case: 1.0,
    *,
    most: float = inf,
) -> list[StoredLabel]:
    """Let a person answer until nothing is left, or until they have given so many answers."""
    given: list[StoredLabel] = []
    while len(given) < most and (task := queues.next(queue.id, by)) is not None:
        given.append(queues.answer(queue.id, task.place, by, "label", value(task.case)))
    return given


def volunteered(store: Store, run: RunRecord, case: str, value: float) -> None:
    """Store a label of an attempt that was chosen because it looks bad, as in the queue of an alert."""
    label = {
        "run": run.id, "case": case, "repeat": 0, "dimension": "clarity", "answer": "label", "value": value,
        "by": "ann", "at": 1_000.0, "how": "volunteered", "probability": None, "queue": None, "place": None,
        "key": f"{case} by ann", "note": None,
    }  # fmt: skip
    add_labels(store, [label], actor="ann")
