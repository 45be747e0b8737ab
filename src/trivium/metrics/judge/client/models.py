"""Opens the models of a suite, and answers requests to them: from the cache, or by sending them.

A request whose response is cached costs nothing; one that is already in flight is awaited, not sent twice;
the others go to the scheduler of their model, without the parameters that its server refuses.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import msgspec

from trivium.metrics.judge.budget.budget import Budget, run_budget
from trivium.metrics.judge.client.cache import MemoryResponseCache, ResponseCache
from trivium.metrics.judge.client.direct_client import open_direct_client
from trivium.metrics.judge.client.model_factory import describe, open_model
from trivium.metrics.judge.client.parameters import Parameters
from trivium.metrics.judge.client.providers import ModelDescription, ModelUnavailable, expand_variables
from trivium.metrics.judge.client.pydantic_ai_client import Client, PydanticAIClient
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse, ParameterRefused
from trivium.metrics.judge.client.retry import RetryPolicy
from trivium.metrics.judge.client.scheduler import RequestLimits, RequestScheduler
from trivium.suites.settings import JudgeSettings, ServerSettings

LOOKUPS_TOGETHER, LOOKUP_SECONDS = 32, 0.05
"""While more requests wait than may be in flight, so many keys are looked up in the cache in one query, or
those of so many seconds."""


class AskResult(msgspec.Struct, frozen=True, kw_only=True):
    """A response, and what it took.

    Attributes:
        response: The response, new or cached.
        requests: Requests sent for it; 0 if it was cached or in flight already.
        sent: The request as it was sent.
        left_out: Parameters that the server has refused so far.
    """

    response: ModelResponse
    requests: int
    sent: ModelRequest
    left_out: tuple[str, ...] = ()


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


class OpenedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that is ready for requests.

    Attributes:
        name: Its name in the suite.
        description: What is known about it.
        parameters: Builds the parameters of its requests.
        shared: Holds back further requests about a case until the first has filled the provider's prompt
            cache; None if that saves nothing.
        scheduler: Sends its requests.
    """

    name: str
    description: ModelDescription
    parameters: Parameters
    shared: PromptCacheGate | None
    scheduler: RequestScheduler


class Models:
    """What judges ask. Every method but ``drop`` is called on the executor's event loop.

    Args:
        settings: The suite's settings.
        retry_policy: How often and how long failing requests are retried.

    Attributes:
        cache: Stores every response; set before first use.
        budget: Reserves the cost of every request; that of the settings, without a ledger, unless set before.
    """

    def __init__(self, settings: JudgeSettings, retry_policy: RetryPolicy) -> None:
        self._settings = settings
        self._retry_policy = retry_policy
        self.cache: ResponseCache = MemoryResponseCache()
        self.budget: Budget | None = None
        self._opened: dict[str, OpenedModel | ModelUnavailable] = {}
        self._in_flight: dict[str, asyncio.Future[tuple[ModelResponse, int]]] = {}
        self._lookups: dict[str, asyncio.Future[ModelResponse | None]] = {}
        self._next_fetch: asyncio.TimerHandle | None = None

    async def ask(self, name: str, request: ModelRequest, *, about: tuple[str, ...]) -> AskResult:
        """Answer a request from the cache, from an equal request in flight, or by sending it.

        Args:
            name: The model's name in the suite.
            request: The request, with every parameter that the server may still refuse.
            about: Names of the dimensions that are judged.

        Raises:
            GivenUp: If there is no answer.
            BudgetExhausted: If the budget does not allow it.
        """
        opened = self.opened(name)
        async with opened.shared.turn(request) if opened.shared else nullcontext():
            return await self._ask_adapted(opened, request, about)

    def drop(self, keys: Iterable[str]) -> None:
        """Remove responses without a usable answer from the cache."""
        self.cache.drop(list(keys))

    async def close(self) -> None:
        """Close every connection. No request may follow."""
        for opened in self._opened.values():
            if isinstance(opened, OpenedModel):
                await opened.scheduler.close()

    def opened(self, name: str) -> OpenedModel:
        """Return a model with what sends its requests, opened at first use.

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

    def _open(self, name: str) -> OpenedModel:
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
        if self.budget is None:
            self.budget = run_budget(settings)
        parameters = Parameters(name, settings, description, self.cache)
        scheduler = RequestScheduler(
            client,
            self.budget,
            RequestLimits(settings.concurrency, settings.timeout, settings.time_limit, self._retry_policy),
            name=name,
            cache=self.cache,
            refused_since=parameters.refused_since,
        )
        return OpenedModel(
            name=name,
            description=description,
            parameters=parameters,
            shared=PromptCacheGate() if parameters.marks == "case" else None,
            scheduler=scheduler,
        )

    async def _ask_adapted(
        self, opened: OpenedModel, request: ModelRequest, about: tuple[str, ...]
    ) -> AskResult:
        """Ask without the parameters that the server refuses, which it may do only now."""
        parameters = opened.parameters
        await parameters.load()
        while True:
            async with parameters.turn():
                sent = parameters.applied(request)
                key = sent.key()
                try:
                    response, requests = await self._ask_once(key, opened.scheduler, sent, about)
                except ParameterRefused as refused:
                    if parameters.refuse(refused, sent):
                        continue
                    opened.scheduler.turn_off(f"{refused}; {refused.parameter} cannot be left out")
                    raise
                parameters.answered()
                return AskResult(response=response, requests=requests, sent=sent, left_out=parameters.refused)

    async def _ask_once(
        self, key: str, scheduler: RequestScheduler, request: ModelRequest, about: tuple[str, ...]
    ) -> tuple[ModelResponse, int]:
        """Return the response to a request, which is sent unless an equal one is in flight already."""
        if (in_flight := self._in_flight.get(key)) is not None and self._settings.cache:
            response, _ = await asyncio.shield(in_flight)
            self._recorder().record_cached(request, about=about)
            return response, 0
        mine: asyncio.Future[tuple[ModelResponse, int]] = asyncio.get_running_loop().create_future()
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
            del mine  # which holds the error, whose traceback holds this frame, and so the request

    async def _cached_or_asked(
        self, key: str, scheduler: RequestScheduler, request: ModelRequest, about: tuple[str, ...]
    ) -> tuple[ModelResponse, int]:
        cached = await self._look_up(key, patient=scheduler.asking > 2 * scheduler.limiter.window.size)
        if cached is not None:
            self._recorder().record_cached(request, about=about)
            return cached, 0
        return await scheduler.ask(request, about=about)

    def _recorder(self) -> Budget:
        assert self.budget is not None  # noqa: S101 - made when the first model is opened
        return self.budget

    async def _look_up(self, key: str, *, patient: bool) -> ModelResponse | None:
        """Look a key up in the cache, together with others: those of one event-loop iteration, or more.

        Args:
            key: The key.
            patient: Whether it may wait for others, because enough requests are ready to be sent.
        """
        if key not in self._lookups:
            self._lookups[key] = asyncio.get_running_loop().create_future()
            self._lookups[key].add_done_callback(_retrieve_exception)
            wait = LOOKUP_SECONDS if patient and len(self._lookups) < LOOKUPS_TOGETHER else 0.0
            self._fetch_within(wait)
        return await asyncio.shield(self._lookups[key])

    def _fetch_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if self._next_fetch is not None:
            if self._next_fetch.when() <= loop.time() + seconds:
                return
            self._next_fetch.cancel()
        self._next_fetch = loop.call_later(seconds, lambda: loop.create_task(self._fetch()))

    async def _fetch(self) -> None:
        lookups, self._lookups = self._lookups, {}
        self._next_fetch = None
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
