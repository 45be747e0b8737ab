"""Opens the models of a suite, and answers requests to them: from the cache, or by sending them.

All requests of a suite run on one event-loop thread, with shared connections, limits and cache.
"""

import asyncio
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from trivium.metrics.judge.budget.budget import Budget, run_budget
from trivium.metrics.judge.client.direct_client import open_direct_client
from trivium.metrics.judge.client.providers import (
    ModelUnavailable,
    expand_variables,
)
from trivium.metrics.judge.client.pydantic_ai_models import open_client
from trivium.metrics.judge.client.request import (
    AskResult,
    Client,
    ModelRequest,
    ModelResponse,
    ResponseCache,
)
from trivium.metrics.judge.client.scheduler import RequestScheduler
from trivium.suites.settings import JudgeSettings, ServerSettings

log = logging.getLogger(__name__)

LOOKUPS_TOGETHER, LOOKUP_SECONDS = 32, 0.05
"""While enough requests are ready, one query looks up this many keys in the cache, or the keys of this many
seconds. This saves a tenth of the CPU time."""


class Models:
    """What judges ask, on the executor's event loop. ``cache`` and ``budget`` are set before first use."""

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self.cache = ResponseCache()
        self._opened: dict[str, RequestScheduler | ModelUnavailable] = {}
        self._in_flight: dict[str, asyncio.Task[AskResult]] = {}
        self._first_about: dict[tuple[str, str, str], asyncio.Event] = {}
        self._keys: set[str] = set()
        self._keys_due = asyncio.Event()
        self._fetching: asyncio.Task[dict[str, ModelResponse]] | None = None

    @cached_property
    def budget(self) -> Budget:
        """Reserves the cost of every request: that of the settings, without a ledger, unless set before."""
        return run_budget(self._settings)

    async def ask(self, name: str, request: ModelRequest, *, about: tuple[str, ...]) -> AskResult:
        """Answer a request from the cache, from an equal request in flight, or by sending it.

        Args:
            name: The model's name in the suite.
            request: The request, with every parameter that the server may still refuse.
            about: Names of the dimensions that are judged.

        Raises:
            GivenUp: If there is no answer, or the budget does not allow it.
        """
        model = self.opened(name)
        if not model.parameters.restored:
            model.parameters.restore(await self._look_up(model.parameters.key, patient=False))
        if model.parameters.marks != "case":
            return await self._ask_once(model, request, about)
        async with self._behind_first(name, request):
            return await self._ask_once(model, request, about)

    async def close(self) -> None:
        """Close every connection. No request may follow."""
        for opened in self._opened.values():
            if isinstance(opened, RequestScheduler):
                await opened.close()

    def opened(self, name: str) -> RequestScheduler:
        """Return what sends the requests to a model, opened at first use.

        Raises:
            ModelUnavailable: If it cannot be used.
        """
        if name not in self._opened:
            try:
                self._opened[name] = self._open(name)
            except ModelUnavailable as unavailable:
                self._opened[name] = unavailable
        found = self._opened[name]
        if isinstance(found, ModelUnavailable):
            raise found
        return found

    def _open(self, name: str) -> RequestScheduler:
        settings = self._settings
        server = settings.servers.get(name) or ServerSettings()
        headers = {key: expand_variables(value) for key, value in server.headers.items()}
        client: Client | None = None
        if settings.client != "pydantic-ai":
            client = open_direct_client(name, server, headers)
        if client is None:
            if settings.client == "direct":
                raise ModelUnavailable(f"{name} cannot be asked directly over HTTP (judge.client: direct)")
            client = open_client(name, server, headers, settings.parameters)
        return RequestScheduler(client, self.budget, settings, name=name, cache=self.cache)

    @asynccontextmanager
    async def _behind_first(self, name: str, request: ModelRequest) -> AsyncIterator[None]:
        """Send the first request about a case alone, so that the others use the provider's prompt cache."""
        about = (name, request.instructions, request.case)
        if (first := self._first_about.get(about)) is not None:
            await first.wait()
            yield
            return
        self._first_about[about] = mine = asyncio.Event()
        try:
            yield
        finally:
            del self._first_about[about]
            mine.set()

    async def _ask_once(
        self, model: RequestScheduler, request: ModelRequest, about: tuple[str, ...]
    ) -> AskResult:
        """Return the response to a request, which is sent unless an equal one is in flight already."""
        sent = model.parameters.applied(request)
        if (in_flight := self._in_flight.get(sent.key)) is not None and self._settings.cache:
            result = await asyncio.shield(in_flight)
            self.budget.record_cached(request, about=about)
            return msgspec.structs.replace(result, requests=0)
        mine = asyncio.create_task(self._cached_or_asked(model, request, sent, about))
        self._in_flight.setdefault(sent.key, mine)
        try:
            return await mine
        finally:
            if self._in_flight.get(sent.key) is mine:
                del self._in_flight[sent.key]
            del mine  # which holds the error, whose traceback holds this frame, and so the request

    async def _cached_or_asked(
        self, model: RequestScheduler, request: ModelRequest, sent: ModelRequest, about: tuple[str, ...]
    ) -> AskResult:
        patient = model.asking > 2 * model.limiter.window.size
        if (cached := await self._look_up(sent.key, patient=patient)) is None:
            return await model.ask(request, sent=sent, about=about)
        self.budget.record_cached(request, about=about)
        return AskResult(response=cached, requests=0, sent=sent, left_out=model.parameters.refused)

    async def _look_up(self, key: str, *, patient: bool) -> ModelResponse | None:
        """Look a key up in the cache, with others of the same event-loop iteration; of a while if patient."""
        if self._fetching is None:
            self._keys, self._keys_due = set(), asyncio.Event()
            self._fetching = asyncio.create_task(self._fetch())
        self._keys.add(key)
        if not patient or len(self._keys) == LOOKUPS_TOGETHER:
            self._keys_due.set()
        return (await asyncio.shield(self._fetching)).get(key)

    async def _fetch(self) -> dict[str, ModelResponse]:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._keys_due.wait(), LOOKUP_SECONDS)
        self._fetching = None
        return await asyncio.to_thread(self.cache.fetch, list(self._keys))


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
        self._warned: set[str] = set()

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

    def warn_once(self, about: str, line: str) -> None:
        """Log a warning about a subject, once for all judges of a suite."""
        if about not in self._warned:
            self._warned.add(about)
            log.warning(line)

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
