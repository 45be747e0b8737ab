"""Runs all judge requests of a suite on one event-loop thread with shared connections, limits and cache."""

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
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
    """Runs judgements on an event-loop thread of its own.

    The thread starts at first use and ends with :meth:`close`, or when the executor is garbage-collected.

    Args:
        settings: The suite's settings.

    Attributes:
        models: Answers the requests of judgements. Call it on the executor's thread only.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self.models = Models(settings)
        most = max(MAX_CONCURRENT_JUDGEMENTS, JUDGEMENTS_PER_REQUEST * (settings.concurrency or 0))
        self._thread = _EventLoopThread(most, at_end=self.models.close)
        self._finalizer = weakref.finalize(self, self._thread.stop)

    def configure(self, *, cache: ResponseCache | None = None, budget: Budget | None = None) -> None:
        """Set the cache and budget of a run, before first use. The caller closes them."""
        self.models.cache = cache or self.models.cache
        if budget is not None:
            self.models.budget = budget

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Run a coroutine on the executor's thread; it is cancelled when the executor is closed."""
        return self._thread.run(make)

    def close(self) -> None:
        """Cancel judgements under way and close every connection. No request may follow."""
        self._thread.stop()


class _EventLoopThread:
    """The executor's thread. It holds no reference to the executor, which may be collected first.

    Args:
        most: Most coroutines that run at the same time.
        at_end: Run once all of them are cancelled.
    """

    def __init__(self, most: int, *, at_end: Callable[[], Awaitable[None]]) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._at_end = at_end
        self._slots = asyncio.Semaphore(most)
        self._stopping = asyncio.Event()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Run a coroutine, which is cancelled when the thread is stopped."""
        with self._lock:
            if self._stopped:
                cancelled: Future[T] = Future()
                cancelled.cancel()
                cancelled.set_running_or_notify_cancel()
                return cancelled
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._run_loop, args=(self._loop,), name="trivium-judges", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(self._in_slot(make), self._loop)

    async def _in_slot(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._slots:
            return await make()

    def stop(self) -> None:
        """Cancel all coroutines and end the thread."""
        with self._lock:
            already, self._stopped = self._stopped, True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        if not already:
            loop.call_soon_threadsafe(self._stopping.set)
        if thread is not threading.current_thread():  # where the garbage collector may run this
            thread.join()

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(self._run_until_stopped())

    async def _run_until_stopped(self) -> None:
        await self._stopping.wait()
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._at_end()
        await asyncio.sleep(0)  # lets transports notice that they are closed
