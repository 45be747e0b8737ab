"""A queue draws with known probability, and gives no item to two people by accident."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import delete, select

from tests.labels.labelled import judged, label_all
from tests.store.postgres import on_sqlite
from trivium.errors import InputError
from trivium.labels.joining import labels_for
from trivium.labels.progress import progress_of
from trivium.labels.queue import LabelQueues
from trivium.labels.tasks import SKIP_RETURNS
from trivium.store import schema
from trivium.store.audit import audit_log
from trivium.store.labels import QueueSettings, QueueTransaction, stored_labels


@pytest.fixture
def store(store_on_both):
    return store_on_both


def test_every_item_is_asked_once_with_its_probability(queues, run):
    queue = queues.create(run, "clarity", by="ann", seed=7)
    given = label_all(queues, queue, "ann")
    assert sorted(label.case for label in given) == sorted(f"c{place}" for place in range(12))
    # Before 20 answers all probabilities are equal: 1/12, 1/11, …
    assert [label.probability for label in given] == pytest.approx([1 / left for left in range(12, 0, -1)])
    assert {label.how for label in given} <= {"uniform", "active"}


@on_sqlite
def test_the_same_seed_asks_in_the_same_order(queues, run):
    orders = [
        [label.case for label in label_all(queues, queues.create(run, "clarity", by="ann", seed=seed), "ann")]
        for seed in (3, 3, 4)
    ]
    assert orders[0] == orders[1] != orders[2]


def test_next_gives_the_item_in_hand_again(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    assert queues.next(queue.id, "ann").place == queues.next(queue.id, "ann").place == 1


def test_two_people_get_two_items(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    assert [queues.next(queue.id, name).place for name in ("ann", "ben", "cem")] == [1, 2, 3]


def test_people_who_ask_at_once_get_different_items(store, run, clock):
    queue = LabelQueues(store, clock=clock).create(run, "clarity", by="ann")
    people = [f"person {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        tasks = list(pool.map(lambda name: LabelQueues(store, clock=clock).next(queue.id, name), people))
    assert sorted(task.place for task in tasks) == list(range(1, 9))


@pytest.mark.parametrize("reading", ["labels", "draws"])
def test_a_queue_can_be_read_while_somebody_draws_and_answers(queues, run, monkeypatch, reading):
    queue = queues.create(run, "clarity", by="ann")
    read, answering = getattr(QueueTransaction, reading), []

    def answered_before(stored):
        if not answering:  # which reads the queue too
            answering.append(True)
            label_all(queues, queue, "ann", most=1)
        return read(stored)

    monkeypatch.setattr(QueueTransaction, reading, answered_before)
    assert progress_of(queues, queue.id).drawn == 1


def test_an_item_whose_reservation_ended_is_given_to_another_before_anything_new(queues, run, clock):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(lease_seconds=60))
    first = queues.next(queue.id, "ann")
    clock.now += 59
    assert queues.next(queue.id, "ben").place == 2
    clock.now += 1
    assert queues.next(queue.id, "cem").place == first.place


@pytest.mark.parametrize("answered", [True, False])
def test_an_answer_after_the_reservation_ended_counts_if_the_item_still_wants_it(
    queues, run, clock, answered
):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(uniform=True, lease_seconds=60))
    places = [queues.next(queue.id, name).place for name in ("ann", "ben")]
    clock.now += 61
    assert queues.answer(queue.id, places[1], "ben", "label", 1.0).how == "uniform"
    assert queues.next(queue.id, "cem").place == places[0]
    if answered:
        queues.answer(queue.id, places[0], "cem", "label", 1.0)
    late = queues.answer(queue.id, places[0], "ann", "label", 0.0)
    assert (late.how, late.probability, late.value) == ("volunteered", None, 0.0)
    with pytest.raises(InputError, match="undo that first"):
        queues.answer(queue.id, places[0], "ann", "label", 1.0)
    assert queues.undo(queue.id, "ann") is None  # nobody else's item comes into her hands
    if not answered:
        assert queues.answer(queue.id, places[0], "cem", "label", 1.0).how == "uniform"
    assert queues.answer(queue.id, places[0], "ann", "label", 0.5).how == "volunteered"
    progress = progress_of(queues, queue.id)
    assert (progress.answered, progress.people) == (2, {"ben": 1, "cem": 1})
    assert progress.left_out == {"ann": 1}


def test_taking_back_a_skip_does_not_take_the_item_from_who_has_it_now(queues, run):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(uniform=True))
    queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "skip")
    assert queues.next(queue.id, "ben").place == 1
    assert queues.undo(queue.id, "ann") is None
    assert queues.next(queue.id, "ann").place == 2
    assert queues.answer(queue.id, 1, "ben", "label", 1.0).how == "uniform"


@pytest.mark.parametrize("answer", ["label", "cannot_tell", "skip"])
def test_nobody_answers_an_item_that_was_given_to_somebody_else(queues, run, store, answer):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=0.5, uniform=True))
    place = queues.next(queue.id, "ann").place
    with pytest.raises(InputError, match="item 1 was never given to eve: ask for the next one"):
        queues.answer(queue.id, place, "eve", answer, 0.0)
    assert (queues.undo(queue.id, "eve"), queues.last(queue.id, "eve")) == (None, None)
    assert list(stored_labels(store)) == []


def label_with_strangers(queues, queue, clock, *, strangers):
    """Ann and ben label ten items; strangers, socks and clients that count from 0 or 2 answer as well."""
    truths = lambda case: int(case[1:]) % 3 / 2  # noqa: E731
    refused = 0
    for turn in range(10):
        for off, name in ((-1, "early"), (1, "late")) if strangers and turn % 3 == 0 else ():
            task = queues.next(queue.id, name)  # drawn for them; they answer its neighbour
            for place in (task.place + off, 1, turn + 1):
                refused += place != task.place and is_refused(queues, queue, place, name)
            clock.now += queue.settings.lease_seconds
        by = ("ann", "ben")[turn % 2]
        task = queues.next(queue.id, by)
        if strangers:
            for name in ("x", "y", "sock 1", "sock 2", "sock 3"):
                refused += is_refused(queues, queue, task.place, name)
        queues.answer(queue.id, task.place, by, "label", truths(task.case))
        if strangers:
            refused += is_refused(queues, queue, task.place, "ben" if by == "ann" else "ann")
            for name in ("x", "y"):
                refused += is_refused(queues, queue, task.place, name)
    return refused


def is_refused(queues, queue, place, by):
    try:
        queues.answer(queue.id, place, by, "label", 0.0)
    except InputError:
        return True
    return False


@on_sqlite
@pytest.mark.parametrize(("uniform", "overlap"), [(True, 0.0), (False, 0.0), (True, 1.0)])
def test_strangers_socks_and_clients_that_count_wrongly_change_no_estimate(
    queues, run, store, clock, uniform, overlap
):
    found, used = [], []
    for strangers in (False, True):
        settings = QueueSettings(uniform=uniform, overlap=overlap, lease_seconds=60)
        queue = queues.create(run, "clarity", by="ann", seed=7, settings=settings)
        refused = label_with_strangers(queues, queue, clock, strangers=strangers)
        assert refused > 80 or not strangers
        progress = progress_of(queues, queue.id)
        assert progress.people == {"ann": 5, "ben": 5}
        found.append((progress.estimate, progress.answered))
        used.append({label.case: label.value for label in labels_for(store, run, "clarity").records()})
    assert found[0] == found[1]
    assert found[0][0].interval_items is not None
    assert used[0] == used[1]
    assert len(used[0]) == (5 if overlap else 10)


def test_an_answer_sent_twice_is_stored_once(queues, run, store):
    queue = queues.create(run, "clarity", by="ann")
    task = queues.next(queue.id, "ann")
    first = queues.answer(queue.id, task.place, "ann", "label", 0.5, key="form 1")
    assert queues.answer(queue.id, task.place, "ann", "label", 0.5, key="form 1") == first
    with store.engine.connect() as connection:
        assert len(connection.execute(select(schema.labels)).all()) == 1


def test_another_persons_key_is_another_answer(queues, run):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=1.0))
    task = queues.next(queue.id, "ann")
    assert queues.next(queue.id, "ben").place == task.place
    ours = queues.answer(queue.id, task.place, "ann", "label", 0.5, key="1")
    theirs = queues.answer(queue.id, task.place, "ben", "label", 0.7, key="1")
    assert ours.number != theirs.number


def test_a_second_answer_of_one_person_needs_an_undo(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    task = queues.next(queue.id, "ann")
    queues.answer(queue.id, task.place, "ann", "label", 0.5)
    with pytest.raises(InputError, match="undo that first"):
        queues.answer(queue.id, task.place, "ann", "label", 0.6)
    assert queues.undo(queue.id, "ann").place == task.place
    assert queues.next(queue.id, "ann").place == task.place
    queues.answer(queue.id, task.place, "ann", "label", 0.6)
    assert queues.next(queue.id, "ann").place == task.place + 1


def test_undo_takes_back_the_persons_own_last_answer_only(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    for name in ("ann", "ben"):
        queues.answer(queue.id, queues.next(queue.id, name).place, name, "label", 0.5)
    assert queues.undo(queue.id, "ann").place == 1
    assert queues.undo(queue.id, "ann") is None


def test_overlapping_items_are_given_to_several_people(queues, run):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=1.0, people=2))
    assert len(label_all(queues, queue, "ann")) == len(label_all(queues, queue, "ben")) == 12
    assert queues.next(queue.id, "cem") is None


@on_sqlite
def test_the_share_of_overlap_is_kept(queues, store):
    queue = queues.create(
        judged(store, 100), "clarity", by="ann", seed=1, settings=QueueSettings(overlap=0.3)
    )
    items = label_all(queues, queue, "ann")
    assert len(items) == 100
    assert 15 <= len(label_all(queues, queue, "ben")) <= 45  # 30 expected, standard deviation 4.6


def test_a_skipped_item_goes_to_another_and_returns_later(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    task = queues.next(queue.id, "ann")
    queues.answer(queue.id, task.place, "ann", "skip")
    for _ in range(SKIP_RETURNS):
        other = queues.next(queue.id, "ann")
        assert other.place != task.place
        queues.answer(queue.id, other.place, "ann", "cannot_tell")
    assert queues.next(queue.id, "ann").place == task.place
    queue = queues.create(run, "clarity", by="ann")
    queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "skip")
    assert queues.next(queue.id, "ben").place == 1


def test_what_was_skipped_comes_last_where_nothing_else_is_left(queues, store):
    queue = queues.create(judged(store, 3), "clarity", by="ann")
    queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "skip")
    assert [label.place for label in label_all(queues, queue, "ann")] == [2, 3, 1]


def test_an_item_whose_run_was_deleted_counts_as_one_that_nobody_can_tell(queues, run, store):
    queue = queues.create(run, "clarity", by="ann")
    place = queues.next(queue.id, "ann").place
    with store.engine.begin() as connection:
        connection.execute(delete(schema.evaluations).where(schema.evaluations.c.run == run.number))
    assert queues.answer(queue.id, place, "ann", "label", 1.0).case.startswith("c")
    assert queues.next(queue.id, "ann") is None
    with store.engine.begin() as connection:
        answers = connection.execute(select(schema.labels.c.answer)).scalars().all()
        connection.execute(delete(schema.runs))
    assert answers == ["label", *["cannot_tell"] * 11]
    with pytest.raises(InputError, match="was deleted; the labels so far are kept"):
        queues.next(queue.id, "ann")


def test_a_closed_queue_takes_nothing_more(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    place = queues.next(queue.id, "ann").place
    assert queues.close(queue.id, "ann").closed == 1_000.0
    for refused in (
        lambda: queues.next(queue.id, "ann"),
        lambda: queues.answer(queue.id, place, "ann", "label", 1.0),
        lambda: queues.undo(queue.id, "ann"),
    ):
        with pytest.raises(InputError, match="is closed"):
            refused()


@pytest.mark.parametrize("value", [None, -0.1, 1.1, float("nan"), float("inf")])
def test_a_value_off_the_scale_is_refused(queues, run, value):
    queue = queues.create(run, "clarity", by="ann")
    with pytest.raises(InputError, match="expected a number from 0 to 1"):
        queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "label", value)


def test_what_does_not_exist_is_named(queues, run):
    queue = queues.create(run, "clarity", by="ann")
    with pytest.raises(InputError, match=f'Did you mean "{queue.id}"'):
        queues.next(queue.id[:-1], "ann")
    with pytest.raises(InputError, match="has given out no item 9"):
        queues.answer(queue.id, 9, "ann", "label", 1.0)
    with pytest.raises(InputError, match='Did you mean "clarity"'):
        queues.create(run, "clarty", by="ann")
    with pytest.raises(InputError, match="name"):
        queues.next(queue.id, " ")
    with pytest.raises(InputError, match="an overlap from 0 to 1"):
        queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=2))


def test_the_audit_log_tells_who_labelled_and_undid(queues, run, store):
    queue = queues.create(run, "clarity", by="ann")
    queues.answer(queue.id, queues.next(queue.id, "ben").place, "ben", "label", 1.0)
    queues.undo(queue.id, "ben")
    queues.close(queue.id, "ann")
    log = [(entry.actor, entry.action) for entry in reversed(audit_log(store))]
    assert log == [
        ("ann", "label queue created"),
        ("ben", "label given"),
        ("ben", "label undone"),
        ("ann", "label queue closed"),
    ]


@pytest.mark.parametrize("place", [0, -1, 2, 10**17])
def test_a_place_that_was_not_given_out_is_named(queues, run, place):
    queue = queues.create(run, "clarity", by="ann")
    queues.next(queue.id, "ann")
    with pytest.raises(InputError, match=f"has given out no item {place}"):
        queues.answer(queue.id, place, "ann", "label", 1.0)


def test_who_decided_on_an_item_can_still_take_back_and_change_their_own_label(queues, run):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=1.0))
    for name, value in (("ann", 1.0), ("ben", 0.0)):
        queues.answer(queue.id, queues.next(queue.id, name).place, name, "label", value)
    queues.adjudicate(queue.id, 1, "ann", 0.25)
    assert queues.undo(queue.id, "ann").place == 1
    assert queues.answer(queue.id, 1, "ann", "label", 0.5).value == 0.5
    assert queues.next(queue.id, "ann").place == 2


@pytest.mark.parametrize("key", ["decided\0mine", "mine", "1"])
def test_no_key_of_an_answer_is_that_of_a_decision(queues, run, key):
    queue = queues.create(run, "clarity", by="ann", settings=QueueSettings(overlap=1.0))
    for name, value in (("ann", 1.0), ("ben", 0.0)):
        queues.answer(queue.id, queues.next(queue.id, name).place, name, "label", value)
    queues.adjudicate(queue.id, 1, "ann", 0.5, key="mine")
    assert (
        queues.answer(queue.id, queues.next(queue.id, "ann").place, "ann", "label", 1.0, key=key).place == 2
    )
