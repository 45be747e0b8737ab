"""The page of a judge against people."""

import json
import re
from html import unescape

import pytest

import trivium as tv
from tests.labels.labelled import judged, label_all
from trivium.cli.main import run_command
from trivium.labels.queue import LabelQueues

HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def run(shared_store):
    return evaluated(shared_store)


def evaluated(store):
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


def test_labels_of_the_store_say_how_far_it_agrees_with_people(client, store):
    run = evaluated(store)
    label(store, run, 40)
    page = client.get(f"/runs/{run.id}/trust", headers=HTML)
    assert page.status_code == 200
    text = text_of(page)
    assert "success : can the judge be trusted?" in text
    assert "same label 0.975" in text
    assert "40 of 40 items, which are all" in text
    assert "sqlite" not in text


def test_without_labels_it_says_how_to_get_some(shared_client, run):
    assert "make a queue of labels" in text_of(shared_client.get(f"/runs/{run.id}/trust", headers=HTML))
    wrong = shared_client.get(f"/runs/{run.id}/trust", params={"dimension": "<b>sucess"}, headers=HTML)
    assert wrong.status_code == 200
    assert "<b>sucess" not in wrong.text


def test_an_unknown_run_is_not_found(shared_client):
    assert shared_client.get("/runs/none/trust", headers=HTML).status_code == 404


def test_a_dimension_may_hold_what_a_database_cannot(shared_client, run):
    assert (
        shared_client.get(f"/runs/{run.id}/trust", params={"dimension": "a\0"}, headers=HTML).status_code
        == 200
    )


@pytest.fixture(scope="module")
def sure(shared_store):
    """A run of sixty judgements, and labels of them all: the judge is right where it is sure."""
    record = judged(shared_store, 60)
    queues = LabelQueues(shared_store)

    def people(case: str) -> float:
        number = int(case[1:])
        return float(number % 2 if number >= 30 else 1 - number % 2)

    queue = queues.create(record, "clarity", by="ann", seed=3)
    label_all(queues, queue, "ann", people)
    return record, queue


def link_of(page) -> str:
    return unescape(re.search(r'download href="([^"]+)"', page.text)[1])


def test_a_certificate_is_chosen_and_downloaded(shared_client, sure, shared_store, tmp_path):
    record, _ = sure
    here = f"/runs/{record.id}/trust"
    assert "None yet" in text_of(shared_client.get(here, params={"wrong": 1}, headers=HTML))
    page = shared_client.get(here, params={"wrong": 20, "sure": 80}, headers=HTML)
    assert "need no person" in text_of(page)
    assert "sqlite" not in page.text
    file = shared_client.get(link_of(page))
    assert file.headers["content-disposition"] == 'attachment; filename="certificate.json"'
    answer = file.json()
    assert (answer["epsilon"], answer["delta"], answer["dimension"]) == (0.2, 0.2, "clarity")
    assert 20 < answer["n_accepted"] < 40
    # It is what the command writes.
    written = tmp_path / "certificate.json"
    command = ["trust", "certify", record.id, "--dimension", "clarity", "--epsilon", "0.2", "--delta", "0.2"]
    assert run_command([*command, "--output", str(written), "--store", str(shared_store.url), "--json"]) == 0
    assert json.loads(written.read_text()) == answer
    # And another promise is another certificate, not the remembered one.
    looser = shared_client.get(
        link_of(shared_client.get(here, params={"wrong": 40, "sure": 80}, headers=HTML))
    ).json()
    assert looser["n_accepted"] > answer["n_accepted"]


def test_a_queue_has_its_own_page_of_trust(shared_client, sure):
    _, queue = sure
    page = shared_client.get(f"/labels/{queue.id}/trust", params={"wrong": 20, "sure": 80}, headers=HTML)
    assert "need no person" in text_of(page)
    assert shared_client.get(link_of(page)).json()["dimension"] == "clarity"
    assert f'href="/labels/{queue.id}/trust"' in shared_client.get(f"/labels/{queue.id}", headers=HTML).text
    assert shared_client.get("/labels/none/trust", headers=HTML).status_code == 404


def test_what_takes_long_comes_to_the_page_when_it_is_there(shared_client, sure, monkeypatch):
    monkeypatch.setattr("trivium.web.pages.trust.AT_ONCE", 59)
    _, queue = sure
    address, chosen = f"/labels/{queue.id}/trust", {"wrong": 21, "sure": 81}
    page = shared_client.get(address, params=chosen, headers=HTML)
    assert "for the first time" in page.text
    assert "need no person" not in page.text
    assert re.search(r'hx-get="[^"]*wrong=21[^"]*" hx-trigger="load" hx-target="body"', page.text)
    assert re.search(r'content="0; url=[^"]*wait=true"', page.text)
    for headers, more in ((HTML | {"HX-Request": "true"}, {}), (HTML, {"wait": "true"}), (HTML, {})):
        there = shared_client.get(address, params=chosen | more, headers=headers)
        assert "need no person" in text_of(there)
        assert "for the first time" not in there.text


@pytest.mark.parametrize("wrong", ["0", "100", "nan", "x"])
def test_a_promise_that_cannot_be_is_refused(shared_client, run, wrong):
    assert (
        shared_client.get(f"/runs/{run.id}/trust", params={"wrong": wrong}, headers=HTML).status_code == 400
    )


def test_without_labels_there_is_no_file(client, store):
    run = evaluated(store)
    answer = client.get(f"/runs/{run.id}/trust/certificate", params={"dimension": "success"})
    assert answer.status_code == 400
    assert "has no label" in answer.text
    queue = LabelQueues(store).create(run.record, "success", by="ann")
    assert client.get(f"/labels/{queue.id}/trust/certificate").status_code == 400


def test_the_json_interface_answers_the_same(shared_client, run, sure):
    record, queue = sure
    assert (
        shared_client.get(f"/api/v1/runs/{run.id}/agreement", params={"dimension": "success"}).status_code
        == 400
    )
    for where, more in ((f"runs/{record.id}", {"dimension": "clarity"}), (f"labels/queues/{queue.id}", {})):
        agreement = shared_client.get(f"/api/v1/{where}/agreement", params=more).json()
        assert agreement["n"] == 60
        options = {"epsilon": 0.2, "delta": 0.2} | more
        found = shared_client.get(f"/api/v1/{where}/certificate", params=options).json()
        assert (found["epsilon"], found["delta"]) == (0.2, 0.2)
        assert found["threshold"] is not None
    assert shared_client.get("/api/v1/labels/queues/none/agreement").status_code == 404


def test_a_certificate_of_a_queue_by_the_command(sure, shared_store, capsys):
    certify = ["trust", "certify", "--queue", sure[1].id, "--store", str(shared_store.url)]
    assert run_command([*certify, "--epsilon", "0.2", "--delta", "0.2"]) == 0
    assert "of the 60 items" in " ".join(capsys.readouterr().out.split())
    assert run_command([*certify, "--dimension", "clarity"]) == 2
    assert "leave out ITEMS" in capsys.readouterr().err
    assert run_command(["trust", "agree", "--queue", "none", "--store", str(shared_store.url)]) == 2
