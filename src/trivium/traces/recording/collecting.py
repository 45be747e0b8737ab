"""Collecting: what is recorded within a block becomes one trace, and no file is written."""

import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir
from typing import TYPE_CHECKING

import msgspec

from trivium.traces.opentelemetry.joining import joined
from trivium.traces.recording.configuring import Recording, recording
from trivium.traces.recording.content import Content
from trivium.traces.recording.file import FileSink
from trivium.traces.recording.live import Above, LiveSpan, Tape, plain, settled
from trivium.traces.repair import recorded_as_text
from trivium.traces.trace import Message, Trace, TraceProblem

if TYPE_CHECKING:
    from trivium.traces.opentelemetry.recorded import RecordedSpan
    from trivium.traces.recording.listening import HeardSpan

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
            from trivium.traces.recording.listening import recorded_spans

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
        from trivium.traces.recording.listening import listen_if_there

        listen_if_there()
    made = Collector()
    token = _COLLECTOR.set(made)
    try:
        yield made
    finally:
        _COLLECTOR.reset(token)
