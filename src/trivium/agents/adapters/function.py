"""Calls a Python callable as an agent.

A synchronous callable runs in a daemon thread (:class:`DaemonThreads`), a coroutine function on an event loop
in a separate thread (:class:`EventLoopThread`), so that neither can block the loop that enforces time limits.
Trivium abandons and replaces threads and loops that hang, up to a fixed number.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, TypeVar

import msgspec

from trivium.agents.attempt import AgentAdapter, AgentFailure, AgentResponse, EventLoopBlocked, Request
from trivium.agents.failures import as_failure
from trivium.agents.response import AnswerFinder, parse_response
from trivium.errors import AgentError

INJECTED = ("case", "repeat", "seed", "world")
"""Keyword arguments that a function gets besides the input, if its signature has them."""


class FunctionAgent:
    """Calls a Python function as an agent. It gets the input and returns the output or fields of an Attempt.

    Of a framework's result the text is the output (:class:`~trivium.agents.response.AnswerFinder`).

    A synchronous function runs in a thread. Spans that it records with ``trivium.trace`` or OpenTelemetry
    become the trace of the attempt, unless it returns one. The function may have parameters called ``case``,
    ``repeat``, ``seed`` and ``world`` (in a suite that has one); if its first parameter is ``case``, it gets
    the case instead of its input.

    Args:
        function: The callable; a class with ``__call__`` is instantiated first.
        name: Name in reports.

    Raises:
        AgentError: If the function cannot be called with an input.
    """

    def __init__(self, function: Callable[..., Any], *, name: str) -> None:
        self.name = name
        self._function = _instance(function, name)
        first, self._named, self.needs_world = _accepted_parameters(self._function, name)
        self._takes_case = first is not None and first.name == "case"
        self.takes_world = "world" in self._named
        self._text_parameter = first.name if first is not None and first.annotation in {str, "str"} else None
        self._is_async = _is_async(self._function)
        self._threads = DaemonThreads(f"agent {name}")
        self._finder = AnswerFinder(name)

    @property
    def runs_off_loop(self) -> bool:
        """Whether the function runs in a thread, where it may block."""
        return not self._is_async

    async def call(self, request: Request) -> AgentResponse:
        """Call the function; the response, or the failure, has the trace that it recorded."""
        from trivium.traces.recording import recorded  # recorded outputs are scored without

        with recorded() as found:
            try:
                response = await self._call(request)
            except Exception as error:
                if found.trace is None or isinstance(error, AgentFailure):
                    raise
                failure = as_failure(error)
                failure.trace = found.trace
                raise failure from failure.__cause__
        return (
            response if response.trace is not None else msgspec.structs.replace(response, trace=found.trace)
        )

    async def _call(self, request: Request) -> AgentResponse:
        """Call the function; a synchronous one is timed in its thread."""
        if request.turn and self._text_parameter is not None:
            raise AgentFailure(
                f"the case is a conversation, of which an agent gets the list of messages so far, but "
                f"{self.name} takes a text ({self._text_parameter}: str): have it take a list, and say so"
            )
        offered = {"case": request.case, "repeat": request.repeat, "seed": request.seed}
        if request.world is not None:
            offered["world"] = request.world
        first = request.case if self._takes_case else request.case.input
        named = {name: offered[name] for name in self._named if name in offered}
        call = partial(self._function, first, **named)
        if self._is_async:
            return self._parsed(await call())
        value, seconds = await self._threads.run(partial(_timed, call))
        if inspect.isawaitable(value):  # a plain function that returns a coroutine
            return self._parsed(await value)
        response = self._parsed(value)
        return (
            response if response.seconds is not None else msgspec.structs.replace(response, seconds=seconds)
        )

    def _parsed(self, value: Any) -> AgentResponse:
        found = self._finder.find(value)
        return parse_response(value) if found is None else AgentResponse(output=found[1])

    async def close(self) -> None:
        """End idle threads."""
        self._threads.close()


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = perf_counter()
    value = call()
    return value, perf_counter() - started


def _instance(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the callable; a class whose instances are callable is instantiated."""
    if not (isinstance(function, type) and any("__call__" in vars(cls) for cls in function.__mro__)):
        return function
    try:
        made = function()
    except Exception as error:
        raise AgentError(
            name,
            f"the class {function.__name__} cannot be made without arguments: {error}; name an instance",
        ) from error
    return made  # type: ignore[no-any-return]


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 - the method itself is looked at
    )


def _accepted_parameters(
    function: Callable[..., Any], name: str
) -> tuple[inspect.Parameter | None, tuple[str, ...], bool]:
    """The first parameter, which keyword arguments the function accepts, and whether it needs a world."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        return None, (), False
    positional = [
        each
        for each in parameters
        if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL}
    ]
    if not positional:
        raise AgentError(
            name, "the function takes no input; expected one positional parameter, the case's input"
        )
    first = positional[0]
    rest = [each for each in parameters if each is not first or each.kind is each.VAR_POSITIONAL]
    named = names_taken(rest, INJECTED, name=name, what="function")
    needs_world = any(each.name == "world" and each.default is each.empty for each in rest)
    return first, named, needs_world


def names_taken(
    parameters: Iterable[inspect.Parameter], offered: Sequence[str], *, name: str, what: str
) -> tuple[str, ...]:
    """The offered arguments that parameters take by name.

    Args:
        parameters: The parameters, without the first one of an agent.
        offered: The names.
        name: Name of the agent or the world.
        what: What has these parameters.

    Raises:
        AgentError: If one needs a value and is not offered any.
    """
    variable = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    named = [each for each in parameters if each.kind not in variable]
    taken = [each for each in named if each.name in offered and each.kind is not each.POSITIONAL_ONLY]
    unknown = [each.name for each in named if each.default is each.empty and each not in taken]
    if unknown:
        needs = f"the {what} needs {', '.join(unknown)}, which Trivium does not provide"
        raise AgentError(name, f"{needs}; where its signature names them, it gets {', '.join(offered)}")
    return tuple(each.name for each in taken)


MAX_HUNG_THREADS = 256
"""Number of hung threads at which no further call is made."""

Outcome = tuple[Any, BaseException | None]
Job = Callable[[], None]


class DaemonThreads:
    """A pool of daemon threads that is never joined.

    ``concurrent.futures`` joins its threads at exit, so one hung call would keep the process alive, and a
    hung call occupies a worker for good. Here a cancelled call is abandoned, its thread replaced, and the
    interpreter exits without waiting for it.

    Args:
        name: Name of the threads, for debuggers.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._idle: list[SimpleQueue[Job | None]] = []
        self._hung: set[object] = set()
        self._closed = False

    async def run(self, function: Callable[[], Any]) -> Any:
        """Run a function in a thread with the caller's context variables, and return its result.

        Raises:
            AgentFailure: If too many earlier calls still hang.
            Exception: Any exception of the function.
        """
        if (hung := len(self._hung)) >= MAX_HUNG_THREADS:
            raise AgentFailure(f"{hung} earlier calls of this agent still hang; it is not called again")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Outcome] = loop.create_future()
        context = contextvars.copy_context()
        ticket = object()

        def deliver(outcome: Outcome) -> None:
            if not answer.done():
                answer.set_result(outcome)

        def job() -> None:
            outcome = _outcome(lambda: context.run(function))
            self._hung.discard(ticket)
            with suppress(RuntimeError):  # the loop has closed: no caller waits
                loop.call_soon_threadsafe(deliver, outcome)

        self._submit(job)
        try:
            value, error = await answer
        except asyncio.CancelledError:
            self._hung.add(ticket)
            raise
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """End idle threads now, and busy ones after their call."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for queue in idle:
            queue.put(None)

    def _submit(self, job: Job) -> None:
        with self._lock:
            self._closed = False
            queue = self._idle.pop() if self._idle else None
        if queue is None:
            queue = SimpleQueue()
            threading.Thread(target=self._work, args=(queue,), name=self._name, daemon=True).start()
        queue.put(job)

    def _work(self, queue: SimpleQueue[Job | None]) -> None:
        while (job := queue.get()) is not None:
            job()
            del job
            with self._lock:
                if self._closed:
                    return
                self._idle.append(queue)


def _outcome(function: Callable[[], Any]) -> Outcome:
    """The result or exception of a function. SystemExit and the like become an AgentFailure."""
    try:
        return function(), None
    except Exception as error:
        return None, error
    except BaseException as error:
        return None, AgentFailure(f"the agent raised {type(error).__name__}: {error}")


log = logging.getLogger(__name__)

T = TypeVar("T")

CANCEL_SECONDS = 1.0
"""Time limit for a loop to process a cancellation before it counts as blocked."""

MAX_BLOCKED_LOOPS = 64
"""Number of blocked loops at which no further one is started."""


def with_own_loop(agent: AgentAdapter) -> AgentAdapter:
    """Wrap the agent in an event loop thread, unless it declares that it cannot block a loop."""
    return agent if getattr(agent, "runs_off_loop", False) else EventLoopThread(agent)


class EventLoopThread:
    """Runs another adapter's calls on an event loop in a separate thread.

    A coroutine that blocks without awaiting would stop the main loop, which enforces time limits, stores and
    scores. Here such a call is cancelled at its time limit; if the loop does not react, it is abandoned with
    the calls that it blocks, and further calls get a new loop.

    Args:
        agent: The adapter to call.
    """

    def __init__(self, agent: AgentAdapter) -> None:
        self.name = agent.name
        self._agent = agent
        self._loop: asyncio.AbstractEventLoop | None = None
        self._blocked: set[asyncio.AbstractEventLoop] = set()

    async def call(self, request: Request) -> AgentResponse:
        """Call the agent once."""
        return await self._run(lambda: self._agent.call(request))

    async def close(self) -> None:
        """Close the agent and stop the loop."""
        if self._loop is None:
            await self._agent.close()
            return
        with suppress(asyncio.TimeoutError, AgentFailure):
            await asyncio.wait_for(self._run(self._agent.close), 2 * CANCEL_SECONDS)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    async def _run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop, caller_loop = self._running_loop(), asyncio.get_running_loop()
        ended: asyncio.Future[asyncio.Task[T]] = caller_loop.create_future()
        cancelled: asyncio.Future[None] = caller_loop.create_future()
        tasks: list[asyncio.Task[T]] = []

        def resolve(future: asyncio.Future[Any], what: Any) -> None:
            with suppress(RuntimeError):  # the caller's loop has closed: no caller waits
                caller_loop.call_soon_threadsafe(lambda: None if future.done() else future.set_result(what))

        def begin() -> None:
            tasks.append(loop.create_task(make()))
            tasks[0].add_done_callback(lambda task: resolve(ended, task))

        def cancel_tasks() -> None:
            self._blocked.discard(loop)
            resolve(cancelled, None)
            for task in tasks:
                task.cancel()

        loop.call_soon_threadsafe(begin)
        try:
            task = await asyncio.shield(ended)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(cancel_tasks)
            await asyncio.wait([cancelled], timeout=CANCEL_SECONDS)
            if not cancelled.done():
                self._abandon(loop)
                raise EventLoopBlocked(
                    "it blocks its event loop: something waits or computes without await"
                ) from None
            await ended
            raise
        if task.cancelled():
            raise AgentFailure("the agent cancelled itself")
        return task.result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            if len(self._blocked) >= MAX_BLOCKED_LOOPS:
                raise AgentFailure(
                    f"{MAX_BLOCKED_LOOPS} event loops are blocked by this agent; it is not called again"
                )
            self._loop = asyncio.new_event_loop()
            # Errors of abandoned calls must not clutter standard error.
            self._loop.set_exception_handler(
                lambda _, context: log.debug("abandoned: %s", context["message"])
            )
            Thread(target=_keep_running, args=(self._loop,), name=f"agent {self.name}", daemon=True).start()
        return self._loop

    def _abandon(self, loop: asyncio.AbstractEventLoop) -> None:
        self._blocked.add(loop)
        if self._loop is loop:
            self._loop = None
            log.warning(
                "%s blocks its event loop, which is abandoned; further calls get a new one", self.name
            )


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; KeyboardInterrupt and SystemExit also stop it, so it is restarted."""
    asyncio.set_event_loop(loop)
    stopped = False
    while not stopped:
        with suppress(KeyboardInterrupt, SystemExit):
            loop.run_forever()
            stopped = True
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
