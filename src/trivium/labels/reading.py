"""Reads queues, draws and labels from the store."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, select

from trivium.labels.records import LabelQueue, QueueSettings, StoredLabel, Task
from trivium.store import schema
from trivium.trust.active_sampling import Draw, Sampling

__all__ = [
    "draws_of",
    "is_there",
    "label_of",
    "labels_of_queue",
    "people_say",
    "queue_of",
    "run_number",
    "said",
    "sampling_of",
]


def queue_of(row: Any) -> LabelQueue:
    """Return the record of a row of ``label_queues``, read without its items."""
    fields = dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
    fields["settings"] = msgspec.json.decode(fields["settings"], type=QueueSettings)
    return LabelQueue(**{str(name): value for name, value in fields.items()})


def label_of(row: Any) -> StoredLabel:
    """Return the record of a row of ``labels``."""
    return StoredLabel(**{str(name): value for name, value in row._mapping.items()})  # noqa: SLF001


def draws_of(connection: Connection, queue: LabelQueue) -> tuple[Draw, ...]:
    """Return the draws of a queue, in order."""
    tasks = schema.label_tasks
    query = select(tasks.c.item, tasks.c.probability, tasks.c.how).where(tasks.c.queue == queue.number)
    rows = connection.execute(query.order_by(tasks.c.place))
    return tuple(Draw(item=item, probability=probability, how=how) for item, probability, how in rows)


def sampling_of(queue: LabelQueue, draws: Sequence[Draw]) -> Sampling:
    """Return the draws of a queue as what ``trust`` continues and estimates from."""
    return Sampling(seed=queue.seed, population=queue.population, draws=tuple(draws))


def labels_of_queue(connection: Connection, queue: LabelQueue) -> list[StoredLabel]:
    """Return the answers of a queue that were not taken back, in the order in which they came."""
    labels = schema.labels
    query = select(labels).where(labels.c.queue == queue.number, labels.c.undone.is_(None))
    return [label_of(row) for row in connection.execute(query.order_by(labels.c.number))]


def people_say(labels: Iterable[StoredLabel], sampling: Sampling) -> dict[int, float | None]:
    """What people say about each item: an adjudication, else the median; None where nobody can tell.

    Items that were only skipped are left out: they wait for an answer.
    """
    by_place: defaultdict[int, list[StoredLabel]] = defaultdict(list)
    for label in labels:
        if label.place is not None:
            by_place[label.place].append(label)
    found = {}
    for place, given in by_place.items():
        answered = [label for label in given if label.answer != "skip"]
        if answered:
            found[sampling.draws[place - 1].item] = said(answered)
    return found


def said(labels: Sequence[StoredLabel]) -> float | None:
    """One value for the answers to one item: the last adjudication, else the median of those who can tell."""
    decided = [label.value for label in labels if label.how == "adjudicated"]
    if decided:
        return decided[-1]
    values = [label.value for label in labels if label.value is not None]
    return float(median(values)) if values else None


def run_number(connection: Connection, run: str) -> int | None:
    """Return the number of the run with this id; None if it was deleted."""
    number: int | None = connection.execute(
        select(schema.runs.c.number).where(schema.runs.c.id == run)
    ).scalar()
    return number


def is_there(connection: Connection, task: Task) -> bool:
    """Whether the attempt of a task is still in the store."""
    number, scored = run_number(connection, task.run), schema.evaluations
    if number is None:
        return False
    at = and_(scored.c.run == number, scored.c.position == task.position, scored.c.repeat == task.repeat)
    return connection.execute(select(scored.c.run).where(at)).first() is not None
