"""A loop for agents that are coroutines, so that one that blocks it runs out of its time like any other."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

from trivium.agents.adapter import AgentAdapter, AgentFailure, Blocked, Reply, Request

log = logging.getLogger(__name__)

T = TypeVar("T")

HEARD_SECONDS = 1.0
"""How long a loop may take to hear that a call is given up, before it is held to be blocked."""

MOST_BLOCKED = 64
"""Loops that may be blocked before no further one is begun."""


def apart(agent: AgentAdapter) -> AgentAdapter:
    """The agent on a loop of its own, unless nothing of it can block one."""
    return agent if getattr(agent, "blocks_no_loop", False) else OwnLoop(agent)


class OwnLoop:
    """Runs another adapter's calls on an event loop in a thread of its own.

    A coroutine that waits or computes without awaiting would stop the loop that keeps the time, stores and
    scores. Here its call is given up when its time is over, its loop is left behind with the calls that it
    holds up, and further calls get a new one.

    Args:
        agent: Who is asked.
    """

    def __init__(self, agent: AgentAdapter) -> None:
        self.name = agent.name
        self._agent = agent
        self._loop: asyncio.AbstractEventLoop | None = None
        self._blocked: set[asyncio.AbstractEventLoop] = set()

    async def call(self, request: Request) -> Reply:
        """Ask once."""
        return await self._run(lambda: self._agent.call(request))

    async def close(self) -> None:
        """Let go of what the agent holds, and of the loop."""
        if self._loop is None:
            await self._agent.close()
            return
        with suppress(asyncio.TimeoutError, AgentFailure):
            await asyncio.wait_for(self._run(self._agent.close), 2 * HEARD_SECONDS)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    async def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop, here = self._at_hand(), asyncio.get_running_loop()
        ended: asyncio.Future[asyncio.Task[T]] = here.create_future()
        heard: asyncio.Future[None] = here.create_future()
        begun: list[asyncio.Task[T]] = []

        def tell(future: asyncio.Future[Any], what: Any) -> None:
            with suppress(RuntimeError):  # our loop has closed: nobody waits any more
                here.call_soon_threadsafe(lambda: None if future.done() else future.set_result(what))

        def begin() -> None:
            begun.append(loop.create_task(make()))
            begun[0].add_done_callback(lambda task: tell(ended, task))

        def give_up() -> None:
            self._blocked.discard(loop)
            tell(heard, None)
            for task in begun:
                task.cancel()

        loop.call_soon_threadsafe(begin)
        try:
            task = await asyncio.shield(ended)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(give_up)
            await asyncio.wait([heard], timeout=HEARD_SECONDS)
            if not heard.done():
                self._leave_behind(loop)
                raise Blocked(
                    "it holds up its event loop: something waits or computes without await"
                ) from None
            await ended
            raise
        if task.cancelled():
            raise AgentFailure("the agent cancelled itself")
        return task.result()

    def _at_hand(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            if len(self._blocked) >= MOST_BLOCKED:
                raise AgentFailure(
                    f"{MOST_BLOCKED} event loops are held up by this agent; it is not called again"
                )
            self._loop = asyncio.new_event_loop()
            # What is left behind of a call is no concern of who reads standard error.
            self._loop.set_exception_handler(
                lambda _, context: log.debug("left behind: %s", context["message"])
            )
            Thread(target=_keep_running, args=(self._loop,), name=f"agent {self.name}", daemon=True).start()
        return self._loop

    def _leave_behind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._blocked.add(loop)
        if self._loop is loop:
            self._loop = None
            log.warning(
                "%s holds up its event loop, which is left behind; further calls get a new one", self.name
            )


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; asyncio stops it too at what would end a process."""
    asyncio.set_event_loop(loop)
    stopped = False
    while not stopped:
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()
            stopped = True
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
