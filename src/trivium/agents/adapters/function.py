"""Python functions as agents: sync or async, plain or callable objects."""

import inspect
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import msgspec

from trivium.agents.adapter import AgentFailure, Reply, Request
from trivium.agents.adapters.threads import DaemonThreads
from trivium.agents.failing import reason
from trivium.agents.reply import read_reply
from trivium.errors import AgentError
from trivium.traces.recording import recorded

OFFERED = ("case", "repeat", "seed")
"""What a function is given besides the input, when its signature names it."""


class FunctionAgent:
    """An agent that is a Python callable: input → output, or → the fields of an Attempt.

    A synchronous function runs in a thread. What it records with ``trivium.trace``, or OpenTelemetry's
    instrumentation in it, becomes the trace of the attempt, unless it hands one back. The function may name
    ``case``, ``repeat`` and ``seed`` among its parameters; a function whose first parameter is ``case`` gets
    the case in place of its input.

    Args:
        function: What is called; a class with ``__call__`` is instantiated first.
        name: How reports call it.

    Raises:
        AgentError: When it cannot be called with an input.
    """

    def __init__(self, function: Callable[..., Any], *, name: str) -> None:
        self.name = name
        self._function = _instance(function, name)
        self._takes_case, self._named = _wishes(self._function, name)
        self._is_async = _is_async(self._function)
        self._threads = DaemonThreads(f"agent {name}")

    @property
    def blocks_no_loop(self) -> bool:
        """Whether it runs in a thread, where it may wait as it likes."""
        return not self._is_async

    async def call(self, request: Request) -> Reply:
        """Call the function and take what it recorded; a failed call keeps it up to the failure."""
        with recorded() as found:
            try:
                reply = await self._call(request)
            except Exception as error:
                trace = found.trace
                if trace is None or isinstance(error, AgentFailure):
                    raise
                # No verdict of its own on retrying: the cause decides.
                raise AgentFailure(reason(error), retryable=None, trace=trace) from error
        return reply if reply.trace is not None else msgspec.structs.replace(reply, trace=found.trace)

    async def _call(self, request: Request) -> Reply:
        """Call the function; the time of a synchronous one is taken in its thread."""
        offered = {"case": request.case, "repeat": request.repeat, "seed": request.seed}
        first = request.case if self._takes_case else request.case.input
        call = partial(self._function, first, **{name: offered[name] for name in self._named})
        if self._is_async:
            return read_reply(await call())
        value, seconds = await self._threads.run(partial(_timed, call))
        if inspect.isawaitable(value):  # a plain function that hands back a coroutine
            return read_reply(await value)
        reply = read_reply(value)
        return reply if reply.seconds is not None else msgspec.structs.replace(reply, seconds=seconds)

    async def close(self) -> None:
        """Let idle threads end."""
        self._threads.close()


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    started = perf_counter()
    value = call()
    return value, perf_counter() - started


def _instance(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The callable itself, or an instance of a class whose instances can be called."""
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


def _wishes(function: Callable[..., Any], name: str) -> tuple[bool, tuple[str, ...]]:
    """Whether the first parameter is the case, and which further parameters are to be given by name."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False, ()
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
    rest = (
        parameters
        if first.kind is first.VAR_POSITIONAL
        else [each for each in parameters if each is not first]
    )
    by_name = [each for each in rest if each.kind in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}]
    named = tuple(each.name for each in by_name if each.name in OFFERED)
    nobody_gives = [
        each.name
        for each in rest
        if each.default is each.empty
        and each.kind not in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
        and each.name not in named
    ]
    if nobody_gives:
        raise AgentError(
            name,
            f"the function needs {', '.join(nobody_gives)}, which nobody gives; an agent is called with"
            f" its input and, where its signature names them, {', '.join(OFFERED)}",
        )
    return first.name == "case", named
