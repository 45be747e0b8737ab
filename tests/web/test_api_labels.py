"""Labelling through the JSON interface."""

import json
import socket
import threading

import pytest

from tests.labels.labelled import judged
from trivium.labels.queue import LabelQueues
from trivium.store import schema as tables
from trivium.store.labels import QueueSettings
from trivium.store.tokens import Tokens
from trivium.web.security import Access


@pytest.fixture
def queue(store):
    return LabelQueues(store).create(
        judged(store, cases=4), "clarity", by="test", seed=1, settings=QueueSettings(overlap=1.0)
    )


@pytest.fixture
def person(connect, store, queue):
    """Makes a function that posts to the queue with a token; its ``by`` is the token's person."""
    client = connect(Access(tokens=True))

    def made(name, *scopes):
        token, secret = Tokens(store).create(name, scopes or ("label",), now=0.0, actor="test")

        def send(action, **body):
            headers = {"Authorization": f"Bearer {secret}"}
            answer = client.post(f"/api/v1/labels/queues/{queue.id}/{action}", json=body, headers=headers)
            send.status = answer.status_code
            return answer.json()

        send.by = token.actor
        return send

    return made


def labels_of(store):
    with store.engine.connect() as connection:
        return connection.execute(tables.labels.select().order_by(tables.labels.c.number)).all()


def test_an_item_is_reserved_without_what_the_judge_said(person):
    ann = person("ann")
    first = ann("next")["item"]
    assert ann("next")["item"]["place"] == first["place"] == 1
    assert first["output"] == f"output of {first['case']}"
    assert set(first) == {
        "place", "until", "run", "case", "repeat", "dimension", "asks", "choices",
        "input", "source", "references", "output", "trace",
    }  # fmt: skip


def test_an_answer_that_is_sent_again_is_stored_once(person, store):
    ann = person("ann")
    place = ann("next")["item"]["place"]
    answer = {"place": place, "answer": "label", "value": 0.25, "key": "k1", "note": "why"}
    first, again = ann("answers", **answer), ann("answers", **answer)
    assert first == again
    (label,) = labels_of(store)
    assert (label.by, label.value, label.note) == (ann.by, 0.25, "why")
    assert (first["label"], first["by"]) == (label.number, "ann")
    ann("answers", **{**answer, "key": "k2"})
    assert ann.status == 400


def test_a_key_of_one_person_finds_no_label_of_another(person, store):
    ann, ben = person("ann"), person("ben")
    answer = {"place": ann("next")["item"]["place"], "answer": "label", "key": "k"}
    assert ben("next")["item"]["place"] == answer["place"]
    assert ann("answers", **answer, value=1)["value"] == 1
    assert ben("answers", **answer, value=0)["value"] == 0
    assert [label.by for label in labels_of(store)] == [ann.by, ben.by]


def test_who_never_asked_for_an_item_is_refused_and_told_how_to_get_one(person, store):
    ann, eve, sock = person("ann"), person("eve"), person("sock")
    place = ann("next")["item"]["place"]
    for stranger in (eve, sock):
        refused = stranger("answers", place=place, answer="label", value=0, key="e1")
        assert stranger.status == 400
        assert "was never given to token" in refused["message"]
        assert "`next` of the JSON interface" in refused["message"]
    assert labels_of(store) == []
    assert ann("answers", place=place, answer="label", value=1, key="a1")["how"] in {"uniform", "active"}


def test_items_are_skipped_or_left_open(person, store):
    ann = person("ann")
    for number, kind in enumerate(["skip", "cannot_tell"]):
        ann("answers", place=ann("next")["item"]["place"], answer=kind, key=str(number))
    assert [(label.answer, label.value) for label in labels_of(store)] == [
        ("skip", None),
        ("cannot_tell", None),
    ]


def test_taking_back_names_the_answer_and_is_done_once(person, store):
    ann, ben = person("ann"), person("ben")
    for number in range(2):
        ann("answers", place=ann("next")["item"]["place"], answer="label", value=1, key=str(number))
    last = ann("next")["last"]
    ben("undo", label=last)
    assert all(label.undone is None for label in labels_of(store))
    for _ in range(2):
        back = ann("undo", label=last)
        assert (back["item"]["place"], back["last"]) == (2, last - 1)
    assert [label.undone is None for label in labels_of(store)] == [True, False]


def test_wrong_answers_are_refused(person, store):
    ann = person("ann")
    ann("next")
    for body in [
        {}, {"place": 1, "answer": "label", "key": "k"},
        {"place": 1, "answer": "label", "value": 2, "key": "k"},
        {"place": 99, "answer": "skip", "key": "k"}, {"place": 1, "answer": "skip"},
        {"place": 1, "answer": "other", "key": "k"}, {"place": 1, "answer": "skip", "key": "k", "extra": 1},
        {"place": 1, "answer": "skip", "key": "k", "by": "token 00000000 ann"},
    ]:  # fmt: skip
        ann("answers", **body)
        assert ann.status == 400, body
    assert labels_of(store) == []


def test_labelling_needs_its_scope(person):
    reader = person("reader", "read", "ingest")
    reader("next")
    assert reader.status == 403


def test_without_tokens_the_name_is_in_the_request(client, queue, store):
    address = f"/api/v1/labels/queues/{queue.id}/next"
    assert client.post(address, json={"by": "ann"}).json()["item"]["place"] == 1
    assert client.post(address, json={}).status_code == 400
    assert client.post(address, json={"by": "token 0a1b2c3d ann"}).status_code == 400
    assert client.post(address.replace(queue.id, "none"), json={"by": "ann"}).status_code == 404


def test_a_connection_that_drops_while_a_label_is_sent_makes_no_second_label(connect, queue, store):
    import uvicorn

    queues = LabelQueues(store)
    place = queues.next(queue.id, "ann").place
    app = connect().app
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    body = json.dumps({"place": place, "answer": "label", "value": 1, "key": "k", "by": "ann"}).encode()
    head = (
        f"POST /api/v1/labels/queues/{queue.id}/answers HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    try:
        for sent in (
            head + body[:10],
            head + body,
        ):  # the first try breaks off within, the second after the body
            with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
                connection.sendall(sent)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(head + body)
            answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    finally:
        server.should_exit = True
        thread.join(30)
    assert b" 200 OK" in answer.splitlines()[0]
    assert len(labels_of(store)) == 1


def test_the_page_and_the_interface_share_what_a_person_has_in_hand(person, queue, store):
    ann = person("ann")
    place = ann("next")["item"]["place"]
    assert LabelQueues(store).next(queue.id, ann.by).place == place
