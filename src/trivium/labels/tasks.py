"""Draws the items of a queue, gives them to people and counts what is still wanted.

Each function works in the caller's transaction, which holds the lock of the queue.
"""

from hashlib import blake2b

import msgspec
from sqlalchemy import Connection, and_, delete, func, insert, or_, select, update

from trivium.errors import InputError
from trivium.labels.reading import draws_of, label_of, labels_of_queue, people_say, sampling_of
from trivium.labels.records import LabelQueue, Population, StoredLabel, Task
from trivium.labels.writing import insert_label, key_of, label_with_key
from trivium.store import schema
from trivium.trust.active_sampling import UNIFORM_SHARE, next_draw

__all__ = [
    "NOBODY",
    "SKIP_RETURNS",
    "count_missing",
    "draw",
    "free_leases",
    "held",
    "last_label",
    "mark_gone",
    "reserve",
    "task_at",
    "waiting",
]

SKIP_RETURNS = 10
"""Answers after which a skipped item is offered to the same person again."""

NOBODY = "(nobody)"
"""Who answers for items that nobody can see any more, because their run was deleted."""


def held(connection: Connection, queue: LabelQueue, by: str) -> int | None:
    """Place of the item that a person has in hand, or None."""
    leases = schema.label_leases
    query = select(leases.c.place).where(leases.c.queue == queue.number, leases.c.by == by)
    place: int | None = connection.execute(query).scalar()
    return place


def waiting(connection: Connection, queue: LabelQueue, by: str, *, skipped: bool = False) -> int | None:
    """The first drawn item that still wants an answer and is free for this person.

    Args:
        connection: In a transaction.
        queue: The queue.
        by: The person.
        skipped: Also items that the person has just skipped.
    """
    tasks, leases, labels = schema.label_tasks, schema.label_leases, schema.labels
    own = connection.execute(
        select(labels.c.place, labels.c.answer)
        .where(labels.c.queue == queue.number, labels.c.by == by, labels.c.undone.is_(None))
        .order_by(labels.c.number)
    ).all()
    passed_over = {row.place for row in own if row.answer != "skip"}
    if not skipped:
        answered = 0
        for row in reversed(own):
            if row.answer == "skip" and answered < SKIP_RETURNS:
                passed_over.add(row.place)
            answered += row.answer != "skip"
    in_hand = select(leases.c.place, func.count()).where(leases.c.queue == queue.number)
    reserved = {row[0]: row[1] for row in connection.execute(in_hand.group_by(leases.c.place))}
    open_tasks = (
        select(tasks.c.place, tasks.c.missing)
        .where(tasks.c.queue == queue.number, tasks.c.missing > 0)
        .order_by(tasks.c.place)
    )
    for place, missing in connection.execute(open_tasks):
        if place not in passed_over and reserved.get(place, 0) < missing:
            return int(place)
    return None


def draw(connection: Connection, queue: LabelQueue, items: Population, now: float) -> int | None:
    """Draw an item that nobody was asked about yet; None if there is none."""
    sampling = sampling_of(queue, draws_of(connection, queue))
    answers = people_say(labels_of_queue(connection, queue), sampling)
    share = 1.0 if queue.settings.uniform else UNIFORM_SHARE
    drawn = next_draw(sampling, items.uncertainty, items.prediction, answers, uniform_share=share)
    if drawn is None:
        return None
    place = len(sampling.draws) + 1
    settings = queue.settings
    coin = int.from_bytes(blake2b(f"{queue.seed}:{place}".encode(), digest_size=8).digest(), "big") / 2**64
    wanted = settings.people if coin < settings.overlap else 1
    connection.execute(
        insert(schema.label_tasks).values(
            queue=queue.number,
            place=place,
            item=drawn.item,
            probability=drawn.probability,
            how=drawn.how,
            wanted=wanted,
            missing=wanted,
            drawn=now,
        )
    )
    return place


def free_leases(connection: Connection, queue: LabelQueue, now: float) -> None:
    """End reservations whose time is over, and those of people whose token was revoked or has expired."""
    leases, tokens = schema.label_leases, schema.tokens
    ended = select(tokens.c.id).where(or_(tokens.c.revoked.is_not(None), tokens.c.expires <= now))
    of_ended = and_(leases.c.by.startswith("token "), func.substr(leases.c.by, 7, 8).in_(ended))
    over = or_(leases.c.until <= now, of_ended)
    connection.execute(delete(leases).where(leases.c.queue == queue.number, over))


def last_label(connection: Connection, queue: LabelQueue, by: str) -> StoredLabel | None:
    """A person's last answer in a queue that was not taken back, or None."""
    labels = schema.labels
    row = connection.execute(
        select(labels)
        .where(labels.c.queue == queue.number, labels.c.by == by, labels.c.undone.is_(None))
        .where(labels.c.how != "adjudicated")
        .order_by(labels.c.number.desc())
        .limit(1)
    ).first()
    return None if row is None else label_of(row)


def task_at(connection: Connection, queue: LabelQueue, items: Population, place: int) -> Task:
    """Return a task of a queue, not reserved for anyone; InputError if it has not been drawn."""
    tasks = schema.label_tasks
    query = select(tasks.c.item).where(tasks.c.queue == queue.number, tasks.c.place == place)
    item = connection.execute(query).scalar() if 0 < place < 2**31 else None
    if item is None:
        raise InputError(f"queue {queue.id}", f"has given out no item {place}")
    return Task(
        queue=queue.id,
        place=place,
        run=items.runs[items.run[item]],
        case=items.cases[item],
        position=int(items.position[item]),
        repeat=int(items.repeat[item]),
        dimension=queue.dimension,
        until=0.0,
    )


def reserve(connection: Connection, queue: LabelQueue, task: Task, by: str, now: float) -> Task:
    """Reserve a task for a person, or extend the reservation."""
    leases = schema.label_leases
    until = now + queue.settings.lease_seconds
    own = and_(leases.c.queue == queue.number, leases.c.by == by)
    if not connection.execute(update(leases).where(own).values(until=until)).rowcount:
        taken = select(leases.c.slot).where(leases.c.queue == queue.number, leases.c.place == task.place)
        used = set(connection.execute(taken).scalars())
        slot = next(free for free in range(len(used) + 1) if free not in used)
        values = {"queue": queue.number, "by": by, "place": task.place, "slot": slot, "until": until}
        connection.execute(insert(leases).values(values))
    return msgspec.structs.replace(task, until=until)


def mark_gone(connection: Connection, queue: LabelQueue, task: Task, now: float) -> None:
    """Note that nobody can tell about an item whose run was deleted, so that later labels count."""
    tasks, leases = schema.label_tasks, schema.label_leases
    at = and_(tasks.c.queue == queue.number, tasks.c.place == task.place)
    how, probability = connection.execute(select(tasks.c.how, tasks.c.probability).where(at)).one()
    key = key_of("gone", queue.id, str(task.place))
    if label_with_key(connection, key) is None:  # a person may have taken back an answer since it was noted
        insert_label(
            connection,
            run=task.run,
            case=task.case,
            repeat=task.repeat,
            dimension=queue.dimension,
            answer="cannot_tell",
            value=None,
            by=NOBODY,
            at=now,
            how=how,
            probability=probability,
            queue=queue.number,
            place=task.place,
            key=key,
            note="its run was deleted",
        )
    connection.execute(update(tasks).where(at).values(missing=0))
    connection.execute(delete(leases).where(leases.c.queue == queue.number, leases.c.place == task.place))


def count_missing(connection: Connection, queue: LabelQueue, place: int) -> None:
    """Count again how many answers a task still wants."""
    tasks, labels = schema.label_tasks, schema.labels
    given = connection.execute(
        select(func.count())
        .select_from(labels)
        .where(labels.c.queue == queue.number, labels.c.place == place, labels.c.undone.is_(None))
        .where(labels.c.answer != "skip", labels.c.how != "adjudicated")
    ).scalar_one()
    at = and_(tasks.c.queue == queue.number, tasks.c.place == place)
    wanted = connection.execute(select(tasks.c.wanted).where(at)).scalar_one()
    connection.execute(update(tasks).where(at).values(missing=max(0, wanted - given)))
