"""The page of how far people agree, on which somebody decides where they do not."""

import re

import pytest

from tests.labels.labelled import judged, label_all
from trivium.labels.agreement import disagreements_of
from trivium.labels.queue import LabelQueues
from trivium.store.labels import QueueSettings

HTML = {"Accept": "text/html"}


def form_of(page, **further: str) -> dict[str, str]:
    return {"form": re.search(r'name="form" value="(\w+)"', page.text)[1]} | further


def text_of(page) -> str:
    return " ".join(re.sub("<[^>]+>", " ", page.text).split())


def say_name(client, queue) -> None:
    """Say in this browser that one is Cem."""
    here = f"/labels/{queue.id}"
    client.post(here, data=form_of(client.get(here, headers=HTML), name="Cem"), headers=HTML)


@pytest.fixture
def queue(store):
    """Four items that two people answered; they disagree on those of odd number."""
    queues = LabelQueues(store)
    made = queues.create(judged(store, 4), "clarity", by="x", seed=2, settings=QueueSettings(overlap=1.0))
    label_all(queues, made, "ann", lambda case: 1.0)
    label_all(queues, made, "ben", lambda case: 0.5 if int(case[1:]) % 2 else 1.0)
    return made


def test_people_and_what_they_disagree_on_are_shown(client, queue):
    page = client.get(f"/labels/{queue.id}/people", headers=HTML)
    text = text_of(page)
    assert "2 people gave the same label in 50 % of the pairs on 4 items" in text
    assert "2 items wait for a decision" in text
    assert "ann and ben 4 50 %" in text
    assert page.text.count("<details") == 2
    assert "ann : very good (1) · ben : 0.5" in text
    assert text.index("Input") < text.index("Output") < text.index("ben 0.5")
    assert "output of c1" in text
    assert "what the judge said" not in text
    assert f'href="/labels/{queue.id}/people"' in client.get(f"/labels/{queue.id}", headers=HTML).text


def test_what_people_noted_stands_beside_their_labels_and_ten_items_are_on_a_page(client, store):
    queues = LabelQueues(store)
    made = queues.create(judged(store, 12), "clarity", by="x", seed=2, settings=QueueSettings(overlap=1.0))
    for person, value, note in (("ann", 1.0, None), ("ben", 0.0, "<b>no source")):
        for _ in range(12):
            task = queues.next(made.id, person)
            queues.answer(made.id, task.place, person, "label", value, note=note)
    page = client.get(f"/labels/{made.id}/people", headers=HTML)
    assert page.text.count("<details") == 10
    assert "ben 0 &lt;b&gt;no source" in text_of(page)
    assert "1–10 of 12" in text_of(page)
    rest = client.get(f"/labels/{made.id}/people?start=10", headers=HTML)
    assert rest.text.count("<details") == 2
    assert len(page.content) < 60_000


def test_somebody_decides_and_may_think_again(client, queue, store):
    client.post(
        f"/labels/{queue.id}",
        data=form_of(client.get(f"/labels/{queue.id}", headers=HTML), name="Cem"),
        headers=HTML,
    )
    here = f"/labels/{queue.id}/people"
    first, second = disagreements_of(LabelQueues(store), queue.id)
    for value in ("0.75", "0.25"):
        form = form_of(client.get(here, headers=HTML), place=str(first.place), value=value, note="says so")
        page = client.post(here, data=form, headers=HTML)
        assert page.status_code == 200
        decided = {each.place: each for each in disagreements_of(LabelQueues(store), queue.id)}
        assert (decided[first.place].decided, decided[first.place].by) == (float(value), "Cem")
        assert decided[first.place].values == first.values
    assert decided[second.place].decided is None
    assert "decided 0.25 by Cem" in text_of(page)
    assert text_of(page).count("what the judge said") == 1


def test_a_decision_is_taken_back_once_and_the_one_before_it_counts_again(client, queue, store):
    client.post(
        f"/labels/{queue.id}",
        data=form_of(client.get(f"/labels/{queue.id}", headers=HTML), name="Cem"),
        headers=HTML,
    )
    here = f"/labels/{queue.id}/people"
    place = str(disagreements_of(LabelQueues(store), queue.id)[0].place)
    for value in ("1", "0.25"):
        page = client.post(
            here, data=form_of(client.get(here, headers=HTML), place=place, value=value), headers=HTML
        )
    assert "You decided 0.25 on" in text_of(page)
    undo = form_of(page, undo=re.search(r'name="undo" value="(\d+)"', page.text)[1])
    for _ in range(2):  # sent twice, it takes back one
        page = client.post(here, data=undo, headers=HTML)
        decided = {str(each.place): each.decided for each in disagreements_of(LabelQueues(store), queue.id)}
        assert decided[place] == 1.0
    assert "decided very good (1) by Cem" in text_of(page)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("99", "1", "nobody disagrees"),
        ("x", "1", "whole number"),
        ("agreed", "1", "nobody disagrees"),
        ("apart", "2", "0 to 1"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(client, queue, store, place, value, said):
    client.post(
        f"/labels/{queue.id}",
        data=form_of(client.get(f"/labels/{queue.id}", headers=HTML), name="Cem"),
        headers=HTML,
    )
    apart = [each.place for each in disagreements_of(LabelQueues(store), queue.id)]
    agreed = next(number for number in range(1, 5) if number not in apart)
    chosen = {"agreed": str(agreed), "apart": str(apart[0])}.get(place, place)
    here = f"/labels/{queue.id}/people"
    answer = client.post(
        here, data=form_of(client.get(here, headers=HTML), place=chosen, value=value), headers=HTML
    )
    assert answer.status_code == 400
    assert said in text_of(answer)
    assert all(each.decided is None for each in disagreements_of(LabelQueues(store), queue.id))


@pytest.mark.parametrize("page", ["", "/people"])
def test_what_was_typed_is_shown_to_who_has_not_said_their_name(client, queue, page):
    here = f"/labels/{queue.id}"
    form = form_of(client.get(here, headers=HTML), place="1", value="1", note="quotes the law")
    answer = client.post(here + page, data=form, headers=HTML)
    assert answer.status_code == 400
    assert "Say who you are first." in text_of(answer)
    assert "Note: quotes the law" in text_of(answer)


def test_an_item_that_somebody_has_still_to_answer_is_not_listed(client, store):
    queues = LabelQueues(store)
    queue = queues.create(
        judged(store, 2), "clarity", by="x", seed=2, settings=QueueSettings(overlap=1.0, people=3)
    )
    label_all(queues, queue, "ann", lambda case: 1.0)
    label_all(queues, queue, "ben", lambda case: 0.0)
    page = client.get(f"/labels/{queue.id}/people", headers=HTML)
    assert "<details" not in page.text
    assert "Nobody disagrees on an item that everybody has answered" in text_of(page)


def test_without_an_overlap_it_says_how_to_get_one(client, store):
    queue = LabelQueues(store).create(judged(store, 2), "clarity", by="x")
    assert "asks several people about a share of its items" in text_of(
        client.get(f"/labels/{queue.id}/people", headers=HTML)
    )
    assert client.get("/labels/none/people", headers=HTML).status_code == 404


def test_a_form_of_another_server_decides_nothing(client, queue):
    here = f"/labels/{queue.id}/people"
    assert (
        client.post(here, data={"form": "0" * 64, "place": "1", "value": "1"}, headers=HTML).status_code
        == 403
    )
