"""Runs coroutines on an event loop in a separate thread, and tunes the garbage collector for a run."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")

THRESHOLDS_WHILE_ASKING = (20_000, 50, 100)
"""Thresholds of Python's garbage collector while an agent is called. A run creates thousands of records,
prompts and tasks, which form no cycles: with Python's default of 700 new objects, collections took a fifth of
a large run's time, and stopped the judges' event loop for a quarter of a second at a time. Cycles that an
agent leaves behind are still collected soon."""

THRESHOLDS_WHILE_SCORING = (100_000, 50, 100)
"""Thresholds when no agent is called, so that hardly any cycles arise. Scoring a batch holds more than 20,000
objects at once: scanning them repeatedly took an eighth of a large run's time."""

_IN_TRIVIUM_THREAD: ContextVar[bool] = ContextVar("trivium_own_thread", default=False)

_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""The thresholds before the first active context, once for each active context."""


def in_trivium_thread() -> bool:
    """Whether the running event loop was created by this module and runs no tasks of the caller."""
    return _IN_TRIVIUM_THREAD.get()


def run_in_trivium_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on an event loop in a new thread, and return its result.

    Ctrl-C cancels it, waits until it has cleaned up, and raises KeyboardInterrupt; a second Ctrl-C abandons
    it at once. A SystemExit or KeyboardInterrupt raised by another task ends only that task, because Ctrl-C
    reaches the main thread and only the main thread may end the process.

    Args:
        make: Creates the coroutine; called on the new thread.
    """
    loop = asyncio.new_event_loop()
    task: asyncio.Task[T] | None = None
    outcome: list[T] = []
    failure: list[BaseException] = []
    # Thread.join interrupted by Ctrl-C may report a running thread as finished; an Event does not.
    finished = Event()

    async def main() -> None:
        nonlocal task
        task = asyncio.create_task(make())
        outcome.append(await task)

    def work() -> None:
        asyncio.set_event_loop(loop)
        _IN_TRIVIUM_THREAD.set(True)
        try:
            _run_to_its_end(loop, loop.create_task(main()))
            _run_to_its_end(loop, loop.create_task(loop.shutdown_asyncgens()))
        except BaseException as error:  # raised again in the waiting thread
            failure.append(error)
        finally:
            loop.close()
            finished.set()

    Thread(target=work, name="trivium", daemon=True).start()
    try:
        _wait(finished)
    except KeyboardInterrupt:
        if task is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)
        _wait(finished)
        raise
    if failure:
        raise failure[0]
    return outcome[0]


async def in_worker_thread(work: Callable[[], object]) -> None:
    """Run blocking work in another thread, or in this one if the interpreter is shutting down."""
    try:
        done = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        work()
    else:
        await done


def _run_to_its_end(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    """Run a task to its end, although asyncio stops the loop when any task raises SystemExit."""
    while not task.done():
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_until_complete(task)
    task.result()


def _wait(finished: Event) -> None:
    # A wait without a timeout cannot be interrupted by Ctrl-C on every system.
    while not finished.wait(timeout=0.1):
        pass


@contextmanager
def reduced_garbage_collection(thresholds: tuple[int, int, int] = THRESHOLDS_WHILE_ASKING) -> Iterator[None]:
    """Run the garbage collector less often; the last context to end restores the thresholds.

    If the host program has set higher thresholds or turned the collector off, nothing changes.

    Args:
        thresholds: ``THRESHOLDS_WHILE_ASKING`` or ``THRESHOLDS_WHILE_SCORING``.
    """
    with _lock:
        now = gc.get_threshold()
        _before.append(_before[0] if _before else now)
        if 0 < now[0] < thresholds[0]:
            gc.set_threshold(*thresholds)
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before and gc.get_threshold() in (THRESHOLDS_WHILE_ASKING, THRESHOLDS_WHILE_SCORING):
                gc.set_threshold(*before)
