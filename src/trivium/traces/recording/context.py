"""Carries the current span into another thread or process, so that spans there get it as their parent."""

import contextvars
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from trivium.traces.recording.collector import CURRENT, collector, current_parent, recorder_for
from trivium.traces.recording.config import Recording
from trivium.traces.recording.file_exporter import FileSink
from trivium.traces.recording.span import TraceRecorder

P = ParamSpec("P")
R = TypeVar("R")


class RemoteParent(NamedTuple):
    """The parent span of spans in another process, as it is sent to that process.

    Attributes:
        settings: The recording settings, with the folder of the files.
        trace_id: Id of the trace.
        span_id: Id of the span that was open.
        agent: The agent of that span.
    """

    settings: Recording
    trace_id: str
    span_id: str
    agent: str | None


class RemoteSpan:
    """Stands for the parent span, which is open in another process."""

    parent = None
    is_written = True
    number = 0

    def __init__(self, parent: RemoteParent) -> None:
        self.id = parent.span_id
        self.trace_id = parent.trace_id
        self.agent = parent.agent
        self.recorder = TraceRecorder(_sink(parent.settings), parent.trace_id)

    def write(self) -> None:
        """Do nothing: its own process writes it."""


@cache
def _sink(settings: Recording) -> FileSink:
    return FileSink(settings)


class CarriedFunction(Generic[P, R]):
    """A function with the context in which it was made; can be called by a thread or sent to a process."""

    def __init__(self, function: Callable[P, R]) -> None:
        self._function = function
        self._context = contextvars.copy_context()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function in its context."""
        # A context is entered by one thread at a time, and the function may be called by many.
        return self._context.copy().run(self._function, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the function with its parent span in place of its context."""
        return _in_another_process, (self._function, self._context.run(_remote_parent))


def carried(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function for another thread or process, so that its spans get the current span as parent.

    For a process the function must be picklable, as every function at the top of a module is.

    Examples:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> with ThreadPoolExecutor() as pool:
        ...     pool.submit(carried(len), "abc").result()
        3
    """
    return CarriedFunction(function)


def _remote_parent() -> RemoteParent | None:
    """The current span as a parent for another process; None where nothing is recorded or open."""
    above = current_parent()
    recorder = recorder_for(above)
    if recorder is None or above is None:
        return None
    collecting = collector()
    settings = recorder.sink.recording if collecting is None else collecting.child_settings()
    return RemoteParent(settings, recorder.trace_id, above.id, above.agent)


def _in_another_process(function: Callable[P, R], parent: RemoteParent | None) -> Callable[P, R]:
    if parent is None:
        return function

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        token = CURRENT.set(RemoteSpan(parent))
        try:
            return function(*args, **kwargs)
        finally:
            CURRENT.reset(token)

    return call
