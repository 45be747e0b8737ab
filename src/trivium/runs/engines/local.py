"""The local engine: asks in this process, many attempts at once, each stored as soon as it is there."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from trivium.agents.adapter import AgentAdapter
from trivium.agents.asking import ask
from trivium.runs.pipeline import ATTEMPTS_AT_ONCE, CHARACTERS_AT_ONCE, Pipeline
from trivium.store.records import StoredAttempt
from trivium.suites.case import Case
from trivium.suites.settings import Settings

Due = Iterator[tuple[int, Case, int]]
"""(position, case, repeat) of each attempt still to be asked."""

_Queue = asyncio.Queue[StoredAttempt | None]


async def ask_and_score(due: Due, adapter: AgentAdapter, pipeline: Pipeline, settings: Settings) -> None:
    """Ask every attempt that is due; store each as it comes; score in batches behind.

    Three stages run at once: askers, one thread that stores attempts, one that scores. Their queues are
    bounded, so that a slow stage holds up the ones before it instead of filling the memory. When this is
    cancelled, what came back is still stored and scored.
    """
    width = settings.limits.attempts_at_once
    asked: _Queue = asyncio.Queue(maxsize=width)
    kept: _Queue = asyncio.Queue(maxsize=4 * ATTEMPTS_AT_ONCE)

    async def asker() -> None:
        for position, case, repeat in due:
            attempt = await ask(adapter, case, repeat, settings.limits, seed=settings.seed)
            await asked.put(StoredAttempt(position=position, attempt=attempt))

    def score(batch: list[StoredAttempt]) -> None:
        pipeline.score(batch, keep=False)

    keeping = asyncio.create_task(_drain(asked, pipeline.keep, onward=kept))
    scoring = asyncio.create_task(_drain(kept, score, onward=None))
    askers = [asyncio.create_task(asker()) for _ in range(width)]
    try:
        await _all_or_first_end([*askers], [keeping, scoring])
    finally:
        await _stop(askers)
        if any(stage.done() for stage in (keeping, scoring)):
            # A stage ends before its time only by an error: nothing more can be stored.
            await _stop([keeping, scoring])
        else:
            await asked.put(None)
        await asyncio.gather(keeping, scoring)


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
    queue: _Queue, handle: Callable[[list[StoredAttempt]], None], *, onward: _Queue | None
) -> None:
    """Hand over what a queue holds, batch by batch, in a thread of its own, until its end comes."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(max_workers=1) as thread:
        open_ = True
        while open_:
            batch, open_ = await _next_batch(queue)
            if batch:
                await asyncio.shield(loop.run_in_executor(thread, handle, batch))
            if onward is not None:
                for stored in batch:
                    await onward.put(stored)
    if onward is not None:
        await onward.put(None)


async def _next_batch(queue: _Queue) -> tuple[list[StoredAttempt], bool]:
    """At least one attempt, and whatever else is there already; False when the end was met."""
    batch: list[StoredAttempt] = []
    size = 0
    stored = await queue.get()
    while stored is not None:
        batch.append(stored)
        size += len(stored.attempt.text)
        if queue.empty() or len(batch) == ATTEMPTS_AT_ONCE or size >= CHARACTERS_AT_ONCE:
            return batch, True
        stored = queue.get_nowait()
    return batch, False
