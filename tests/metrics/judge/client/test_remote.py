"""How many requests of workers the process of a run holds, over real connections."""

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager

import pytest

from tests.metrics.judge.client.test_direct_client import call
from trivium.metrics.judge.client import remote
from trivium.metrics.judge.client.models import AskResult
from trivium.metrics.judge.client.remote import RemoteModels, RequestServer
from trivium.metrics.judge.client.request import ModelResponse

LONG, MOST, IN_HAND = 50_000, 4, 1_000_000
"""Characters of a request, requests that are always read, and bytes from which on no more are."""

EACH = 200
"""Requests of a worker: ten times as many bytes as are held."""

SECONDS = 300.0
"""After so long a request is not answered at all."""


class Provider:
    """Answers a request once its model is open; counts the requests that wait."""

    def __init__(self):
        self.open = defaultdict(asyncio.Event)
        self.waiting, self.most_waiting, self.asked, self.dropped = 0, 0, 0, []

    async def ask(self, name, request, *, about):
        self.asked += 1
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        await self.open[name].wait()
        self.waiting -= 1
        answer = ModelResponse(
            text="{}",
            finish="stop",
            model=name,
            logprobs=None,
            input_tokens=1,
            output_tokens=1,
            cost_usd=None,
        )
        return AskResult(response=answer, requests=1, key=f"{name} {self.asked}")

    def drop(self, keys):
        self.dropped += [(key, self.waiting) for key in keys]


@asynccontextmanager
async def connected(count, most=MOST):
    """The provider, the server, and so many workers."""
    provider = Provider()
    server = RequestServer(provider, most)
    address = await server.start("127.0.0.1")
    workers = [RemoteModels(lambda: None) for _ in range(count)]
    for each in workers:
        await each.open(address)
    try:
        yield provider, server, workers
    finally:
        for each in workers:
            await each.close()
        await server.close()
        await settled()


async def settled():
    """Let everything happen that waits for nothing but the event loop."""
    for _ in range(2_000):
        await asyncio.sleep(0)


def asking(worker, name, count=EACH, chars=LONG):
    text = "x" * chars
    return [
        asyncio.ensure_future(worker.ask(name, call(name, turns=(f"{number} {text}",)), about=()))
        for number in range(count)
    ]


@pytest.fixture(autouse=True)
def _few_bytes(monkeypatch):
    monkeypatch.setattr(remote, "MAX_BYTES_IN_HAND", IN_HAND)


def in_loop(test):
    def run():
        asyncio.run(asyncio.wait_for(test(), SECONDS))

    run.__name__ = test.__name__
    return run


@in_loop
async def test_no_more_requests_are_read_than_have_room_and_all_are_answered():
    async with connected(3) as (provider, _, workers):
        tasks = [task for worker in workers for task in asking(worker, "a")]
        await settled()
        held = provider.waiting
        provider.open["a"].set()
        await asyncio.gather(*tasks)
        assert IN_HAND // LONG - 1 <= held <= provider.most_waiting <= 2 * IN_HAND // LONG
        assert provider.asked == 3 * EACH


@in_loop
async def test_a_worker_with_few_requests_does_not_wait_for_one_with_many():
    async with connected(2) as (provider, _, (busy, other)):
        many = asking(busy, "a")
        await settled()
        held = provider.waiting
        provider.open["b"].set()
        await asyncio.gather(*asking(other, "b"))
        assert provider.waiting == held
        provider.open["a"].set()
        await asyncio.gather(*many)


@in_loop
async def test_as_many_requests_as_one_process_has_under_way_are_read_however_long_they_are():
    async with connected(2, most=10) as (provider, _, workers):
        tasks = [task for worker in workers for task in asking(worker, "a", 20, chars=IN_HAND)]
        await settled()
        held = provider.waiting
        provider.open["a"].set()
        await asyncio.gather(*tasks)
        assert 10 <= held <= 11


@in_loop
async def test_short_requests_are_all_read():
    async with connected(2) as (provider, _, workers):
        tasks = [task for worker in workers for task in asking(worker, "a", chars=10)]
        await settled()
        assert provider.waiting == 2 * EACH
        provider.open["a"].set()
        await asyncio.gather(*tasks)


@in_loop
async def test_what_a_worker_drops_while_nothing_is_read_from_it_is_dropped_later():
    async with connected(1) as (provider, _, (worker,)):
        tasks = asking(worker, "a")
        await settled()
        worker.drop(["an answer"])
        await settled()
        assert provider.dropped == []
        provider.open["a"].set()
        await asyncio.gather(*tasks)
        await settled()
        assert [key for key, _ in provider.dropped] == ["an answer"]


@in_loop
async def test_requests_that_are_cancelled_while_they_wait_are_not_sent():
    async with connected(1) as (provider, _, (worker,)):
        tasks = asking(worker, "a", chars=IN_HAND)
        await settled()
        for each in tasks:
            each.cancel()
        provider.open["a"].set()
        await asyncio.gather(*asking(worker, "a", 1))
        assert MOST < provider.asked < EACH


@in_loop
async def test_a_worker_that_ends_while_nothing_is_read_from_it_is_noticed_and_leaves_no_trace():
    async with connected(2) as (provider, server, (ends, stays)):
        lost, kept = asking(ends, "a"), asking(stays, "a")
        await settled()
        for each in lost:
            each.cancel()
        ends._connection._transport.abort()
        await settled()
        provider.open["a"].set()
        await asyncio.gather(*kept)
        await settled()
        assert len(server._connections) == 1
        assert (server._in_hand, len(server._under_way), len(server._paused)) == (0, 0, 0)


@in_loop
async def test_a_worker_that_is_closed_while_it_waits_ends_at_once():
    async with connected(1) as (provider, _, (worker,)):
        tasks = asking(worker, "a")
        await settled()
        for each in tasks:
            each.cancel()
        await worker.close()
        await settled()
        assert worker._connection._transport.get_extra_info("socket").fileno() == -1
        provider.open["a"].set()
