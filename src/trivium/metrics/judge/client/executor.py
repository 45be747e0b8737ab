"""Runs all judge requests of a suite on one event-loop thread with shared connections, limits and cache."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from trivium.metrics.judge.budget.budget import Budget
from trivium.metrics.judge.client.cache import ResponseCache
from trivium.metrics.judge.client.models import Models
from trivium.suites.settings import JudgeSettings

T = TypeVar("T")

MAX_CONCURRENT_JUDGEMENTS, JUDGEMENTS_PER_REQUEST = 256, 4
"""Limit of judgements under way: the first, or the second for each request allowed in flight if that is more.
The prompts of the others are not built yet, which saves memory and time."""


class JudgeExecutor:
    """Runs judgements on a separate event-loop thread.

    The thread starts at first use and ends with :meth:`close`, or when the executor is garbage-collected.
    ``models`` answers the requests of judgements: call it on the executor's thread only.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.models = Models(settings)
        most = max(MAX_CONCURRENT_JUDGEMENTS, JUDGEMENTS_PER_REQUEST * (settings.concurrency or 0))
        self._slots = asyncio.Semaphore(most)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: Callable[[], object] = lambda: None
        self._closed = False

    def configure(self, *, cache: ResponseCache | None = None, budget: Budget | None = None) -> None:
        """Set the cache and budget of a run, before first use. The caller closes them."""
        self.models.cache = cache or self.models.cache
        if budget is not None:
            self.models.budget = budget

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Run a coroutine on the executor's thread; it is cancelled when the executor is closed."""
        with self._lock:
            if self._closed:
                cancelled: Future[T] = Future()
                cancelled.cancel()
                cancelled.set_running_or_notify_cancel()
                return cancelled
            if self._loop is None:
                self._loop, self._end = self._started()
            return asyncio.run_coroutine_threadsafe(_in_slot(self._slots, make), self._loop)

    def close(self) -> None:
        """Cancel judgements under way and close every connection. No request may follow."""
        with self._lock:
            self._closed = True
        self._end()

    def _started(self) -> tuple[asyncio.AbstractEventLoop, Callable[[], object]]:
        """Start the thread; return its loop and what ends it.

        The thread holds no reference to the executor, which may be collected first.
        """
        loop, stopping = asyncio.new_event_loop(), asyncio.Event()
        thread = threading.Thread(
            target=_run, args=(loop, stopping, self.models), name="trivium-judges", daemon=True
        )
        thread.start()
        return loop, weakref.finalize(self, _stop, loop, stopping, thread)


async def _in_slot(slots: asyncio.Semaphore, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async with slots:
        return await make()


def _run(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event, models: Models) -> None:
    """Run the loop until it is to stop, then cancel what is under way."""

    async def until_stopped() -> None:
        await stopping.wait()
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await models.close()
        await asyncio.sleep(0)  # lets transports notice that they are closed

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(until_stopped())


def _stop(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(stopping.set)
    if thread is not threading.current_thread():  # where the garbage collector may run this
        thread.join()
