"""Calls the agent for many attempts concurrently, and stores each attempt as soon as it is finished."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
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
    Prepared,
)
from trivium.runs.until_decided.asker import Attempts, Chooser, InTurn, Planned
from trivium.store.records import StoredAttempt
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

Make = Callable[[Planned, Callable[[], bool]], Awaitable[Attempt]]
"""Makes a planned attempt; the second argument says whether it is the only one in flight."""

T = TypeVar("T")


class _WorkerPool:
    """Makes attempts with several workers; a worker ends when the process runs out of file handles.

    Args:
        attempts: The attempts to make.
        make: Makes one attempt.
        number: Number of workers.
    """

    def __init__(self, attempts: Attempts, make: Make, number: int) -> None:
        self._attempts, self._make = attempts, make
        self._number = self._active = number

    def _alone(self) -> bool:
        return self._active == 1

    async def work(self, finished: asyncio.Queue[StoredAttempt | None]) -> None:
        """Run one worker: make one attempt after another."""
        while (planned := await self._attempts.next()) is not None:
            try:
                attempt = await self._make(planned, self._alone)
            except TooManyCalls as error:  # another worker retries it later
                self._attempts.postpone(planned)
                level = logging.WARNING if self._active == self._number else logging.INFO
                self._active -= 1
                log.log(level, "%s; fewer attempts are in flight from now on (%d)", error, self._active)
                return
            await finished.put(StoredAttempt(position=planned[0], attempt=attempt))
        self._active -= 1


async def ask_agent(
    adapter: AgentAdapter,
    prepared: Prepared,
    pipeline: Pipeline,
    *,
    done: Set[tuple[int, int]],
    chooser: Chooser | None,
    users: Users = ScriptedUser,
) -> None:
    """Call an agent for all attempts of a run, and close it.

    Args:
        adapter: The agent.
        prepared: The suite, its settings and the metrics of the run.
        pipeline: Stores and scores the attempts.
        done: Position and repeat of the attempts that are stored already.
        chooser: Chooses the attempts to make and their order; None makes all of them in suite order.
        users: Makes the users of conversations.
    """
    suite, settings = prepared.suite, prepared.settings
    remaining = (
        (position, case, repeat)
        for position, case in enumerate(suite)
        for repeat in range(settings.repeats)
        if (position, repeat) not in done
    )
    try:
        await ask_and_score(
            InTurn(remaining) if chooser is None else chooser.attempts(done),
            calls_of(adapter, settings, users),
            pipeline,
            concurrency=min(settings.limits.attempts_at_once, len(suite) * settings.repeats),
        )
    finally:
        await adapter.close()


def calls_of(adapter: AgentAdapter, settings: Settings, users: Users = ScriptedUser) -> Make:
    """Return a function that calls the agent for one attempt, within the limits of the settings."""

    async def call(planned: Planned, alone: Callable[[], bool]) -> Attempt:
        _, case, repeat = planned
        limits, seed = settings.limits, settings.seed
        return await invoke(adapter, case, repeat, limits, seed=seed, users=users, alone=alone)

    return call


async def ask_and_score(
    attempts: Attempts,
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
