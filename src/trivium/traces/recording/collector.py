"""In-memory collection, routing."""

import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.errors import InputError
from trivium.json_values import plain_text
from trivium.traces.normalize import recorded_as_text
from trivium.traces.opentelemetry.assemble import joined
from trivium.traces.recording.config import Recording, recording
from trivium.traces.recording.file_exporter import FileSink
from trivium.traces.recording.span import Above, Content, LiveSpan, Tape, plain, settled
from trivium.traces.trace import Message, SpanKind, Trace, TraceProblem

if TYPE_CHECKING:
    from trivium.traces.opentelemetry.semconv import RecordedSpan
    from trivium.traces.recording.otel_listener import HeardSpan


_COLLECTOR: ContextVar["Collector | None"] = ContextVar("trivium_collector", default=None)


class Collector:
    """Spans and messages of one block, wherever in it they are made, processes that are forked included.

    Attributes:
        heard: OpenTelemetry's spans, as they start.
        recording: What is recorded.
    """

    def __init__(self) -> None:
        self.recording = recording()
        self.content = Content(self.recording.patterns) if self.recording.content else None
        self.tape = Tape(self, os.urandom(16).hex())
        self.heard: list[HeardSpan] = []
        self._spans: list[LiveSpan] = []
        self._messages: list[Message] = []
        self._as_text: list[str] = []
        self._process = os.getpid()
        # Made by the first child that records something, and of a name that nobody guesses.
        self._folder = Path(gettempdir()) / f"trivium-{os.urandom(16).hex()}"
        self._in_a_child: FileSink | None = None
        weakref.finalize(self, _remove, self._folder, self._process)

    def started(self, span: LiveSpan) -> None:
        """Keep a span from its start, so that one that never ends is seen too."""
        if not self.is_in_a_child:
            self._spans.append(span)

    def ended(self, span: LiveSpan) -> None:
        """In a child process it is written, for the process of the block to read."""
        if self.is_in_a_child:
            self._sink_of_a_child().ended(span)

    def write(self, span: LiveSpan) -> None:
        """The block has what is open, unless it was opened in a child process."""
        if self.is_in_a_child:
            self._sink_of_a_child().write(span)

    def told(self, trace_id: str, message: Message, span: Above | None, as_text: Sequence[str]) -> None:
        """Keep a message."""
        if self.is_in_a_child:
            self._sink_of_a_child().told(trace_id, message, span, as_text)
            return
        self._as_text += as_text
        self._messages.append(msgspec.structs.replace(message, content=plain(message.content)))

    @property
    def is_in_a_child(self) -> bool:
        """Whether this is the copy that a forked process has."""
        return os.getpid() != self._process

    def settings_of_a_child(self) -> Recording:
        """What a child process is to record, and where."""
        return self._sink_of_a_child().recording

    def _sink_of_a_child(self) -> FileSink:
        if self._in_a_child is None:
            self._in_a_child = FileSink(msgspec.structs.replace(self.recording, folder=self._folder))
        return self._in_a_child

    @property
    def trace(self) -> Trace | None:
        """What was recorded until now, normalised; None when nothing was."""
        as_text = list(self._as_text)
        spans = [settled(span.record(as_text)) for span in list(self._spans)]
        messages = list(self._messages)
        problems: list[TraceProblem] = []
        heard: list[RecordedSpan] = []
        if self.heard:
            from trivium.traces.recording.otel_listener import recorded_spans

            heard = recorded_spans(list(self.heard), self.content)
        if self._folder.exists():
            from trivium.traces.readers.recorded import contents_of_folder

            children = contents_of_folder(self._folder)
            known = {span.id for span in spans}
            spans += [span for span in children.spans if span.id not in known]
            messages += children.messages
            as_text += children.as_text
            heard += children.heard
            problems += children.problems
        if not spans and not messages and not heard:
            return None
        # What stands above the outermost of these is around the block.
        inside = {span.id for span in heard}
        heard = [
            span
            if span.parent is None or span.parent in inside
            else msgspec.structs.replace(span, parent=None)
            for span in heard
        ]
        problems += recorded_as_text(as_text)
        return joined(spans, messages, heard, trace_id=self.tape.trace_id, problems=problems)


def _remove(folder: Path, process: int) -> None:
    """Remove what child processes wrote, in the process that reads it."""
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)


def collector() -> Collector | None:
    """That of the block that runs, or None."""
    return _COLLECTOR.get()


@contextmanager
def recorded() -> Iterator[Collector]:
    """Collect what is recorded within into ``.trace``; nothing of it is written to a file.

    Threads that are started within belong to it where they carry its context (:func:`trivium.trace.carried`).

    Examples:
        >>> import trivium as tv
        >>> with tv.trace.recorded() as recorded, tv.trace.tool("add", input={"a": 1}) as span:
        ...     span.output = 2
        >>> recorded.trace.tool_calls[0].output
        2
    """
    # Where OpenTelemetry is at work, agents may be instrumented: their spans belong here too.
    if "opentelemetry.sdk.trace" in sys.modules:
        from trivium.traces.recording.otel_listener import listen_if_there

        listen_if_there()
    made = Collector()
    token = _COLLECTOR.set(made)
    try:
        yield made
    finally:
        _COLLECTOR.reset(token)


CURRENT: ContextVar[Above | None] = ContextVar("trivium_span", default=None)


class _Files:
    """The file of this process, for the settings in force."""

    recording: Recording | None = None
    sink: FileSink | None = None


class Heard:
    """How to find the span of OpenTelemetry that is open here; set where one is listened to."""

    here: Callable[[], Above | None] | None = None


def innermost() -> Above | None:
    """The span that is open here, of our own or of OpenTelemetry's: of two the one that began later."""
    own = CURRENT.get()
    heard = None if Heard.here is None else Heard.here()
    if own is None or heard is None:
        return own or heard
    return own if own.number > heard.number else heard


def tape_of(above: Above | None) -> Tape | None:
    """The tape that a new span or message goes to; None when nothing is recorded."""
    collecting = collector()
    if collecting is not None:
        # A block that collects begins a trace of its own, whatever is open around it.
        return collecting.tape
    if above is not None and above.tape is not None:
        return above.tape
    settings = recording()
    if settings.folder is None:
        return None
    if _Files.recording is not settings or _Files.sink is None:
        _Files.sink, _Files.recording = FileSink(settings), settings
    return Tape(_Files.sink, None if above is None else above.trace_id)


def begin(kind: SpanKind, name: str, agent: str | None) -> LiveSpan | None:
    """A new span below the one that is open here, or None when nothing is recorded."""
    above = innermost()
    tape = tape_of(above)
    if tape is None:
        return None
    return LiveSpan(tape, kind, name, above if _within(above, tape) else None, agent)


def _within(above: Above | None, tape: Tape) -> bool:
    """Whether a span is of the trace of a tape, and not of one around the block that collects."""
    return above is not None and (above.tape is None or above.tape is tape)


def _at_work(above: Above | None) -> str | None:
    """The agent that is at work in a span."""
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
    """Say what one agent sends another.

    Args:
        receiver: Who it is for.
        content: What is sent, any value.
        sender: Who sends it; the agent that is at work when not given.
        type: task_request, result_delivery, data_transfer, coordination, status_update, handoff, or a word
            of the suite's own (spec: metrics, T3.8).

    Raises:
        InputError: If no sender is given and no agent is at work.
    """
    from time import time

    above = innermost()
    tape = tape_of(above)
    if tape is None:
        return
    span = above if _within(above, tape) else None
    known = _at_work(span) if sender is None else plain_text(sender)
    if not known:
        raise InputError("sender", "is missing, and no agent is at work that could be it")
    made = tape.sink.content
    as_text: list[str] = []
    told = None if made is None else made.value(content, as_text)
    tape.sink.told(
        tape.trace_id,
        Message(
            sender=known, receiver=plain_text(receiver), type=plain_text(type), time=time(), content=told
        ),
        span,
        as_text,
    )
