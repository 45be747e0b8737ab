"""The pages on which people label."""

import re

import pytest
from sqlalchemy import select

import trivium as tv
from trivium.labels.progress import certificate_hint
from trivium.labels.queue import LabelQueues
from trivium.store import schema as tables
from trivium.store.labels import LabelQueue, QueueSettings

HTML = {"Accept": "text/html"}


@pytest.fixture
def run(store):
    """A run of six cases whose metric says that half of them are right."""
    suite = {
        "name": "facts",
        "cases": [{"id": f"c{n}", "input": f"Question <b>{n}", "references": ["good"]} for n in range(6)],
        "metrics": ["success"],
    }
    return tv.evaluate(suite, agent=lambda q: "good" if int(q[-1]) % 2 else "bad <script>", store=store)


def form_of(page: str, **further: str) -> dict[str, str]:
    hidden = dict(re.findall(r'type="hidden" name="(form|place|key)" value="([^"]+)"', page))
    return {**hidden, **further}


def undo_of(page: str) -> dict[str, str]:
    """The form that takes an answer back; it names the answer."""
    return form_of(page, undo=re.search(r'name="undo" value="(\d+)"', page)[1])


@pytest.fixture
def queue(client, run):
    """Address of a queue, with a person who has said their name."""
    page = client.get("/labels", headers=HTML).text
    made = client.post("/labels", data=form_of(page, run=run.id, dimension="success"), headers=HTML)
    address = made.url.path
    assert "Your name" in made.text
    client.post(address, data=form_of(made.text, name="Ann Ö"), headers=HTML)
    return address


def labels_of(store):
    with store.engine.connect() as connection:
        return connection.execute(select(tables.labels).order_by(tables.labels.c.number)).all()


def test_items_are_labelled_one_after_the_other_until_none_is_left(client, queue, store):
    seen = set()
    for number in range(6):
        page = client.get(queue, headers=HTML).text
        assert f"{number} of 6 items labelled" in page
        seen.add(re.search(r"Question &lt;b&gt;(\d)", page)[1])
        client.post(queue, data=form_of(page, answer="label", value="0.5"), headers=HTML)
    assert len(seen) == 6
    assert "Nothing is left for you" in client.get(queue, headers=HTML).text
    assert {(label.by, label.value, label.how) for label in labels_of(store)} <= {
        ("Ann Ö", 0.5, "uniform"), ("Ann Ö", 0.5, "active"),
    }  # fmt: skip


def test_a_labeller_does_not_see_what_was_said_before(client, queue):
    page = client.get(queue, headers=HTML).text
    text = re.sub(r"<[^>]+>", " ", page[page.index("<main") :])
    assert "<script>" not in page.replace("<script src=", "")
    assert not re.search(r"passed|composite|confidence|Scores|verdict", text)


def test_an_answer_that_is_sent_twice_is_stored_once(client, queue, store):
    form = form_of(client.get(queue, headers=HTML).text, answer="label", value="1")
    assert [client.post(queue, data=form, headers=HTML).status_code for _ in range(2)] == [200, 200]
    assert len(labels_of(store)) == 1


def test_answers_can_be_taken_back_skipped_or_left_open(client, queue, store):
    first = client.get(queue, headers=HTML).text
    second = client.post(queue, data=form_of(first, answer="cannot_tell"), headers=HTML)
    again = client.post(queue, data=undo_of(second.text), headers=HTML)
    assert form_of(again.text)["place"] == form_of(first)["place"]
    client.post(queue, data=form_of(again.text, answer="skip"), headers=HTML)
    answers = [(label.answer, label.undone is None) for label in labels_of(store)]
    assert answers == [("cannot_tell", False), ("skip", True)]
    assert "0 of 6 items labelled" in client.get(queue, headers=HTML).text


def test_a_wrong_answer_is_refused(client, queue, store):
    page = client.get(queue, headers=HTML).text
    for answer in ({"answer": "label", "value": "2"}, {"answer": "value nan"}, {"answer": "label"}, {}):
        assert client.post(queue, data=form_of(page, **answer), headers=HTML).status_code == 400, answer
    assert labels_of(store) == []


def test_an_item_of_another_queue_or_none_is_refused(client, queue):
    page = client.get(queue, headers=HTML).text
    assert (
        client.post(queue, data=form_of(page, answer="skip") | {"place": "99"}, headers=HTML).status_code
        == 400
    )
    assert client.get("/labels/none", headers=HTML).status_code == 404


def test_a_queue_of_nothing_is_refused(client, run):
    page = client.get("/labels", headers=HTML).text
    wrong = client.post("/labels", data=form_of(page, run=run.id, dimension="sucess"), headers=HTML)
    assert wrong.status_code == 400
    assert (
        client.post("/labels", data=form_of(page, run="none", dimension="d"), headers=HTML).status_code == 404
    )


def test_a_number_that_cannot_be_is_said_plainly(client, queue):
    form = form_of(client.get(queue, headers=HTML).text)
    for number in ("9" * 30, "x", "", "-1", "\u0661"):
        fields = {"place": number, "answer": "label", "value": "1"}
        item = client.post(queue, data=form | fields, headers=HTML)
        alert = client.post("/labels", data={**form, "alert": number, "dimension": "success"}, headers=HTML)
        for answer in (item, alert):
            assert answer.status_code == 400, number
            assert "expected a whole number" in answer.text, number


def test_a_label_that_is_no_number_is_said_plainly(client, queue, store):
    form = form_of(client.get(queue, headers=HTML).text)
    for fields in ({"answer": "label", "value": "x"}, {"answer": "value "}):
        answer = client.post(queue, data=form | fields, headers=HTML)
        assert answer.status_code == 400, fields
        assert "expected a number" in answer.text, fields
    assert labels_of(store) == []


def test_a_share_that_is_no_number_is_said_plainly(client, queue, run):
    form = form_of(client.get(queue, headers=HTML).text)
    fields = {"run": run.id, "dimension": "success", "overlap": "x"}
    answer = client.post("/labels", data={**form, **fields}, headers=HTML)
    assert answer.status_code == 400
    assert "expected a number" in answer.text


def test_a_queue_may_be_for_a_certificate(client, queue, run, store):
    page = client.get("/labels", headers=HTML).text
    for uniform in (True, False):
        fields = form_of(page, run=run.id, dimension="success") | ({"uniform": "1"} if uniform else {})
        made = client.post("/labels", data=fields, headers=HTML)
        assert LabelQueues(store).get(made.url.path.rpartition("/")[2]).settings.uniform is uniform


def test_taking_back_twice_takes_back_one_answer(client, queue, store):
    for _ in range(2):
        page = client.get(queue, headers=HTML).text
        client.post(queue, data=form_of(page, answer="label", value="1"), headers=HTML)
    form = undo_of(client.get(queue, headers=HTML).text)
    for _ in range(2):
        assert client.post(queue, data=form, headers=HTML).status_code == 200
    assert [label.undone is None for label in labels_of(store)] == [True, False]


def test_where_names_are_typed_the_page_says_that_nobody_checks_them(client, queue):
    assert "names are not checked" in client.get(queue, headers=HTML).text


def test_the_person_of_a_token_cannot_be_typed(client, queue):
    form = form_of(client.get(queue, headers=HTML).text, name="token 0a1b2c3d Ann")
    assert client.post(queue, data=form, headers=HTML).status_code == 400


def test_a_queue_is_made_of_what_the_page_knows(client, run, store):
    tv.evaluate({"name": "newer", "cases": [{"id": "x", "input": "?"}]}, agent=str, store=store)
    trust = client.get(f"/runs/{run.id}/trust?dimension=success", headers=HTML).text
    link = re.search(r'href="(/labels\?[^"]*)#new"', trust)[1].replace("&amp;", "&")
    page = client.get(link, headers=HTML).text
    assert f'<input type="hidden" name="run" value="{run.id}">' in page
    assert "<option selected>success</option>" in page
    part = client.get(link, headers=HTML | {"HX-Request": "true", "HX-Target": "new"}).text
    assert part.strip().startswith('<section id="new">')


def test_a_queue_is_done_when_every_item_has_its_answers_until_one_is_taken_back(client, queue):
    state = 'class="pill plain">{}<'
    for _ in range(6):
        assert state.format("open") in client.get("/labels", headers=HTML).text
        page = client.get(queue, headers=HTML).text
        client.post(queue, data=form_of(page, answer="label", value="1"), headers=HTML)
    assert state.format("done") in client.get("/labels", headers=HTML).text
    done = client.get(queue, headers=HTML).text
    assert "every item has its answers" in done
    client.post(queue, data=undo_of(done), headers=HTML)
    assert state.format("open") in client.get("/labels", headers=HTML).text


@pytest.mark.parametrize(
    ("population", "settings", "labelled", "said"),
    [
        (21, {"uniform": True}, 3, "too few items"),
        (22, {"uniform": True}, 3, "19 to go at least"),
        (60, {"uniform": True}, 22, "may do for a certificate"),
        (60, {"uncertainty": "confidence"}, 22, "few labels count"),
        (60, {"volunteered": "they look bad"}, 22, None),
    ],
)
def test_how_far_a_certificate_is_is_said_without_what_the_judge_said(population, settings, labelled, said):
    queue = LabelQueue(
        number=1, id="labels-1", run=None, monitor=None, dimension="d", seed=1, population=population,
        created=0.0, closed=None, settings=QueueSettings(**settings),
    )  # fmt: skip
    hint = certificate_hint(queue, labelled)
    assert (said in hint) if said else (hint == "")
