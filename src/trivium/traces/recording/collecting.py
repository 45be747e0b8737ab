"""Collecting: what is recorded within a block becomes one trace, and no file is written."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

from trivium.traces.recording.configuring import recording
from trivium.traces.recording.content import Content
from trivium.traces.recording.live import LiveSpan, Tape, plain, settled
from trivium.traces.repair import normalise, recorded_as_text
from trivium.traces.trace import Message, Trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_COLLECTOR: ContextVar["Collector | None"] = ContextVar("trivium_collector", default=None)


class Collector:
    """Spans and messages of one block, wherever in it they are made.

    Attributes:
        heard: OpenTelemetry's spans by their ids, as they start.
    """

    def __init__(self) -> None:
        settings = recording()
        self.content = Content(settings.patterns) if settings.content else None
        self.tape = Tape(self, os.urandom(16).hex())
        self.heard: dict[int, ReadableSpan] = {}
        self._spans: list[LiveSpan] = []
        self._messages: list[Message] = []
        self._as_text: list[str] = []

    def started(self, span: LiveSpan) -> None:
        """Keep a span from its start, so that one that never ends is seen too."""
        self._spans.append(span)

    def ended(self, span: LiveSpan) -> None:
        """It is kept already."""

    def told(self, trace_id: str, message: Message, span: LiveSpan | None, as_text: Sequence[str]) -> None:
        """Keep a message."""
        self._as_text += as_text
        self._messages.append(msgspec.structs.replace(message, content=plain(message.content)))

    @property
    def trace(self) -> Trace | None:
        """What was recorded until now, normalised; None when nothing was."""
        as_text = list(self._as_text)
        spans = [settled(span.record(as_text)) for span in list(self._spans)]
        messages = list(self._messages)
        heard = list(self.heard.values())
        if heard:
            from trivium.traces.recording.listening import traces_heard

            for trace in traces_heard(heard, self.content):
                spans += trace.spans
                messages += trace.messages
        if not spans and not messages:
            return None
        problems = recorded_as_text(as_text)
        return normalise(spans, messages, trace_id=self.tape.trace_id, problems=problems, nested="unsaid")


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
