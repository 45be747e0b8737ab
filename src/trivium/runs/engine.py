"""Asks the agent in this process, many attempts at once, and stores each as soon as it is finished."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from trivium.agents.attempt import AgentAdapter
from trivium.agents.invoke import NoRoom, ask
from trivium.runs.event_loop import in_worker_thread
from trivium.runs.pipeline import ATTEMPTS_AT_ONCE, CHARACTERS_AT_ONCE, Due, Pipeline
from trivium.store.records import StoredAttempt
from trivium.suites.case import Case
from trivium.suites.settings import Settings

log = logging.getLogger(__name__)

Unasked = Iterator[tuple[int, Case, int]]
"""(position, case, repeat) of each attempt still to be asked."""

T = TypeVar("T")


async def ask_and_score(
    due: Unasked, adapter: AgentAdapter, pipeline: Pipeline, settings: Settings, *, at_once: int
) -> None:
    """Ask every attempt that is due; store each as it comes; score in batches behind.

    Three stages run at once: askers, one thread that stores attempts, one that scores. Their queues are
    bounded, so that a slow stage holds up the ones before it instead of filling the memory. When this is
    cancelled, what came back is still stored and scored. Where the machine has no file handles for so many
    attempts at once, fewer are in flight from then on.

    Args:
        due: What is asked.
        adapter: Who is asked.
        pipeline: Stores and scores.
        settings: The suite's.
        at_once: Attempts in flight.
    """
    asked: asyncio.Queue[StoredAttempt | None] = asyncio.Queue(maxsize=at_once)
    kept: asyncio.Queue[Due | None] = asyncio.Queue(maxsize=4 * ATTEMPTS_AT_ONCE)

    put_off: deque[tuple[int, Case, int]] = deque()
    working = at_once

    def alone() -> bool:
        return working == 1

    async def asker() -> None:
        nonlocal working
        while (one := put_off.popleft() if put_off else next(due, None)) is not None:
            position, case, repeat = one
            try:
                attempt = await ask(adapter, case, repeat, settings.limits, seed=settings.seed, alone=alone)
            except NoRoom as error:  # whoever still works asks it later
                put_off.append(one)
                level = logging.WARNING if working == at_once else logging.INFO
                working -= 1
                log.log(level, "%s; fewer attempts are in flight from now on (%d)", error, working)
                return
            await asked.put(StoredAttempt(position=position, attempt=attempt))
        working -= 1

    def keep(batch: list[StoredAttempt]) -> list[Due]:
        pipeline.keep(batch)
        return pipeline.begin(batch)

    def score(batch: list[Due]) -> None:
        pipeline.score(batch, keep=False)

    keeping = asyncio.create_task(_drain(asked, lambda each: len(each.attempt.text), keep, onward=kept))
    scoring = asyncio.create_task(_drain(kept, lambda each: len(each.stored.attempt.text), score))
    askers = [asyncio.create_task(asker()) for _ in range(at_once)]

    async def whole() -> None:
        try:
            await _all_or_first_end(askers, [keeping, scoring])
        finally:
            await _stop(askers)
            end = asyncio.create_task(asked.put(None))
            # A stage that fails takes nothing more: what waits for it would wait for ever.
            await asyncio.wait([keeping, scoring], return_when=asyncio.FIRST_EXCEPTION)
            await _stop([end, keeping, scoring])
            for stage in sorted((keeping, scoring), key=asyncio.Task.cancelled):
                stage.result()  # the error that ended one, rather than the cancellation of the other

    all_of_it = asyncio.create_task(whole())
    try:
        await asyncio.shield(all_of_it)
    except asyncio.CancelledError:
        # Nothing is waited for that would still have to be asked or judged, whatever stage is at work.
        await in_worker_thread(pipeline.close)
        await _stop(askers)
        with suppress(asyncio.CancelledError):
            await all_of_it
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
    """Hand over what a queue holds, batch by batch, in a thread of its own, until its end comes."""
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
    """At least one attempt, and whatever else is there already; False when the end was met."""
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
