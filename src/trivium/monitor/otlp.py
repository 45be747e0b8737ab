"""Decodes export requests of OTLP and splits them into spans.

OpenTelemetry's own package decodes protobuf. JSON is turned into protobuf, so that the store has one form;
its ids are hexadecimal, where protobuf's own mapping has base64
(https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).
"""

import binascii
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, Literal

import msgspec

from trivium.errors import MissingExtra, TooLarge, TraceError
from trivium.store.live_records import Batch, ReceivedSpan
from trivium.traces.opentelemetry.deployment import text_of
from trivium.traces.readers.json_input import check_values, with_readable_text
from trivium.traces.readers.otlp.json import FAILED_CODES, SCOPES
from trivium.traces.readers.otlp.protobuf import FAILED, check_message, decode_request
from trivium.values import JsonObject, dict_, dicts

Encoding = Literal["protobuf", "json"]

SOURCE: Final = "the request"

BAD_ID: Final = "bad_id"
SPAN_TOO_LARGE: Final = "span_too_large"
RESOURCE_TOO_LARGE: Final = "resource_too_large"
OWN_SCORES: Final = "own_scores"
UNREADABLE: Final = "unreadable_span"
"""Reasons for which a span is refused."""

MONITOR_ATTRIBUTE: Final = "trivium.monitor"
"""Attribute of the resource of spans that carry a monitor's scores (:mod:`trivium.monitor.events`)."""

_TRACE_BYTES, _SPAN_BYTES = 16, 8
_MOST_SHORT = 2**20
"""Most bytes below 4 in a request: each may be the length of a message that takes 100 bytes once decoded."""


class IntakeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits on requests, and on the intake queue.

    Attributes:
        request_bytes: Largest request, decompressed; the Collector's limit is the same.
        request_spans: Most spans of a request, and most resources and scopes.
        span_bytes: Largest span.
        resource_bytes: Largest resource, and largest scope.
        waiting_bytes: Most bytes of requests that wait to be written; more is refused for now.
        waiting_requests: Most requests that wait to be written.
        commit_spans: Spans that are written in one transaction, about.
    """

    request_bytes: int = 20 * 2**20
    request_spans: int = 50_000
    span_bytes: int = 4 * 2**20
    resource_bytes: int = 64 * 2**10
    waiting_bytes: int = 64 * 2**20
    waiting_requests: int = 1_000
    commit_spans: int = 2_000


def batch_of(body: bytes, encoding: Encoding, limits: IntakeLimits) -> Batch:
    """The spans of a request.

    Args:
        body: The request's body, decompressed.
        encoding: How it is encoded.
        limits: What is refused.

    Raises:
        TooLarge: If it exceeds a limit.
        TraceError: If it cannot be decoded.
        MissingExtra: If OpenTelemetry's messages are not installed.
    """
    if len(body) > limits.request_bytes:
        what = f"has {len(body):,} bytes; at most {limits.request_bytes:,} are accepted: send smaller batches"
        raise TooLarge(SOURCE, what)
    request, unreadable, replaced = _from_json(body) if encoding == "json" else _from_protobuf(body)
    _check_number(request, limits.request_spans)
    batch = _split(request, limits)
    refused = {**batch.refused, UNREADABLE: unreadable} if unreadable else batch.refused
    return msgspec.structs.replace(batch, refused=refused, replaced=replaced)


def _message() -> Any:
    try:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError:
        raise MissingExtra("serve", "receiving OTLP") from None
    return ExportTraceServiceRequest


def _from_protobuf(body: bytes) -> tuple[Any, int, int]:
    """The request, the number of its parts that cannot be decoded, and that of replaced texts."""
    message = _message()
    from google.protobuf.message import DecodeError

    check_message(body, "", SOURCE, most_short=_MOST_SHORT)
    try:
        return (*decode_request(message, body), 0)
    except DecodeError as error:
        raise TraceError(SOURCE, f"is not readable OTLP protobuf: {error}") from error


def _from_json(body: bytes) -> tuple[Any, int, int]:
    """The request, the number of its spans that are not OTLP, and that of replaced texts."""
    check_values(body, source=SOURCE)
    message = _message()
    try:
        document, replaced = _decoded(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise TraceError(SOURCE, f"is not JSON: {error}") from error
    except RecursionError as error:
        raise TraceError(SOURCE, "is nested too deeply") from error
    if not isinstance(document, dict):
        raise TraceError(SOURCE, 'is not OTLP JSON: expected an object with "resourceSpans"')
    _use_the_names_of_today(document)
    for span in _json_spans(document):
        for each in (span, *dicts(span.get("links"))):
            _hex_to_base64(each, "traceId", _TRACE_BYTES)
            _hex_to_base64(each, "spanId", _SPAN_BYTES)
        _hex_to_base64(span, "parentSpanId", _SPAN_BYTES)
    try:
        return _parsed(document, message), 0, replaced
    except TraceError:
        unreadable = _drop_unreadable(document)
        return _parsed(document, message), unreadable, replaced


def _parsed(document: Any, kind: Any) -> Any:
    """The protobuf message of a kind that a JSON value stands for.

    Raises:
        TraceError: If it stands for none.
    """
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        return ParseDict(document, kind(), ignore_unknown_fields=True)
    except RecursionError as error:
        raise TraceError(SOURCE, "is nested too deeply") from error
    except (ParseError, ValueError, TypeError, AttributeError) as error:
        raise TraceError(SOURCE, f"is not OTLP JSON: {error}") from error


def _decoded(body: bytes) -> tuple[Any, int]:
    """The value of a JSON text, and the number of places in it that no text can hold."""
    try:
        return msgspec.json.decode(body), 0
    except (msgspec.DecodeError, UnicodeError):
        text, replaced = with_readable_text(body)
        if not replaced:
            raise
        return msgspec.json.decode(text), replaced


def _drop_unreadable(document: JsonObject) -> int:
    """Take the spans that are not OTLP out of a request; returns their number."""
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    dropped = 0
    for scope in _json_scopes(document):
        spans, readable = scope.get("spans"), []
        for span in spans if isinstance(spans, list) else ():
            try:
                _parsed(span, Span)
            except TraceError:
                dropped += 1
            else:
                readable.append(span)
        scope["spans"] = readable
    return dropped


def _use_the_names_of_today(document: JsonObject) -> None:
    """Rename what the first versions of OTLP and other writers call otherwise, as the reader of files does.

    ParseDict would leave out fields, and statuses, by names that it does not know, without a word.
    """
    _rename(document, "resourceSpans", "resource_spans")
    for resource in dicts(document.get("resourceSpans")):
        _rename(resource, *SCOPES)
        for scope in dicts(resource.get("scopeSpans")):
            _rename(scope, "scope", "instrumentationLibrary", "instrumentation_library")
            for span in dicts(scope.get("spans")):
                _rename(span, "traceId", "trace_id")
                _rename(span, "spanId", "span_id")
                _rename(span, "parentSpanId", "parent_span_id")
                status = dict_(span.get("status"))
                if isinstance(status.get("code"), str) and status["code"] in FAILED_CODES:
                    status["code"] = FAILED


def _rename(item: JsonObject, name: str, *others: str) -> None:
    for other in others:
        if other in item:
            item.setdefault(name, item.pop(other))


def _json_scopes(document: JsonObject) -> Iterator[JsonObject]:
    for resource in dicts(document.get("resourceSpans")):
        yield from dicts(resource.get("scopeSpans"))


def _json_spans(document: JsonObject) -> Iterator[JsonObject]:
    for scope in _json_scopes(document):
        yield from dicts(scope.get("spans"))


def _hex_to_base64(item: JsonObject, key: str, size: int) -> None:
    """Write an id as the JSON mapping of protobuf has it; one that is not hexadecimal becomes empty."""
    value = item.get(key)
    if value is None:
        return
    try:
        decoded = binascii.unhexlify(value) if isinstance(value, str) else b""
    except ValueError:
        decoded = b""
    item[key] = b64encode(decoded if len(decoded) == size else b"").decode()


def _check_number(request: Any, most: int) -> None:
    number = len(request.resource_spans)
    if number <= most:
        number += sum(len(group.scope_spans) for group in request.resource_spans)
    if number <= most:
        number = sum(len(scope.spans) for group in request.resource_spans for scope in group.scope_spans)
    if number > most:
        what = f"holds more than {most:,} spans, or resources and scopes: send smaller batches"
        raise TooLarge(SOURCE, what)


def _split(request: Any, limits: IntakeLimits) -> Batch:
    spans: list[ReceivedSpan] = []
    resources: dict[str, bytes] = {}
    refused: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    add, largest = spans.append, limits.span_bytes
    for group in request.resource_spans:
        resource = group.resource.SerializeToString()
        resource_id = _digest(resource)
        resources[resource_id] = resource
        service = _service(group.resource)
        # As late spans of the traces that they are about, they would have these scored again, for ever.
        own = any(each.key == MONITOR_ATTRIBUTE for each in group.resource.attributes)
        for scope_spans in group.scope_spans:
            if own:
                refused[OWN_SCORES] += len(scope_spans.spans)
                continue
            scope = scope_spans.scope.SerializeToString()
            if max(len(resource), len(scope)) > limits.resource_bytes:
                refused[RESOURCE_TOO_LARGE] += len(scope_spans.spans)
                traces = [span.trace_id for span in scope_spans.spans]
                lost.update(each.hex() for each in traces if len(each) == _TRACE_BYTES and any(each))
                continue
            scope_id = _digest(scope)
            resources[scope_id] = scope
            shared = resource_id + scope_id
            for span in scope_spans.spans:
                trace_id, span_id, parent = span.trace_id, span.span_id, span.parent_span_id
                if (
                    len(trace_id) != _TRACE_BYTES
                    or len(span_id) != _SPAN_BYTES
                    or not any(trace_id)
                    or not any(span_id)
                ):
                    refused[BAD_ID] += 1
                    continue
                body = span.SerializeToString()
                if len(body) > largest:
                    refused[SPAN_TOO_LARGE] += 1
                    lost[trace_id.hex()] += 1
                    continue
                ended_root = not any(parent) and span.end_time_unix_nano > 0
                failed = span.status.code == FAILED
                ids = trace_id.hex(), span_id.hex(), _digest(body)
                add(ReceivedSpan(*ids, shared, body, ended_root, service, failed))
    return Batch(spans=spans, resources=resources, refused=refused, lost=lost)


def _service(resource: Any) -> str:
    texts = (text_of(each.value.string_value) for each in resource.attributes if each.key == "service.name")
    return next(texts, "")


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=8).hexdigest()
