"""A watcher turns what was scored into alerts: one message for one cause, each sample counted once."""

import threading
from statistics import NormalDist

import msgspec
import numpy as np
import pytest

from tests.monitor.samples import BEGIN, deliveries_of, sample, store_samples, store_traffic
from trivium.monitor.alerting.messages import percent, text_of
from trivium.monitor.levels import Levels
from trivium.monitor.monitored import Monitored
from trivium.monitor.status import STATE, status_of, watched_of
from trivium.monitor.watcher import Watcher
from trivium.store import schema
from trivium.store.audit import audit_log
from trivium.store.live_alerts import add_mark, alerts_of, state_of
from trivium.store.store import Store
from trivium.suites.monitor_settings import (
    AlertSettings,
    ChangeSettings,
    ChannelSettings,
    MonitorSettings,
    StatusThresholds,
)
from trivium.suites.settings import Settings

MINUTE = 60.0
DAY = 86_400.0


def watcher(store: Store, **settings) -> Watcher:
    made = MonitorSettings(**settings)
    return Watcher(store, [Monitored(name="support", settings=Settings(monitor=made))])


def traffic(number: int, rate: float, *, first: int = 0, seed: int = 1, **facets) -> list:
    rng = np.random.default_rng([seed, first])
    return [sample(first + n, bool(ok), **facets) for n, ok in enumerate(rng.random(number) < rate)]


def mixed(samples: list) -> list:
    """The samples in another order."""
    order = np.random.default_rng(4).permutation(len(samples))
    times = [each.time for each in samples]
    return [
        msgspec.structs.replace(samples[place], time=time, scored=time)
        for place, time in zip(order, times, strict=True)
    ]


def at(number: int) -> float:
    """The time just after a sample."""
    return BEGIN + MINUTE * number + 1


@pytest.fixture
def store(url):
    with Store(url) as opened:
        store_traffic(opened, BEGIN)
        yield opened


def test_a_drop_alerts_once_and_its_recovery_once(store):
    watch = watcher(store, window=200 * MINUTE, by=())
    messages = []
    for first, rate in ((0, 0.98), (300, 0.4), (600, 0.99)):
        for part in range(first, first + 300, 20):
            store_samples(store, traffic(20, rate, first=part))
            messages += watch.look(at(part + 20))
    assert [message.kind for message in messages] == ["firing", "escalated", "eased", "resolved"]
    assert at(300) < messages[0].time < at(400)
    assert messages[-1].status == "healthy"
    (alert,) = alerts_of(store, "support")
    assert (alert.state, alert.cause) == ("resolved", "quality")
    assert len(deliveries_of(store, alert.number)) == len(messages)
    log = [(entry.actor, entry.action, entry.body["status"]) for entry in audit_log(store)]
    assert log[0] == ("monitor support", "alert resolved", "healthy")
    assert ("monitor support", "alert changed", "critical") in log


def test_a_message_says_how_bad_how_sure_and_on_what(store):
    store_samples(store, traffic(200, 0.4))
    (message,) = watcher(store, by=()).look(at(200))
    assert (message.status, message.sure, message.error) == ("critical", True, 0.05)
    assert message.mean.samples == 200
    assert "of 200 samples, surely below 70 %" in message.title
    assert message.mean.low < message.mean.mean < message.mean.high


def test_the_worst_examples_come_with_their_traces(store):
    store_samples(store, [sample(n, passed=False, score=n / 1000) for n in range(100)])
    (message,) = watcher(store, alerts=AlertSettings(examples=2)).look(at(100))
    assert [each.trace for each in message.examples] == ["t0", "t1"]
    assert message.examples[0].query == "question 0"


def test_one_message_names_the_tool_that_fails(store):
    """Agent and model of its calls are bad for the same reason: they are not alerted apart, nor listed."""
    fine = traffic(300, 0.97, agent="sales", tool="search", model="large")
    bad = traffic(300, 0.2, first=300, agent="billing", tool="refund", model="large")
    other = traffic(300, 0.96, first=600, agent="billing", tool="invoice", model="large")
    store_samples(store, mixed(fine + bad + other))
    (message,) = watcher(store).look(at(900))
    assert (message.origin.facet, message.origin.value) == ("tool", "refund")
    assert message.origin.explains > 0.9
    assert (message.mean.facet, message.mean.value) == ("tool", "refund")
    assert (message.also, "billing" in text_of(message)) == ((), False)
    assert {each.trace for each in message.examples} <= {each.trace for each in bad}


def test_two_causes_are_two_messages(store):
    fine = traffic(600, 0.99, agent="sales", tool="search")
    billing = traffic(200, 0.2, first=600, agent="billing", tool="refund")
    travel = traffic(200, 0.3, first=800, agent="travel", tool="book")
    store_samples(store, mixed(fine + billing + travel))
    one, other = watcher(store, by=("agent",)).look(at(1000))
    assert (one.origin.value, other.origin.value) == ("billing", "travel")
    for message, beside in ((one, other), (other, one)):
        named = f"#{beside.alert} (agent {beside.origin.value})"
        assert f"beside alert {named}: another cause at the same time" in text_of(message)
    rate, rest = (percent(np.mean([each.passed for each in of])) for of in (fine, fine + travel))
    assert one.title.endswith(f"all other agents {rest}")
    assert other.title.endswith(f"all other agents except agent billing {rate}")
    assert "of the drop that is left without agent billing" in text_of(other)


def test_a_small_facet_alerts_though_all_traffic_is_fine(store):
    store_samples(
        store, mixed(traffic(1000, 0.99, agent="sales") + traffic(80, 0.2, first=1000, agent="rare"))
    )
    (message,) = watcher(store).look(at(1080))
    assert (message.mean.facet, message.mean.value) == ("agent", "rare")


def test_only_sure_can_be_turned_off(store):
    store_samples(store, [sample(n, passed=n > 2) for n in range(5)])
    assert watcher(store).look(at(5)) == []
    (message,) = watcher(store, alerts=AlertSettings(only_sure=False)).look(at(5))
    assert (message.status, message.sure) == ("critical", False)


def drop_and_recover(store, *, recovered: float, **alerts) -> list[str]:
    """Kinds of messages when the rate of the last 100 samples falls to 0.5 and then rises."""
    watch = watcher(store, window_samples=100, by=(), alerts=AlertSettings(cool_down=0, **alerts))
    store_samples(store, [sample(n, n % 2 == 0) for n in range(100)])
    kinds = [message.kind for message in watch.look(at(100))]
    good = round(100 * recovered)
    store_samples(store, [sample(100 + n, n < good) for n in range(100)])
    return kinds + [message.kind for message in watch.look(at(200))]


@pytest.mark.parametrize(
    ("hysteresis", "kinds"), [(0.02, ["firing", "eased"]), (0.0, ["firing", "resolved"])]
)
def test_hysteresis_keeps_an_alert_until_the_rate_is_above_the_threshold(store, hysteresis, kinds):
    assert drop_and_recover(store, recovered=0.86, hysteresis=hysteresis) == kinds


def test_between_two_messages_about_one_cause_the_cool_down_passes(store):
    watch = watcher(store, window_samples=25, by=(), alerts=AlertSettings(cool_down=3600, only_sure=False))
    times = []
    for n in range(0, 800, 25):  # flaps
        store_samples(store, [sample(m, (n // 25) % 2 == 0) for m in range(n, n + 25)])
        times += [each.time for each in watch.look(at(n + 25)) if each.kind != "escalated"]
    assert len(times) > 1
    assert min(np.diff(times)) >= 3600


def test_an_escalation_does_not_wait(store):
    watch = watcher(store, window_samples=100, by=(), alerts=AlertSettings(cool_down=1e6))
    store_samples(store, [sample(n, n % 4 != 0) for n in range(600)])
    assert [message.status for message in watch.look(at(600))] == ["warning"]
    store_samples(store, [sample(600 + n, passed=False) for n in range(100)])
    assert [(message.status, message.kind) for message in watch.look(at(700))] == [("critical", "escalated")]


def test_stalled_scoring_is_an_alert_of_its_own(store):
    row = {
        "monitor": "support", "trace": "t", "version": 1, "probability": 1.0, "weight": 1.0, "rule": "",
        "state": "waiting", "created": BEGIN, "due": BEGIN, "owner": None, "tries": 0, "reason": None,
    }  # fmt: skip
    with store.engine.begin() as connection:
        connection.execute(schema.live_jobs.insert().values(row))
    watch = watcher(store, stalled_after=900)
    assert watch.look(BEGIN + 900) == []
    (message,) = watch.look(BEGIN + 901)
    assert (message.cause, message.waiting) == ("stalled", 1)
    assert watch.look(BEGIN + 1000) == []
    with store.engine.begin() as connection:
        connection.execute(schema.live_jobs.update().values(state="done"))
    (over,) = watch.look(BEGIN + 8000)
    assert (over.cause, over.kind) == ("stalled", "resolved")


def test_no_data_is_an_alert_of_its_own(store):
    watch = watcher(store, no_data_after=600)
    assert watch.look(BEGIN + 600) == []
    (message,) = watch.look(BEGIN + 601)
    assert message.cause == "no_data"
    assert status_of(store, "support", watch.monitors[0].monitor, now=BEGIN + 601).status == "no_data"
    store_traffic(store, BEGIN + 9000)
    (over,) = watch.look(BEGIN + 9001)
    assert (over.cause, over.kind) == ("no_data", "resolved")


def test_only_traffic_of_the_watched_services_is_data(store):
    store_traffic(store, BEGIN + 500, service="other")
    assert watcher(store, no_data_after=600, services=("mine",)).look(BEGIN + 550) == []
    (message,) = watcher(store, no_data_after=600, services=("mine",)).look(BEGIN + 1151)
    assert message.cause == "no_data"


def test_an_alert_stays_while_no_samples_come(store):
    watch = watcher(store, window=100 * MINUTE, by=(), no_data_after=10 * DAY)
    store_samples(store, traffic(100, 0.3))
    assert len(watch.look(at(100))) == 1
    assert watch.look(at(1000)) == []
    (alert,) = alerts_of(store, "support", firing=True)
    assert "of 99 samples" in alert.body["title"]


def test_worse_than_before_the_deployment_is_an_alert(store):
    watch = watcher(
        store, window=2000 * MINUTE, by=(), figures={"pass_rate": StatusThresholds(warning=0.5, critical=0.3)}
    )
    store_samples(store, traffic(500, 0.97))
    assert watch.look(at(500)) == []
    add_mark(store, "support", now=at(500), version="2.0")
    store_samples(store, traffic(300, 0.75, first=501))
    (message,) = watch.look(at(801))
    assert message.status == "worse"
    assert "worse than before the last deployment" in message.title
    assert message.mean.before < 0.97
    mean = message.mean
    assert mean.threshold < mean.before
    assert mean.below == pytest.approx(by_its_interval(mean), abs=1e-6)
    assert f"(below {percent(mean.threshold)} now with a probability of 99 %)" in message.title


def by_its_interval(bad):
    """Probability that a mean is below its threshold, by the interval's end on the threshold's side."""
    end = bad.high if bad.threshold > bad.mean else bad.low
    return NormalDist().cdf(1.959964 * (bad.threshold - bad.mean) / abs(end - bad.mean))


def test_what_is_not_sure_says_how_probable_it_is(store):
    store_samples(store, traffic(30, 0.6))
    (message,) = watcher(store, by=(), alerts=AlertSettings(only_sure=False)).look(at(30))
    assert not message.sure
    assert 0.5 < message.mean.below < 0.99
    assert message.mean.below == pytest.approx(by_its_interval(message.mean), abs=1e-6)
    assert f"below 70 % (with a probability of {percent(message.mean.below)})" in message.title


def test_without_a_fall_a_deployment_alerts_nobody(store):
    watch = watcher(store, by=(), change=ChangeSettings(min_samples=100))
    store_samples(store, traffic(500, 0.95))
    watch.look(at(500))
    add_mark(store, "support", now=at(500), version="2.0")
    store_samples(store, traffic(500, 0.95, first=501))
    assert watch.look(at(1001)) == []
    assert status_of(store, "support", now=at(1001)).mark.version == "2.0"


def test_levels_run_from_the_last_deployment(any_url):
    with Store(any_url) as store:
        watch = watcher(store)
        store_samples(store, traffic(100, 0.3))
        watch.look(at(100))
        add_mark(store, "support", now=at(100), kind="reset")
        store_samples(store, traffic(5, 1.0, first=200))
        watch.look(at(205))
        state = watched_of(state_of(store, "support", STATE))
        (whole,) = [row for row in state.levels["levels"] if row["key"] == ["pass_rate", "", ""]]
        assert whole["sequence"]["n"] == 5


def test_each_sample_is_counted_once_by_several_watchers(any_url):
    with Store(any_url) as store, Store(any_url) as other:
        watchers = [watcher(store), watcher(other)]
        for first in range(0, 60, 20):
            store_samples(store, traffic(20, 0.9, first=first))
            threads = [threading.Thread(target=each.look, args=[at(first + 20)]) for each in watchers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        state = watched_of(state_of(store, "support", STATE))
        counts = {tuple(row["key"]): row["sequence"]["n"] for row in state.levels["levels"]}
        assert counts["pass_rate", "", ""] == 60


def test_several_watchers_send_a_message_once(any_url):
    with Store(any_url) as store, Store(any_url) as other:
        store_samples(store, traffic(200, 0.3))
        threads = [
            threading.Thread(target=watcher(each).look, args=[at(200)]) for each in (store, other, store)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (alert,) = [each for each in alerts_of(store, "support") if each.cause == "quality"]
        assert len(deliveries_of(store, alert.number)) == 1


def test_a_late_version_of_a_trace_is_not_counted_again(store):
    watch = watcher(store)
    store_samples(store, traffic(10, 1.0))
    watch.look(at(10))
    again = msgspec.structs.replace(sample(3), version=2, passed=False)
    store_samples(store, [again, sample(50)])
    watch.look(at(60))
    state = watched_of(state_of(store, "support", STATE))
    (whole,) = [row for row in state.levels["levels"] if row["key"] == ["pass_rate", "", ""]]
    assert whole["sequence"]["n"] == 11
    assert status_of(store, "support", watch.monitors[0].monitor, now=at(60)).sample_count == 11


def test_a_message_is_stored_for_each_channel(store):
    channels = (ChannelSettings(log="warning"), ChannelSettings(command=("true",)))
    store_samples(store, traffic(200, 0.3))
    watcher(store, alerts=AlertSettings(channels=channels)).look(at(200))
    (alert,) = alerts_of(store, "support")
    assert [row["channel"] for row in deliveries_of(store, alert.number)] == [0, 1]


def test_a_status_says_what_the_seed_says(store):
    store_samples(store, [sample(n, n % 4 != 0, score=0.5) for n in range(100)])
    found = status_of(store, "support", MonitorSettings(), now=at(100))
    assert (found.sample_count, found.pass_rate, found.average_score) == (100, 0.75, 0.5)
    assert found.status == "warning"


def test_a_status_without_samples_is_insufficient_data(store):
    assert status_of(store, "support", MonitorSettings(), now=BEGIN + 10).status == "insufficient_data"


def test_the_window_is_what_the_settings_say(store):
    store_samples(store, traffic(100, 0.9))
    by_time = status_of(store, "support", MonitorSettings(window=10 * MINUTE), now=at(99))
    by_number = status_of(store, "support", MonitorSettings(window_samples=30), now=at(99))
    assert (by_time.sample_count, by_number.sample_count) == (10, 30)


def test_a_watcher_looks_until_it_is_stopped(store, monkeypatch):
    monkeypatch.setattr("trivium.monitor.watcher.LOOK_SECONDS", 0.01)
    store_samples(store, traffic(200, 0.3))
    made = Monitored(name="support", settings=Settings(monitor=MonitorSettings()))
    with Watcher(store, [made], clock=lambda: at(200)) as watch:
        watch.start()
        pause = threading.Event()
        for _ in range(2000):
            if alerts_of(store, "support"):
                break
            pause.wait(0.01)
    assert [alert.status for alert in alerts_of(store, "support")] == ["critical"]


def test_many_new_samples_are_bet_on_in_several_transactions(store, monkeypatch):
    monkeypatch.setattr("trivium.monitor.watcher.SAMPLES_AT_ONCE", 30)
    samples = [sample(n, n % 3 != 0, session=f"s{n // 20}") for n in range(100)]
    store_samples(store, samples)
    watch = watcher(store)
    watch.look(at(2000))
    state = watched_of(state_of(store, "support", STATE))
    (whole,) = [row for row in state.levels["levels"] if row["key"] == ["pass_rate", "", ""]]
    assert state.last == 100
    assert whole["sequence"]["n"] == 5


def test_an_unsure_facet_alerts_only_if_its_interval_is_below_the_threshold(store):
    """One failure of a rare tool is nothing; most of fifteen are."""
    fine = [sample(n, tool="search") for n in range(100)]
    once = [sample(100 + n, n > 0, tool="once") for n in range(3)]
    often = [sample(110 + n, n > 11, tool="often") for n in range(15)]
    store_samples(store, fine + once + often)
    alerts = AlertSettings(only_sure=False)
    (message,) = watcher(
        store, by=("tool",), alerts=alerts, figures={"pass_rate": StatusThresholds(warning=0.7, critical=0.6)}
    ).look(at(130))
    assert (message.mean.facet, message.mean.value) == ("tool", "often")
    assert message.also == ()


def low_thresholds() -> dict:
    return {"pass_rate": StatusThresholds(warning=0.5, critical=0.3)}


def test_two_deployments_in_a_row_are_compared_with_what_was_before_both(store):
    """Ten samples between them say nothing; a reset between them ends the comparison."""
    watch = watcher(store, window=2000 * MINUTE, by=(), figures=low_thresholds())
    store_samples(store, traffic(500, 0.97))
    watch.look(at(500))
    add_mark(store, "support", now=at(500), version="2.0")
    store_samples(store, traffic(10, 1.0, first=501))
    watch.look(at(511))
    add_mark(store, "support", now=at(511), version="2.1")
    store_samples(store, traffic(300, 0.75, first=512))
    (message,) = watch.look(at(812))
    assert (message.status, message.mean.samples) == ("worse", 300)
    add_mark(store, "support", now=at(812), kind="reset")
    add_mark(store, "support", now=at(813), version="2.2")
    watch.look(at(814))
    state = watched_of(state_of(store, "support", STATE))
    assert (state.levels["mark"], state.levels["references"]) == (4, [])


def test_two_deployments_between_two_looks_are_compared_with_what_was_before_both(store):
    watch = watcher(store, window=2000 * MINUTE, by=(), figures=low_thresholds())
    store_samples(store, traffic(500, 0.97) + traffic(300, 0.75, first=512))
    add_mark(store, "support", now=at(500), version="2.0")
    add_mark(store, "support", now=at(511), version="2.1")
    (message,) = watch.look(at(812))
    assert message.status == "worse"


def test_a_clock_that_is_set_back_undoes_no_mark_and_silences_no_alert(store):
    watch = watcher(store, window=2000 * MINUTE, by=(), alerts=AlertSettings(cool_down=3600))
    store_samples(store, traffic(200, 0.3))
    add_mark(store, "support", now=at(0), kind="reset")
    add_mark(store, "support", now=at(300), kind="reset")
    (first,) = watch.look(at(300) + 10 * DAY)
    assert first.cause == "no_data"  # the clock is ten days ahead
    watch.look(at(299))
    state = watched_of(state_of(store, "support", STATE))
    assert state.levels["mark"] == 2
    store_samples(store, [sample(310 + n, passed=False) for n in range(50)])
    assert [each.status for each in watch.look(at(360))] == ["critical"]


def test_what_was_sure_long_ago_says_nothing_of_a_window_that_is_low_by_chance(store):
    """The window was never low while it was sure that the level had been."""
    watch = watcher(store, window=255 * MINUTE, by=())
    store_samples(store, traffic(60, 0.4) + traffic(200, 1.0, first=60))
    assert watch.look(at(260)) == []
    assert status_sure(store)
    store_samples(store, traffic(130, 1.0, first=260))
    assert watch.look(at(390)) == []
    assert not status_sure(store)
    store_samples(store, [sample(390 + n, passed=n % 5 > 0) for n in range(260)])
    assert watch.look(at(650)) == []
    assert status_of(store, "support", watch.monitors[0].monitor, now=at(650)).status == "warning"


def status_sure(store) -> bool:
    """Whether the level of all traffic once was surely below a threshold."""
    levels = Levels.from_state(MonitorSettings(by=()), watched_of(state_of(store, "support", STATE)).levels)
    return levels.level(("pass_rate", "", "")).sure is not None


def test_a_facet_of_which_no_samples_come_has_not_recovered(store):
    watch = watcher(store, window=200 * MINUTE, by=("agent",))
    store_samples(store, mixed(traffic(100, 0.99, agent="sales") + traffic(60, 0.1, first=100, agent="old")))
    (message,) = watch.look(at(160))
    assert message.mean.value == "old"
    store_samples(store, traffic(200, 0.99, first=300, agent="sales"))
    (over,) = watch.look(at(500))
    assert "no samples of agent old come any more" in over.title


def test_names_from_the_traffic_add_no_line_to_a_message(store):
    name = "a\r\nBcc: all@example.org\x1b[2J\u2028x"
    store_samples(store, mixed(traffic(100, 0.99, agent="sales") + traffic(60, 0.1, first=100, agent=name)))
    (message,) = watcher(store, by=("agent",)).look(at(160))
    assert message.mean.value == name
    assert message.title.isprintable()
    assert "Bcc: all@example.org" in message.title
    assert all(line.isprintable() for line in text_of(message).split("\n"))


def test_messages_of_two_stores_have_different_keys(url, tmp_path):
    keys = []
    for place in (url, f"sqlite:///{tmp_path / 'other.db'}"):
        with Store(place) as opened:
            store_samples(opened, traffic(200, 0.3))
            store_traffic(opened, BEGIN)
            watcher(opened, by=()).look(at(200))
            (alert,) = alerts_of(opened, "support")
            (row,) = deliveries_of(opened, alert.number)
            assert row["key"] == f"{alert.body['key']}:0"
            keys.append(row["key"])
    assert keys[0] != keys[1]
