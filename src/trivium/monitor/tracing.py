"""Gives a monitor every trace that an application records, by ``trivium.trace`` or OpenTelemetry."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from trivium.store.live_records import room
from trivium.traces.opentelemetry.assemble import merged_trace
from trivium.traces.recording.collector import send_to
from trivium.traces.recording.config import Recording, recording
from trivium.traces.recording.span import Content, LiveSpan, ParentSpan, decoded
from trivium.traces.trace import RecordedLine, Trace, cut_trace

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span

OPEN_TRACES = 1000
"""Traces that may be open at a time; of more, the oldest are left out and counted."""

Done = Callable[[str, Callable[[], Trace]], None]
"""Called with the id of a trace whose root has ended, and with what makes the trace of it."""


class _OpenTrace:
    """The contents of an open trace: its spans and messages, and the number of those left out."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.left_out = 0


class _OpenTraces:
    """Traces whose root has not ended, the oldest first.

    Args:
        done: Called with each trace whose root has ended.
        dropped: Called with the reason when something is left out.
        max_spans: Most spans and messages of a trace.
        recording: The recording settings, which say whether contents are kept and what is masked.
    """

    def __init__(
        self, done: Done, dropped: Callable[[str], None], *, max_spans: int, recording: Recording
    ) -> None:
        self.recording = recording
        self.content = Content(recording.patterns) if recording.content else None
        self._done = done
        self._dropped = dropped
        self._max_spans = max_spans
        self._lock = Lock()
        self._open: OrderedDict[str, _OpenTrace] = OrderedDict()

    def add(self, trace_id: str, item: Any, *, tenths: int = 0) -> None:
        """Add something to a trace, which is opened if it is not.

        Args:
            trace_id: Id of the trace.
            item: A span or a message.
            tenths: How far beyond the limit it has room.
        """
        with self._lock:
            found = self._open.setdefault(trace_id, _OpenTrace())
            if len(found.items) < room(self._max_spans, tenths):
                found.items.append(item)
            else:
                found.left_out += 1
                if found.left_out == 1:
                    self._dropped("too_many_spans")
            if len(self._open) > OPEN_TRACES:
                self._open.popitem(last=False)
                self._dropped("open_traces")

    def keep_failed(self, trace_id: str, item: Any) -> None:
        """Add a span that failed, if it was left out when it started."""
        with self._lock:
            found = self._open.get(trace_id)
            if found is None or not found.left_out or any(each is item for each in found.items):
                return
            if len(found.items) < room(self._max_spans, 1):
                found.items.append(item)
                found.left_out -= 1

    def end(self, trace_id: str, make: Callable[[list[Any]], Trace]) -> None:
        """Hand a trace over whose root has ended."""
        with self._lock:
            found = self._open.pop(trace_id, None)
        if found is not None:
            self._done(trace_id, lambda: cut_trace(make(found.items), found.left_out))


class TraceSink(_OpenTraces):
    """Receives what ``trivium.trace`` records outside of evaluations."""

    def started(self, span: LiveSpan) -> None:
        """Keep a span when it starts, so that one that never ends is part of its trace."""
        self.add(span.recorder.trace_id, span)

    def ended(self, span: LiveSpan) -> None:
        """Hand the trace over if this is its root."""
        trace_id = span.recorder.trace_id
        if span.ok is False:
            self.keep_failed(trace_id, span)
        if span.parent is None:
            self.end(trace_id, lambda items: _trace_of(trace_id, items))

    def write(self, span: LiveSpan) -> None:
        """Do nothing: a trace is written when its root ends."""

    def message_sent(self, message: RecordedLine, span: ParentSpan | None) -> None:
        """Keep a message."""
        self.add(message.trace_id, message)


def _trace_of(trace_id: str, items: Sequence[LiveSpan | RecordedLine]) -> Trace:
    lines = [decoded(item.line() if isinstance(item, LiveSpan) else item) for item in items]
    return merged_trace(lines, [], trace_id=trace_id)


class MonitorSpanProcessor(_OpenTraces):
    """A span processor of OpenTelemetry that gives a monitor each trace when its local root has ended."""

    def on_start(self, span: "Span", parent_context: "Context | None" = None) -> None:
        """Do nothing: a span is kept when it ends."""

    def _on_ending(self, span: "Span") -> None:
        """Do nothing; OpenTelemetry calls this hook before a span ends."""

    def on_end(self, span: "ReadableSpan") -> None:
        """Keep a span, and hand its trace over if it is the local root."""
        context = span.get_span_context()
        if context is None or not context.trace_flags.sampled:
            return
        trace_id = f"{context.trace_id:032x}"
        root = span.parent is None or span.parent.is_remote
        self.add(trace_id, span, tenths=2 if root else 0 if span.status.is_ok else 1)
        if root:
            self.end(trace_id, self._trace)

    def shutdown(self) -> None:
        """Do nothing: a monitor is closed by itself."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: ``Monitor.flush`` waits for the store."""
        return True

    def _trace(self, spans: list[Any]) -> Trace:
        from trivium.traces.opentelemetry.assemble import traces_of
        from trivium.traces.recording.otel_listener import Listener, OtelSpan, recorded_spans

        listener = Listener()
        wrapped = [OtelSpan(span, listener, None, None) for span in spans]
        return traces_of(recorded_spans(wrapped, self.content))[0]


def listen(done: Done, dropped: Callable[[str], None], *, max_spans: int, provider: Any = None) -> None:
    """Give a monitor what ``trivium.trace`` records outside of evaluations, which no file then gets.

    Args:
        done: Called with each trace whose root has ended.
        dropped: Called with the reason when something is left out.
        max_spans: Most spans and messages of a trace.
        provider: Tracer provider of OpenTelemetry, whose spans it is given too.
    """
    config = recording()
    send_to(TraceSink(done, dropped, max_spans=max_spans, recording=config))
    if provider is not None:
        provider.add_span_processor(
            MonitorSpanProcessor(done, dropped, max_spans=max_spans, recording=config)
        )


def stop_listening() -> None:
    """Let ``trivium.trace`` write files again."""
    send_to(None)
