"""Scores go to an OpenTelemetry endpoint, each once."""

import json
import time

from tests.monitor.test_channels import Receiver, receiver
from tests.monitor.test_scorer import NOW, record, suite
from trivium.monitor.events import LEASE_SECONDS, WAIT_SECONDS, EventSender
from trivium.monitor.intake import Intake
from trivium.monitor.monitored import Monitored, monitored
from trivium.monitor.scorer import Scorer
from trivium.store.live_alerts import locked_state
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store

__all__ = ["receiver"]

FIRST, SECOND = "4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000abc"


def watched(receiver: Receiver) -> Monitored:
    return monitored(suite(), monitor={"events": receiver.url})


def scored(store: Store, monitor: Monitored, *names: str) -> None:
    with Scorer(store, monitor) as scorer:
        record(store, *names)
        scorer.score_all(NOW)


def sent(receiver: Receiver) -> dict[str, list[dict]]:
    """The events by trace id."""
    return {
        span["traceId"]: span["events"]
        for _, body in receiver.requests
        for entry in json.loads(body)["resourceSpans"]
        for span in entry["scopeSpans"][0]["spans"]
    }


def test_each_score_is_an_event_in_its_trace_once(any_url, receiver):
    with Store(any_url) as store:
        monitor = watched(receiver)
        sender = EventSender(store, [monitor])
        assert sender.send(NOW) == 0
        scored(store, monitor, FIRST, SECOND)
        assert sender.send(NOW) == 2
        assert sender.send(NOW) == 0
        assert EventSender(store, [monitor]).send(NOW + 1e6) == 0
    events = sent(receiver)
    assert set(events) == {FIRST, SECOND}
    assert {event["name"] for event in events[FIRST]} == {"gen_ai.evaluation.result"}
    attributes = [{each["key"]: each["value"] for each in event["attributes"]} for event in events[FIRST]]
    names = {each["gen_ai.evaluation.name"]["stringValue"] for each in attributes}
    assert {"completed", "composite", "passed"} <= names


def test_scores_that_come_back_are_refused(any_url, receiver):
    """As late spans they would have their traces scored again, whose scores would come back, and so on."""
    with Store(any_url) as store:
        monitor = watched(receiver)
        sender = EventSender(store, [monitor])
        sender.send(NOW)
        scored(store, monitor, FIRST, SECOND)
        sender.send(NOW)
        (_, body), *_ = receiver.requests
        with Intake(LiveTraces(store)) as intake:
            receipt = intake.receive(body, "json")
    assert (receipt.new, receipt.refused) == (0, {"own_scores": 2})
    assert "`events` must not lead here" in receipt.message


def test_without_an_address_nothing_is_sent(url, receiver):
    with Store(url) as store:
        monitor = monitored(suite())
        scored(store, monitor, FIRST)
        assert EventSender(store, [monitor]).send(NOW) == 0
    assert receiver.requests == []


def test_what_could_not_be_sent_is_sent_later(url, receiver):
    with Store(url) as store:
        monitor = watched(receiver)
        sender = EventSender(store, [monitor])
        sender.send(NOW)
        scored(store, monitor, FIRST)
        receiver.status = 400
        assert sender.send(NOW) == 0
        assert len(receiver.requests) == 1
        assert sender.send(NOW + WAIT_SECONDS - 1) == 0
        assert len(receiver.requests) == 1
        receiver.status = 200
        assert sender.send(NOW + WAIT_SECONDS) == 1


def test_one_server_at_a_time_sends(url, receiver):
    with Store(url) as store:
        monitor = watched(receiver)
        EventSender(store, [monitor]).send(NOW)
        scored(store, monitor, FIRST)
        with locked_state(store, "support", "events", NOW) as state:
            body = json.dumps({"last": 0, "owner": "another", "until": NOW + LEASE_SECONDS})
            state.save(body, NOW)
        sender = EventSender(store, [monitor])
        assert sender.send(NOW) == 0
        assert sender.send(NOW + LEASE_SECONDS) == 1  # it was killed


def test_a_sender_sends_until_it_is_stopped(url, receiver, monkeypatch):
    monkeypatch.setattr("trivium.monitor.events.LOOK_SECONDS", 0.01)
    with Store(url) as store:
        monitor = watched(receiver)
        with EventSender(store, [monitor], clock=lambda: NOW) as sender:
            sender.send(NOW)
            scored(store, monitor, FIRST)
            sender.start()
            for _ in range(2000):
                if receiver.requests:
                    break
                time.sleep(0.01)
            sender.stop()
    assert set(sent(receiver)) == {FIRST}
