"""How far a queue is, and what its labels say so far."""

from collections import Counter

import msgspec
import numpy as np
from sqlalchemy import and_, case, func, select

from trivium.labels.queue import LabelQueues
from trivium.labels.reading import draws_of, labels_of_queue, people_say, sampling_of
from trivium.labels.records import LabelQueue
from trivium.labels.tasks import NOBODY
from trivium.store import schema
from trivium.store.connection import explain_errors
from trivium.store.store import Store
from trivium.trust.active_inference import ActiveMean, active_mean
from trivium.trust.active_sampling import Sampling
from trivium.trust.cluster_bootstrap import Groups

__all__ = ["Answers", "Progress", "answers_in", "estimate_of", "progress_of"]


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """How many items of a queue have an answer, and of how many people."""

    items: int
    people: int


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a queue is.

    Attributes:
        queue: The queue.
        drawn: Items that were drawn.
        answered: Items with an answer, including those of which nobody can tell.
        cannot_tell: Items of which nobody can tell.
        wanted: Answers of further people that drawn items still want.
        in_hand: Items that somebody has in hand now.
        people: Number of answers by person, most first; decisions on others' answers are not counted.
        estimate: People's mean score, estimated from the answers; None for a queue of volunteered labels.
        reason: Why there is no estimate, or None.
    """

    queue: LabelQueue
    drawn: int
    answered: int
    cannot_tell: int
    wanted: int
    in_hand: int
    people: dict[str, int]
    estimate: ActiveMean | None
    reason: str | None = None


def answers_in(store: Store, queue: LabelQueue) -> Answers:
    """Count the answers of a queue, without reading them."""
    labels = schema.labels.c
    person = case((and_(labels.how != "adjudicated", labels.by != NOBODY), labels.by))
    query = select(func.count(labels.place.distinct()), func.count(person.distinct())).where(
        labels.queue == queue.number, labels.undone.is_(None), labels.answer != "skip"
    )
    with explain_errors(store.engine), store.engine.connect() as connection:
        items, people = connection.execute(query).one()
    return Answers(items=items, people=people)


def progress_of(queues: LabelQueues, id: str) -> Progress:  # noqa: A002 - the field's name in the record
    """Count what a queue has, and estimate from it.

    Raises:
        InputError: If there is no such queue.
    """
    queue = queues.get(id)
    tasks, leases = schema.label_tasks, schema.label_leases
    now = queues.now()
    with explain_errors(queues.store.engine), queues.store.engine.connect() as connection:
        sampling = sampling_of(queue, draws_of(connection, queue))
        labels = labels_of_queue(connection, queue)
        missing = select(tasks.c.missing).where(tasks.c.queue == queue.number, tasks.c.missing > 0)
        wanted = sum(connection.execute(missing).scalars())
        held = select(leases.c.place).where(leases.c.queue == queue.number, leases.c.until > now)
        in_hand = len(connection.execute(held).all())
    answers = people_say(labels, sampling)
    given = (label for label in labels if label.answer != "skip" and label.how != "adjudicated")
    people = Counter(label.by for label in given if label.by != NOBODY)
    return Progress(
        queue=queue,
        drawn=len(sampling.draws),
        answered=len(answers),
        cannot_tell=sum(answer is None for answer in answers.values()),
        wanted=wanted,
        in_hand=in_hand,
        people=dict(people.most_common()),
        estimate=None if queue.settings.volunteered else estimate_of(queues, queue, sampling, answers),
        reason=queue.settings.volunteered or None,
    )


def estimate_of(
    queues: LabelQueues, queue: LabelQueue, sampling: Sampling, answers: dict[int, float | None]
) -> ActiveMean:
    """Estimate people's mean score of the items of a queue (docs/definitions/agreement.md#active-mean)."""
    items = queues.population(queue)
    count = int(items.group.max()) + 1
    groups = Groups(ids=tuple(map(str, range(count))), codes=items.group.astype(np.intp))
    return active_mean(sampling, items.prediction, answers, groups)
