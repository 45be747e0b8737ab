"""Reads what people say of the items of a queue from its labels."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

from trivium.store.labels import LabelQueue, QueueTransaction, StoredLabel
from trivium.trust.active_sampling import Draw, Sampling

__all__ = ["decided_by", "people_say", "said", "sampled", "sampling_of"]


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
