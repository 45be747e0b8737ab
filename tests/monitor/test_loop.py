"""A loop goes on after a failure, waits as it is told, and ends."""

import logging
import threading

from trivium.errors import StoreError
from trivium.monitor.loop import Loop


def test_it_goes_on_after_failures_and_logs_them(caplog):
    results = [StoreError("it is locked"), ValueError("a mistake"), None]
    called = threading.Event()

    def work() -> None:
        if not results:
            called.set()
        elif (result := results.pop(0)) is not None:
            raise result

    loop = Loop("test", work, seconds=0.0, failing="nothing can be done now")
    with caplog.at_level(logging.WARNING, "trivium"):
        loop.start()
        assert called.wait(60)
        loop.stop()
    assert "nothing can be done now: it is locked" in caplog.text
    assert "a mistake" in caplog.text


def test_the_waits_are_those_that_were_asked_for(monkeypatch):
    waits: list[float] = []
    results = iter([StoreError("locked"), 7.0, None])

    def work() -> float | None:
        result = next(results)
        if isinstance(result, Exception):
            raise result
        return result

    loop = Loop("test", work, seconds=3.0, failing="", first=1.0, pause=5.0)

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 4

    monkeypatch.setattr(loop._stopped, "wait", wait)
    loop._run()
    assert waits == [1.0, 5.0, 7.0, 3.0]


def test_one_that_was_not_started_can_be_stopped():
    loop = Loop("test", lambda: None, seconds=1.0, failing="")
    loop.stop()
    assert loop.stopping


def test_loops_that_were_told_to_end_together_are_waited_for_together():
    going_on, leave = threading.Event(), threading.Event()

    def hang() -> None:
        going_on.set()
        leave.wait(60)

    loop = Loop("test", hang, seconds=0.0, failing="", patience=50.0)
    loop.start()
    assert going_on.wait(60)
    loop.end()
    loop._ended -= 100.0  # while others were waited for
    loop.stop()
    assert not leave.is_set()
    assert loop._thread.is_alive()
    leave.set()
    loop._thread.join()
