"""Records each call of a function as an interaction of a monitor: the decorator ``@monitor.watch``."""

import functools
import inspect
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from trivium.traces.recording.collector import Collector, collecting, collector
from trivium.traces.recording.decorators import Begun, YieldedItems, passed_on, passing_on_async

MOST_YIELDED = 10_000
"""Values that are recorded of a generator which yields others than texts."""

MOST_YIELDED_CHARS = 10_000_000
"""Characters that are recorded of the texts which a generator yields."""

Record = Callable[..., None]
"""``Monitor.record``."""


def watched(
    function: Callable[..., Any], record: Record, *, tags: Sequence[str], session: str | None
) -> Callable[..., Any]:
    """Wrap a function, coroutine function or generator function so that each call is recorded.

    Args:
        function: The function.
        record: Records an interaction.
        tags: Tags of its interactions.
        session: Name of the argument that names the session.
    """
    watch = _Watch(function, record, tags, session)
    if inspect.isasyncgenfunction(function):

        @passing_on_async
        @functools.wraps(function)
        def async_generator(*args: Any, **kwargs: Any) -> Begun:
            call = _Call()
            return function(*args, **kwargs), watch.generator(call, args, kwargs), call.running

        return async_generator
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            call = _Call()
            made = function(*args, **kwargs)
            return (yield from passed_on(made, watch.generator(call, args, kwargs), call.running))

        return generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            call = _Call()
            with watch.recording(call, args, kwargs), call.running():
                call.output = await function(*args, **kwargs)
                return call.output

        return coroutine

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        call = _Call()
        with watch.recording(call, args, kwargs), call.running():
            call.output = function(*args, **kwargs)
            return call.output

    return plain


class _Call:
    """One call: what it returned, and what it records; nothing while Trivium evaluates the function."""

    def __init__(self) -> None:
        self.output: Any = None
        self.collected = Collector() if collector() is None else None

    def running(self) -> AbstractContextManager[None]:
        """A block of the function's own code, whose spans belong to the call."""
        return nullcontext() if self.collected is None else collecting(self.collected)


class _Watch:
    """Records the calls of one function."""

    def __init__(
        self, function: Callable[..., Any], record: Record, tags: Sequence[str], session: str | None
    ) -> None:
        self._record = record
        self._tags = tuple(tags)
        self._session = session
        self._signature = inspect.signature(function)

    @contextmanager
    def generator(self, call: _Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[YieldedItems]:
        """Record the call of a generator function, whose output is what it yields."""
        items = YieldedItems(MOST_YIELDED, MOST_YIELDED_CHARS)
        with self.recording(call, args, kwargs):
            try:
                yield items
            finally:
                call.output = items.recorded_value()

    @contextmanager
    def recording(self, call: _Call, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[None]:
        """Record the call that is made in the block."""
        if call.collected is None:
            yield
            return
        arguments = self._arguments(args, kwargs)
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            yield
        except GeneratorExit:  # the caller closed the generator early
            raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            session = None if self._session is None else arguments.pop(self._session, None)
            self._record(
                input=next(iter(arguments.values())) if len(arguments) == 1 else arguments,
                output=call.output,
                error=error,
                seconds=time.perf_counter() - began,
                trace=call.collected.trace,
                tags=self._tags,
                session=session,
            )

    def _arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments by name, without ``self`` and ``cls``."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError:  # the call itself will raise it
            return {}
        return {name: value for name, value in bound.arguments.items() if name not in {"self", "cls"}}
