"""The threads behind a server: all work, and all end."""

import threading
import time

from tests.otlp_requests import agent_trace, body
from tests.store.samples import attempt, new_run
from tests.web.conftest import SUITE
from trivium.monitor.monitored import monitored
from trivium.store.browsing.search import search
from trivium.store.live_samples import samples_of
from trivium.web.services import Services


def ours() -> set[str]:
    return {
        thread.name.partition("-support")[0] for thread in threading.enumerate() if "trivium" in thread.name
    }


def until(condition) -> bool:
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def test_every_part_works_in_a_thread_and_ends_with_the_server(store):
    others = ours()  # of tests before this one
    with Services(store, [monitored(SUITE)]) as services:
        names = {"intake", "completer", "scorer", "watcher", "log-0", "retention", "search"}
        assert {f"trivium-{name}" for name in names} <= ours()
        services.intake.receive(body(agent_trace()), "protobuf")
        assert until(lambda: samples_of(store, "support"))
    assert ours() <= others


def test_a_server_indexes_its_store_for_searches_also_if_it_receives_nothing(store):
    run = new_run(store, id="searched", count=1)
    store.save(run, attempts=[attempt(0, output="a needle")])
    store.finish(run, "done", summary={"attempts": 1})
    with Services(store, receiving=False):
        assert until(lambda: search(store, "needle").hits)
