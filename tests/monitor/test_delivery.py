"""Messages reach their channels once, retried with growing waits, and one that hangs delays no other."""

import logging
from collections.abc import Iterable

import pytest

from tests.monitor.samples import BEGIN, deliveries_of, open_alert
from tests.monitor.test_channels import Receiver, receiver
from trivium.monitor.alerting.delivery import BACKOFF, MOST_TRIES, Deliverer, deliverers
from trivium.monitor.alerting.messages import Message
from trivium.monitor.monitored import Monitored
from trivium.store.live_alerts import locked_state
from trivium.store.store import Store
from trivium.suites.monitor_settings import AlertSettings, ChannelSettings, MonitorSettings
from trivium.suites.settings import Settings

__all__ = ["receiver"]


def monitored(*channels: ChannelSettings) -> Monitored:
    settings = MonitorSettings(alerts=AlertSettings(channels=channels))
    return Monitored(name="support", settings=Settings(monitor=settings))


def only_deliverer(store: Store, *channels: ChannelSettings) -> Deliverer:
    (found,) = deliverers(store, [monitored(*channels)])
    return found


def store_message(store: Store, *, channels: int = 1) -> int:
    body = {"monitor": "support", "title": "support: it is bad", "key": "1-0"}
    number = open_alert(store, now=BEGIN, body=body)
    add_deliveries(store, number, f"{number}-0", body, range(channels), BEGIN)
    return number


def add_deliveries(store: Store, alert: int, key: str, body, channels: Iterable[int], now: float) -> None:
    with locked_state(store, "support", "test", now) as state:
        state.add_deliveries(alert, key, body, channels, now)


def rows(store: Store, alert: int) -> list[tuple[str, int]]:
    return [(row["state"], row["tries"]) for row in deliveries_of(store, alert)]


def test_a_message_is_sent_once(any_url, receiver: Receiver):
    with Store(any_url) as store:
        alert = store_message(store)
        deliverer = only_deliverer(store, ChannelSettings(webhook=receiver.url))
        assert deliverer.deliver(BEGIN) == 1
        assert deliverer.deliver(BEGIN + 1e6) == 0
        assert rows(store, alert) == [("sent", 1)]
        assert len(receiver.requests) == 1


def test_a_failed_message_is_tried_again_later_with_the_same_key(url, receiver: Receiver):
    with Store(url) as store:
        alert = store_message(store)
        deliverer = only_deliverer(store, ChannelSettings(webhook=receiver.url))
        receiver.status = 500
        assert deliverer.deliver(BEGIN) == 0
        assert deliverer.deliver(BEGIN + BACKOFF.first - 1) == 0
        assert len(receiver.requests) == 1
        receiver.status = 200
        assert deliverer.deliver(BEGIN + BACKOFF.first) == 1
        assert rows(store, alert) == [("sent", 2)]
        first, second = (headers["idempotency-key"] for headers, _ in receiver.requests)
        assert first == second


def test_what_a_receiver_asks_for_is_waited(url, receiver: Receiver):
    with Store(url) as store:
        store_message(store)
        deliverer = only_deliverer(store, ChannelSettings(webhook=receiver.url))
        receiver.status, receiver.headers = 503, {"retry-after": "600"}
        deliverer.deliver(BEGIN)
        deliverer.deliver(BEGIN + 599)
        assert len(receiver.requests) == 1
        deliverer.deliver(BEGIN + 600)
        assert len(receiver.requests) == 2


def test_a_message_is_given_up_after_many_tries(url, receiver: Receiver, caplog):
    with Store(url) as store:
        alert = store_message(store)
        deliverer = only_deliverer(store, ChannelSettings(webhook=receiver.url))
        receiver.status = 500
        for n in range(MOST_TRIES + 3):
            deliverer.deliver(BEGIN + n * 4000)
        assert len(receiver.requests) == MOST_TRIES
        assert rows(store, alert) == [("failed", MOST_TRIES)]
        assert "answered 500" in deliveries_of(store, alert)[0]["reason"]
        assert "it is not tried again" in caplog.records[-1].message


def test_a_message_that_was_overtaken_is_not_sent_any_more(url, receiver: Receiver):
    """Else "it fires" would come after "it is over"."""
    with Store(url) as store:
        alert, other = store_message(store), store_message(store)
        deliverer = only_deliverer(store, ChannelSettings(webhook=receiver.url))
        receiver.status = 500
        deliverer.deliver(BEGIN)
        add_deliveries(store, alert, f"{alert}-1", {"monitor": "support"}, [0], BEGIN + 1)
        receiver.status = 200
        assert deliverer.deliver(BEGIN + 1) == 1
        assert rows(store, alert) == [("superseded", 1), ("sent", 1)]
        assert deliverer.deliver(BEGIN + 1e6) == 1
        assert rows(store, other) == [("sent", 2)]
        assert [headers["idempotency-key"] for headers, _ in receiver.requests[2:]] == ["1-1:0", "2-0:0"]


def test_a_channel_that_breaks_in_an_unknown_way_is_retried_and_given_up(url, monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("trivium.monitor.alerting.channels.Channel.send", broken)
    with Store(url) as store:
        alert = store_message(store)
        deliverer = only_deliverer(store)
        for n in range(MOST_TRIES + 3):
            deliverer.deliver(BEGIN + n * 4000)
        assert rows(store, alert) == [("failed", MOST_TRIES)]
        assert deliveries_of(store, alert)[0]["reason"] == "failed: RuntimeError"


def test_the_log_is_the_channel_if_none_is_given(url, caplog):
    with Store(url) as store:
        store_message(store)
        assert only_deliverer(store).deliver(BEGIN) == 1
    (record,) = [each for each in caplog.records if each.name == "trivium.alerts"]
    assert (record.levelno, record.message) == (logging.WARNING, "support: it is bad")


def test_two_deliverers_send_a_message_once(any_url, receiver: Receiver):
    with Store(any_url) as store, Store(any_url) as other:
        store_message(store)
        each = [only_deliverer(opened, ChannelSettings(webhook=receiver.url)) for opened in (store, other)]
        receiver.status = 500  # the lease of a try that failed ends at once; one that runs does not
        assert [deliverer.deliver(BEGIN) for deliverer in each] == [0, 0]
        assert len(receiver.requests) == 1


def test_a_webhook_that_hangs_delays_no_other_channel(url, receiver: Receiver, monkeypatch):
    monkeypatch.setattr("trivium.monitor.alerting.delivery.LOOK_SECONDS", 0.01)
    free = Receiver()
    import threading

    threading.Thread(target=free.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    receiver.hang.clear()
    with Store(url) as store:
        alert = store_message(store, channels=2)
        channels = (ChannelSettings(webhook=receiver.url), ChannelSettings(webhook=free.url))
        each = deliverers(store, [monitored(*channels)], clock=lambda: BEGIN)
        for deliverer in each:
            deliverer.start()
        pause = threading.Event()
        for _ in range(2000):
            if rows(store, alert)[1] == ("sent", 1):
                break
            pause.wait(0.01)
        states = rows(store, alert)
        receiver.hang.set()
        for deliverer in each:
            deliverer.stop()
    free.server.shutdown()
    free.server.server_close()
    assert states[1] == ("sent", 1)
    assert states[0][0] == "waiting"


@pytest.mark.parametrize("text", ["plain", "\u2028 ünï \U0001f600"])
def test_what_is_sent_is_what_was_stored(url, receiver: Receiver, text):
    with Store(url) as store:
        body = {"monitor": "support", "title": text}
        number = open_alert(store, now=BEGIN, body=body)
        add_deliveries(store, number, "k", body, [0], BEGIN)
        only_deliverer(store, ChannelSettings(webhook=receiver.url)).deliver(BEGIN)
    import msgspec

    assert msgspec.json.decode(receiver.requests[0][1], type=Message).title == text
