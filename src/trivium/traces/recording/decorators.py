"""The decorators and context managers ``agent``, ``tool``, ``llm`` and ``span``.

They record functions, coroutines, generators and ``with`` blocks as spans.
"""

import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from types import CoroutineType, TracebackType
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack, cast, overload

from trivium.any_object import MOST_CHARS, plain_text
from trivium.keywords import keywords
from trivium.traces.recording.collector import CURRENT, start_span
from trivium.traces.recording.span import LiveSpan, NoSpan, ParentSpan
from trivium.traces.trace import SpanKind

ArgumentsOf = Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]
Begin = Callable[[tuple[Any, ...], dict[str, Any]], LiveSpan | None]
Running = Callable[[], AbstractContextManager[object]]
P = ParamSpec("P")
R = TypeVar("R")


def current() -> NoSpan:
    """The current span; a span that records nothing when there is none."""
    span_open = CURRENT.get()
    return span_open if isinstance(span_open, LiveSpan) else NoSpan()


class SpanDecorator:
    """Makes spans of one kind, name and agent; a decorator of functions and a context manager.

    ``with`` and ``async with`` return the open span: set its ``output``, or call ``used``, ``note`` or
    ``failed``.
    """

    def __init__(self, kind: SpanKind, name: str | None, agent: str | None, input: Any) -> None:  # noqa: A002
        self._kind = kind
        self._name = None if name is None else plain_text(name)
        self._agent = agent
        self._input = input
        self._open: list[tuple[LiveSpan, contextvars.Token[ParentSpan | None]]] = []

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function: each call is recorded as a span."""
        name = self._name or plain_text(getattr(function, "__name__", type(function).__name__))
        made: Callable[P, R] = _decorated(function, self._kind, name, self._agent)
        return made

    def __enter__(self) -> NoSpan:
        live = start_span(self._kind, self._name or self._kind, self._agent)
        if live is None:
            return NoSpan()
        if self._input is not None:
            live.record_input(self._input)
        self._open.append((live, CURRENT.set(live)))
        return live

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if not self._open:
            return
        live, token = self._open.pop()
        try:  # noqa: SIM105 - a block of suppress costs as much as all else here
            CURRENT.reset(token)
        except ValueError:  # it began in another context: in a generator that several tasks read
            pass
        if error is not None:
            live.failed(error)
        live.close()

    async def __aenter__(self) -> NoSpan:
        return self.__enter__()

    async def __aexit__(self, *raised: Any) -> None:
        self.__exit__(*raised)


class SpanOptions(TypedDict, total=False):
    """Options of :func:`tool`, :func:`llm` and :func:`span`.

    Attributes:
        name: The name, if it is not given as the first argument.
        agent: The agent that does the work; by default the nearest agent above.
        input: Input of a ``with`` block; the arguments of a function are recorded automatically.
    """

    name: str | None
    agent: str | None
    input: Any


def _span_decorator(
    kind: SpanKind,
    named: Any,
    *,
    name: str | None = None,
    agent: str | None = None,
    input: Any = None,  # noqa: A002
) -> Any:
    if callable(named):
        return SpanDecorator(kind, name, agent, None)(named)
    return SpanDecorator(kind, name if named is None else named, agent, input)


@overload
def agent(named: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def agent(named: str | None = None, /, *, name: str | None = None, input: Any = None) -> SpanDecorator: ...
def agent(named: Any = None, /, *, name: str | None = None, input: Any = None) -> Any:  # noqa: A002
    """An agent's turn: ``@trace.agent``, ``@trace.agent("researcher")``, ``with trace.agent("researcher"):``.

    Args:
        named: The function, or the agent's name; by default the name of the function.
        name: The agent's name.
        input: Input of a ``with`` block; the arguments of a function are recorded automatically.
    """
    return _span_decorator("agent", named, name=name, input=input)


@overload
def tool(named: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(named: str | None = None, /, **options: Unpack[SpanOptions]) -> SpanDecorator: ...
@keywords()
def tool(named: Any = None, /, **options: Unpack[SpanOptions]) -> Any:
    """A tool call. Options as for :func:`agent`; ``agent`` is the caller, else the nearest agent above."""
    return _span_decorator("tool", named, **options)


@overload
def llm(named: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def llm(named: str | None = None, /, **options: Unpack[SpanOptions]) -> SpanDecorator: ...
@keywords()
def llm(named: Any = None, /, **options: Unpack[SpanOptions]) -> Any:
    """A model request, named by its model. Options as for :func:`tool`.

    Token counts are read from responses of OpenAI and Anthropic; for others, call
    ``current().used(input_tokens=…, output_tokens=…)``.
    """
    return _span_decorator("llm", named, **options)


@overload
def span(named: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def span(named: str | None = None, /, **options: Unpack[SpanOptions]) -> SpanDecorator: ...
@keywords()
def span(named: Any = None, /, **options: Unpack[SpanOptions]) -> Any:
    """Any other piece of work."""
    return _span_decorator("other", named, **options)


def _decorated(function: Callable[..., Any], kind: SpanKind, name: str, agent: str | None) -> Any:
    arguments_of = arguments_by_name(function)

    def begin(args: tuple[Any, ...], kwargs: dict[str, Any]) -> LiveSpan | None:
        live = start_span(kind, name, agent)
        if live is not None:
            live.record_input(arguments_of(args, kwargs))
        return live

    recorded = next((recorded for is_kind, recorded in _KINDS if is_kind(function)), _plain)
    return functools.wraps(function)(recorded(function, begin))


def _plain(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        live = begin(args, kwargs)
        if live is None:
            return function(*args, **kwargs)
        token = CURRENT.set(live)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            live.failed(error)
            live.close()
            raise
        finally:
            CURRENT.reset(token)
        if issubclass(type(result), CoroutineType):  # a plain function that returns a coroutine
            return _recorded_await(live, result)
        live.record_output(result)
        live.close()
        return result

    return call


def _coroutine(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        live = begin(args, kwargs)
        work = function(*args, **kwargs)
        return await (work if live is None else _recorded_await(live, work))

    return call


def _generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        live = begin(args, kwargs)
        made = function(*args, **kwargs)
        if live is None:
            return (yield from made)
        return (yield from passed_on(made, _whole_span(live), lambda: _running(live)))

    return call


def _async_generator(function: Callable[..., Any], begin: Begin) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        live = begin(args, kwargs)
        made: AsyncGenerator[Any, Any] = function(*args, **kwargs)
        return made if live is None else _passed_on_async(made, _whole_span(live), lambda: _running(live))

    return call


_KINDS = (
    (inspect.isasyncgenfunction, _async_generator),
    (inspect.isgeneratorfunction, _generator),
    (inspect.iscoroutinefunction, _coroutine),
)
"""What records the calls of functions that are not plain."""


async def _recorded_await(live: LiveSpan, work: Awaitable[R]) -> R:
    token = CURRENT.set(live)
    try:
        result = await work
    except BaseException as error:
        live.failed(error)
        raise
    else:
        live.record_output(result)
        return result
    finally:
        CURRENT.reset(token)
        live.close()


def arguments_by_name(function: Callable[..., Any]) -> ArgumentsOf:
    """Make a function that names the arguments of a call.

    The signature is inspected once for each function, because ``Signature.bind`` is slow.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
        parameters = []
    names = [
        each.name for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
    ]
    skip = 1 if names[:1] in (["self"], ["cls"]) else 0
    rest = next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), "args")
    count = len(names)

    def arguments_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        named = dict(zip(names[skip:], args[skip:], strict=False))
        if len(args) > count:
            named[rest] = args[count:]
        if kwargs:
            named.update(kwargs)
        return named

    return arguments_of


MOST_ITEMS = 1000


class YieldedItems:
    """Collects the items that a generator yields.

    Args:
        most: How many are kept that are not all texts.
        chars: How many characters of texts are kept.
    """

    __slots__ = ("_chars", "_count", "_items", "_most", "_most_chars", "_texts")

    def __init__(self, most: int = MOST_ITEMS, chars: int = MOST_CHARS) -> None:
        self._most, self._most_chars = most, chars
        self._items: list[Any] = []
        self._count = 0
        self._chars = 0
        self._texts = True

    def add(self, item: Any) -> None:
        """Add an item."""
        self._count += 1
        if issubclass(type(item), str):
            item = plain_text(item)
            self._chars += len(item)
        else:
            self._texts = False
        if self._chars <= self._most_chars and (self._texts or self._count <= self._most):
            self._items.append(item)

    def recorded_value(self) -> Any:
        """Texts joined, or a list of items; above the limit, the first items and the number of others."""
        if self._texts:
            return "".join(self._items) if self._items else None
        left_out = self._count - len(self._items)
        return [*self._items, f"… {left_out:,} more"] if left_out else self._items


Begun = tuple[AsyncGenerator[Any, Any], AbstractContextManager[YieldedItems], Running]


def passed_on(
    made: Generator[Any, Any, R], whole: AbstractContextManager[YieldedItems], running: Running
) -> Generator[Any, Any, R]:
    """Pass a generator on to its consumer, with all that is sent and thrown into it.

    Args:
        made: The generator.
        whole: Records it from the first item to the last, and is given the items.
        running: Makes a block in which the generator's own code runs; its consumer's runs outside.
    """
    step: Callable[[], Any] = functools.partial(next, made)
    with whole as items:
        while True:
            try:
                with running():
                    item = step()
            except StopIteration as end:
                return cast("R", end.value)
            items.add(item)
            try:
                sent = yield item
            except GeneratorExit:
                with running():
                    made.close()
                raise
            except BaseException as error:  # thrown in by the consumer: the code may handle it
                step = functools.partial(made.throw, error)
            else:
                step = functools.partial(made.send, sent)


def passing_on_async(begin: Callable[P, Begun]) -> Callable[P, AsyncGenerator[Any, Any]]:
    """Make an asynchronous generator function of one that returns what :func:`passed_on` would be given."""

    @functools.wraps(begin)
    async def passing_on(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[Any, Any]:
        made, whole, running = begin(*args, **kwargs)
        step: Callable[[], Awaitable[Any]] = made.__anext__
        with whole as items:
            while True:
                try:
                    with running():
                        item = await step()
                except StopAsyncIteration:
                    return
                items.add(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    with running():
                        await made.aclose()
                    raise
                except BaseException as error:  # thrown in by the consumer: the code may handle it
                    step = functools.partial(made.athrow, error)
                else:
                    step = functools.partial(made.asend, sent)

    return passing_on


@passing_on_async
def _passed_on_async(
    made: AsyncGenerator[Any, Any], whole: AbstractContextManager[YieldedItems], running: Running
) -> Begun:
    return made, whole, running


@contextmanager
def _running(live: LiveSpan) -> Generator[None]:
    """Make the span current while the generator's own code runs, so that its spans get it as parent."""
    token = CURRENT.set(live)
    try:
        yield
    finally:
        CURRENT.reset(token)


@contextmanager
def _whole_span(live: LiveSpan) -> Generator[YieldedItems]:
    """Record the span from the first item to the last; a consumer that stops early is not a failure."""
    items = YieldedItems()
    try:
        yield items
    except GeneratorExit:
        raise
    except BaseException as error:
        live.failed(error)
        raise
    finally:
        live.record_output(items.recorded_value())
        live.close()
