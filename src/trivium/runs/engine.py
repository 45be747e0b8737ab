"""Asks the agent in this process, many attempts at once, and stores each as soon as it is finished."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from trivium.agents.attempt import AgentAdapter
from trivium.agents.invoke import TooManyCalls, invoke
from trivium.runs.event_loop import in_worker_thread
from trivium.runs.pipeline import ATTEMPTS_AT_ONCE, CHARACTERS_AT_ONCE, Due, Pipeline
from trivium.store.records import StoredAttempt
from trivium.suites.case import Case
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

Unasked = Iterator[tuple[int, Case, int]]
"""Position, case and repeat of each attempt that is not made yet."""

T = TypeVar("T")


async def ask_and_score(
    due: Unasked, adapter: AgentAdapter, pipeline: Pipeline, settings: Settings, *, at_once: int
) -> None:
    """Ask for every attempt that is due, store each when it is finished, and score batches meanwhile.

    Three stages run at once: askers, one thread that stores attempts, one that scores. Their queues are
    bounded, so that a slow stage delays the ones before it instead of filling the memory. On cancellation,
    finished attempts are still stored and scored. If the machine runs out of file handles, fewer attempts are
    in flight from then on.

    Args:
        due: The attempts to make.
        adapter: The agent.
        pipeline: Stores and scores.
        settings: The suite's.
        at_once: Attempts in flight.
    """
    asked: asyncio.Queue[StoredAttempt | None] = asyncio.Queue(maxsize=at_once)
    stored: asyncio.Queue[Due | None] = asyncio.Queue(maxsize=4 * ATTEMPTS_AT_ONCE)

    retry_later: deque[tuple[int, Case, int]] = deque()
    working = at_once

    def alone() -> bool:
        return working == 1

    async def asker() -> None:
        nonlocal working
        while (one := retry_later.popleft() if retry_later else next(due, None)) is not None:
            position, case, repeat = one
            try:
                attempt = await invoke(
                    adapter, case, repeat, settings.limits, seed=settings.seed, alone=alone
                )
            except TooManyCalls as error:  # an asker that still works retries it later
                retry_later.append(one)
                level = logging.WARNING if working == at_once else logging.INFO
                working -= 1
                log.log(level, "%s; fewer attempts are in flight from now on (%d)", error, working)
                return
            await asked.put(StoredAttempt(position=position, attempt=attempt))
        working -= 1

    def save(batch: list[StoredAttempt]) -> list[Due]:
        pipeline.save_attempts(batch)
        return pipeline.begin(batch)

    def score(batch: list[Due]) -> None:
        pipeline.score(batch, save=False)

    storing = asyncio.create_task(_drain(asked, lambda each: len(each.attempt.text), save, onward=stored))
    scoring = asyncio.create_task(_drain(stored, lambda each: len(each.stored.attempt.text), score))
    askers = [asyncio.create_task(asker()) for _ in range(at_once)]

    async def run_stages() -> None:
        try:
            await _all_or_first_end(askers, [storing, scoring])
        finally:
            await _stop(askers)
            end = asyncio.create_task(asked.put(None))
            # A failed stage no longer empties its queue: waiting to put something there would never end.
            await asyncio.wait([storing, scoring], return_when=asyncio.FIRST_EXCEPTION)
            await _stop([end, storing, scoring])
            for stage in sorted((storing, scoring), key=asyncio.Task.cancelled):
                stage.result()  # the error that ended one, rather than the cancellation of the other

    running = asyncio.create_task(run_stages())
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        # Stop asking and judging first, whichever stage is at work: only finished attempts are completed.
        await in_worker_thread(pipeline.close)
        await _stop(askers)
        with suppress(asyncio.CancelledError):
            await running
        raise


async def _all_or_first_end(askers: list[asyncio.Task[None]], stages: list[asyncio.Task[None]]) -> None:
    """Wait until every asker is done, or any stage is, or one of them fails."""
    waiting = set(askers)
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
    handle: Callable[[list[T]], list[Due] | None],
    *,
    onward: asyncio.Queue[Due | None] | None = None,
) -> None:
    """Handle the entries of a queue batch by batch, in a thread of its own, until None ends it."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1) as thread:
        open_ = True
        while open_:
            batch, open_ = await _next_batch(queue, size)
            if not batch:
                continue
            handled = await asyncio.shield(loop.run_in_executor(thread, handle, batch))
            if onward is not None:
                for due in handled or ():
                    await onward.put(due)
    if onward is not None:
        await onward.put(None)


async def _next_batch(queue: asyncio.Queue[T | None], size: Callable[[T], int]) -> tuple[list[T], bool]:
    """At least one entry and all others that wait, within the limits of a batch; False at the end."""
    batch: list[T] = []
    characters = 0
    each = await queue.get()
    while each is not None:
        batch.append(each)
        characters += size(each)
        if queue.empty() or len(batch) == ATTEMPTS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            return batch, True
        each = queue.get_nowait()
    return batch, False
