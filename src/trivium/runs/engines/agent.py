"""Calls the agent for many attempts concurrently, and stores each attempt as soon as it is finished."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from trivium.agents.attempt import AgentAdapter, Attempt
from trivium.agents.conversation import ScriptedUser, Users
from trivium.agents.invoke import TooManyCalls, invoke, retrieve_exception
from trivium.runs.event_loop import in_worker_thread
from trivium.runs.pipeline import (
    MAX_BATCH_ATTEMPTS,
    MAX_BATCH_CHARACTERS,
    PendingAttempt,
    Pipeline,
    Planned,
)
from trivium.store.records import StoredAttempt
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

Make = Callable[[Planned, Callable[[], bool]], Awaitable[Attempt]]
"""Makes a planned attempt; the second argument says whether it is the only one in flight."""

T = TypeVar("T")


class InTurn:
    """Hands out attempts in a given order.

    Args:
        remaining: The attempts.
        room: Awaited before each.
    """

    def __init__(
        self, remaining: Iterator[Planned], room: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._remaining, self._room = remaining, room
        self._postponed: deque[Planned] = deque()

    async def next(self) -> Planned | None:
        """The next attempt to make; None after the last."""
        if self._room is not None:
            await self._room()
        return self._postponed.popleft() if self._postponed else next(self._remaining, None)

    def postpone(self, planned: Planned) -> None:
        """Hand an attempt out again, later."""
        self._postponed.append(planned)


class _WorkerPool:
    """Makes attempts with several workers; a worker ends when the process runs out of file handles.

    Until the last attempt is made no other worker ends, since it may be the one that has room for it.

    Args:
        attempts: The attempts to make.
        make: Makes one attempt.
        number: Number of workers.
    """

    def __init__(self, attempts: InTurn, make: Make, number: int) -> None:
        self._attempts, self._make = attempts, make
        self._number = self._active = number
        self._in_flight = 0
        self._landed = asyncio.Event()

    def _alone(self) -> bool:
        return self._active == 1

    async def _next(self) -> Planned | None:
        while (planned := await self._attempts.next()) is None and self._in_flight:
            self._landed.clear()
            await self._landed.wait()
        return planned

    async def work(self, finished: asyncio.Queue[StoredAttempt | None]) -> None:
        """Run one worker: make one attempt after another."""
        while (planned := await self._next()) is not None:
            self._in_flight += 1
            try:
                attempt = await self._make(planned, self._alone)
            except TooManyCalls as error:  # another worker retries it later
                self._attempts.postpone(planned)
                level = logging.WARNING if self._active == self._number else logging.INFO
                self._active -= 1
                log.log(level, "%s; fewer attempts are in flight from now on (%d)", error, self._active)
                return
            finally:
                self._in_flight -= 1
                self._landed.set()
            await finished.put(StoredAttempt(position=planned[0], attempt=attempt))


def calls_of(adapter: AgentAdapter, settings: Settings, users: Users = ScriptedUser) -> Make:
    """Return a function that calls the agent for one attempt, within the limits of the settings."""

    async def call(planned: Planned, alone: Callable[[], bool]) -> Attempt:
        _, case, repeat = planned
        limits, seed = settings.limits, settings.seed
        return await invoke(adapter, case, repeat, limits, seed=seed, users=users, alone=alone)

    return call


async def ask_and_score(
    attempts: InTurn,
    make: Make,
    pipeline: Pipeline,
    *,
    concurrency: int,
) -> None:
    """Make every remaining attempt, store each when it is finished, and score them in batches meanwhile.

    Three stages run concurrently: workers that call the agent, a thread that stores attempts and a thread
    that scores them. Bounded queues connect them, so that a slow stage delays the ones before it instead of
    filling the memory. On cancellation, the stages still store and score the finished attempts. If the
    process runs out of file handles, fewer attempts are in flight from then on.

    Args:
        attempts: The attempts to make.
        make: Calls the agent, or reads a recorded output.
        pipeline: Stores and scores the attempts.
        concurrency: Maximum number of attempts in flight.
    """
    finished: asyncio.Queue[StoredAttempt | None] = asyncio.Queue(maxsize=concurrency)
    to_score: asyncio.Queue[PendingAttempt | None] = asyncio.Queue(maxsize=4 * MAX_BATCH_ATTEMPTS)

    def save(batch: list[StoredAttempt]) -> list[PendingAttempt]:
        pipeline.save_attempts(batch)
        return pipeline.prefetch(batch)

    def score(batch: list[PendingAttempt]) -> None:
        pipeline.score(batch, save=False)

    storing = asyncio.create_task(
        _drain(finished, lambda item: len(item.attempt.text), save, output=to_score)
    )
    scoring = asyncio.create_task(_drain(to_score, lambda item: len(item.stored.attempt.text), score))
    pool = _WorkerPool(attempts, make, concurrency)
    workers = [asyncio.create_task(pool.work(finished)) for _ in range(concurrency)]

    async def run_stages() -> None:
        try:
            await _all_or_first_end(workers, [storing, scoring])
        finally:
            await _stop(workers)
            end = asyncio.create_task(finished.put(None))
            # A failed stage no longer empties its queue, so awaiting the put alone might never end.
            await asyncio.wait([storing, scoring], return_when=asyncio.FIRST_EXCEPTION)
            await _stop([end, storing, scoring])
            for stage in sorted((storing, scoring), key=asyncio.Task.cancelled):
                stage.result()  # raise the error of a failed stage rather than the other's cancellation

    stages = asyncio.create_task(run_stages())
    try:
        await asyncio.shield(stages)
    except asyncio.CancelledError:
        # Stop the agent and the judges first; then only attempts already finished are stored and scored.
        await in_worker_thread(pipeline.close)
        await _stop(workers)
        with suppress(asyncio.CancelledError):
            await stages
        raise


async def _all_or_first_end(workers: list[asyncio.Task[None]], stages: list[asyncio.Task[None]]) -> None:
    """Wait until all workers have ended, or any stage has; raise the error of a failed one."""
    waiting = set(workers)
    while waiting:
        done, _ = await asyncio.wait(waiting | set(stages), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if done & set(stages):
            return
        waiting -= done


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _drain(
    queue: asyncio.Queue[T | None],
    size: Callable[[T], int],
    handle: Callable[[list[T]], list[PendingAttempt] | None],
    *,
    output: asyncio.Queue[PendingAttempt | None] | None = None,
) -> None:
    """Handle the items of a queue in batches on a separate thread, until None ends the queue."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1) as thread:
        open_ = True
        while open_:
            batch, open_ = await _next_batch(queue, size)
            if not batch:
                continue
            work = loop.run_in_executor(thread, handle, batch)
            work.add_done_callback(retrieve_exception)  # a stage that is cancelled does not wait for it
            handled = await asyncio.shield(work)
            if output is not None:
                for pending in handled or ():
                    await output.put(pending)
    if output is not None:
        await output.put(None)


async def _next_batch(queue: asyncio.Queue[T | None], size: Callable[[T], int]) -> tuple[list[T], bool]:
    """Wait for an item and return it with all others in the queue, up to the limits of a batch.

    Returns:
        The batch, and whether more items may come.
    """
    batch: list[T] = []
    characters = 0
    item = await queue.get()
    while item is not None:
        batch.append(item)
        characters += size(item)
        if queue.empty() or len(batch) == MAX_BATCH_ATTEMPTS or characters >= MAX_BATCH_CHARACTERS:
            return batch, True
        item = queue.get_nowait()
    return batch, False
