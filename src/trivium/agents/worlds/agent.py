"""Gives each call of an agent a world of its own."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from trivium.agents.adapters.command import CommandAgent
from trivium.agents.adapters.http import EndpointAgent
from trivium.agents.attempt import (
    AgentAdapter,
    AgentFailure,
    AgentResponse,
    Request,
    WorldFailure,
    WorldRecord,
)
from trivium.agents.conversation import Ask, User, converse
from trivium.agents.failures import as_failure
from trivium.agents.worlds.making import OpenWorld, Worlds
from trivium.agents.worlds.watch import Watch
from trivium.suites.world_settings import WorldSettings, world_of

log = logging.getLogger(__name__)

T = TypeVar("T")

FEW_LEFT_OPEN = 16
"""Number of file handles or threads left open below which nothing is said: Trivium opens some itself."""


class AgentInWorlds:
    """Calls an agent with a new world each time, and tells what became of it.

    Args:
        agent: The agent.
        world: The suite's world.
        factory: The function that makes it, if it is given as such.

    Raises:
        AgentError: If factory or tools cannot be loaded.
    """

    runs_off_loop = True

    def __init__(
        self, agent: AgentAdapter, world: str | WorldSettings, factory: Callable[..., Any] | None
    ) -> None:
        self.name = agent.name
        self._agent = agent
        self._in_files = isinstance(agent, CommandAgent | EndpointAgent)
        self._worlds = Worlds(world_of(world), factory, in_files=self._in_files)
        self._told = False
        self._closing: set[asyncio.Task[None]] = set()
        self._calls = 0
        self._open_before = _left_open()

    async def call(self, request: Request) -> AgentResponse:
        """Make a world, call the agent in it, look at the end, and close it.

        Raises:
            WorldFailure: If the world fails; the agent's answer is lost then.
        """

        async def answer(within: Request, _: OpenWorld) -> AgentResponse | AgentFailure:
            try:
                return await _timed(self._agent, within)
            except WorldFailure:
                raise
            except Exception as error:
                return as_failure(error)

        answered, record = await self._in_world(request, None, answer)
        if isinstance(answered, AgentFailure):
            answered.world = record
            raise answered from answered.__cause__
        return msgspec.structs.replace(answered, world=record)

    async def hold(self, request: Request, seconds: float, ask: Ask, user: User) -> AgentResponse:
        """Hold a conversation in one world: make it, speak with the agent, look at the end, and close it.

        Args:
            request: The attempt.
            seconds: Time limit of making the world, and of looking at its end.
            ask: Calls an agent once.
            user: Who speaks with the agent.

        Raises:
            WorldFailure: If the world fails; what was said is lost then.
            BeginAgain: If a turn failed that should be tried again, but has been at work in the world.
        """

        async def speak(within: Request, opened: OpenWorld) -> AgentResponse:
            return await converse(ask, within, _InTurns(self._agent, self._worlds, opened.watch), user)

        held, record = await self._in_world(request, seconds, speak)
        return msgspec.structs.replace(held, world=record)

    async def _in_world(
        self, request: Request, seconds: float | None, work: Callable[[Request, OpenWorld], Awaitable[T]]
    ) -> tuple[T, WorldRecord]:
        """Make a world, work in it, and close it; the result, and what became of the world.

        Args:
            request: The attempt.
            seconds: Time limit of making the world, and of looking at its end; None leaves it to the attempt.
            work: Gets the attempt with its world, and the open world.
        """
        with self._in_time("was not made", seconds):
            opened = await asyncio.wait_for(self._opened(request), seconds)
        try:
            done = await work(msgspec.structs.replace(request, world=opened.world), opened)
            with self._in_time("was not compared", seconds):
                record = await asyncio.wait_for(self._worlds.end(opened, request.case), seconds)
        except BaseException:
            self._close_later(opened)
            raise
        with self._in_time("was not closed", seconds):
            await asyncio.wait_for(self._worlds.close(opened), seconds)
        return done, record

    @contextmanager
    def _in_time(self, what: str, seconds: float | None) -> Iterator[None]:
        """Say what a world did not do in its time; without a limit, the end of the attempt cancels it."""
        try:
            yield
        except (TimeoutError, asyncio.CancelledError) as error:
            if isinstance(error, TimeoutError) == (seconds is None):
                raise
            limit = "before the attempt's time was over" if seconds is None else f"within {seconds:g} s"
            raise WorldFailure(f"the world {self._worlds.name} {what} {limit} (limits.seconds)") from None

    async def _opened(self, request: Request) -> OpenWorld:
        """Make a world. Warn once of a program that gets nothing of one that is only in memory."""
        self._calls += 1
        opened = await self._worlds.make(request)
        if self._in_files and opened.world.path is None and not self._told:
            self._told = True
            log.warning(
                "the world %s is in memory only, where %s cannot reach it: a program gets the path of a "
                "world of JSON, SQLite or a folder, or of the tv.World(state, path=…) that a factory returns",
                *(self._worlds.name, self.name),
            )
        return opened

    def _close_later(self, opened: OpenWorld) -> None:
        """Close a world while the failure of its attempt is already being told."""

        async def close() -> None:
            try:
                await self._worlds.close(opened)
            except WorldFailure as error:
                log.warning("%s", error)

        task = asyncio.get_running_loop().create_task(close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close the worlds that are still open, and the agent; warn of what worlds left open."""
        if self._closing:
            await asyncio.wait(self._closing)
        self._worlds.finish()
        await self._agent.close()
        now = _left_open()
        for what, before in self._open_before.items():
            more = now[what] - before
            if more >= max(self._calls, FEW_LEFT_OPEN):
                log.warning(
                    "the world %s, or the agent, leaves %s open: %d more after %d attempts; does the factory "
                    "close what it opens (a method close, or code after yield)?",
                    *(self._worlds.name, what, more, self._calls),
                )


class _InTurns:
    """Calls an agent for the turns of one conversation, and looks at its world around them.

    Args:
        agent: The agent.
        worlds: Looks at worlds in time.
        watch: Looks at that of the conversation.
    """

    def __init__(self, agent: AgentAdapter, worlds: Worlds, watch: Watch) -> None:
        self.name = agent.name
        self._agent, self._worlds, self._watch = agent, worlds, watch

    async def call(self, request: Request) -> AgentResponse:
        """Call the agent for a turn."""
        watch = self._watch
        begun = await self._worlds.look(lambda: watch.turn_begins(request.turn))
        try:
            response = await _timed(self._agent, request)
        except Exception as error:
            failure = as_failure(error)
            failure.spoiled = not await self._worlds.look(lambda: watch.untouched(begun))
            raise failure from failure.__cause__
        await self._worlds.look(watch.turn_ends)
        return response

    async def close(self) -> None:
        """Do nothing: the agent outlives the conversation."""


async def _timed(agent: AgentAdapter, request: Request) -> AgentResponse:
    """Call an agent; the response has the time that it took, unless it states one itself."""
    started = perf_counter()
    response = await agent.call(request)
    seconds = perf_counter() - started
    return response if response.seconds is not None else msgspec.structs.replace(response, seconds=seconds)


def _left_open() -> dict[str, int]:
    """Numbers of threads and, where the system tells, of file handles that are not Trivium's own threads."""
    own = ("agent ", "world ", "trivium", "asyncio_", "ThreadPool")
    found = {"threads": sum(not each.name.startswith(own) for each in threading.enumerate())}
    handles = next((each for each in map(Path, ("/proc/self/fd", "/dev/fd")) if each.exists()), None)
    if handles is not None:
        found["file handles"] = sum(1 for _ in handles.iterdir())
    return found
