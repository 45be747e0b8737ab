"""Opens the models of a suite, and answers requests to them: from the cache, or by sending them.

A request whose response is cached costs nothing; one that is already in flight is awaited, not sent twice;
the others go to the scheduler of their model, without the parameters that its server refuses.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import cached_property

import msgspec

from trivium.metrics.judge.budget.budget import Budget, run_budget
from trivium.metrics.judge.client.cache import MemoryResponseCache, ResponseCache
from trivium.metrics.judge.client.direct_client import open_direct_client
from trivium.metrics.judge.client.parameters import Parameters
from trivium.metrics.judge.client.providers import ModelDescription, ModelUnavailable, expand_variables
from trivium.metrics.judge.client.pydantic_ai_models import PydanticAIClient, check_sendable, open_model
from trivium.metrics.judge.client.request import Client, ModelRequest, ModelResponse, ParameterRefused
from trivium.metrics.judge.client.scheduler import RequestScheduler
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
    """What judges ask. Every method is called on the executor's event loop.

    Args:
        settings: The suite's settings.

    Attributes:
        cache: Stores every response; set before first use.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self._settings = settings
        self.cache: ResponseCache = MemoryResponseCache()
        self._opened: dict[str, OpenedModel | ModelUnavailable] = {}
        self._in_flight: dict[str, asyncio.Task[tuple[ModelResponse, int]]] = {}
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
            GivenUp: If there is no answer.
            BudgetExhausted: If the budget does not allow it.
        """
        opened = self.opened(name)
        async with opened.shared.turn(request) if opened.shared else nullcontext():
            return await self._ask_adapted(opened, request, about)

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
        client: Client | None = None
        if settings.client != "pydantic-ai":
            client = open_direct_client(name, server, headers)
        if client is None:
            if settings.client == "direct":
                raise ModelUnavailable(f"{name} cannot be asked directly over HTTP (judge.client: direct)")
            model = open_model(name, server=server)
            check_sendable(model, name, server, settings.parameters)
            client = PydanticAIClient(model, name, headers)
        parameters = Parameters(name, settings, client.description, self.cache)
        scheduler = RequestScheduler(
            client,
            self.budget,
            settings,
            name=name,
            cache=self.cache,
            refused_since=parameters.refused_since,
        )
        return OpenedModel(
            name=name,
            description=client.description,
            parameters=parameters,
            shared=PromptCacheGate() if parameters.marks == "case" else None,
            scheduler=scheduler,
        )

    async def _ask_adapted(
        self, opened: OpenedModel, request: ModelRequest, about: tuple[str, ...]
    ) -> AskResult:
        """Ask without the parameters that the server refuses, which it may do only now."""
        parameters = opened.parameters
        if not parameters.restored:
            parameters.restore(await self._look_up(parameters.key, patient=False))
        while True:
            async with parameters.turn():
                sent = parameters.applied(request)
                key = sent.key
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
            self.budget.record_cached(request, about=about)
            return response, 0
        mine = asyncio.create_task(self._cached_or_asked(key, scheduler, request, about))
        self._in_flight.setdefault(key, mine)
        try:
            return await mine
        finally:
            if self._in_flight.get(key) is mine:
                del self._in_flight[key]
            del mine  # which holds the error, whose traceback holds this frame, and so the request

    async def _cached_or_asked(
        self, key: str, scheduler: RequestScheduler, request: ModelRequest, about: tuple[str, ...]
    ) -> tuple[ModelResponse, int]:
        cached = await self._look_up(key, patient=scheduler.asking > 2 * scheduler.limiter.window.size)
        if cached is not None:
            self.budget.record_cached(request, about=about)
            return cached, 0
        return await scheduler.ask(request, about=about)

    async def _look_up(self, key: str, *, patient: bool) -> ModelResponse | None:
        """Look a key up in the cache, together with others of the same event-loop iteration.

        If it is ``patient``, because enough requests are ready to be sent, it may wait for more.
        """
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
