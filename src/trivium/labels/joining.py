"""Chooses which labels of the store the statistics of a judge may use.

Definition: docs/definitions/agreement.md#usable-labels.

Curves, calibrators and agreement weight the labels of a queue by the probability with which each was asked.
A certificate needs equal probabilities: it uses the items that are a simple random sample, which are those
asked while all probabilities were equal, and those up to the last uniform draw. Volunteered labels never
enter.
"""

from collections import Counter, defaultdict
from itertools import islice

from trivium.errors import InputError
from trivium.labels.people import shown_names
from trivium.labels.queue import LabelQueues
from trivium.labels.tasks import decided_by, people_say, said, sampled, sampling_of
from trivium.runs.items.files import Labels
from trivium.runs.items.join import items_of_runs
from trivium.runs.items.records import Label
from trivium.runs.items.table import ItemTable
from trivium.store.labels import (
    LabelQueue,
    StoredLabel,
    labelled_dimensions,
    queue_transaction,
    stored_labels,
)
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.trust.active_inference import labelled_items
from trivium.trust.active_sampling import Sampling

LOOKED_AT = 50
"""Attempts that are looked at for the names of scores: all are scored alike."""

ROUNDING = 1e-9
"""Probabilities this near are equal."""


def labels_for(store: Store, run: RunRecord, dimension: str) -> Labels:
    """Return the labels in the store that a statistic of a run and dimension may use, with reservations.

    Labels are of attempts: those of a run that scored the same attempts count too. The newest queue with an
    answer is used; without one, imported labels.

    Raises:
        InputError: If there are none; says how to get some.
    """
    runs = store.runs_of_same_attempts(run)
    given = [label for each in runs for label in stored_labels(store, run=each, dimension=dimension)]
    asked = {label.queue for label in given if label.how in {"uniform", "active"}}
    queues = LabelQueues(store)
    found = [queue for each in runs for queue in queues.all(run=each, dimension=dimension)]
    usable = sorted((queue for queue in found if queue.number in asked), key=lambda queue: queue.number)
    notes = _volunteered(sum(label.how == "volunteered" for label in given))
    if usable:
        return _of_queue(queues, usable[-1], [*notes, *_others(usable[:-1])])
    imported = [label for label in given if label.how == "imported"]
    if not imported:
        why = f" ({notes[0]})" if notes else ""
        raise InputError(
            "",
            f'the store has no label of "{dimension}" for run {run.id}{why}: add --labels FILE, or label '
            f"some with `trivium label {run.id} --dimension {dimension}`",
        )
    notes.append(f"{_labels(len(imported))} imported, and taken for a random sample")
    return Labels("the labels of the store", records=_records(imported), notes=notes)


def dimensions_of(store: Store, run: RunRecord) -> list[str]:
    """The dimensions of which a run has labels, in the order of the first label, then those of its queues."""
    given = labelled_dimensions(store, store.runs_of_same_attempts(run))
    return list(dict.fromkeys((*given, *(queue.dimension for queue in LabelQueues(store).all(run=run.id)))))


def scores_in(store: Store, run: RunRecord) -> list[str]:
    """Names of what a queue of a run may ask about: those of the judge first, then those of other metrics."""
    found: dict[str, bool] = {}
    for stored in islice(store.evaluations(run), LOOKED_AT):
        for name, score in stored.evaluation.scores.items():
            found[name] = found.get(name, False) or score.tier == "judge"
    return sorted(found, key=lambda name: not found[name])


def items_of_queue(store: Store, id: str) -> ItemTable:  # noqa: A002 - the field's name in the record
    """Join the labels of one queue with the judge's scores of its items, which may be of several runs.

    Raises:
        InputError: If there is no such queue, it has no label that a statistic may use, or its runs were
            deleted.
        TrustError: If its runs were judged in different ways.
    """
    queues = LabelQueues(store)
    queue = queues.get(id)
    if queue.settings.volunteered:
        raise InputError(f"queue {id}", f"says nothing of the judge in general: {queue.settings.volunteered}")
    with queue_transaction(store, id) as stored:
        left_out = sum(stored.not_asked_for().values())
    labels = _of_queue(queues, queue, _volunteered(left_out))
    if not labels.dimensions:
        raise InputError(f"queue {id}", "has no label yet that a statistic may use")
    items = queues.population(queue)
    known = {run.id: run for run in store.runs(ids=items.runs)}
    if not known:
        raise InputError(f"queue {id}", "its runs were deleted; the labels are kept")
    numbers = [known[run].number if run in known else -1 for run in items.runs]
    places = zip(items.run.tolist(), items.position.tolist(), strict=True)
    only = {(numbers[run], position) for run, position in places}
    runs = sorted(known.values(), key=lambda run: run.number)
    return items_of_runs(store, runs, dimension=queue.dimension, labels=labels, only=only)


def _of_queue(queues: LabelQueues, queue: LabelQueue, notes: list[str]) -> Labels:
    items = queues.population(queue)
    with queue_transaction(queues.store, queue.id) as stored:
        sampling, given = sampled(stored)
        crowded = stored.count_crowded()
    answers = people_say(given, sampling)
    drawn = labelled_items(sampling, answers)
    counted = drawn.items.size
    sample = set(_random_sample(sampling_of(queue, sampling.draws[:counted])))
    all_drawn, is_random = len(sample) == len(items), len(sample) == counted
    weights = {
        item: 1.0 if is_random else weight
        for item, weight in zip(drawn.items.tolist(), drawn.weights.tolist(), strict=True)
        if answers[item] is not None
    }
    if is_random:
        kind = "which are all" if all_drawn else "a simple random sample"
    else:
        kind = "weighted by the probability with which they were asked"
    notes = [f"labels of queue {queue.id}: {len(weights):,} of {len(items):,} items, {kind}", *notes]
    if late := len(answers) - counted:
        notes.append(f"{_labels(late)} left out until the items drawn before them are answered")
    if crowded:
        notes.append(f"items with more answers than people were asked for, all of which count: {crowded:,}")
    if decisions := Counter(decided_by(given).values()):
        names = shown_names(decisions)
        by = ", ".join(f"{names[person]} {count:,}" for person, count in decisions.most_common())
        notes.append(f"where people disagreed, somebody decided: {by}")
    if unclear := counted - len(weights):
        notes.append(f"of {unclear:,} items nobody can tell: they are left out")
    keys = {item: (items.cases[item], int(items.repeat[item]), queue.dimension) for item in weights}
    records = [
        Label(case=case, repeat=repeat, dimension=dimension, value=answers[item])
        for item, (case, repeat, dimension) in keys.items()
    ]
    return Labels(
        f"queue {queue.id}",
        records=records,
        notes=notes,
        weights={keys[item]: weight for item, weight in weights.items()},
        at_random={keys[item] for item in keys if item in sample},
    )


def _random_sample(sampling: Sampling) -> list[int]:
    """Return the drawn items that form a simple random sample of all items, or all drawn ones.

    The first draws form one, as long as all probabilities were equal. So do, among the items left after them,
    those up to the last uniform draw, all of which have been drawn.
    """
    if len(sampling.draws) == sampling.population:
        return [draw.item for draw in sampling.draws]
    equal: list[int] = []
    for place, draw in enumerate(sampling.draws):
        if abs(draw.probability * (sampling.population - place) - 1) > ROUNDING:
            break
        equal.append(draw.item)
    return list(dict.fromkeys([*equal, *sampling.walked()]))


def _records(labels: list[StoredLabel]) -> list[Label]:
    """One label per attempt and dimension, of those of several people the median."""
    by_attempt: defaultdict[tuple[str, int, str], list[StoredLabel]] = defaultdict(list)
    for label in labels:
        by_attempt[label.case, label.repeat, label.dimension].append(label)
    return [
        Label(case=case, repeat=repeat, dimension=dimension, value=value)
        for (case, repeat, dimension), given in by_attempt.items()
        if (value := said(given)) is not None
    ]


def _volunteered(count: int) -> list[str]:
    return [f"{_labels(count)} volunteered, which nobody asked for, and left out"] if count else []


def _others(queues: list[LabelQueue]) -> list[str]:
    ids = ", ".join(queue.id for queue in queues)
    return [f"older queues of the same dimension are not used: {ids}"] if queues else []


def _labels(count: int) -> str:
    return "1 label was" if count == 1 else f"{count:,} labels were"
