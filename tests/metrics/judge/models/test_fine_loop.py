"""The event loop of judges waits as long as it is told, neither less nor whole milliseconds more."""

import asyncio
import selectors
import socket

import pytest

from trivium.metrics.judge.models import fine_loop

pytestmark = pytest.mark.skipif(
    not hasattr(selectors, "EpollSelector"), reason="only epoll waits for whole milliseconds"
)


@pytest.fixture
def loop():
    loop = fine_loop.fine_event_loop()
    yield loop
    loop.close()


def test_part_of_a_millisecond_is_waited_for_as_such(monkeypatch):
    told = []

    def noted(read, write, other, timeout):
        told.append(timeout)
        return read, write, other

    selector = fine_loop.FineSelector()
    monkeypatch.setattr(fine_loop.select, "select", noted)
    try:
        assert selector.select(0.0003) == []
    finally:
        selector.close()
    assert told == [0.0003]


def test_what_is_ready_is_told_at_once_and_by_its_key(loop):
    here, there = socket.socketpair()
    selector = fine_loop.FineSelector()
    try:
        selector.register(here, selectors.EVENT_READ, "mine")
        there.send(b"x")
        for timeout in (None, 0, 600):
            ((key, events),) = selector.select(timeout)
            assert (key.data, events) == ("mine", selectors.EVENT_READ)
    finally:
        selector.close()
        here.close()
        there.close()


def test_timers_sockets_and_other_threads_wake_it(loop):
    async def all_of_it():
        began = loop.time()
        await asyncio.sleep(0.0007)
        slept = loop.time() - began
        server = await asyncio.start_server(
            lambda reader, writer: (writer.write(b"hello"), writer.close()), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        said = await reader.read()
        writer.close()
        server.close()
        return slept, said, await asyncio.to_thread(lambda: "from a thread")

    slept, said, other = loop.run_until_complete(all_of_it())
    loop.run_until_complete(loop.shutdown_default_executor())
    assert slept >= 0.0007
    assert (said, other) == (b"hello", "from a thread")


def test_a_process_with_more_descriptors_than_select_can_name_gets_the_usual_loop(monkeypatch):
    monkeypatch.setattr(fine_loop, "MOST_SELECTED", 3)
    usual = fine_loop.fine_event_loop()
    try:
        assert not isinstance(usual._selector, fine_loop.FineSelector)
        assert usual.run_until_complete(asyncio.sleep(0, "runs")) == "runs"
    finally:
        usual.close()
