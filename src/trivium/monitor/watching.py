"""Records each call of a function as an interaction of a monitor: the decorator ``@monitor.watch``."""

import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from trivium.traces.recording.collector import collector, recorded

MOST_YIELDED = 10_000
"""Maximum number of values recorded of a generator."""


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

        @functools.wraps(function)
        async def async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with watch.call(args, kwargs) as call:
                async for value in function(*args, **kwargs):
                    call.add(value)
                    yield value

        return async_generator
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def generator(*args: Any, **kwargs: Any) -> Iterator[Any]:
            with watch.call(args, kwargs) as call:
                for value in function(*args, **kwargs):
                    call.add(value)
                    yield value

        return generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with watch.call(args, kwargs) as call:
                call.output = await function(*args, **kwargs)
                return call.output

        return coroutine

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with watch.call(args, kwargs) as call:
            call.output = function(*args, **kwargs)
            return call.output

    return plain


class _Call:
    """The output of one call: its return value, or the values yielded so far."""

    def __init__(self) -> None:
        self.output: Any = None
        self._yielded: list[Any] = []

    def add(self, value: Any) -> None:
        """Add a value that was yielded."""
        if len(self._yielded) < MOST_YIELDED:
            self._yielded.append(value)

    @property
    def result(self) -> Any:
        """The return value, or all yielded values; strings are joined."""
        if not self._yielded:
            return self.output
        if all(isinstance(value, str) for value in self._yielded):
            return "".join(self._yielded)
        return self._yielded


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
    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Iterator[_Call]:
        """Record the call made in the block, unless Trivium is evaluating the function."""
        call = _Call()
        if collector() is not None:
            yield call
            return
        arguments = self._arguments(args, kwargs)
        began = time.perf_counter()
        error: BaseException | None = None
        with recorded() as collected:
            try:
                yield call
            except GeneratorExit:  # the caller closed the generator early
                raise
            except BaseException as raised:
                error = raised
                raise
            finally:
                session = None if self._session is None else arguments.pop(self._session, None)
                self._record(
                    input=next(iter(arguments.values())) if len(arguments) == 1 else arguments,
                    output=call.result,
                    error=error,
                    seconds=time.perf_counter() - began,
                    trace=collected.trace,
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
