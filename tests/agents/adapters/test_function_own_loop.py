"""Coroutines on a loop of their own: what they say comes back, and one that blocks holds up itself alone."""

import asyncio
import contextvars
import threading

import pytest

from trivium.agents.adapters import function as own_loop
from trivium.agents.adapters.function import EventLoopThread, with_own_loop
from trivium.agents.attempt import AgentFailure, EventLoopBlocked, Request
from trivium.agents.invoke import invoke
from trivium.agents.loading import load_agent
from trivium.suites.case import Case
from trivium.suites.settings import Limits

CASE = Case(id="c", input="question")
REQUEST = Request(case=CASE, repeat=0, seed=1, output_bytes=1000)


def on_own_loop(function):
    return EventLoopThread(load_agent(function))


async def asked(agent):
    return await invoke(agent, CASE, 0, Limits(seconds=0.2), seed=1)


def test_an_answer_comes_back_with_the_callers_context():
    said = contextvars.ContextVar("said")

    async def agent(question):
        return [question, said.get(), threading.current_thread().name]

    async def main():
        said.set("before")
        one = on_own_loop(agent)
        try:
            return (await one.call(REQUEST)).output
        finally:
            await one.close()

    question, context, thread = asyncio.run(main())
    assert (question, context) == ("question", "before")
    assert thread.startswith("agent ")
    assert thread not in {each.name for each in threading.enumerate() if not each.daemon}


def test_calls_share_a_loop_so_that_they_can_share_connections():
    async def agent(question):
        return id(asyncio.get_running_loop())

    async def main():
        one = on_own_loop(agent)
        loops = {(await one.call(REQUEST)).output for _ in range(3)}
        await one.close()
        return loops

    assert len(asyncio.run(main())) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("no"), ValueError), (KeyboardInterrupt(), KeyboardInterrupt), (SystemExit(3), SystemExit)],
)
def test_what_is_raised_comes_back_and_the_loop_goes_on(error, kind):
    errors = [error]

    async def agent(question):
        if errors:
            raise errors.pop()
        return "answer"

    async def main():
        one = on_own_loop(agent)
        raised = await _caught(one)
        reply = await one.call(REQUEST)
        await one.close()
        return raised, reply.output

    raised, answer = asyncio.run(main())
    assert isinstance(raised, kind)
    assert answer == "answer"


async def _caught(agent):
    try:
        await agent.call(REQUEST)
    except BaseException as error:
        return error


def test_a_call_that_is_given_up_may_clean_up():
    cleaned = []

    async def agent(question):
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    async def main():
        one = on_own_loop(agent)
        attempt = await asked(one)
        await one.close()
        return attempt

    assert asyncio.run(main()).error == "no answer within 0.2 s (limits.seconds)"
    assert cleaned == [True]


def test_a_call_that_blocks_is_left_behind_with_its_loop(monkeypatch):
    monkeypatch.setattr(own_loop, "CANCEL_SECONDS", 0.05)
    monkeypatch.setattr(own_loop, "MAX_BLOCKED_LOOPS", 2)
    began, free = threading.Semaphore(0), threading.Event()
    blocks = [True, False, True]

    async def agent(question):
        if blocks.pop(0):
            began.release()
            free.wait()
        return "answer"

    async def main():
        one = on_own_loop(agent)

        async def given_up():
            call = asyncio.create_task(one.call(REQUEST))
            await asyncio.to_thread(began.acquire)
            call.cancel()
            with pytest.raises(
                EventLoopBlocked, match="it blocks its event loop: something waits or computes"
            ):
                await call

        await given_up()
        reply = await one.call(REQUEST)
        await given_up()
        with pytest.raises(AgentFailure, match="2 event loops are blocked by this agent; it is not called"):
            await one.call(REQUEST)
        free.set()
        await one.close()
        return reply

    assert asyncio.run(main()).output == "answer"


def test_what_cannot_block_a_loop_gets_none():
    async def coroutine(question):
        return question

    assert isinstance(with_own_loop(load_agent(coroutine)), EventLoopThread)
    for agent in (load_agent(str.upper), load_agent("cmd:cat"), load_agent("http://127.0.0.1:9/")):
        assert with_own_loop(agent) is agent
