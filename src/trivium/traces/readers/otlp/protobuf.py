"""Reads OTLP in protobuf: one export request, or a stream of requests, each preceded by its length.

OpenTelemetry's own package decodes the messages; only the length framing is parsed here.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trivium.errors import MissingExtra, Problem, TraceError
from trivium.traces.opentelemetry.semconv import READ_AS, RecordedSpan, is_remote, recognised
from trivium.traces.readers.otlp.json import LATEST
from trivium.traces.trace import INCOMPLETE, TraceProblem

_RESOURCE_SPANS = 0x0A
"""First byte of a request: the tag of field 1, length-delimited."""
_INNER = frozenset({0x0A, 0x12, 0x1A})
"""First byte inside that field: the tag of the resource, its spans or the schema URL."""
_PREFIX = 4
"""Bytes of the length that the Collector's file exporter writes, big-endian."""
FAILED = 2
"""Status code of a failed span."""
_NESTED = ("resource_spans", "scope_spans", "spans")
"""Names of the fields of a request, one within the other, that hold its spans."""
_LENGTH = 2
"""Wire type of a field that is preceded by its length."""
_FIXED_SIZES = {1: 8, 5: 4}
"""Bytes of a field by its wire type."""

MAX_MESSAGES = 1_000_000
"""Maximum number of messages in a stream, and of spans in a file."""
MAX_MESSAGE_BYTES = 64 * 2**20
"""Largest message; the Collector accepts 20 MiB. Decoded, it may take 15 times as much memory."""
_SHORT = bytes(range(4))
_MOST_SHORT = 4 * 2**20
"""Maximum number of bytes below 4 in a message: each may encode a nested message that takes 100 bytes."""


def is_protobuf(head: bytes) -> bool:
    """Whether bytes start like a request or a stream of requests."""
    return _starts_request(head, 0) or _length_before(head) is not None


def spans_of_protobuf(content: bytes, problems: list[TraceProblem], *, source: str) -> list[RecordedSpan]:
    """Decode the spans of a file.

    Args:
        content: The content of the file.
        problems: Receives a problem if a span cannot be decoded.
        source: Name of the file, for error messages.

    Raises:
        MissingExtra: If the protobuf messages are not installed.
        TraceError: If the file is truncated, not OTLP, or exceeds a limit.
    """
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
    except ImportError:
        raise MissingExtra("otel", "reading OTLP in protobuf") from None
    spans: list[RecordedSpan] = []
    number = 0
    for where, message in _messages(content, source):
        check_message(message, where, source)
        try:
            data, lost = decode_request(TracesData, message)
        except DecodeError as error:
            what = f"not readable OTLP protobuf: {error}"
            raise TraceError(source, Problem(where, what)) from error
        if lost:
            what = f"{lost:,} spans, resources and scopes of {where or source} cannot be decoded"
            problems.append(TraceProblem(kind=INCOMPLETE, what=f"{what}; they are left out"))
        number += sum(len(scope.spans) for resource in data.resource_spans for scope in resource.scope_spans)
        if number > MAX_MESSAGES:
            raise TraceError(source, f"holds more than {MAX_MESSAGES:,} spans, the most that are read")
        spans += [
            recorded_span(span, scope.scope.name)
            for resource in data.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
            if any(span.span_id)
        ]
    if not spans:
        raise TraceError(source, "it holds no span")
    return spans


def decode_request(kind: Any, body: bytes) -> tuple[Any, int]:
    """Decode a request, leaving out only the parts whose text is not valid UTF-8.

    Args:
        kind: The class of the message: ``ExportTraceServiceRequest`` or ``TracesData``.
        body: The message.

    Returns:
        The message, and the number of spans, resources and scopes left out.

    Raises:
        DecodeError: If the body is cut off, or not a message of this kind.
    """
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(body), 0
    except DecodeError as error:
        if "alloc failed" in str(error):
            raise MemoryError from error
    request = kind()
    return request, _merge(request, body, _NESTED)


def _merge(message: Any, body: bytes, nested: Sequence[str]) -> int:
    """Decode a message without the parts that cannot be decoded; return their number.

    Args:
        message: Receives the content.
        body: The encoded message.
        nested: Names of the fields, one within the other, that are decoded one by one.
    """
    from google.protobuf.message import DecodeError

    number = message.DESCRIPTOR.fields_by_name[nested[0]].number
    fields = list(_fields(body))
    lost = 0
    try:
        message.MergeFromString(b"".join(whole for field, whole, _ in fields if field != number))
    except DecodeError:
        if len(nested) == len(_NESTED):  # the request itself holds no text
            raise
        message.Clear()
        lost += 1
    inner = getattr(message, nested[0])
    for content in (content for field, _, content in fields if field == number):
        if nested[1:]:
            lost += _merge(inner.add(), content, nested[1:])
            continue
        try:
            inner.add().MergeFromString(content)
        except DecodeError:
            del inner[-1]
            lost += 1
    return lost


def _fields(body: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield each field of a message: its number, the whole field, and the content after any length.

    Raises:
        DecodeError: If the message is cut off.
    """
    from google.protobuf.message import DecodeError

    at = 0
    while at < len(body):
        start = at
        tag, at = _varint(body, at)
        inner = at
        if tag & 7 == _LENGTH:
            length, inner = _varint(body, at)
            at = inner + length
        elif tag & 7 in _FIXED_SIZES:
            at += _FIXED_SIZES[tag & 7]
        else:
            _, at = _varint(body, at)
        if at > len(body):
            raise DecodeError("the message is cut off")
        yield tag >> 3, body[start:at], body[inner:at]


def check_message(message: bytes, where: str, source: str, *, most_short: int = _MOST_SHORT) -> None:
    """Raise TraceError if a message is too large, or would be once decoded.

    Args:
        message: The message.
        where: Position of the message in its source, for error messages.
        source: Name of the file, for error messages.
        most_short: Maximum number of bytes below 4.
    """
    if len(message) > MAX_MESSAGE_BYTES:
        what = f"is of {len(message):,} bytes; at most {MAX_MESSAGE_BYTES:,} are read of one"
        raise TraceError(source, Problem(where or "the message", what))
    if len(message) > most_short and len(message) - len(message.translate(None, _SHORT)) > most_short:
        what = f"holds more than {most_short:,} messages that are empty or nearly so"
        raise TraceError(source, Problem(where or "the message", what))


def _messages(content: bytes, source: str) -> Iterator[tuple[str, bytes]]:
    if _starts_request(content, 0):
        yield "", content
        return
    fixed = _length_before(content) == "fixed"
    at = number = 0
    while at < len(content):
        number += 1
        if number > MAX_MESSAGES:
            raise TraceError(source, f"holds more than {MAX_MESSAGES:,} messages, the most that are read")
        length, at = _fixed(content, at) if fixed else _varint(content, at)
        if at + length > len(content):
            missing = at + length - len(content)
            raise TraceError(
                source, Problem(f"message {number}", f"is cut off: {missing:,} bytes are missing")
            )
        yield f"message {number}", content[at : at + length]
        at += length


def _starts_request(content: bytes, at: int) -> bool:
    """Whether a non-empty field 1 starts here, and its content looks like spans of a resource."""
    if content[at : at + 1] != bytes([_RESOURCE_SPANS]):
        return False
    length, inner = _varint(content, at + 1)
    return length > 1 and inner < len(content) and content[inner] in _INNER


def _length_before(head: bytes) -> str | None:
    """How the length of the first message is encoded ("fixed" or "varint"); None if this is not a stream."""
    if len(head) > _PREFIX and _fixed(head, 0)[0] > 0 and head[0] == 0 and _starts_request(head, _PREFIX):
        return "fixed"
    _, at = _varint(head, 0)
    return "varint" if at > 0 and _starts_request(head, at) else None


def _fixed(content: bytes, at: int) -> tuple[int, int]:
    return int.from_bytes(content[at : at + _PREFIX], "big"), at + _PREFIX


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Decode a varint; returns the number and the offset after it. An unterminated one counts as 2**63."""
    value = 0
    for shift in range(0, 63, 7):
        if at >= len(content):
            break
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return LATEST, at


def recorded_span(span: Any, scope: str) -> RecordedSpan:
    """Convert a decoded span to the fields that Trivium reads.

    Args:
        span: An ``opentelemetry.proto.trace.v1.trace_pb2.Span``.
        scope: Name of its instrumentation scope.
    """
    failed = span.status.code == FAILED
    return RecordedSpan(
        trace_id=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex() if any(span.parent_span_id) else None,
        name=span.name,
        start=_moment(span.start_time_unix_nano),
        end=_moment(span.end_time_unix_nano),
        attributes=recognised(
            (pair.key, attribute_value(pair.value)) for pair in span.attributes if pair.key in READ_AS
        ),
        failed=failed,
        error=span.status.message if failed else "",
        events=[
            (event.name, {pair.key: attribute_value(pair.value) for pair in event.attributes})
            for event in span.events
        ],
        scope=scope,
        remote=is_remote(span.flags),
    )


def _moment(nanoseconds: int) -> int | None:
    return nanoseconds if 0 < nanoseconds < LATEST else None


def attribute_value(value: Any) -> Any:
    """Decode a tagged value. Protobuf itself rejects nesting deeper than 100 levels."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return [attribute_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: attribute_value(pair.value) for pair in value.kvlist_value.values}
    if kind == "bytes_value":
        return value.bytes_value.hex()
    return getattr(value, kind)
