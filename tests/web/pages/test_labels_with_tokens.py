"""People who label on a server with tokens are told apart by their tokens."""

import re

import pytest
from sqlalchemy import select, update

import trivium as tv
from tests.web.conftest import LOOPBACK
from tests.web.pages.test_labels import HTML, form_of, labels_of, undo_of
from trivium.labels.queue import LabelQueues
from trivium.store import schema as tables
from trivium.store.audit import audit_log
from trivium.store.labels import QueueSettings
from trivium.store.tokens import Tokens
from trivium.web.security import NEW_TOKEN_SECONDS, TOKENS_KNOWN_SECONDS, Access


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queues(store, clock):
    return LabelQueues(store, clock=clock)


@pytest.fixture
def queue(store, queues):
    """A queue of four items, half of which two people label."""
    suite = {
        "name": "facts",
        "cases": [{"id": f"c{n}", "input": f"Question {n}", "references": ["good"]} for n in range(4)],
        "metrics": ["success"],
    }
    run = tv.evaluate(suite, agent=lambda q: "good" if int(q[-1]) % 2 else "bad", store=store)
    return queues.create(run.record, "success", by="test", seed=1, settings=QueueSettings(overlap=1.0))


@pytest.fixture
def people(connect, store, clock):
    """Logs browsers in; all tokens have the same name."""
    # A name belongs to one active token, unless it was rotated: made under other names, they are renamed.
    server = connect(Access(tokens=True), clock=clock)

    def person(*scopes):
        made, secret = Tokens(store).create(
            f"t{len(Tokens(store).all())}", scopes or ("read", "label"), now=clock.now, actor="test"
        )
        with store.engine.begin() as connection:
            connection.execute(update(tables.tokens).where(tables.tokens.c.id == made.id).values(name="Ann"))
        clock.now += NEW_TOKEN_SECONDS
        browser = type(server)(server.app, base_url=LOOPBACK)
        form = re.search(r'name="form" value="(\w+)"', browser.get("/login", headers=HTML).text)[1]
        entered = browser.post("/login", data={"form": form, "token": secret}, headers=HTML)
        assert entered.status_code == 200
        browser.person = f"token {made.id} Ann"
        browser.token = made.id
        return browser

    return person


def shown_item(page: str) -> str:
    return re.search(r"Question (\d)", page)[1]


def answer(browser, queue, value="1"):
    page = browser.get(f"/labels/{queue.id}", headers=HTML).text
    browser.post(f"/labels/{queue.id}", data=form_of(page, answer="label", value=value), headers=HTML)
    return shown_item(page)


def test_no_name_is_asked_and_the_labels_and_the_audit_log_have_the_token(people, queue, store):
    ann = people()
    page = ann.get(f"/labels/{queue.id}", headers=HTML).text
    assert "Your name" not in page
    assert "labelling as <bdi>Ann</bdi>" in page
    assert "not checked" not in page
    answer(ann, queue)
    assert [label.by for label in labels_of(store)] == [ann.person]
    given = next(entry for entry in audit_log(store) if entry.action == "label given")
    assert given.actor == ann.person


def test_a_name_that_is_sent_is_refused_and_a_cookie_with_one_is_ignored(people, queue, store):
    ann, ben = people(), people()
    form = form_of(ben.get(f"/labels/{queue.id}", headers=HTML).text, name=ann.person)
    assert ben.post(f"/labels/{queue.id}", data=form, headers=HTML).status_code == 400
    ben.cookies.set("trivium_labeller", ann.person.encode().hex(), domain="127.0.0.1", path="/")
    answer(ben, queue)
    assert [label.by for label in labels_of(store)] == [ben.person]


def test_two_tokens_of_one_name_cannot_take_back_each_others_answers(people, queue, store):
    ann, ben = people(), people()
    answer(ann, queue)
    number = labels_of(store)[0].number
    page = ben.get(f"/labels/{queue.id}", headers=HTML).text
    assert 'name="undo"' not in page
    ben.post(f"/labels/{queue.id}", data=form_of(page, undo=str(number)), headers=HTML)
    assert labels_of(store)[0].undone is None
    ann.post(f"/labels/{queue.id}", data=undo_of(ann.get(f"/labels/{queue.id}", headers=HTML).text))
    assert labels_of(store)[0].undone is not None


def test_nobody_sees_anothers_label_before_their_own_or_gets_an_item_twice(people, queue):
    ann, ben = people(), people()
    first = {answer(ann, queue, "0.4375") for _ in range(4)}
    second = set()
    for _ in range(4):
        page = ben.get(f"/labels/{queue.id}", headers=HTML).text
        assert "0.4375" not in page
        second.add(answer(ben, queue))
    assert first == second == set("0123")
    assert "Nothing is left for you" in ann.get(f"/labels/{queue.id}", headers=HTML).text


def test_the_form_of_one_person_answers_nothing_for_another(people, queue, store):
    ann, eve = people(), people()
    place = form_of(ann.get(f"/labels/{queue.id}", headers=HTML).text)["place"]
    form = form_of(eve.get("/labels", headers=HTML).text, place=place, answer="label", value="0")
    refused = eve.post(f"/labels/{queue.id}", data=form, headers=HTML)
    assert (refused.status_code, "was never given to" in refused.text) == (400, True)
    assert labels_of(store) == []


def test_an_answer_that_comes_too_late_is_said_not_to_count(people, queues, queue, clock, store):
    alone = queues.create(queues.store.run(queue.run), "success", by="test", seed=2)
    ann, ben = people(), people()
    late = form_of(ann.get(f"/labels/{alone.id}", headers=HTML).text, answer="label", value="0")
    clock.now += alone.settings.lease_seconds
    answer(ben, alone)
    page = ann.post(f"/labels/{alone.id}", data=late, headers=HTML).text
    assert "kept and not counted" in page
    assert [label.how for label in labels_of(store)][1] == "volunteered"
    answer(ann, alone)
    assert "kept and not counted" not in ann.get(f"/labels/{alone.id}", headers=HTML).text


def test_an_item_that_one_token_holds_is_not_given_to_another_of_the_same_name(people, queues, queue):
    alone = queues.create(queues.store.run(queue.run), "success", by="test", seed=2)
    ann, ben = people(), people()
    held = [shown_item(each.get(f"/labels/{alone.id}", headers=HTML).text) for each in (ann, ben)]
    assert held[0] != held[1]
    assert shown_item(ann.get(f"/labels/{alone.id}", headers=HTML).text) == held[0]


def test_a_revoked_token_ends_its_login_and_its_items_go_to_others(people, queues, queue, store, clock):
    alone = queues.create(queues.store.run(queue.run), "success", by="test", seed=2)
    ann, ben = people(), people()
    held = shown_item(ann.get(f"/labels/{alone.id}", headers=HTML).text)
    Tokens(store).revoke(ann.token, now=clock.now, actor="test")
    clock.now += TOKENS_KNOWN_SECONDS
    ann.follow_redirects = False
    assert ann.get(f"/labels/{alone.id}", headers=HTML).status_code == 303
    assert shown_item(ben.get(f"/labels/{alone.id}", headers=HTML).text) == held
    with store.engine.connect() as connection:
        assert connection.execute(select(tables.label_leases.c.by)).scalars().all() == [ben.person]


def test_a_token_without_scope_label_reads_and_reserves_nothing(people, queue, store):
    reader = people("read")
    page = reader.get(f"/labels/{queue.id}", headers=HTML).text
    assert "no scope <code>label</code>" in page
    with store.engine.connect() as connection:
        assert connection.execute(select(tables.label_leases)).all() == []


def test_who_labelled_an_item_sees_that_somebody_else_decides(people, queue, queues):
    first, second, third = (people() for _ in range(3))
    for browser, value in ((first, 0.0), (second, 1.0)):
        for _ in range(4):
            task = queues.next(queue.id, browser.person)
            queues.answer(queue.id, task.place, browser.person, "label", value)
    here = f"/labels/{queue.id}/people"
    for browser, forms in ((first, 0), (third, 4)):
        page = browser.get(here, headers=HTML).text
        assert page.count("Decide on item") == forms
        assert page.count("somebody else decides") == 4 - forms
