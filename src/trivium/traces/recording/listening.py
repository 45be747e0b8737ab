"""Listening: agents that OpenTelemetry instruments are recorded too, by one line."""

import logging
import weakref
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.errors import MissingExtra
from trivium.jsonable import encode, plain_text
from trivium.traces.recording.collecting import collector
from trivium.traces.recording.configuring import Recording, recording
from trivium.traces.recording.content import Content
from trivium.traces.recording.file import LineFile
from trivium.traces.trace import Trace

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider

log = logging.getLogger(__name__)

_ENCODE = msgspec.json.Encoder().encode

_SAYS = (
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
"""Parts of the names of attributes that hold what was said: a text under such a name is content."""

_LISTENED: "weakref.WeakSet[Any]" = weakref.WeakSet()


class Listener:
    """A span processor that gives spans to the block that collects them, or writes them to a file.

    Files hold one OTLP/JSON request a line, as the collector's file exporter writes them, so that nothing of
    a span is lost.
    """

    def __init__(self) -> None:
        self._open: dict[int, tuple[Span, bool]] = {}
        self._collecting: set[int] = set()
        self._settings: Recording | None = None
        self._content: Content | None = None
        self._file: LineFile | None = None

    def on_start(self, span: "Span", parent_context: "Context | None" = None) -> None:
        """A span was opened."""
        context = span.get_span_context()
        collecting = collector()
        if collecting is not None:
            collecting.heard[context.span_id] = span
            self._collecting.add(context.trace_id)
            weakref.finalize(collecting, self._collecting.discard, context.trace_id)
        elif context.trace_id not in self._collecting:
            self._open[context.span_id] = (span, False)

    def _on_ending(self, span: "Span") -> None:
        """OpenTelemetry's hook between the two; nothing is to be done."""

    def on_end(self, span: "ReadableSpan") -> None:
        """A span was closed: written after those above it that are open."""
        context = span.get_span_context()
        if context is None or self._open.pop(context.span_id, None) is None:
            return
        above = []
        parent = span.parent
        while parent is not None and (found := self._open.get(parent.span_id)) is not None and not found[1]:
            self._open[parent.span_id] = (found[0], True)
            above.append(found[0])
            parent = found[0].parent
        for each in [*reversed(above), span]:
            self._write(each)

    def shutdown(self) -> None:
        """Nothing waits to be written."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing waits to be written."""
        return True

    def _write(self, span: "ReadableSpan") -> None:
        settings = recording()
        if settings.folder is None:
            return
        if self._settings is not settings or self._file is None:
            self._settings, self._file = settings, LineFile(settings, "otlp")
            self._content = Content(settings.patterns) if settings.content else None
        try:
            line = _ENCODE(request([span], self._content))
        except Exception as error:  # no reason to fail an agent
            log.warning("a span cannot be written: %s", error)
            return
        self._file.write(line)


def listen(provider: "TracerProvider | None" = None) -> None:
    """Record agents that are instrumented for OpenTelemetry: PydanticAI, OpenAI Agents, LangGraph and others.

    Args:
        provider: Whose spans; the global one when not given, which is made where there is none.

    Raises:
        MissingExtra: If OpenTelemetry's SDK is not installed.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
    except ImportError:
        raise MissingExtra("otel", "recording OpenTelemetry's spans") from None
    if provider is None:
        found = trace.get_tracer_provider()
        if not isinstance(found, TracerProvider):
            found = TracerProvider()
            trace.set_tracer_provider(found)
        provider = found
    if provider not in _LISTENED:
        _LISTENED.add(provider)
        provider.add_span_processor(Listener())  # type: ignore[arg-type]  # the protocol, without importing it


def listen_if_there() -> None:
    """Listen to the global provider where the program has set one up."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider

    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        listen(provider)


def traces_heard(spans: Iterable["ReadableSpan"], content: Content | None) -> list[Trace]:
    """The traces of spans, their times in seconds since 1970."""
    from trivium.traces.opentelemetry.assembling import traces_of
    from trivium.traces.opentelemetry.recorded import NANOSECONDS
    from trivium.traces.readers.otlp.quickly import spans_of_json

    recorded = spans_of_json(_ENCODE(request(list(spans), content)), source="")
    origins: dict[str, int] = {}
    for span in recorded:
        if span.start is not None:
            origins[span.trace_id] = min(span.start, origins.get(span.trace_id, span.start))
    return [
        _later(trace, origins.get(trace_id, 0) / NANOSECONDS)
        for trace_id, trace in zip(
            dict.fromkeys(s.trace_id for s in recorded), traces_of(recorded), strict=True
        )
    ]


def _later(trace: Trace, seconds: float) -> Trace:
    def moved(record: Any, *names: str) -> Any:
        times = {name: getattr(record, name) for name in names}
        return msgspec.structs.replace(
            record, **{name: time + seconds for name, time in times.items() if time is not None}
        )

    return msgspec.structs.replace(
        trace,
        spans=tuple(moved(span, "start", "end") for span in trace.spans),
        messages=tuple(moved(message, "time") for message in trace.messages),
    )


def request(spans: list["ReadableSpan"], content: Content | None) -> dict[str, Any]:
    """An OTLP/JSON request that holds spans.

    Args:
        spans: Ended or open.
        content: Masks what was said; None leaves it out.
    """
    return {"resourceSpans": [{"scopeSpans": [{"spans": [_span(span, content) for span in spans]}]}]}


def _span(span: "ReadableSpan", content: Content | None) -> dict[str, Any]:
    context = span.get_span_context()
    made: dict[str, Any] = {
        "traceId": f"{context.trace_id:032x}" if context else "",
        "spanId": f"{context.span_id:016x}" if context else "",
        "name": plain_text(span.name),
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time or 0),
        "attributes": _attributes(span.attributes or {}, content),
        "status": {"code": span.status.status_code.value},
    }
    if span.parent is not None:
        made["parentSpanId"] = f"{span.parent.span_id:016x}"
    if span.end_time is not None:
        made["endTimeUnixNano"] = str(span.end_time)
    if span.status.description and content is not None:
        made["status"]["message"] = content.text(span.status.description)
    if span.events:
        made["events"] = [
            {
                "name": plain_text(event.name),
                "timeUnixNano": str(event.timestamp),
                "attributes": _attributes(event.attributes or {}, content),
            }
            for event in span.events
        ]
    return made


def _attributes(attributes: Mapping[str, Any], content: Content | None) -> list[dict[str, Any]]:
    named = [(plain_text(key), value) for key, value in attributes.items()]
    return [
        {"key": key, "value": _value(value, content)}
        for key, value in named
        if content is not None or not (_holds_text(value) and any(part in key.lower() for part in _SAYS))
    ]


def _holds_text(value: Any) -> bool:
    return not isinstance(value, bool | int | float)


def _value(value: Any, content: Content | None) -> dict[str, Any]:
    """A value of OTLP/JSON. What is of no plain type, such as a subclass of a text, is made plain first."""
    kind = type(value)
    if kind is str:
        return {"stringValue": plain_text(value) if content is None else content.text(value)}
    if kind is bool:
        return {"boolValue": value}
    if kind is int and value.bit_length() < 64:  # what OTLP's integers hold
        return {"intValue": str(value)}
    if kind is float:
        return {"doubleValue": value}
    if kind is list or kind is tuple:
        return {"arrayValue": {"values": [_value(each, content) for each in value]}}
    if kind is dict:
        values = [{"key": plain_text(key), "value": _value(each, content)} for key, each in value.items()]
        return {"kvlistValue": {"values": values}}
    if kind is int or value is None:
        return {"stringValue": "" if value is None else plain_text(value)}
    return _value(msgspec.json.decode(encode(value)), content)
