"""Runs all judge requests of a suite on one event-loop thread with shared connections, limits and cache.

A request whose response is cached costs nothing; one that is already in flight is awaited, not sent twice;
the others go to the scheduler of their model.
"""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from trivium.metrics.judge.budget.budget import Budget, run_budget
from trivium.metrics.judge.client.cache import MemoryResponseCache, ResponseCache
from trivium.metrics.judge.client.direct_client import open_direct_client
from trivium.metrics.judge.client.model_factory import (
    ModelDescription,
    ModelUnavailable,
    describe,
    expand_variables,
    open_model,
)
from trivium.metrics.judge.client.parameters import Parameters
from trivium.metrics.judge.client.pydantic_ai_client import Client, PydanticAIClient
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse
from trivium.metrics.judge.client.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from trivium.metrics.judge.client.scheduler import RequestScheduler
from trivium.suites.settings import JudgeSettings, ServerSettings

T = TypeVar("T")

MAX_CONCURRENT_JUDGEMENTS, JUDGEMENTS_PER_REQUEST = 256, 4
"""Limit of judgements under way: the first, or the second for each request allowed in flight if that is more.
The prompts of the others are not built yet, which saves memory and time."""


class AskResult(msgspec.Struct, frozen=True, kw_only=True):
    """A response, and the number of requests it took.

    Attributes:
        response: The response, new or cached.
        requests: Requests sent for it; 0 if it was cached or in flight already.
    """

    response: ModelResponse
    requests: int


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is ready for requests.

    Attributes:
        provider: Protocol: ``openai-chat``, ``anthropic``, …
        address: Base URL.
        model: The provider's name for it.
        parameters: Builds the parameters of its requests.
        thinks: Whether it reasons before it answers.
        shared: Holds back further requests about a case until the first has filled the provider's prompt
            cache; None if that saves nothing.
        scheduler: Sends its requests.
    """

    provider: str
    address: str
    model: str
    parameters: Parameters
    thinks: bool
    shared: "PromptCacheGate | None"
    scheduler: RequestScheduler


class PromptCacheGate:
    """Sends the first request about a case alone, so that the others use the provider's prompt cache."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, request: ModelRequest) -> AsyncIterator[None]:
        """Wait until the first request about the same case has ended; return at once for the first."""
        key = (request.instructions, request.case)
        if (first := self._first.get(key)) is not None:
            await asyncio.shield(first)
            yield
            return
        self._first[key] = mine = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._first[key]
            mine.set_result(None)


class JudgeExecutor:
    """Runs judgements on an event-loop thread of its own.

    The thread starts at first use and ends with :meth:`close`, or when the executor is garbage-collected.

    Args:
        settings: The suite's settings.
        retry_policy: How often and how long failing requests are retried.
    """

    def __init__(self, settings: JudgeSettings, *, retry_policy: RetryPolicy = DEFAULT_RETRY_POLICY) -> None:
        self.settings = settings
        self._worker = _Worker(settings, retry_policy)
        self._finalizer = weakref.finalize(self, self._worker.stop)

    def configure(self, *, cache: ResponseCache | None = None, budget: Budget | None = None) -> None:
        """Set the cache and budget of a run, before first use. The caller closes them."""
        self._worker.cache = cache or self._worker.cache
        self._worker.budget = budget or self._worker.budget

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Run a coroutine on the executor's thread; it is cancelled when the executor is closed."""
        return self._worker.submit(make)

    async def model(self, name: str) -> Model:
        """Return a model, opened at first use. Call it on the executor's thread only.

        Raises:
            ModelUnavailable: If it cannot be used.
        """
        return self._worker.model(name)

    async def ask(
        self, scheduler: RequestScheduler, request: ModelRequest, *, about: tuple[str, ...]
    ) -> AskResult:
        """Answer a request from the cache, from an equal request in flight, or by sending it.

        Call it on the executor's thread only.

        Raises:
            GivenUp: If there is no answer.
            Spent: If the budget does not allow it.
        """
        return await self._worker.ask(scheduler, request, about)

    def drop(self, requests: Iterable[ModelRequest]) -> None:
        """Remove responses without a usable answer from the cache."""
        self._worker.cache.drop([request.key() for request in requests])

    def close(self) -> None:
        """Cancel judgements under way and close every connection. No request may follow."""
        self._worker.stop()


class _Worker:
    """State of the executor's thread. It holds no reference to the executor, which may be collected first."""

    def __init__(self, settings: JudgeSettings, retry_policy: RetryPolicy) -> None:
        self._settings = settings
        self._retry_policy = retry_policy
        self.cache: ResponseCache = MemoryResponseCache()
        self.budget: Budget | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._models: dict[str, Model | ModelUnavailable] = {}
        self._in_flight: dict[str, asyncio.Future[AskResult]] = {}
        self._lookups: dict[str, asyncio.Future[ModelResponse | None]] = {}
        self._slots = asyncio.Semaphore(
            max(MAX_CONCURRENT_JUDGEMENTS, JUDGEMENTS_PER_REQUEST * (settings.concurrency or 0))
        )

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        with self._lock:
            if self._stopped:
                cancelled: Future[T] = Future()
                cancelled.cancel()
                cancelled.set_running_or_notify_cancel()
                return cancelled
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run_loop, name="trivium-judges", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(self._in_slot(make), self._loop)

    async def _in_slot(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._slots:
            return await make()

    def stop(self) -> None:
        with self._lock:
            already, self._stopped = self._stopped, True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        if not already:
            loop.call_soon_threadsafe(loop.stop)
        if (
            thread is not threading.current_thread()
        ):  # the garbage collector may run this on the thread itself
            thread.join()

    def _run_loop(self) -> None:
        loop = self._loop
        assert loop is not None  # noqa: S101 - set before the thread starts
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(self._shut_down())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    async def _shut_down(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for model in self._models.values():
            if isinstance(model, Model):
                await model.scheduler.close()
        await asyncio.sleep(0)  # lets transports notice that they are closed

    def model(self, name: str) -> Model:
        if name not in self._models:
            try:
                self._models[name] = self._open(name)
            except ModelUnavailable as unavailable:
                self._models[name] = unavailable
        found = self._models[name]
        if isinstance(found, ModelUnavailable):
            raise found
        return found

    def _open(self, name: str) -> Model:
        settings = self._settings
        server = settings.servers.get(name) or ServerSettings()
        headers = {key: expand_variables(value) for key, value in server.headers.items()}
        direct = None if settings.client == "pydantic-ai" else open_direct_client(name, server, headers)
        client: Client
        if direct is not None:
            client, description = direct, direct.description
        elif settings.client == "direct":
            raise ModelUnavailable(f"{name} cannot be asked directly over HTTP (judge.client: direct)")
        else:
            model = open_model(name, server=server)
            client, description = PydanticAIClient(model, headers), describe(model, name)
        _check_sendable(description, name, server, settings)
        effort = settings.reasoning_effort
        if self.budget is None:
            self.budget = run_budget(self._settings)
        prefix = name.partition(":")[0]
        provider = "openai-chat" if prefix == "openai" else prefix
        parameters = Parameters(
            name,
            settings,
            place=(provider, description.base_url, description.name),
            native=description.native_schema,
            completion_limit=description.completion_limit,
            marks_cache=description.marks_cache,
            cache=self.cache,
        )
        scheduler = RequestScheduler(
            client,
            self.budget,
            name=name,
            most=self._settings.concurrency,
            timeout=self._settings.timeout,
            time_limit=self._settings.time_limit,
            retry_policy=self._retry_policy,
            cache=self.cache,
            refused_since=parameters.refused_since,
        )
        return Model(
            provider=provider,
            address=description.base_url,
            model=description.name,
            parameters=parameters,
            thinks=description.thinks if effort is None else effort != "none",
            shared=PromptCacheGate() if parameters.marks == "case" else None,
            scheduler=scheduler,
        )

    async def ask(
        self, scheduler: RequestScheduler, request: ModelRequest, about: tuple[str, ...]
    ) -> AskResult:
        key = request.key()
        if (in_flight := self._in_flight.get(key)) is not None and self._settings.cache:
            result = await asyncio.shield(in_flight)
            self._budget().record_cached(request, about=about)
            return AskResult(response=result.response, requests=0)
        mine: asyncio.Future[AskResult] = asyncio.get_running_loop().create_future()
        mine.add_done_callback(_retrieve_exception)
        self._in_flight.setdefault(key, mine)
        try:
            result = await self._cached_or_asked(key, scheduler, request, about)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                mine.cancel()
            else:
                mine.set_exception(error)
            raise
        else:
            mine.set_result(result)
            return result
        finally:
            if self._in_flight.get(key) is mine:
                del self._in_flight[key]

    async def _cached_or_asked(
        self, key: str, scheduler: RequestScheduler, request: ModelRequest, about: tuple[str, ...]
    ) -> AskResult:
        cached = await self._look_up(key)
        if cached is not None:
            self._budget().record_cached(request, about=about)
            return AskResult(response=cached, requests=0)
        response, requests = await scheduler.ask(request, about=about)
        return AskResult(response=response, requests=requests)

    def _budget(self) -> Budget:
        assert self.budget is not None  # noqa: S101 - made when the first model is opened
        return self.budget

    async def _look_up(self, key: str) -> ModelResponse | None:
        """Look a key up in the cache; the keys of one event-loop iteration are looked up together."""
        loop = asyncio.get_running_loop()
        if key not in self._lookups:
            if not self._lookups:
                loop.call_soon(lambda: loop.create_task(self._fetch()))
            self._lookups[key] = loop.create_future()
            self._lookups[key].add_done_callback(_retrieve_exception)
        return await asyncio.shield(self._lookups[key])

    async def _fetch(self) -> None:
        lookups, self._lookups = self._lookups, {}
        try:
            found = await asyncio.to_thread(self.cache.fetch, list(lookups))
        except Exception as error:
            for waiting in lookups.values():
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for key, waiting in lookups.items():
            if not waiting.done():
                waiting.set_result(found.get(key))


def _check_sendable(
    model: ModelDescription, name: str, server: ServerSettings, settings: JudgeSettings
) -> None:
    """Check that the provider's SDK sends every setting.

    Raises:
        ModelUnavailable: If it would silently drop one.
    """
    given = any(value is not None for value in settings.parameters.values())
    for field, used in (("extra_body", server.body or given), ("extra_headers", server.headers)):
        if used and field in model.drops:
            keys = "judge.servers.headers" if field == "extra_headers" else "judge.parameters or servers.body"
            raise ModelUnavailable(f"{name}: its provider's client sends no fields of one's own ({keys})")


def _retrieve_exception(future: "asyncio.Future[Any]") -> None:
    """Mark the exception of a shared future as retrieved; the request that caused it raises it."""
    if not future.cancelled():
        future.exception()
