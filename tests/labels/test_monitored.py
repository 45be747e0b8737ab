"""Queues over live traffic: equally likely traffic, or the worst samples of an alert, which never count."""

import pytest
from sqlalchemy import delete, update

from tests.labels.labelled import judged, label_all
from tests.monitor.samples import BEGIN, open_alert, sample, store_samples
from tests.store.postgres import on_sqlite
from trivium.errors import InputError
from trivium.labels.joining import items_of_queue
from trivium.labels.monitored import queue_of_alert, queue_of_monitor
from trivium.labels.progress import progress_of
from trivium.runs.artifacts.judge import certificate
from trivium.store import schema
from trivium.store.labels import QueueSettings, answers_in


@pytest.fixture
def store(store_on_both):
    return store_on_both


@pytest.fixture
def live(store):
    """200 samples of one day; those of even cases were sampled four times as often."""
    run = judged(store, 200)
    with store.engine.begin() as connection:
        connection.execute(update(schema.runs).values(kind="live", suite_name="support"))
    weights = [0.25 if number % 2 == 0 else 1.0 for number in range(200)]
    store_samples(
        store,
        [
            sample(number, number % 2 == 0, run=run.number, weight=weight, score=number / 200)
            for number, weight in enumerate(weights)
        ],
    )
    return run


def test_traffic_is_equally_likely_to_be_asked(queues, live):
    queue = queue_of_monitor(queues, "support", "clarity", by="ann", since=0)
    positions = queues.population(queue).position
    assert sum(positions % 2 == 1) == 100
    assert 10 <= sum(positions % 2 == 0) <= 42  # 25 expected, standard deviation 4.3
    assert (queue.run, queue.monitor) == (None, "support")


def test_only_samples_of_the_time_are_asked(queues, live):
    queue = queue_of_monitor(queues, "support", "clarity", by="ann", since=BEGIN + 60 * 190, seed=3)
    assert queues.population(queue).position.min() >= 190
    assert queue.seed == 3
    with pytest.raises(InputError, match="no sample in that time"):
        queue_of_monitor(queues, "support", "clarity", by="ann", since=BEGIN * 2)


def test_labels_of_an_alerts_samples_never_enter_an_estimate(queues, live, store):
    number = open_alert(store, now=BEGIN + 60 * 99)
    queue = queue_of_alert(queues, number, "clarity", by="ann")
    assert sorted(queues.population(queue).position) == list(range(50))
    given = label_all(queues, queue, "ann", most=3)
    assert {(label.how, label.probability) for label in given} == {("volunteered", None)}
    progress = progress_of(queues, queue.id)
    assert progress.estimate is None
    assert "chosen because they look bad" in progress.reason


def test_an_alert_that_is_not_there_is_named(queues):
    with pytest.raises(InputError, match="there is no alert 7"):
        queue_of_alert(queues, 7, "clarity", by="ann")


@pytest.mark.parametrize("first", ["ann", "trivium"])
def test_a_sample_that_was_deleted_stops_nobody(queues, live, store, first):
    settings = QueueSettings(overlap=1.0)
    queue = queue_of_monitor(queues, "support", "clarity", by="ann", since=0, settings=settings)
    task = queues.next(queue.id, first)
    queues.answer(queue.id, task.place, first, "label", 1.0, key="1")
    scored = schema.evaluations
    with store.engine.begin() as connection:
        connection.execute(delete(scored).where(scored.c.position == task.position))
    assert queues.next(queue.id, "ben").place == 2
    assert queues.undo(queue.id, first).place == 1
    assert queues.next(queue.id, first).place == 2
    assert progress_of(queues, queue.id).cannot_tell == 1


def test_who_only_decided_and_nobody_are_not_counted_as_people_who_label(queues, live, store):
    settings = QueueSettings(overlap=1.0)
    queue = queue_of_monitor(queues, "support", "clarity", by="ann", since=0, settings=settings)
    for name, value in (("ann", 1.0), ("ben", 0.0)):
        queues.answer(queue.id, queues.next(queue.id, name).place, name, "label", value)
    queues.adjudicate(queue.id, 1, "eve", 0.5)
    second = queues.next(queue.id, "ann")
    with store.engine.begin() as connection:
        connection.execute(delete(schema.evaluations).where(schema.evaluations.c.position == second.position))
    queues.next(queue.id, "ann")
    progress, counts = progress_of(queues, queue.id), answers_in(store, queue)
    assert (progress.people, progress.answered) == ({"ann": 1, "ben": 1}, 2)
    assert (counts.people, counts.items) == (2, 2)


@on_sqlite
def test_labels_of_random_samples_certify_the_judge_of_several_days(queues, live, store):
    """The judge is right where its confidence is above a half; the samples lie in two runs, of two days."""
    other = judged(store, 200, prefix="d")
    with store.engine.begin() as connection:
        connection.execute(update(schema.runs).values(kind="live", suite_name="support"))
    store_samples(
        store,
        [sample(1000 + place, run=other.number, position=place, score=0.5) for place in range(100, 200)],
    )
    queue = queue_of_monitor(queues, "support", "clarity", by="ann", since=0)

    def people(case):
        number = int(case[1:])
        return float(number % 2 if number >= 100 else 1 - number % 2)

    label_all(queues, queue, "ann", people)
    table = items_of_queue(store, queue.id)
    assert set(queues.population(queue).runs) == {live.id, other.id}
    assert table.n == len(queues.population(queue))
    assert table.rest.pred.size == 0
    found = certificate(table, "confidence", epsilon=0.2, delta=0.1)
    assert 0.1 < found.threshold < 0.5  # below a half the judge is wrong
    assert found.judged_by.models == ("m",)


def test_labels_of_an_alert_certify_nothing(queues, live, store):
    number = open_alert(store, now=BEGIN + 60 * 99)
    queue = queue_of_alert(queues, number, "clarity", by="ann")
    with pytest.raises(InputError, match="says nothing of the judge in general"):
        items_of_queue(store, queue.id)


def test_a_queue_without_labels_or_without_its_runs_has_no_items(queues, live, store):
    queue = queue_of_monitor(queues, "support", "clarity", by="ann", since=0)
    with pytest.raises(InputError, match="no label yet"):
        items_of_queue(store, queue.id)
    label_all(queues, queue, "ann", most=3)
    assert items_of_queue(store, queue.id).n == 3
    with store.engine.begin() as connection:
        connection.execute(update(schema.runs).values(id=schema.runs.c.id + " gone"))
    with pytest.raises(InputError, match="runs were deleted"):
        items_of_queue(store, queue.id)
