"""Parses OTLP JSON: a strict fast path, and a lenient parser for what the fast path rejects.

The lenient parser accepts other spellings of keys, other encodings of ids and invalid times.
"""

import base64
import binascii
import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from trivium.errors import TraceError
from trivium.traces.opentelemetry.semconv import (
    READ_AS,
    RecordedSpan,
    add_attribute,
    is_remote,
    recognised,
)
from trivium.traces.readers.json_input import check_values, flat, parse_documents, snake, snake_key
from trivium.values import JsonObject, dict_, dicts

_FAILED = 2
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
_NO_TRACE, _NO_SPAN = "0" * _TRACE_DIGITS, "0" * _SPAN_DIGITS
_TraceId = Annotated[str, Meta(min_length=_TRACE_DIGITS, max_length=_TRACE_DIGITS)]
_SpanId = Annotated[str, Meta(min_length=_SPAN_DIGITS, max_length=_SPAN_DIGITS)]
_Start = Annotated[int, Meta(gt=0, le=2**63 - 1)]
_End = Annotated[int, Meta(ge=0, le=2**63 - 1)]

_NOTHING = msgspec.Raw()


class _Value(msgspec.Struct, rename="camel", gc=False):
    string_value: str | None = None
    int_value: int | None = None
    bool_value: bool | None = None
    double_value: float | None = None
    bytes_value: str | None = None
    array_value: msgspec.Raw = _NOTHING
    kvlist_value: msgspec.Raw = _NOTHING


class _Attribute(msgspec.Struct, gc=False):
    key: str
    value: _Value


class _Event(msgspec.Struct, gc=False):
    name: str = ""
    attributes: list[_Attribute] = []


class _Status(msgspec.Struct, gc=False):
    code: int = 0
    message: str = ""


class _Span(msgspec.Struct, rename="camel", gc=False):
    trace_id: _TraceId
    span_id: _SpanId
    start_time_unix_nano: _Start
    end_time_unix_nano: _End | None = None
    name: str = ""
    parent_span_id: str | None = None
    attributes: list[_Attribute] = []
    events: list[_Event] | None = None
    status: _Status | None = None
    flags: int | None = None


class _Scope(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _ScopeSpans(msgspec.Struct, gc=False):
    spans: list[_Span]
    scope: _Scope = _Scope()


class _ResourceSpans(msgspec.Struct, rename="camel", gc=False):
    scope_spans: list[_ScopeSpans]


class _Request(msgspec.Struct, rename="camel", gc=False):
    resource_spans: list[_ResourceSpans]


_DECODER = msgspec.json.Decoder(_Request, strict=False)


class _NotStandard(Exception):
    """The strict parser found something unusual, which the lenient one may read."""


def spans_of_json(content: bytes, *, source: str) -> list[RecordedSpan]:
    """Parse one export request, or one on each line.

    Raises:
        TraceError: If it is not UTF-8, JSON or an export request, or holds too many values.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    check_values(content, source=source)
    try:
        return _parse_strict(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, _NotStandard):
        return parse_lenient(parse_documents(content, source=source), source=source)


def _parse_strict(content: bytes) -> list[RecordedSpan]:
    try:
        requests = [_DECODER.decode(content)]
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        requests = _DECODER.decode_lines(content)
    spans = [
        _recorded(span, scope.scope.name)
        for request in requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    if not spans:
        raise _NotStandard
    return spans


_read_as = READ_AS.get


def _recorded(span: _Span, scope: str) -> RecordedSpan:
    trace_id, span_id, parent, status = span.trace_id, span.span_id, span.parent_span_id, span.status
    if span_id == _NO_SPAN or trace_id == _NO_TRACE or (parent and len(parent) != _SPAN_DIGITS):
        raise _NotStandard
    attributes: JsonObject = {}
    for attribute in span.attributes:
        name = _read_as(attribute.key)
        if name is not None:
            text = attribute.value.string_value
            value = _value(attribute.value) if text is None else text
            if name in attributes:
                add_attribute(attributes, name, value)
            else:
                attributes[name] = value
    failed = status is not None and status.code == _FAILED
    return RecordedSpan(
        trace_id=trace_id.lower(),
        id=span_id.lower(),
        parent=parent.lower() if parent and parent != _NO_SPAN else None,
        name=span.name,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano or None,
        attributes=attributes,
        failed=failed,
        error=status.message if status is not None and failed else "",
        events=[(event.name, _values_by_key(event.attributes)) for event in span.events]
        if span.events
        else None,
        scope=scope,
        remote=span.flags is not None and is_remote(span.flags),
    )


def _values_by_key(attributes: list[_Attribute]) -> JsonObject:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: _Value) -> Any:
    for plain in (value.string_value, value.int_value, value.bool_value, value.double_value):
        if plain is not None:
            return plain
    for tag, nested in (("array_value", value.array_value), ("kvlist_value", value.kvlist_value)):
        if nested is not _NOTHING:
            return any_value({tag: msgspec.json.decode(nested)})
    return value.bytes_value


FAILED_CODES = frozenset({2, "2", "STATUS_CODE_ERROR", "ERROR", "Error"})
_SIGNALS = ("resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "resourceMetrics")
"""A Collector may write all signals into one file; signals other than spans are ignored."""

SCOPES = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_SPAN_BYTES, _TRACE_BYTES = 8, 16


def is_request(document: Any) -> bool:
    """Whether a JSON value is an export request."""
    return isinstance(document, dict) and any(isinstance(document.get(key), list) for key in _SIGNALS[:2])


def parse_lenient(documents: Sequence[Any], *, source: str) -> list[RecordedSpan]:
    """Parse the spans of export requests leniently; anything else in them is ignored.

    Args:
        documents: Export requests, or lists of them.
        source: The file, for error messages.

    Raises:
        TraceError: If one is not an export request, or none holds a readable span.
    """
    requests = flat(documents)
    for number, request in enumerate(requests, start=1):
        if not isinstance(request, dict) or not any(key in request for key in _SIGNALS):
            where = f"document {number}: " if len(requests) > 1 else ""
            raise TraceError(source, f'{where}expected an export request with "resourceSpans"')
    spans = [span for request in requests for span in _spans(request)]
    read = [span for span in itertools.starmap(_recorded_lenient, spans) if span is not None]
    if not read:
        what = f"none of its {len(spans):,} spans has a spanId" if spans else "it holds no span"
        raise TraceError(source, what)
    return read


def _spans(request: JsonObject) -> Iterator[tuple[JsonObject, str]]:
    """The spans with the names of their scopes; keys in snake case."""
    for resource in dicts(snake(request).get("resource_spans")):
        fields = snake(resource)
        for scope in map(
            snake, dicts(fields.get("scope_spans", fields.get("instrumentation_library_spans")))
        ):
            name = dict_(scope.get("scope", scope.get("instrumentation_library"))).get("name")
            for span in dicts(scope.get("spans")):
                yield snake(span), name if isinstance(name, str) else ""


def _recorded_lenient(span: JsonObject, scope: str) -> RecordedSpan | None:
    span_id = _id(span.get("span_id"), _SPAN_BYTES)
    if span_id is None:
        return None
    status = dict_(span.get("status"))
    code = status.get("code")
    failed = isinstance(code, str | int) and code in FAILED_CODES
    message = status.get("message")
    name = span.get("name")
    return RecordedSpan(
        trace_id=_id(span.get("trace_id"), _TRACE_BYTES) or "",
        id=span_id,
        parent=_id(span.get("parent_span_id"), _SPAN_BYTES),
        name=name if isinstance(name, str) else "",
        start=moment(span.get("start_time_unix_nano")),
        end=moment(span.get("end_time_unix_nano")),
        attributes=recognised(attributes_of(span.get("attributes")).items()),
        failed=failed,
        error=message if failed and isinstance(message, str) else "",
        events=[
            (str(event.get("name", "")), attributes_of(event.get("attributes")))
            for event in dicts(span.get("events"))
        ],
        scope=scope,
        remote=is_remote(span.get("flags")),
    )


def _id(value: Any, size: int) -> str | None:
    """An id in lower-case hex, from hex or base64; other ids unchanged; None for zeros."""
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


LATEST = 2**63
"""The latest valid time: nanoseconds since 1970 in the year 2262."""

_WHOLE = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_PLAIN: dict[str, Any] = {
    "string_value": str,
    "int_value": _WHOLE,
    "bool_value": bool,
    "double_value": float,
    "bytes_value": str,
}


def moment(value: Any) -> int | None:
    """Nanoseconds since 1970, from a number or its digits; None for zero or an invalid time."""
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdecimal() and len(value) < 20 else None
    elif isinstance(value, float):
        value = int(value) if 0 < value < LATEST else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < LATEST else None


def attributes_of(attributes: Any) -> JsonObject:
    """Attributes by key; a plain object is returned unchanged."""
    if isinstance(attributes, dict):
        return attributes
    return {item["key"]: any_value(item.get("value")) for item in dicts(attributes) if _is_key(item)}


def any_value(value: Any) -> Any:
    """Decode a tagged value; None if it is empty. Does not recurse."""
    result: list[Any] = [None]
    pending: list[tuple[Any, Any, Any]] = [(result, 0, value)]
    while pending:
        target, key, tagged = pending.pop()
        if not isinstance(tagged, dict):
            continue
        for tag, inner in tagged.items():
            tag = snake_key(tag)  # noqa: PLW2901
            if tag == "array_value":
                items = inner.get("values") if isinstance(inner, dict) else None
                items = items if isinstance(items, list) else []
                target[key] = made = [None] * len(items)
                pending += [(made, index, item) for index, item in enumerate(items)]
            elif tag == "kvlist_value":
                pairs = dicts(inner.get("values") if isinstance(inner, dict) else None)
                table: JsonObject = {}
                target[key] = table
                pending += [(table, pair["key"], pair.get("value")) for pair in pairs if _is_key(pair)]
            else:
                target[key] = _plain(tag, inner)
            break
    return result[0]


def _is_key(pair: JsonObject) -> bool:
    return isinstance(pair.get("key"), str)


def _plain(tag: str, inner: Any) -> Any:
    try:
        return msgspec.convert(inner, _PLAIN[tag], strict=False)
    except (KeyError, ValueError):
        return None
