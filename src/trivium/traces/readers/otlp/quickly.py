"""OTLP in JSON as its specification has it, decoded straight into records: the quick way.

Whatever does not fit (other spellings, other encodings of ids, times that are none) is read once more,
leniently.
"""

from typing import Any

import msgspec

from trivium.traces.opentelemetry.recorded import RecordedSpan
from trivium.traces.opentelemetry.wanted import MEANINGS, add
from trivium.traces.readers.documents import check_values, parse_documents
from trivium.traces.readers.otlp.leniently import spans_leniently
from trivium.traces.readers.otlp.values import LATEST, any_value

_FAILED = 2
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
_NO_TRACE, _NO_SPAN = "0" * _TRACE_DIGITS, "0" * _SPAN_DIGITS


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
    trace_id: str
    span_id: str
    start_time_unix_nano: int
    end_time_unix_nano: int | None = None
    name: str = ""
    parent_span_id: str | None = None
    attributes: list[_Attribute] = []
    events: list[_Event] | None = None
    status: _Status | None = None


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


class _Odd(Exception):
    """Something that the quick way does not read."""


def spans_of_json(content: bytes, *, source: str) -> list[RecordedSpan]:
    """The spans of one export request, or of one a line.

    Raises:
        TraceError: If it is no UTF-8, no JSON, or no export request, or holds too many values.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    check_values(content, source=source)
    try:
        return _quickly(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, _Odd):
        return spans_leniently(parse_documents(content, source=source), source=source)


def _quickly(content: bytes) -> list[RecordedSpan]:
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
        raise _Odd
    return spans


def _recorded(span: _Span, scope: str) -> RecordedSpan:
    parent = span.parent_span_id
    if (
        len(span.trace_id) != _TRACE_DIGITS
        or len(span.span_id) != _SPAN_DIGITS
        or (parent and len(parent) != _SPAN_DIGITS)
        or span.span_id == _NO_SPAN
        or span.trace_id == _NO_TRACE
        or not 0 < span.start_time_unix_nano < LATEST
        or not 0 <= (span.end_time_unix_nano or 0) < LATEST
    ):
        raise _Odd
    attributes: dict[str, Any] = {}
    meant = MEANINGS.get
    for attribute in span.attributes:
        meaning = meant(attribute.key)
        if meaning is not None:
            text = attribute.value.string_value
            value = _value(attribute.value) if text is None else text
            if meaning in attributes:
                add(attributes, meaning, value)
            else:
                attributes[meaning] = value
    status = span.status
    end = span.end_time_unix_nano
    return RecordedSpan(
        trace_id=span.trace_id.lower(),
        id=span.span_id.lower(),
        parent=parent.lower() if parent and parent != _NO_SPAN else None,
        name=span.name,
        start=span.start_time_unix_nano,
        end=end or None,
        attributes=attributes,
        failed=status is not None and status.code == _FAILED,
        error=status.message if status is not None and status.code == _FAILED else "",
        events=[(event.name, _all(event.attributes)) for event in span.events] if span.events else None,
        scope=scope,
    )


def _all(attributes: list[_Attribute]) -> dict[str, Any]:
    return {attribute.key: _value(attribute.value) for attribute in attributes}


def _value(value: _Value) -> Any:
    for plain in (value.string_value, value.int_value, value.bool_value, value.double_value):
        if plain is not None:
            return plain
    if value.array_value is not _NOTHING:
        return any_value({"arrayValue": msgspec.json.decode(value.array_value)})
    if value.kvlist_value is not _NOTHING:
        return any_value({"kvlistValue": msgspec.json.decode(value.kvlist_value)})
    return value.bytes_value
