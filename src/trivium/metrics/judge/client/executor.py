"""Bench: where the judges of one suite sit together: one event loop, its models, connections and limits."""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from trivium.metrics.judge.budget.budget import Purse, run_purse
from trivium.metrics.judge.client.cache import Answers, RememberedAnswers
from trivium.metrics.judge.client.direct_client import lean_client
from trivium.metrics.judge.client.model_factory import ModelOff, expanded, open_model
from trivium.metrics.judge.client.parameters import Parameters
from trivium.metrics.judge.client.pydantic_ai_client import UsualClient, marks_cache, thinks
from trivium.metrics.judge.client.request import Call, Reply
from trivium.metrics.judge.client.retry import PATIENCE, Patience
from trivium.metrics.judge.client.scheduler import Line
from trivium.suites.settings import JudgeSettings, ServerSettings

if TYPE_CHECKING:
    from pydantic_ai.models import Model as PydanticAIModel

T = TypeVar("T")

SEATS, SEATS_A_REQUEST = 256, 4
"""Judgements that are under way at most, or this many for each request that may be in flight; the others have
not begun, so that their prompts take no memory and the first requests do not wait until all are written."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A reply, and what it took.

    Attributes:
        reply: What came back, now or before.
        requests: That were sent for it; 0 when it had been kept.
    """

    reply: Reply
    requests: int


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """An opened model.

    Attributes:
        provider: How it is spoken to.
        address: Base URL.
        model: The provider's name of it.
        parameters: What its requests carry.
        thinks: Whether it reasons before it answers.
        shared: Lets the first request about a case fill the provider's cache before the others use it; None
            where that brings nothing.
        line: To it.
    """

    provider: str
    address: str
    model: str
    parameters: Parameters
    thinks: bool
    shared: "SharedCases | None"
    line: Line


class SharedCases:
    """Of several requests about one case, one goes first: its answer means that the case is cached."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], asyncio.Future[None]] = {}

    @asynccontextmanager
    async def turn(self, call: Call) -> AsyncIterator[None]:
        """Wait while the first request about the same case is under way, or be the first."""
        key = (call.instructions, call.case)
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


class Bench:
    """Runs judges on a thread of their own, whatever the caller's thread runs, until it is closed.

    Started at first use. Dropped without being closed, it is closed by the garbage collector.

    Args:
        settings: The suite's.
        patience: How long a failing provider is tried.
    """

    def __init__(self, settings: JudgeSettings, *, patience: Patience = PATIENCE) -> None:
        self.settings = settings
        self._room = _Room(settings, patience)
        self._finalizer = weakref.finalize(self, self._room.stop)

    def equip(self, *, answers: Answers | None = None, purse: Purse | None = None) -> None:
        """Give it a run's answers and purse, before its first use; whoever gave them closes them."""
        self._room.answers = answers or self._room.answers
        self._room.purse = purse or self._room.purse

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Run a coroutine on the bench; cancelled when the bench is closed."""
        return self._room.submit(make)

    async def model(self, name: str) -> Model:
        """An open model; only on the bench.

        Raises:
            ModelOff: If it cannot be used.
        """
        return self._room.model(name)

    async def ask(self, line: Line, call: Call, *, about: tuple[str, ...]) -> Asked:
        """The reply to a call: kept, under way already, or asked for; only on the bench.

        Raises:
            GivenUp: If there is none.
            Spent: If the budget does not allow it.
        """
        return await self._room.ask(line, call, about)

    def drop(self, calls: Iterable[Call]) -> None:
        """Forget the replies of an exchange that ended without a usable answer."""
        self._room.answers.drop([call.key() for call in calls])

    def close(self) -> None:
        """Cancel what is under way and end every connection. Nothing can be asked any more."""
        self._room.stop()


class _Room:
    """What the thread of a bench holds; it knows nothing of the bench, which may go first."""

    def __init__(self, settings: JudgeSettings, patience: Patience) -> None:
        self._settings = settings
        self._patience = patience
        self.answers: Answers = RememberedAnswers()
        self.purse: Purse | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._models: dict[str, Model | ModelOff] = {}
        self._flying: dict[str, asyncio.Future[Asked]] = {}
        self._wanted: dict[str, asyncio.Future[Reply | None]] = {}
        self._seats = asyncio.Semaphore(max(SEATS, SEATS_A_REQUEST * (settings.concurrency or 0)))

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> "Future[T]":
        with self._lock:
            if self._stopped:
                cancelled: Future[T] = Future()
                cancelled.cancel()
                cancelled.set_running_or_notify_cancel()
                return cancelled
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._work, name="trivium-judges", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(self._seated(make), self._loop)

    async def _seated(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with self._seats:
            return await make()

    def stop(self) -> None:
        with self._lock:
            already, self._stopped = self._stopped, True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        if not already:
            loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():  # where the garbage collector may find a dropped bench
            thread.join()

    def _work(self) -> None:
        loop = self._loop
        assert loop is not None  # noqa: S101 - set before the thread starts
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(self._leave())
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    async def _leave(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for model in self._models.values():
            if isinstance(model, Model):
                await model.line.close()
        await asyncio.sleep(0)  # lets transports notice that they are closed

    def model(self, name: str) -> Model:
        if name not in self._models:
            try:
                self._models[name] = self._opened(name)
            except ModelOff as off:
                self._models[name] = off
        found = self._models[name]
        if isinstance(found, ModelOff):
            raise found
        return found

    def _opened(self, name: str) -> Model:
        settings = self._settings
        server = settings.servers.get(name) or ServerSettings()
        headers = {key: expanded(value) for key, value in server.headers.items()}
        lean = None if settings.client == "pydantic-ai" else lean_client(name, server, headers)
        if lean is None and settings.client == "direct":
            raise ModelOff(f"{name} cannot be asked directly over HTTP (judge.client: direct)")
        model = open_model(name, server=server) if lean is None else lean.model
        _check_carried(model, name, server, settings)
        profile: Any = model.profile
        if self.purse is None:
            self.purse = run_purse(self._settings)
        prefix = name.partition(":")[0]
        provider = "openai-chat" if prefix == "openai" else prefix
        parameters = Parameters(
            name,
            settings,
            place=(provider, str(model.base_url), model.model_name),
            native=bool(profile.get("supports_json_schema_output")),
            completion_limit=bool(profile.get("openai_chat_supports_max_completion_tokens", True)),
            marks_cache=marks_cache(model),
            answers=self.answers,
        )
        line = Line(
            lean or UsualClient(model, headers),
            self.purse,
            name=name,
            most=self._settings.concurrency,
            timeout=self._settings.timeout,
            time_limit=self._settings.time_limit,
            patience=self._patience,
            answers=self.answers,
            outdated=parameters.outdated,
        )
        return Model(
            provider=provider,
            address=str(model.base_url),
            model=model.model_name,
            parameters=parameters,
            thinks=thinks(model, settings.reasoning_effort),
            shared=SharedCases() if parameters.marks == "case" else None,
            line=line,
        )

    async def ask(self, line: Line, call: Call, about: tuple[str, ...]) -> Asked:
        key = call.key()
        if (flying := self._flying.get(key)) is not None and self._settings.cache:
            asked = await asyncio.shield(flying)
            self._purse().found(call, about=about)
            return Asked(reply=asked.reply, requests=0)
        mine: asyncio.Future[Asked] = asyncio.get_running_loop().create_future()
        mine.add_done_callback(_heard)
        self._flying.setdefault(key, mine)
        try:
            asked = await self._found_or_asked(key, line, call, about)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                mine.cancel()
            else:
                mine.set_exception(error)
            raise
        else:
            mine.set_result(asked)
            return asked
        finally:
            if self._flying.get(key) is mine:
                del self._flying[key]

    async def _found_or_asked(self, key: str, line: Line, call: Call, about: tuple[str, ...]) -> Asked:
        kept = await self._kept(key)
        if kept is not None:
            self._purse().found(call, about=about)
            return Asked(reply=kept, requests=0)
        reply, requests = await line.ask(call, about=about)
        return Asked(reply=reply, requests=requests)

    def _purse(self) -> Purse:
        assert self.purse is not None  # noqa: S101 - made when the first model is opened
        return self.purse

    async def _kept(self, key: str) -> Reply | None:
        """What is kept under a key; the keys of one round of the loop are looked up together."""
        loop = asyncio.get_running_loop()
        if key not in self._wanted:
            if not self._wanted:
                loop.call_soon(lambda: loop.create_task(self._fetch()))
            self._wanted[key] = loop.create_future()
        return await asyncio.shield(self._wanted[key])

    async def _fetch(self) -> None:
        wanted, self._wanted = self._wanted, {}
        try:
            found = await asyncio.to_thread(self.answers.fetch, list(wanted))
        except Exception as error:
            for waiting in wanted.values():
                waiting.set_exception(error)
            return
        for key, waiting in wanted.items():
            if not waiting.done():
                waiting.set_result(found.get(key))


def _check_carried(
    opened: "PydanticAIModel", name: str, server: ServerSettings, settings: JudgeSettings
) -> None:
    """Refuse settings that a provider's SDK would drop without a word.

    Raises:
        ModelOff: If there are any.
    """
    dropped: frozenset[str] = getattr(opened, "unsupported_settings", frozenset())
    given = any(value is not None for value in settings.parameters.values())
    for field, used in (("extra_body", server.body or given), ("extra_headers", server.headers)):
        if used and field in dropped:
            keys = "judge.servers.headers" if field == "extra_headers" else "judge.parameters or servers.body"
            raise ModelOff(f"{name}: its provider's client sends no fields of one's own ({keys})")


def _heard(future: "asyncio.Future[Asked]") -> None:
    """An error that nobody else waited for is no surprise: whoever asked has it."""
    if not future.cancelled():
        future.exception()
