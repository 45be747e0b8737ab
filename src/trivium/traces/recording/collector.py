"""Collects recorded spans and messages of one block in memory, and routes new ones.

A new span goes to the collector of the enclosing ``recorded()`` block; outside of such a block it goes to the
file of this process. :func:`carried` takes the current span into another thread or process. ``otel_listener``
registers callbacks in :class:`OtelHooks`, so that spans of OpenTelemetry are collected too without this
module importing it.
"""

import contextvars
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, ClassVar, Generic, ParamSpec, TypeVar

import msgspec

from trivium.any_object import plain_text
from trivium.errors import InputError
from trivium.traces.opentelemetry.assemble import merged_trace
from trivium.traces.recording.config import Recording, recording
from trivium.traces.recording.file_exporter import FileSink
from trivium.traces.recording.span import (
    Content,
    LiveSpan,
    ParentSpan,
    Sink,
    TraceRecorder,
    decoded,
)
from trivium.traces.trace import Message, RecordedLine, SpanKind, Trace, TraceProblem

if TYPE_CHECKING:
    from trivium.traces.opentelemetry.semconv import RecordedSpan


P = ParamSpec("P")
R = TypeVar("R")

_COLLECTOR: ContextVar["Collector | None"] = ContextVar("trivium_collector", default=None)


class OtelHooks:
    """Callbacks that ``otel_listener`` registers, since it imports this module.

    Attributes:
        listen: Attaches a listener to the global tracer provider, where the program has set one up.
        convert: Turns the spans in ``Collector.otel_spans`` into recorded ones.
        current_span: The open span of OpenTelemetry; set once a provider has a listener.
    """

    listen: ClassVar[Callable[[], None]]
    convert: ClassVar[Callable[[Sequence[Any], Content | None], "list[RecordedSpan]"]]
    current_span: ClassVar[Callable[[], ParentSpan | None] | None] = None


class Collector:
    """Collects the spans and messages of one block, including those of forked child processes.

    Attributes:
        otel_spans: Spans of OpenTelemetry, in the order in which they start.
        recording: The recording settings at the start of the block.
    """

    def __init__(self) -> None:
        self.recording = recording()
        self.content = Content(self.recording.patterns) if self.recording.content else None
        self.recorder = TraceRecorder(self, os.urandom(16).hex())
        self.otel_spans: list[Any] = []
        self._items: list[LiveSpan | RecordedLine] = []
        self._process = os.getpid()
        # The first child process that records something creates it; the name cannot be guessed.
        self._folder = Path(gettempdir()) / f"trivium-{os.urandom(16).hex()}"
        self._file_of_child: FileSink | None = None
        weakref.finalize(self, _remove, self._folder, self._process)

    def started(self, span: LiveSpan) -> None:
        """Collect a span when it starts, so that one that never ends is included."""
        if not self.is_forked_child:
            self._items.append(span)

    def ended(self, span: LiveSpan) -> None:
        """In a child process, write the span to a file that the process of the block reads."""
        if self.is_forked_child:
            self._child_sink().ended(span)

    def write(self, span: LiveSpan) -> None:
        """In a child process, write the open span; the parent process holds its own in memory."""
        if self.is_forked_child:
            self._child_sink().write(span)

    def message_sent(self, message: RecordedLine, span: ParentSpan | None) -> None:
        """Collect a message."""
        if self.is_forked_child:
            self._child_sink().message_sent(message, span)
        else:
            self._items.append(message)

    @property
    def is_forked_child(self) -> bool:
        """Whether this is the copy in a forked process."""
        return os.getpid() != self._process

    def child_settings(self) -> Recording:
        """The recording settings for a child process."""
        return self._child_sink().recording

    def _child_sink(self) -> FileSink:
        if self._file_of_child is None:
            self._file_of_child = FileSink(msgspec.structs.replace(self.recording, folder=self._folder))
        return self._file_of_child

    @property
    def trace(self) -> Trace | None:
        """The normalised trace of everything recorded so far; None when nothing was."""
        lines = [decoded(item.line() if isinstance(item, LiveSpan) else item) for item in list(self._items)]
        problems: list[TraceProblem] = []
        otel_spans: list[RecordedSpan] = []
        if self.otel_spans:
            otel_spans = OtelHooks.convert(list(self.otel_spans), self.content)
        if self._folder.exists():
            from trivium.traces.readers.recorded import contents_of_folder

            known = {line.span.id for line in lines if line.span is not None}
            children, their_spans, problems = contents_of_folder(self._folder)
            lines += [line for line in children if line.span is None or line.span.id not in known]
            otel_spans += their_spans
        if not lines and not otel_spans:
            return None
        # A parent outside of the block is not part of this trace.
        inside = {span.id for span in otel_spans}
        for span in otel_spans:
            span.parent = span.parent if span.parent in inside else None
        return merged_trace(lines, otel_spans, trace_id=self.recorder.trace_id, problems=problems)


def _remove(folder: Path, process: int) -> None:
    """Remove the files of child processes, in the process of the block only."""
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)


def collector() -> Collector | None:
    """The collector of the current block, or None."""
    return _COLLECTOR.get()


@contextmanager
def recorded() -> Iterator[Collector]:
    """Collect everything recorded within the block into ``.trace``, instead of writing it to a file.

    Threads started within belong to it if they carry its context (:func:`trivium.trace.carried`).

    Examples:
        >>> import trivium as tv
        >>> with tv.trace.recorded() as recorded, tv.trace.tool("add", input={"a": 1}) as span:
        ...     span.output = 2
        >>> recorded.trace.tool_calls[0].output
        2
    """
    new_collector = Collector()
    with collecting(new_collector):
        yield new_collector


@contextmanager
def collecting(into: Collector) -> Iterator[None]:
    """Collect what is recorded within the block into a collector."""
    # If the program uses OpenTelemetry, agents may be instrumented: their spans belong here too.
    if "opentelemetry.sdk.trace" in sys.modules:
        OtelHooks.listen()
    token = _COLLECTOR.set(into)
    try:
        yield
    finally:
        _COLLECTOR.reset(token)


CURRENT: ContextVar[ParentSpan | None] = ContextVar("trivium_span", default=None)


class _ProcessSink:
    """The file sink of this process, the settings it was made for, and what takes its place."""

    recording: Recording | None = None
    sink: FileSink | None = None
    instead: Sink | None = None


def send_to(sink: Sink | None) -> None:
    """Send what is recorded outside of ``recorded()`` blocks to a sink instead of a file; None ends that."""
    _ProcessSink.instead = sink


def current_parent() -> ParentSpan | None:
    """The innermost open span, recorded by ``trivium.trace`` or by OpenTelemetry, whichever started later."""
    own = CURRENT.get()
    otel_span = None if OtelHooks.current_span is None else OtelHooks.current_span()
    if own is None or otel_span is None:
        return own or otel_span
    return own if own.number > otel_span.number else otel_span


def recorder_for(above: ParentSpan | None) -> TraceRecorder | None:
    """The recorder for a new span or message; None when nothing is recorded."""
    collecting = collector()
    if collecting is not None:
        # A collecting block starts a new trace, even inside an open span.
        return collecting.recorder
    if above is not None and above.recorder is not None:
        return above.recorder
    if _ProcessSink.instead is not None:
        return TraceRecorder(_ProcessSink.instead, None if above is None else above.trace_id)
    settings = recording()
    if settings.folder is None:
        return None
    if _ProcessSink.recording is not settings or _ProcessSink.sink is None:
        _ProcessSink.sink, _ProcessSink.recording = FileSink(settings), settings
    return TraceRecorder(_ProcessSink.sink, None if above is None else above.trace_id)


def start_span(kind: SpanKind, name: str, agent: str | None) -> LiveSpan | None:
    """Start a span below the current one; None when nothing is recorded."""
    above = current_parent()
    recorder = recorder_for(above)
    if recorder is None:
        return None
    return LiveSpan(recorder, kind, name, above if _within(above, recorder) else None, agent)


def _within(above: ParentSpan | None, recorder: TraceRecorder) -> bool:
    """Whether a span belongs to the trace of a recorder, not to one around the collecting block."""
    return above is not None and (above.recorder is None or above.recorder is recorder)


def _acting_agent(above: ParentSpan | None) -> str | None:
    """The agent of a span or of its nearest ancestor that has one."""
    while above is not None and above.agent is None:
        above = above.parent
    return None if above is None else above.agent


def message(
    receiver: str,
    content: Any = None,
    *,
    sender: str | None = None,
    type: str = "task_request",  # noqa: A002
) -> None:
    """Record a message from one agent to another.

    Args:
        receiver: Name of the receiving agent.
        content: The content, any value.
        sender: Name of the sending agent; the current agent when not given.
        type: task_request, result_delivery, data_transfer, coordination, status_update, handoff, or a word
            of the suite's own (docs/definitions/traces.md#messages).

    Raises:
        InputError: If no sender is given and there is no current agent.
    """
    from time import time

    above = current_parent()
    recorder = recorder_for(above)
    if recorder is None:
        return
    span = above if _within(above, recorder) else None
    known_sender = _acting_agent(span) if sender is None else plain_text(sender)
    if not known_sender:
        raise InputError("sender", "is missing, and there is no current agent to use instead")
    masking = recorder.sink.content
    as_text: list[str] = []
    made = Message(
        sender=known_sender,
        receiver=plain_text(receiver),
        type=plain_text(type),
        time=time(),
        content=None if masking is None else masking.value(content, as_text),
    )
    line = RecordedLine(trace_id=recorder.trace_id, message=made, as_text=tuple(as_text))
    recorder.sink.message_sent(line, span)


class RemoteSpan:
    """Stands for the parent span, which is open in another process.

    Args:
        settings: The recording settings, with the folder of the files.
        trace_id: Id of the trace.
        span_id: Id of the span that was open.
        agent: The agent of that span.
    """

    parent = None
    is_written = True
    number = 0

    def __init__(self, settings: Recording, trace_id: str, span_id: str, agent: str | None) -> None:
        self.id, self.trace_id, self.agent = span_id, trace_id, agent
        self.recorder = TraceRecorder(_sink(settings), trace_id)

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


def _remote_parent() -> tuple[Recording, str, str, str | None] | None:
    """The arguments of :class:`RemoteSpan` for the current span; None where nothing is recorded or open."""
    above = current_parent()
    recorder = recorder_for(above)
    if recorder is None or above is None:
        return None
    collecting = collector()
    settings = recorder.sink.recording if collecting is None else collecting.child_settings()
    return settings, recorder.trace_id, above.id, above.agent


def _in_another_process(
    function: Callable[P, R], parent: tuple[Recording, str, str, str | None] | None
) -> Callable[P, R]:
    if parent is None:
        return function

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        token = CURRENT.set(RemoteSpan(*parent))
        try:
            return function(*args, **kwargs)
        finally:
            CURRENT.reset(token)

    return call
