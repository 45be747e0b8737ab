"""OTLP in protobuf: the same requests, each after its length in four bytes, as in collectors' files."""

import base64
from typing import Any

from trivium.errors import MissingExtra
from trivium.traces.writers.otlp import ResourceSpans

_LENGTH_BYTES = 4
_IDS = ("traceId", "spanId", "parentSpanId")


def delimited(entry: ResourceSpans) -> bytes:
    """A request with one entry, and before it its length.

    Raises:
        MissingExtra: If OpenTelemetry's protobufs are not installed.
    """
    try:
        from google.protobuf.json_format import ParseDict
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise MissingExtra("otel", "OTLP in protobuf") from error
    message = ParseDict({"resourceSpans": [_with_ids_in_base64(entry)]}, ExportTraceServiceRequest())
    content: bytes = message.SerializeToString()
    return len(content).to_bytes(_LENGTH_BYTES, "big") + content


def _with_ids_in_base64(entry: ResourceSpans) -> dict[str, Any]:
    """OTLP writes ids in hex, where protobuf's own JSON has base64."""
    scopes = [
        {**scope, "spans": [span | _ids(span) for span in scope["spans"]]} for scope in entry["scopeSpans"]
    ]
    return {**entry, "scopeSpans": scopes}


def _ids(span: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64encode(bytes.fromhex(span[key])).decode() for key in _IDS if key in span}
