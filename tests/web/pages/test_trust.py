"""The page of a judge against people."""

import re

import pytest

import trivium as tv
from trivium.labels.queue import LabelQueues

HTML = {"Accept": "text/html"}


@pytest.fixture
def run(store):
    """A run of forty cases, of which the metric says that every fourth is wrong."""
    cases = [
        {"id": f"c{n}", "input": f"Question <b>{n}", "references": ["good"], "group": f"g{n // 2}"}
        for n in range(40)
    ]
    suite = {"name": "facts", "cases": cases, "metrics": ["success"]}
    return tv.evaluate(suite, agent=lambda q: "bad" if int(q.split(">")[1]) % 4 == 0 else "good", store=store)


def label(store, run, number):
    queues = LabelQueues(store)
    queue = queues.create(run.record, "success", by="ann", seed=3)
    for _ in range(number):
        task = queues.next(queue.id, "ann")
        wrong = int(task.case[1:]) % 4 == 0 or task.case == "c1"
        queues.answer(queue.id, task.place, "ann", "label", 0.0 if wrong else 1.0)


def text_of(answer) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def test_labels_of_the_store_say_how_far_it_agrees_with_people(client, run, store):
    label(store, run, 40)
    page = client.get(f"/runs/{run.id}/trust", headers=HTML)
    assert page.status_code == 200
    text = text_of(page)
    assert "success : can the judge be trusted?" in text
    assert "same label 0.975" in text
    assert "40 of 40 items, a simple random sample" in text
    assert "sqlite" not in text


def test_without_labels_it_says_how_to_get_some(client, run):
    assert "make a queue of labels" in text_of(client.get(f"/runs/{run.id}/trust", headers=HTML))
    wrong = client.get(f"/runs/{run.id}/trust", params={"dimension": "<b>sucess"}, headers=HTML)
    assert wrong.status_code == 200
    assert "<b>sucess" not in wrong.text


def test_an_unknown_run_is_not_found(client):
    assert client.get("/runs/none/trust", headers=HTML).status_code == 404


def test_a_dimension_may_hold_what_a_database_cannot(client, run):
    assert client.get(f"/runs/{run.id}/trust", params={"dimension": "a\0"}, headers=HTML).status_code == 200
