"""Records the spans of agents that OpenTelemetry instruments, through a span processor."""

import logging
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.any_object import plain_text
from trivium.errors import MissingExtra
from trivium.traces.opentelemetry import semconv
from trivium.traces.opentelemetry.semconv import IS_REMOTE, RecordedSpan, recognised, tagged_value
from trivium.traces.recording.collector import CURRENT, Collector, OtelHooks, collector
from trivium.traces.recording.config import Recording, recording
from trivium.traces.recording.file_exporter import FileSink
from trivium.traces.recording.span import Content, ParentSpan, new_number, write_open_parents
from trivium.values import JsonObject

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider

log = logging.getLogger(__name__)

_CONTENT_WORDS = (
    "input",
    "output",
    "message",
    "prompt",
    "completion",
    "content",
    "argument",
    "result",
    "event",
    "response",
)
"""Parts of attribute names: text under such a name is content."""

_SPANS: "weakref.WeakValueDictionary[int, OtelSpan]" = weakref.WeakValueDictionary()
"""Recorded spans by id; weak, because their collector or ``_OPEN_SPANS`` holds them."""

_OPEN_SPANS: "dict[int, OtelSpan]" = {}
"""Open spans that go to a file."""


class OtelSpan:
    """A span of OpenTelemetry, as a possible parent of other spans.

    Attributes:
        span: The span.
        collector: The collector of its block; None where it goes to a file.
        parent: Its parent: the nearest span of ``trivium.trace`` or of OpenTelemetry.
        listener: The listener that records it.
    """

    recorder = None

    def __init__(
        self, span: "Span", listener: "Listener", collecting: Collector | None, parent: ParentSpan | None
    ) -> None:
        context = span.get_span_context()
        self.span: ReadableSpan = span
        self.collector = None if collecting is None else weakref.ref(collecting)
        self.parent = parent
        self.id = f"{context.span_id:016x}"
        self.trace_id = f"{context.trace_id:032x}" if parent is None else parent.trace_id
        self.number = new_number()
        self.is_written = collecting is not None
        self.listener = listener

    @property
    def agent(self) -> str | None:
        """The agent that its attributes name, or None."""
        attributes = recognised((self.span.attributes or {}).items())
        name = attributes.get(semconv.AGENT) or attributes.get(semconv.LEGACY_AGENT)
        return None if name is None else plain_text(name)

    def settings(self) -> Recording:
        """The recording settings of its trace, if another process started it; else the current ones."""
        parent = self.parent
        while isinstance(parent, OtelSpan):
            parent = parent.parent
        return recording() if parent is None or parent.recorder is None else parent.recorder.sink.recording

    def write(self) -> None:
        """Write it as it is now."""
        self.listener.write(self)


class Listener:
    """A span processor that passes spans to the collecting block, or writes them to a file.

    Files hold one OTLP/JSON request per line, as the file exporter of OpenTelemetry's Collector writes them,
    so that spans are stored completely.

    Attributes:
        writes: Whether spans outside of a collecting block are written.
    """

    def __init__(self) -> None:
        self.writes = False
        self._sink: FileSink | None = None

    def on_start(self, span: "Span", parent_context: "Context | None" = None) -> None:
        """A span was opened."""
        try:
            self._started(span)
        except Exception as error:  # no reason to fail an agent
            log.warning("a span cannot be recorded: %s", error)

    def _started(self, span: "Span") -> None:
        context = span.get_span_context()
        if context is None or context.span_id in _SPANS:
            return
        around = None if span.parent is None else _SPANS.get(span.parent.span_id)
        collecting = collector() or (around.collector() if around is not None and around.collector else None)
        if collecting is None and not self.writes:
            return
        if around is not None and (around.collector and around.collector()) is not collecting:
            around = None
        own = CURRENT.get()
        if own is not None and not _same_destination(own, collecting):
            own = None
        later = own is not None and (around is None or own.number > around.number)
        otel_span = OtelSpan(span, self, collecting, own if later else around)
        _SPANS[context.span_id] = otel_span
        if collecting is None:
            _OPEN_SPANS[context.span_id] = otel_span
        else:
            collecting.otel_spans.append(otel_span)

    def _on_ending(self, span: "Span") -> None:
        """Do nothing; OpenTelemetry calls this hook before a span ends."""

    def on_end(self, span: "ReadableSpan") -> None:
        """A span was closed: write it, after its parents that are still open."""
        context = span.get_span_context()
        otel_span = None if context is None else _SPANS.get(context.span_id)
        if context is None or otel_span is None or otel_span.listener is not self:
            return
        otel_span.span = span
        if otel_span.collector is None:
            _OPEN_SPANS.pop(context.span_id, None)
            write_open_parents(otel_span.parent)
        elif (collecting := otel_span.collector()) is None or not collecting.is_forked_child:
            return
        otel_span.is_written = True
        self.write(otel_span)

    def shutdown(self) -> None:
        """Do nothing: spans are written as they end."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: spans are written as they end."""
        return True

    def write(self, otel_span: OtelSpan) -> None:
        """Write a span as it is now."""
        collecting = otel_span.collector() if otel_span.collector else None
        settings = otel_span.settings() if collecting is None else collecting.child_settings()
        if settings.folder is None:
            return
        sink = self._sink
        if sink is None or sink.recording is not settings:
            sink = self._sink = FileSink(settings, "otlp")
        sink.append(lambda: request([otel_span], sink.content))


def _same_destination(own: ParentSpan, collecting: Collector | None) -> bool:
    """Whether a span of ``trivium.trace`` goes to the same collector or file as one of OpenTelemetry."""
    if own.recorder is None:
        return False
    return own.recorder.sink is collecting if collecting else not isinstance(own.recorder.sink, Collector)


def _current_otel_span() -> OtelSpan | None:
    """The open span of OpenTelemetry; None if it belongs to another collector than the current one."""
    from opentelemetry.trace import get_current_span

    otel_span = _SPANS.get(get_current_span().get_span_context().span_id)
    if otel_span is None or (otel_span.collector and otel_span.collector()) is not collector():
        return None
    return otel_span


def listen(provider: "TracerProvider | None" = None) -> None:
    """Record agents that are instrumented for OpenTelemetry: PydanticAI, OpenAI Agents, LangGraph and others.

    Args:
        provider: The tracer provider; the global one by default, which is created if there is none.

    Raises:
        MissingExtra: If OpenTelemetry's SDK is not installed.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        raise MissingExtra("otel", "recording OpenTelemetry's spans") from None
    if provider is None:
        current = trace.get_tracer_provider()
        if not isinstance(current, TracerProvider):
            current = TracerProvider()
            trace.set_tracer_provider(current)
        provider = current
    listener_of(provider).writes = True


def listener_of(provider: Any) -> Listener:
    """The listener of a provider or span processor; added if there is none."""
    processor = getattr(provider, "_active_span_processor", provider)
    for known in getattr(processor, "_span_processors", ()):
        if isinstance(known, Listener):
            return known
    made = Listener()
    provider.add_span_processor(made)
    OtelHooks.current_span = _current_otel_span
    return made


def listen_to_global_provider() -> None:
    """Add a listener for collecting blocks to the global provider, if the program has set one up."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        listener_of(provider)


def recorded_spans(otel_spans: Sequence[OtelSpan], content: Content | None) -> list[RecordedSpan]:
    """Convert spans to recorded ones, through the same reader as files."""
    from trivium.traces.readers.otlp.json import spans_of_json

    return spans_of_json(msgspec.json.encode(request(otel_spans, content)), source="") if otel_spans else []


def request(spans: Iterable[OtelSpan], content: Content | None) -> JsonObject:
    """Make an OTLP/JSON request. An attribute names the parent of a span below one of ``trivium.trace``.

    Args:
        spans: Ended or open spans.
        content: Masks contents; None leaves them out.
    """
    return {"resourceSpans": [{"scopeSpans": [_scope_spans(otel_span, content) for otel_span in spans]}]}


def _scope_spans(otel_span: OtelSpan, content: Content | None) -> JsonObject:
    scope = otel_span.span.instrumentation_scope
    name = "" if scope is None else plain_text(scope.name)
    return {"scope": {"name": name}, "spans": [_span(otel_span, content)]}


def _span(otel_span: OtelSpan, content: Content | None) -> JsonObject:
    span, above, parent = otel_span.span, otel_span.parent, otel_span.span.parent
    context = span.get_span_context()
    attributes = _attributes(span.attributes or {}, content)
    if above is not None and not isinstance(above, OtelSpan):
        link = {"stringValue": f"{above.trace_id}/{above.id}"}
        attributes.append({"key": semconv.TRIVIUM_PARENT, "value": link})
    status: JsonObject = {"code": span.status.status_code.value}
    if span.status.description and content is not None:
        status["message"] = content.text(span.status.description)
    events = [
        {
            "name": plain_text(event.name),
            "timeUnixNano": str(event.timestamp),
            "attributes": _attributes(event.attributes or {}, content),
        }
        for event in span.events
    ]
    made = {
        "traceId": f"{context.trace_id:032x}" if context else "",
        "spanId": f"{context.span_id:016x}" if context else "",
        "parentSpanId": None if parent is None else f"{parent.span_id:016x}",
        "flags": IS_REMOTE if parent is not None and parent.is_remote else None,
        "name": plain_text(span.name),
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time or 0),
        "endTimeUnixNano": None if span.end_time is None else str(span.end_time),
        "attributes": attributes,
        "status": status,
        "events": events or None,
    }
    return {key: value for key, value in made.items() if value is not None}


def _attributes(attributes: Mapping[str, Any], content: Content | None) -> list[JsonObject]:
    named = [(plain_text(key), value) for key, value in attributes.items()]
    text = plain_text if content is None else content.text
    return [
        {"key": key, "value": tagged_value(value, text)}
        for key, value in named
        if content is not None
        or not (_holds_text(value) and any(part in key.lower() for part in _CONTENT_WORDS))
    ]


def _holds_text(value: Any) -> bool:
    return not isinstance(value, bool | int | float)


OtelHooks.listen = listen_to_global_provider
OtelHooks.convert = recorded_spans
