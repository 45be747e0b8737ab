"""A bench: many judges, one loop; what is under way is shared, and given up when it is closed."""

import asyncio
import gc
import threading
from concurrent.futures import CancelledError

import msgspec
import pytest

from tests.judge_server import HANG, JudgeServer, at, failure
from tests.metrics.judge.client.test_direct_client import call
from trivium.metrics.judge.client.models import LOOKUPS_TOGETHER, JudgeExecutor
from trivium.metrics.judge.client.providers import GivenUp
from trivium.metrics.judge.client.rate_limiter import RateLimiter
from trivium.metrics.judge.client.request import ModelRequest, ResponseCache
from trivium.suites.settings import JudgeSettings

GPT = "openai:gpt-4o-mini"


@pytest.fixture
def server(monkeypatch):
    with JudgeServer(latency=0.01) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
        yield server


def answers(executor, *calls):
    async def ask():
        asking = [executor.models.ask(GPT, each, about=("clarity",)) for each in calls]
        return await asyncio.gather(*asking, return_exceptions=True)

    return executor.submit(ask)


def distinct(count):
    return [call(GPT, turns=(f"Text {n}.",)) for n in range(count)]


def test_equal_calls_are_asked_once(server):
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    first = answers(executor, call(GPT), call(GPT), call(GPT)).result()
    again = answers(executor, call(GPT)).result()
    executor.close()
    assert [each.requests for each in (*first, *again)] == [1, 0, 0, 0]
    assert len({each.response.text for each in (*first, *again)}) == 1
    assert len(server.requests) == 1


def test_closing_gives_up_what_hangs_and_leaves_no_thread(server):
    server.conditions = msgspec.structs.replace(server.conditions, plan=lambda _: HANG)
    before = set(threading.enumerate())
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    waiting = answers(executor, *distinct(5))
    while len(server.requests) < 5:
        threading.Event().wait(0.01)
    executor.close()
    with pytest.raises(CancelledError):
        waiting.result()
    with pytest.raises(CancelledError):
        answers(executor, call(GPT)).result()
    assert "trivium-judges" not in {thread.name for thread in set(threading.enumerate()) - before}


@pytest.mark.parametrize("where", ["its own thread", "another"])
def test_a_bench_that_is_dropped_ends_wherever_the_garbage_collector_finds_it(server, where):
    before = set(threading.enumerate())
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    executor.itself = executor  # only the garbage collector finds it
    answers(executor, call(GPT)).result()
    (worker,) = (
        each for each in threading.enumerate() if each.name == "trivium-judges" and each not in before
    )
    loop = executor._loop

    async def find():
        gc.collect()

    gc.disable()
    try:
        del executor
        if where == "another":
            gc.collect()
        else:
            asyncio.run_coroutine_threadsafe(find(), loop)
            worker.join(60)
    finally:
        gc.enable()
    assert not worker.is_alive()
    assert loop.is_closed()


def test_a_prompt_that_always_fails_is_given_up_and_the_others_are_judged(server):
    def plan(question):
        return failure(500) if "Text 3." in question.prompt else at({})(question)

    server.conditions = msgspec.structs.replace(server.conditions, plan=plan)
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    found = answers(executor, *distinct(30)).result()
    executor.close()
    assert [n for n, each in enumerate(found) if isinstance(each, GivenUp)] == [3]


def test_a_connection_that_hangs_is_asked_again_before_its_time_is_over(server):
    server.conditions = msgspec.structs.replace(server.conditions, plan=at({20: HANG}))
    executor = JudgeExecutor(JudgeSettings(models=(GPT,), timeout=600))
    found = answers(executor, *distinct(40)).result()
    executor.close()
    assert not [each for each in found if isinstance(each, BaseException)]
    hanging = server.requests[20].prompt
    assert [question.prompt for question in server.requests].count(hanging) == 2


class _SlowDisk(ResponseCache):
    """Nothing is kept for good before the disk is let go."""

    def __init__(self):
        super().__init__()
        self.handed_over = 0
        self.stuck = True

    def put(self, key, reply):
        super().put(key, reply)
        self.handed_over += 1

    def pending(self):
        return self.handed_over if self.stuck else 0


@pytest.mark.parametrize(("concurrency", "most"), [(1, 8 + 1), (4, 8 + 4), (10, 20 + 10), (None, 200 + 100)])
def test_no_further_request_is_sent_while_responses_are_not_stored(server, monkeypatch, concurrency, most):
    monkeypatch.setattr(
        "trivium.metrics.judge.client.scheduler.HEDGE_SECONDS", 3600
    )  # nothing is asked twice
    executor = JudgeExecutor(JudgeSettings(models=(GPT,), concurrency=concurrency, timeout=3 * 3600))
    disk = _SlowDisk()
    executor.configure(cache=disk)
    waiting = answers(executor, *distinct(2 * most))
    least = max(8, 2 * (concurrency or 100))

    async def may_more_come():
        return executor.models.opened(GPT).limiter.in_flight > 0 or disk.handed_over < least

    while executor.submit(may_more_come).result():
        threading.Event().wait(0.01)
    assert least <= disk.handed_over <= most
    assert len(server.requests) == disk.handed_over
    disk.stuck = False
    found = waiting.result()
    executor.close()
    assert not [each for each in found if isinstance(each, BaseException)]
    assert len(server.requests) == 2 * most


class _CountedCache(ResponseCache):
    """Notes the number of keys of each query."""

    def __init__(self):
        super().__init__()
        self.queries = []

    def fetch(self, keys):
        self.queries.append(len(keys))
        return super().fetch(keys)


def test_while_requests_wait_further_answers_are_looked_up_many_at_once(server, monkeypatch):
    monkeypatch.setattr("trivium.metrics.judge.client.models.LOOKUP_SECONDS", 3600)
    server.conditions = msgspec.structs.replace(server.conditions, plan=lambda _: HANG)
    executor, cache = JudgeExecutor(JudgeSettings(models=(GPT,), concurrency=1)), _CountedCache()
    executor.configure(cache=cache)
    calls = distinct(3 + LOOKUPS_TOGETHER)

    async def waiting():
        return executor.models.opened(GPT).asking

    answers(executor, *calls[:3])
    while executor.submit(waiting).result() < 3:
        threading.Event().wait(0.01)
    for each in calls[3:]:
        answers(executor, each)
        executor.submit(waiting).result()  # so each is asked for in an iteration of the loop of its own
    while executor.submit(waiting).result() < len(calls):
        threading.Event().wait(0.01)
    executor.close()
    assert cache.queries == [1, 3, LOOKUPS_TOGETHER], "the first: parameters that were refused before"


@pytest.mark.parametrize(("concurrency", "seats"), [(None, 256), (10, 256), (100, 400)])
def test_more_judgements_than_seats_wait_before_they_begin(server, concurrency, seats):
    executor = JudgeExecutor(JudgeSettings(models=(GPT,), concurrency=concurrency))
    begun, most = 0, 0
    submitted, full = threading.Event(), asyncio.Event()

    async def judged():
        nonlocal begun, most
        submitted.wait()  # holds the loop up until all of them are there
        begun += 1
        most = max(most, begun)
        if begun == seats:
            full.set()
        await full.wait()
        await asyncio.sleep(0)
        begun -= 1

    under_way = [executor.submit(judged) for _ in range(1000)]
    submitted.set()
    for each in under_way:
        each.result()
    executor.close()
    assert most == seats


def test_a_provider_that_refuses_everything_is_given_up_for_all_that_wait(server, monkeypatch):
    server.conditions = (
        msgspec.structs.replace(  # half a second has time for fifty after each other, and two at once
            server.conditions, plan=lambda _: failure(429), failure_latency=0.01
        )
    )
    settings = JudgeSettings(models=(GPT,), timeout=0.5, concurrency=2)
    monkeypatch.setattr("trivium.metrics.judge.client.scheduler.OUTAGE_SECONDS", 0.5)
    executor = JudgeExecutor(settings)
    prompts = distinct(200)
    found = answers(executor, *prompts).result()
    executor.close()
    assert {type(each) for each in found} == {GivenUp}
    assert all("429" in str(each) for each in found)
    asked = {question.prompt for question in server.requests}
    assert len(asked) < len(prompts), "each was refused by itself"


def test_a_provider_that_refuses_for_a_while_answers_everything_after_it(server):
    refusals = at(dict.fromkeys(range(20), failure(429)))
    server.conditions = msgspec.structs.replace(server.conditions, plan=refusals)
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    found = answers(executor, *distinct(30)).result()
    executor.close()
    assert not [each for each in found if isinstance(each, BaseException)]


def test_a_request_that_is_given_up_is_freed_without_the_garbage_collector(server):
    """A prompt may be long, and while a provider is down every request of a run is given up at once."""
    server.conditions = msgspec.structs.replace(server.conditions, plan=lambda _: failure(401))
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    answers(executor, call(GPT)).result()  # turns the model off
    gc.collect()
    gc.disable()
    try:
        (error,) = answers(executor, call(GPT, case="A case that is given up.")).result()
        assert isinstance(error, GivenUp)
        del error
        answers(executor).result()  # by then the thread has let go of what came before
        # Objects of other packages may do anything when isinstance() asks for their class.
        alive = [each.case for each in gc.get_objects() if type(each) is ModelRequest]
    finally:
        gc.enable()
        executor.close()
    assert "A case that is given up." not in alive


@pytest.mark.parametrize("step", ["sent", "ended", "ready", "went_out"])
def test_a_broken_limiter_fails_all_that_wait_and_nothing_waits_for_ever(step, server, monkeypatch):
    calls = 0
    right = getattr(RateLimiter, step)

    def broken(self, *args, **kwargs):
        nonlocal calls
        calls += 1
        if calls > 3:
            raise ZeroDivisionError("a fault of the limiter")
        return right(self, *args, **kwargs)

    monkeypatch.setattr(RateLimiter, step, broken)
    executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
    found = answers(executor, *distinct(30)).result(timeout=60)
    later = answers(executor, call(GPT, turns=("Later.",))).result(timeout=60)
    executor.close()
    assert any(isinstance(each, ZeroDivisionError) for each in found)
    assert [type(each) for each in later] in ([RuntimeError], [ZeroDivisionError])
