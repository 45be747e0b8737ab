"""Spans around generators: open from the first item to the last, current only while their code runs."""

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

from trivium.traces.recording.deciding import CURRENT, begin
from trivium.traces.recording.live import LiveSpan
from trivium.traces.recording.yielded import Yielded
from trivium.traces.trace import SpanKind

Given = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]


def generator(
    function: Callable[..., Any], kind: SpanKind, name: str, agent: str | None, given: Given
) -> Callable[..., Any]:
    """A generator function that records each of its generators as one span."""

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        live = begin(kind, name, agent)
        made = function(*args, **kwargs)
        if live is None:
            return (yield from made)
        live.given(given(args, kwargs))
        step: Callable[[], Any] = functools.partial(next, made)
        with _whole(live) as items:
            while True:
                try:
                    with _running(live):
                        item = step()
                except StopIteration as end:
                    return end.value
                items.add(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    with _running(live):
                        made.close()
                    raise
                except BaseException as error:  # thrown in by the consumer: the code may handle it
                    step = functools.partial(made.throw, error)
                else:
                    step = functools.partial(made.send, sent)

    return recorded


def async_generator(
    function: Callable[..., Any], kind: SpanKind, name: str, agent: str | None, given: Given
) -> Callable[..., Any]:
    """As :func:`generator`, of an asynchronous one."""

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        live = begin(kind, name, agent)
        made = function(*args, **kwargs)
        if live is None:
            return made  # type: ignore[no-any-return]
        live.given(given(args, kwargs))
        return _driven(made, live)

    return recorded


async def _driven(made: AsyncGenerator[Any, Any], live: LiveSpan) -> AsyncGenerator[Any, Any]:
    step: Callable[[], Awaitable[Any]] = made.__anext__
    with _whole(live) as items:
        while True:
            try:
                with _running(live):
                    item = await step()
            except StopAsyncIteration:
                return
            items.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                with _running(live):
                    await made.aclose()
                raise
            except BaseException as error:  # thrown in by the consumer: the code may handle it
                step = functools.partial(made.athrow, error)
            else:
                step = functools.partial(made.asend, sent)


@contextmanager
def _running(live: LiveSpan) -> Generator[None]:
    """The generator's own code runs: spans that it opens belong below."""
    token = CURRENT.set(live)
    try:
        yield
    finally:
        CURRENT.reset(token)


@contextmanager
def _whole(live: LiveSpan) -> Generator[Yielded]:
    """From the first item to the last; a consumer that stops early is no failure."""
    items = Yielded()
    try:
        yield items
    except GeneratorExit:
        raise
    except BaseException as error:
        live.failed(error)
        raise
    finally:
        live.came(items.together())
        live.close()
