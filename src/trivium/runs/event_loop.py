"""Runs coroutines on an event loop in a thread of its own, and tunes the garbage collector for a run."""

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")

_OURS: ContextVar[bool] = ContextVar("trivium_own_thread", default=False)


def in_own_thread() -> bool:
    """Whether the running event loop was made here, so that nothing of the caller's can belong to it."""
    return _OURS.get()


def run_in_own_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end and return what it returns.

    Ctrl-C cancels it, waits until it has cleaned up, and raises KeyboardInterrupt; a second one leaves it
    behind at once. What another task raises to end the process ends that task alone: Ctrl-C comes to the main
    thread, and who exits there is not asked here.
    """
    loop = asyncio.new_event_loop()
    task: asyncio.Task[T] | None = None
    outcome: list[T] = []
    failure: list[BaseException] = []
    # A Thread that Ctrl-C hit while it was joined may claim to be over when it is not; an Event does not.
    over = Event()

    async def main() -> None:
        nonlocal task
        task = asyncio.create_task(make())
        outcome.append(await task)

    def work() -> None:
        asyncio.set_event_loop(loop)
        _OURS.set(True)
        try:
            _run_to_its_end(loop, loop.create_task(main()))
            _run_to_its_end(loop, loop.create_task(loop.shutdown_asyncgens()))
        except BaseException as error:  # handed over to the thread that waits
            failure.append(error)
        finally:
            loop.close()
            over.set()

    Thread(target=work, name="trivium", daemon=True).start()
    try:
        _wait(over)
    except KeyboardInterrupt:
        if task is not None and not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)
        _wait(over)
        raise
    if failure:
        raise failure[0]
    return outcome[0]


async def aside(work: Callable[[], object]) -> None:
    """Do what may take a moment in another thread, or here where the interpreter ends and begins no more."""
    try:
        done = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        work()
    else:
        await done


def _run_to_its_end(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
    """Run a task whatever others raise: asyncio stops its loop at the exceptions that end a process."""
    while not task.done():
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_until_complete(task)
    task.result()


def _wait(over: Event) -> None:
    # Waiting without a limit would not hear Ctrl-C on every system.
    while not over.wait(timeout=0.1):
        pass


THRESHOLDS_WHILE_ASKING = (20_000, 50, 100)
"""Thresholds of Python's garbage collector. Records, prompts and tasks by the thousand are no cycles: with
Python's own 700 new objects, looking for some took a fifth of a large run's time, and held up judges for a
quarter of a second at a time. What an agent leaves behind in cycles still goes soon."""

THRESHOLDS_WHILE_SCORING = (100_000, 50, 100)
"""Where no agent is asked nothing is left behind in cycles. 20,000 are fewer than are alive at once when a
batch is scored: looking through them again and again took an eighth of a large run's time."""

_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""What the thresholds were when each of those began that now go on."""


@contextmanager
def reduced_garbage_collection(often: tuple[int, int, int] = THRESHOLDS_WHILE_ASKING) -> Iterator[None]:
    """Have Python look for cycles seldom; as before when the last of those who asked for it is done.

    What the host program has set higher, or turned off, stays.

    Args:
        often: ``THRESHOLDS_WHILE_ASKING`` or ``THRESHOLDS_WHILE_SCORING``.
    """
    with _lock:
        now = gc.get_threshold()
        _before.append(_before[0] if _before else now)
        if 0 < now[0] < often[0]:
            gc.set_threshold(*often)
    try:
        yield
    finally:
        with _lock:
            before = _before.pop()
            if not _before and gc.get_threshold() in (THRESHOLDS_WHILE_ASKING, THRESHOLDS_WHILE_SCORING):
                gc.set_threshold(*before)
