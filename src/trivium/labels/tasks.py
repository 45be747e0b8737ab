"""Draws the items of a queue, gives them to people, counts what is still wanted and reads what people say.

Each function works in the caller's transaction; those that write need the lock of the queue.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from statistics import median

import msgspec

from trivium.labels.people import key_of
from trivium.labels.population import Population
from trivium.store.labels import NOBODY, DrawnItem, LabelQueue, QueueTransaction, StoredLabel, Task
from trivium.trust.active_sampling import UNIFORM_SHARE, Draw, Sampling, next_draw

SKIP_RETURNS = 10
"""Answers after which a skipped item is offered to the same person again."""


def waiting(stored: QueueTransaction, by: str, *, skipped: bool = False) -> int | None:
    """The first drawn item that still wants an answer and is free for this person.

    Args:
        stored: The queue.
        by: The person.
        skipped: Also items that the person has just skipped.
    """
    own = stored.answers_by(by)
    passed_over = {place for place, answer in own if answer != "skip"}
    if not skipped:
        answered = 0
        for place, answer in reversed(own):
            if answer == "skip" and answered < SKIP_RETURNS:
                passed_over.add(place)
            answered += answer != "skip"
    reserved = stored.reserved()
    free = (
        place
        for place, missing in stored.missing().items()
        if place not in passed_over and reserved.get(place, 0) < missing
    )
    return next(free, None)


def draw(stored: QueueTransaction, items: Population, now: float) -> int | None:
    """Draw an item that nobody was asked about yet; None if there is none."""
    queue, settings = stored.queue, stored.queue.settings
    sampling, labels = sampled(stored)
    answers = people_say(labels, sampling)
    share = 1.0 if settings.uniform else UNIFORM_SHARE
    drawn = next_draw(sampling, items.uncertainty, items.prediction, answers, uniform_share=share)
    if drawn is None:
        return None
    place = len(sampling.draws) + 1
    coin = int.from_bytes(blake2b(f"{queue.seed}:{place}".encode(), digest_size=8).digest(), "big") / 2**64
    stored.add_drawn(place, drawn, settings.people if coin < settings.overlap else 1, now)
    return place


def task_of(stored: QueueTransaction, items: Population, place: int, drawn: DrawnItem) -> Task:
    """Return the task of an item that was drawn at a place, not reserved for anyone."""
    return Task(
        queue=stored.queue.id,
        place=place,
        run=items.runs[items.run[drawn.item]],
        case=items.cases[drawn.item],
        position=int(items.position[drawn.item]),
        repeat=int(items.repeat[drawn.item]),
        dimension=stored.queue.dimension,
        until=0.0,
    )


def reserve(stored: QueueTransaction, task: Task, by: str, now: float) -> Task:
    """Reserve a task for a person, or extend the reservation."""
    until = now + stored.queue.settings.lease_seconds
    stored.reserve(task.place, by, now, until)
    return msgspec.structs.replace(task, until=until)


def mark_gone(stored: QueueTransaction, task: Task, drawn: DrawnItem, now: float) -> None:
    """Answer "cannot tell" for an item whose run was deleted, so that later labels count."""
    key = key_of("gone", stored.queue.id, str(task.place))
    if stored.label_with_key(key) is None:  # a person may have taken back an answer since it was noted
        stored.add_label(
            task,
            answer="cannot_tell",
            value=None,
            by=NOBODY,
            at=now,
            how=drawn.how,
            probability=drawn.probability,
            key=key,
            note="its run was deleted",
        )
    stored.set_missing(task.place, 0)
    stored.release(task.place)


def count_missing(stored: QueueTransaction, place: int) -> None:
    """Count again how many answers a task still wants."""
    stored.set_missing(place, max(0, stored.drawn(place).wanted - stored.count_answers(place)))


def sampled(stored: QueueTransaction) -> tuple[Sampling, list[StoredLabel]]:
    """Return the draws of a queue, and the labels of the drawn items."""
    labels = stored.labels()  # first: others may draw and answer between the two
    return sampling_of(stored.queue, stored.draws()), labels


def sampling_of(queue: LabelQueue, draws: Sequence[Draw]) -> Sampling:
    """Return the draws of a queue as what ``trust`` continues and estimates from."""
    return Sampling(seed=queue.seed, population=queue.population, draws=tuple(draws))


def people_say(labels: Iterable[StoredLabel], sampling: Sampling) -> dict[int, float | None]:
    """Combine people's labels of each item: the adjudication, else the median; None if nobody can tell.

    Items that were only skipped are left out: they wait for an answer.
    """
    return {sampling.draws[place - 1].item: said(given) for place, given in by_place(labels).items()}


def by_place(labels: Iterable[StoredLabel]) -> dict[int, list[StoredLabel]]:
    """The labels of each item of a queue, without those that were only skipped."""
    found: defaultdict[int, list[StoredLabel]] = defaultdict(list)
    for label in labels:
        if label.place is not None and label.answer != "skip":
            found[label.place].append(label)
    return dict(found)


def decided_by(labels: Iterable[StoredLabel]) -> dict[int | None, str]:
    """Who decided on items on which people disagree, by place: the last who did."""
    return {label.place: label.by for label in labels if label.how == "adjudicated"}


def said(labels: Sequence[StoredLabel]) -> float | None:
    """One value for the answers to one item: the last adjudication, else the median of those who can tell."""
    decided = [label.value for label in labels if label.how == "adjudicated"]
    if decided:
        return decided[-1]
    values = [label.value for label in labels if label.value is not None]
    return float(median(values)) if values else None
