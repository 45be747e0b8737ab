"""Calls an agent for one attempt, with a time limit and retries; the result is always an Attempt."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from random import Random
from time import perf_counter
from typing import Any, NamedTuple

import msgspec

from trivium.agents.attempt import (
    WORLD_FAILED,
    AgentAdapter,
    AgentFailure,
    AgentResponse,
    Attempt,
    EventLoopBlocked,
    Request,
    WorldFailure,
)
from trivium.agents.conversation import Ask, ScriptedUser, User, Users, converse
from trivium.agents.failures import (
    is_resource_exhaustion,
    is_retryable,
    may_be_ctrl_c,
    reason,
    retry_after,
    shown,
)
from trivium.agents.response import NOTHING, sanitise_output, secret_flags
from trivium.http import Backoff
from trivium.suites.case import Case
from trivium.suites.settings import Limits

log = logging.getLogger(__name__)

GRACE_SECONDS = 5.0
"""Time limit for a cancelled agent to clean up before it is abandoned."""

BACKOFF = Backoff(first=0.5, longest=30.0)


class TooManyCalls(Exception):
    """This machine cannot run so many calls at once; the attempt must be repeated when fewer run."""


class BeginAgain(Exception):
    """A turn should be tried again, but in a new world: the whole conversation begins again.

    Args:
        seconds: How long to wait before.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__("the conversation begins again")
        self.seconds = seconds


Hold = Callable[[Request, float, Ask, User], Awaitable[AgentResponse]]
"""Holds a conversation in a world."""


class Waiting(NamedTuple):
    """How it is waited for an agent.

    Attributes:
        sleep: Waits a number of seconds between tries.
        grace: Seconds that a cancelled agent may take to clean up.
    """

    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    grace: float = GRACE_SECONDS


async def invoke(
    agent: AgentAdapter,
    case: Case,
    repeat: int,
    limits: Limits,
    *,
    seed: int,
    users: Users = ScriptedUser,
    waiting: Waiting = Waiting(),  # noqa: B008 - it is immutable
    alone: Callable[[], bool] = lambda: True,
) -> Attempt:
    """Call an agent for one attempt of a case; of a conversation, once for each turn.

    Errors of the agent are not raised: they fail the attempt. Only a cancellation (Ctrl-C) and
    :class:`TooManyCalls` are raised. Connection errors and busy servers are retried up to ``limits.retries``
    times; a timeout is not retried.

    Args:
        agent: The agent to call.
        case: The case to answer.
        repeat: Which attempt of the case this is, from 0.
        limits: Limits of time, size and retries.
        seed: Seed of the run, from which the seed of the attempt is derived.
        users: Makes the user who speaks with the agent in a conversation.
        waiting: How it is waited for the agent.
        alone: Whether no other attempt is in flight.

    Returns:
        The attempt; ``seconds`` is the wall time of the last try (of a conversation the sum over its turns),
        rounded to microseconds. ``metadata.tries`` is the number of tries if there were several.

    Raises:
        TooManyCalls: If this machine lacks resources for the call and others are in flight.
    """
    own_seed = attempt_seed(seed, case.id, repeat)
    request = Request(case=case, repeat=repeat, seed=own_seed, output_bytes=limits.output_bytes)
    tries = _Tries(limits, Random(own_seed), waiting, alone)  # noqa: S311 - jitter is no secret
    if not case.is_conversation:
        return _attempt(request, await tries.answered(request, agent))
    hold = getattr(agent, "hold", None)  # a world lasts as long as the conversation
    if hold is None:
        return _attempt(request, await converse(tries.answered, request, agent, users(request)))
    return _attempt(request, await tries.held(hold, request, users))


class _Tries:
    """Tries to get an answer, or the answers of a conversation, for one attempt.

    Args:
        limits: Limits of time, size and retries.
        rng: Draws the jitter of the waits.
        waiting: How it is waited for the agent.
        alone: Whether no other attempt is in flight.
    """

    def __init__(self, limits: Limits, rng: Random, waiting: Waiting, alone: Callable[[], bool]) -> None:
        self._limits, self._rng, self._waiting, self._alone = limits, rng, waiting, alone
        self._begun_again = 0

    async def answered(self, request: Request, agent: AgentAdapter) -> AgentResponse:
        """Call the agent until it answers or no further try may help.

        Raises:
            BeginAgain: If another try may help, and only in a new world.
        """
        limits, tries = self._limits, 0
        what = f"{request.case.id}, repeat {request.repeat}"
        while True:
            tries += 1
            started = perf_counter()
            try:
                called = await _try_once(agent, request, limits.seconds, self._waiting.grace)
                return _sanitised(called, limits, perf_counter() - started, tries)
            except Exception as error:
                seconds = perf_counter() - started
                why = reason(error)
                log.debug("%s, try %d failed: %s", what, tries, why, exc_info=error)
                if is_resource_exhaustion(error) and not self._alone():
                    raise TooManyCalls(why) from error
                wait = _wait(error, self._begun_again + tries, limits, self._rng)
                failed = _failed(error, f"{why}{wait}", seconds, tries)
                spoiled = isinstance(error, AgentFailure) and error.spoiled
            if isinstance(wait, str):
                return failed
            log.info("%s: asking again in %.1f s (%s)", what, wait, why)
            if spoiled:
                raise BeginAgain(wait)
            await self._waiting.sleep(wait)

    async def held(self, hold: Hold, request: Request, users: Users) -> AgentResponse:
        """Hold a conversation in a world, again in a new one if a try of a turn was at work in it."""
        while True:
            try:
                held: AgentResponse = await hold(request, self._limits.seconds, self.answered, users(request))
            except BeginAgain as again:
                await self._waiting.sleep(again.seconds)
                self._begun_again += 1
                continue
            except WorldFailure as error:
                held = _failed(error, reason(error), 0.0, 1)
            return msgspec.structs.replace(held, tries=held.tries + self._begun_again)


def _failed(error: Exception, why: str, seconds: float, tries: int) -> AgentResponse:
    """The response of a try that failed: why, and what is known of it."""
    trace = error.trace if isinstance(error, AgentFailure) else None
    flags = secret_flags(None, {}, trace)
    return AgentResponse(
        error=why,
        seconds=seconds,
        tries=tries,
        trace=trace,
        flags=(*flags, WORLD_FAILED) if isinstance(error, WorldFailure) else flags,
        world=error.world if isinstance(error, AgentFailure) else None,
    )


def attempt_seed(seed: int, case: str, repeat: int) -> int:
    """Derive the seed of an attempt, in [0, 2³¹), from the run's seed, the case and the repeat."""
    digest = blake2b(f"{seed}\0{repeat}\0{case}".encode(errors="surrogatepass"), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _wait(error: Exception, tries: int, limits: Limits, rng: Random) -> float | str:
    """Return the seconds until the next try; if there is none, a text to append to the reason."""
    if not is_retryable(error):
        return ""
    if tries > limits.retries:
        return f" (tried {tries} times)" if tries > 1 else ""
    asked_for = retry_after(error)
    if asked_for is not None and asked_for > limits.seconds:
        return f" (asked to wait {asked_for:,.0f} s, longer than limits.seconds)"
    return BACKOFF.seconds(tries, asked_for=asked_for, rng=rng)


async def _try_once(agent: AgentAdapter, request: Request, seconds: float, grace: float) -> AgentResponse:
    task = asyncio.create_task(_call(agent, request))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await _stop(task, grace)
        raise
    if not done:
        await _stop(task, grace)
        blocked = task.exception() if task.done() and not task.cancelled() else None
        if isinstance(blocked, WorldFailure):
            raise blocked
        why = f"; {blocked}" if isinstance(blocked, EventLoopBlocked) else ""
        raise AgentFailure(f"no answer within {seconds:g} s (limits.seconds){why}")
    if task.cancelled():
        raise AgentFailure("the agent cancelled itself")
    return task.result()


async def _call(agent: AgentAdapter, request: Request) -> AgentResponse:
    """Call the agent; an exception that would end the process, such as SystemExit, fails this try instead."""
    try:
        return await agent.call(request)
    except (Exception, asyncio.CancelledError):
        raise
    except BaseException as error:
        if may_be_ctrl_c(error):
            raise
        raise AgentFailure(f"the agent raised {type(error).__name__}: {error}") from error


async def _stop(task: asyncio.Task[AgentResponse], grace: float) -> None:
    """Cancel the task, wait for it to clean up, and abandon it if it does not end."""
    task.add_done_callback(retrieve_exception)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=grace)
    if not done:
        log.warning("an agent does not stop when it is cancelled; it is abandoned")


def retrieve_exception(task: asyncio.Future[Any]) -> None:
    """Retrieve the exception of an abandoned task, so that asyncio does not warn about it."""
    if not task.cancelled():
        task.exception()


def _sanitised(response: AgentResponse, limits: Limits, seconds: float, tries: int) -> AgentResponse:
    """Sanitise the texts of a response, check its size, flag secrets, and say how long it took.

    Raises:
        AgentFailure: If the response is empty, too large, or has an invalid number.
    """
    output, flags = sanitise_output(response.output, limit=limits.output_bytes)
    metadata, more_flags = sanitise_output(response.metadata, limit=limits.output_bytes)
    if not response.error and output is None and response.trace is None and response.reward is None:
        raise AgentFailure(NOTHING)
    for name, number in (("seconds", response.seconds), ("reward", response.reward)):
        if number is not None and not (math.isfinite(number) and (name == "reward" or number >= 0)):
            raise AgentFailure(f"{name} is {number}; expected a finite number")
    secrets = secret_flags(output, metadata, response.trace)
    return msgspec.structs.replace(
        response,
        output=output,
        error=shown(response.error or "") or None,
        seconds=seconds if response.seconds is None else response.seconds,
        tries=tries,
        flags=tuple(dict.fromkeys([*response.flags, *flags, *more_flags, *secrets])),
        metadata=metadata,
    )


def _attempt(request: Request, response: AgentResponse) -> Attempt:
    given = msgspec.structs.asdict(response)
    given["seconds"] = round(response.seconds or 0.0, 6)
    if response.tries > 1:
        given["metadata"] = response.metadata | {"tries": response.tries}
    del given["tries"], given["history"]
    return Attempt(case=request.case.id, repeat=request.repeat, **given)
