"""How far people agree, checked against scikit-learn where it has the measure."""

import pytest

from tests.labels.labelled import judged, label_all
from trivium.errors import InputError
from trivium.labels.agreement import agreement_of, disagreements_of
from trivium.store.labels import QueueSettings

ANN = [0.0, 0.0, 0.5, 1.0, 1.0, 0.5]
BEN = [0.0, 0.5, 0.5, 1.0, 0.0, 0.5]


@pytest.fixture
def queue(queues, store):
    made = queues.create(judged(store, 6), "clarity", by="ann", settings=QueueSettings(overlap=1.0))
    for name, values in (("ann", ANN), ("ben", BEN)):
        label_all(queues, made, name, lambda case, values=values: values[int(case[1:])])
    return made


def test_two_people_are_measured_as_two_raters(queues, queue):
    cohen = pytest.importorskip("sklearn.metrics").cohen_kappa_score
    found = agreement_of(queues, queue.id)
    assert (found.items, found.people, found.open) == (6, 2, 2)
    assert found.exact == pytest.approx(4 / 6)
    figures = found.pairs[0].agreement.figures
    grades = [[int(2 * value) for value in values] for values in (ANN, BEN)]
    assert figures["kappa"].value == pytest.approx(cohen(*grades))
    assert figures["kappa_quadratic"].value == pytest.approx(cohen(*grades, weights="quadratic"))


def test_the_farthest_apart_come_first_and_the_decided_last(queues, queue):
    apart = disagreements_of(queues, queue.id)
    assert [(each.case, each.apart) for each in apart] == [("c4", 1.0), ("c1", 0.5)]
    assert apart[0].values == {"ann": 1.0, "ben": 0.0}
    queues.adjudicate(queue.id, apart[0].place, "dora", 0.25)
    apart = disagreements_of(queues, queue.id)
    assert [(each.case, each.decided, each.by) for each in apart] == [
        ("c1", None, None),
        ("c4", 0.25, "dora"),
    ]


def test_who_is_checked_decides_on_no_item_that_they_labelled(queues, store):
    queue = queues.create(judged(store, 1), "clarity", by="ann", settings=QueueSettings(overlap=1.0))
    people = [f"token 0000000{number} {name}" for number, name in enumerate(("ann", "ben", "dora"))]
    for by, value in zip(people[:2], (0.0, 1.0), strict=True):
        label_all(queues, queue, by, lambda _case, value=value: value)
    for by in people[:2]:
        with pytest.raises(InputError, match="labelled item 1: somebody else decides"):
            queues.adjudicate(queue.id, 1, by, 0.0)
    assert queues.adjudicate(queue.id, 1, people[2], 0.5).how == "adjudicated"


def test_a_decision_sent_twice_is_stored_once(queues, queue):
    first = queues.adjudicate(queue.id, 1, "dora", 0.25, key="form")
    assert queues.adjudicate(queue.id, 1, "dora", 0.25, key="form") == first


def test_nobody_decides_or_reads_before_all_have_answered(queues, store):
    queue = queues.create(
        judged(store, 2), "clarity", by="ann", settings=QueueSettings(overlap=1.0, people=3)
    )
    for name, value in (("ann", 0.0), ("ben", 1.0)):
        label_all(queues, queue, name, lambda _case, value=value: value)
    assert disagreements_of(queues, queue.id) == []
    with pytest.raises(InputError, match="all wanted, first"):
        queues.adjudicate(queue.id, 1, "dora", 0.5)


def test_one_person_alone_gives_no_figures(queues, store):
    queue = queues.create(judged(store, 2), "clarity", by="ann")
    label_all(queues, queue, "ann")
    assert "make a queue with --overlap" in agreement_of(queues, queue.id).reason
