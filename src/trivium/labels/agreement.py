"""Measures how far people agree with one another, and finds the items on which they disagree.

Definition: docs/definitions/agreement.md#people-agreement.
"""

from collections.abc import Container
from itertools import combinations

import msgspec
import numpy as np

from trivium.labels.queue import LabelQueues
from trivium.labels.tasks import by_place
from trivium.store.labels import StoredLabel, queue_transaction
from trivium.trust.rater_agreement import Agreement, agreement, krippendorff_alpha

SAME = 1e-9
"""Labels this near are the same."""


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two people, and how far they agree on the items that both labelled."""

    people: tuple[str, str]
    agreement: Agreement


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """An item on which people disagree.

    Attributes:
        place: Place of the task in its queue.
        run: Id of the run.
        case: Id of the case.
        repeat: Number of the repeat.
        values: The label of each person; None: cannot tell.
        notes: What some of them wrote beside their labels.
        apart: Distance between the highest and the lowest label; None if only one person can tell.
        decided: The adjudication; None if nobody has decided.
        by: Who decided, or None.
    """

    place: int
    run: str
    case: str
    repeat: int
    values: dict[str, float | None]
    notes: dict[str, str] = {}
    apart: float | None
    decided: float | None = None
    by: str | None = None


class PeopleAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far the people of a queue agree.

    Attributes:
        queue: Id of the queue.
        items: Items that at least two people labelled.
        people: How many people labelled any of them.
        exact: Share of the pairs of labels of one item that are the same; None without a pair.
        alpha: Krippendorff's α for ordered labels; None where undefined.
        pairs: Each pair of people who share an item, most items first.
        open: Items on which people disagree and nobody has decided.
        reason: Why there are no figures, or None.
    """

    queue: str
    items: int
    people: int
    exact: float | None
    alpha: float | None
    pairs: tuple[Pair, ...]
    open: int
    reason: str | None = None


def agreement_of(queues: LabelQueues, id: str, *, step: float = 0.25) -> PeopleAgreement:  # noqa: A002
    """Measure how far the people of a queue agree.

    Args:
        queues: The queues of the store.
        id: Id of the queue.
        step: Distance between neighbouring labels, for agreement within one step.
    """
    with queue_transaction(queues.store, id) as stored:
        labels, waiting, draws = stored.labels(), stored.missing(), stored.draws()
    answers = _answers(labels)
    values_at = {
        place: {label.by: label.value for label in given if label.value is not None}
        for place, given in answers.items()
    }
    shared = {place: values for place, values in values_at.items() if len(values) > 1}
    people = sorted({name for values in shared.values() for name in values})
    undecided = sum(each.decided is None for each in _apart(labels, waiting))
    if not shared:
        return PeopleAgreement(
            queue=id,
            items=0,
            people=0,
            exact=None,
            alpha=None,
            pairs=(),
            open=undecided,
            reason="no item has labels of two people: make a queue with --overlap",
        )
    ratings = np.full((len(shared), len(people)), np.nan)
    for row, values in enumerate(shared.values()):
        for name, value in values.items():
            ratings[row, people.index(name)] = value
    same = [
        abs(first - second) <= SAME
        for values in shared.values()
        for first, second in combinations(values.values(), 2)
    ]
    group = queues.population(stored.queue).group
    groups = [int(group[draws[place - 1].item]) for place in shared]
    pairs = []
    for first, second in combinations(range(len(people)), 2):
        both = ~np.isnan(ratings[:, first]) & ~np.isnan(ratings[:, second])
        if both.any():
            measured = agreement(
                ratings[both, first],
                ratings[both, second],
                [group for group, there in zip(groups, both, strict=True) if there],
                step=step,
                resamples=2_000,
            )
            pairs.append(Pair(people=(people[first], people[second]), agreement=measured))
    return PeopleAgreement(
        queue=id,
        items=len(shared),
        people=len(people),
        exact=sum(same) / len(same),
        alpha=krippendorff_alpha(ratings),
        pairs=tuple(sorted(pairs, key=lambda pair: -pair.agreement.n)),
        open=undecided,
    )


def disagreements_of(queues: LabelQueues, id: str) -> list[Disagreement]:  # noqa: A002
    """List the items on which people disagree, undecided ones first, then the farthest apart.

    Items that still wait for an answer are left out, so that people do not read others' labels before giving
    their own.
    """
    with queue_transaction(queues.store, id) as stored:
        return _apart(stored.labels(), stored.missing())


def _apart(labels: list[StoredLabel], waiting: Container[int]) -> list[Disagreement]:
    decisions = {label.place: label for label in labels if label.how == "adjudicated"}
    found = []
    for place, given in _answers(labels).items():
        values = {label.by: label.value for label in given}
        numbers = [value for value in values.values() if value is not None]
        apart = max(numbers) - min(numbers) if len(numbers) > 1 else None
        if place in waiting or len(values) < 2 or not numbers:
            continue
        if len(numbers) == len(values) and apart is not None and apart <= SAME:
            continue
        decision, first = decisions.get(place), given[0]
        found.append(
            Disagreement(
                place=place,
                run=first.run,
                case=first.case,
                repeat=first.repeat,
                values=values,
                notes={label.by: label.note for label in given if label.note},
                apart=apart,
                decided=None if decision is None else decision.value,
                by=None if decision is None else decision.by,
            )
        )
    return sorted(found, key=lambda each: (each.decided is not None, -(each.apart or 0), each.place))


def _answers(labels: list[StoredLabel]) -> dict[int, list[StoredLabel]]:
    """People's answers to each item, without skips and adjudications."""
    return by_place(label for label in labels if label.how != "adjudicated")
