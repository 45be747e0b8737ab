"""OTLP in JSON as it is found: both spellings of keys, ids in hex or base64, enums by name or number."""

import base64
import binascii
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from trivium.errors import TraceError
from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.opentelemetry.wanted import meaning
from trivium.traces.readers.fields import dict_, dicts
from trivium.traces.readers.otlp.values import attributes_of, either, moment

_FAILED = frozenset({2, "2", "STATUS_CODE_ERROR", "ERROR", "Error"})
_SIGNALS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "resourceMetrics")
"""A collector may write all signals into one file; what is no span is passed over."""

_SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_SPAN_BYTES, _TRACE_BYTES = 8, 16


def is_request(document: Any) -> bool:
    """Whether a JSON value is an export request."""
    return isinstance(document, dict) and any(isinstance(document.get(key), list) for key in _SIGNALS[:2])


def spans_leniently(documents: Sequence[Any], *, source: str) -> list[RecordedSpan]:
    """The spans of a file's export requests; what is no span in them is passed over.

    Args:
        documents: Export requests, or lists of them.
        source: The file, for error messages.

    Raises:
        TraceError: If one is no export request, or none holds a span that can be read.
    """
    requests: list[Any] = []
    for document in documents:
        requests += document if isinstance(document, list) else [document]
    for number, request in enumerate(requests, start=1):
        if not isinstance(request, dict) or not any(key in request for key in _SIGNALS):
            where = f"document {number}: " if len(requests) > 1 else ""
            raise TraceError(source, f'{where}expected an export request with "resourceSpans"')
    found = [span for request in requests for span in _spans(request)]
    read = [span for span in itertools.starmap(_recorded, found) if span is not None]
    if not read:
        what = f"none of its {len(found):,} spans has a spanId" if found else "it holds no span"
        raise TraceError(source, what)
    return read


def _spans(request: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    for resource in dicts(either(request, "resourceSpans", "resource_spans")):
        for scope in dicts(either(resource, *_SCOPES)):
            name = dict_(either(scope, "scope", "instrumentationLibrary")).get("name")
            for span in dicts(scope.get("spans")):
                yield span, name if isinstance(name, str) else ""


def _recorded(span: dict[str, Any], scope: str) -> RecordedSpan | None:
    span_id = _id(either(span, "spanId", "span_id"), _SPAN_BYTES)
    if span_id is None:
        return None
    status = dict_(span.get("status"))
    code = status.get("code")
    failed = isinstance(code, str | int) and code in _FAILED
    message = status.get("message")
    name = span.get("name")
    return RecordedSpan(
        trace_id=_id(either(span, "traceId", "trace_id"), _TRACE_BYTES) or "",
        id=span_id,
        parent=_id(either(span, "parentSpanId", "parent_span_id"), _SPAN_BYTES),
        name=name if isinstance(name, str) else "",
        start=moment(either(span, "startTimeUnixNano", "start_time_unix_nano")),
        end=moment(either(span, "endTimeUnixNano", "end_time_unix_nano")),
        attributes=meaning(attributes_of(span.get("attributes"))),
        failed=failed,
        error=message if failed and isinstance(message, str) else "",
        events=[
            (str(event.get("name", "")), attributes_of(event.get("attributes")))
            for event in dicts(span.get("events"))
        ],
        scope=scope,
    )


def _id(value: Any, size: int) -> str | None:
    """An id in lower hex where it is one, from hex or base64; other ids as they are; zeros are none."""
    if not isinstance(value, str) or not value.strip("0"):
        return None
    if len(value) == 2 * size:
        return value.lower()
    try:
        decoded = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value
    if len(decoded) != size:
        return value
    return decoded.hex() if any(decoded) else None
