"""``POST /v1/traces``: receives traces as OpenTelemetry's SDKs and Collector send them (OTLP/HTTP).

Metrics and logs, which the same exporters may send, are accepted and dropped, and the answer says so.

An answer of 200 means that the spans are on the disk. Requests that the server cannot take now are answered
with 503 and ``Retry-After``: every exporter sends them again; older ones drop what is answered
with 429.
"""

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from trivium.errors import Overloaded, StoreError, TooLarge, TraceError
from trivium.monitor.intake import Intake, Receipt
from trivium.monitor.otlp import Encoding
from trivium.web.errors import JSON, OTLP_PATHS, PROTOBUF, RETRY_AFTER, Refused, header, media_type
from trivium.web.security import address_of, send_refusal, send_whole

if TYPE_CHECKING:
    from litestar.types import HTTPScope, Receive, Send

log = logging.getLogger(__name__)

DECODERS = 2
"""Requests that are decoded at the same time: each needs one core and several times the request's size."""

MOST_MEMBERS = 100
"""Most members of a gzip body; exporters send one. Each may be empty, and costs time all the same."""

_ENCODINGS: Final[dict[str, Encoding]] = {PROTOBUF: "protobuf", JSON: "json"}

_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Windows of zlib for the encodings of a body (RFC 9110, 8.4.1)."""


class Receiver:
    """Receives export requests.

    Args:
        intake: Stores their spans.

    Attributes:
        refusals: Number of refused requests, by reason.
    """

    def __init__(self, intake: Intake) -> None:
        self.refusals: Counter[str] = Counter()
        self._intake = intake
        self._decoders = ThreadPoolExecutor(DECODERS, thread_name_prefix="trivium-decoder")
        self._receiving = 0

    def close(self) -> None:
        """End the threads."""
        self._decoders.shutdown()

    async def answer(self, scope: "HTTPScope", receive: "Receive", send: "Send") -> None:
        """Answer a request."""
        try:
            encoding = _encoding(scope)
            rejected, message = await self._receive(scope, receive, encoding)
        except Exception as error:
            refusal = error if isinstance(error, Refused) else _failed(error)
            self.refusals[refusal.reason] += 1
            await send_refusal(scope, send, refusal)
            return
        if rejected:
            log.warning("%s: %s", address_of(scope), message)
        media = PROTOBUF if encoding == "protobuf" else JSON
        await send_whole(send, 200, response(rejected, message, encoding), {"content-type": media})

    async def _receive(self, scope: "HTTPScope", receive: "Receive", encoding: Encoding) -> tuple[int, str]:
        """Number of the rejected spans, and what is to be said of the request."""
        signal = OTLP_PATHS[scope["path"]]
        try:
            with self._room() as grow:
                body = await self._body(scope, receive, grow)
                if signal != "traces":
                    return 0, f"{signal} are accepted and dropped: only traces are stored here"
                loop = asyncio.get_running_loop()
                writing = await loop.run_in_executor(self._decoders, self._intake.submit, body, encoding)
                del body
        except TooLarge as error:
            raise Refused(413, str(error), reason="too_large") from None
        except TraceError as error:
            raise Refused(400, str(error), reason="unreadable") from None
        except Overloaded as error:
            raise Refused(503, str(error), headers=RETRY_AFTER, reason="overloaded") from None
        try:
            # Shielded: the writing thread sets the result, also if nobody waits for it any longer.
            receipt: Receipt = await asyncio.shield(asyncio.wrap_future(writing))
        except StoreError as error:
            message = f"the spans cannot be stored now: {error}"
            raise Refused(503, message, headers=RETRY_AFTER, reason="store") from None
        return receipt.rejected, receipt.message

    @contextmanager
    def _room(self) -> Iterator[Callable[[int], None]]:
        """Memory for the body of a request; what is yielded asks for so many bytes of it in all."""
        own = 0

        def grow(size: int) -> None:
            nonlocal own
            others = self._receiving - own
            if others and others + size > self._intake.limits.waiting_bytes:
                message = "too much is being received: send this again"
                raise Refused(503, message, headers=RETRY_AFTER, reason="overloaded")
            self._receiving, own = others + size, size

        try:
            yield grow
        finally:
            self._receiving -= own

    async def _body(self, scope: "HTTPScope", receive: "Receive", grow: Callable[[int], None]) -> bytes:
        """The body of a request, decompressed as it comes; it never takes more memory than is allowed."""
        headers, most = list(scope["headers"]), self._intake.limits.request_bytes
        length = header(headers, b"content-length")
        if length.isdecimal() and int(length) > most:
            raise _too_large(f"the request has {int(length):,} bytes; at most {most:,} are accepted")
        inflate = _inflater(header(headers, b"content-encoding"))
        body, compressed = bytearray(), 0
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise Refused(400, "the connection ended before the body did", reason="cut_off")
            more = message.get("more_body", False)
            chunk = message.get("body", b"")
            compressed += len(chunk)
            body += inflate.add(chunk, most - len(body)) if inflate else chunk
            if len(body) > most or compressed > most:
                raise _too_large(f"the request has more than {most:,} bytes, decompressed")
            grow(len(body))
        if inflate is not None:
            inflate.check_end()
        return bytes(body)


class _Inflater:
    """Decompresses a body as it comes.

    Args:
        encoding: ``gzip`` or ``deflate``.
    """

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._members = 1
        self._stream = zlib.decompressobj(_WINDOW_BITS[encoding])

    def add(self, chunk: bytes, room: int) -> bytes:
        """Decompress a chunk, to at most one byte more than there is room for."""
        inflated = bytearray()
        while chunk and len(inflated) <= room:
            if self._stream.eof:  # the next member of a gzip file
                self._members += 1
                if self._members > MOST_MEMBERS:
                    message = f"the body has more than {MOST_MEMBERS} parts of {self._encoding}"
                    raise Refused(400, message, reason="unreadable")
                self._stream = zlib.decompressobj(_WINDOW_BITS[self._encoding])
            try:
                inflated += self._stream.decompress(chunk, room + 1 - len(inflated))
            except zlib.error as error:
                raise Refused(
                    400, f"the body is not {self._encoding}: {error}", reason="unreadable"
                ) from None
            chunk = self._stream.unconsumed_tail or self._stream.unused_data
        return bytes(inflated)

    def check_end(self) -> None:
        """Refuse a body that is cut off."""
        if not self._stream.eof:
            raise Refused(400, f"the body is cut off ({self._encoding})", reason="unreadable")


def response(rejected: int, said: str, encoding: Encoding) -> bytes:
    """The message ``ExportTraceServiceResponse``, as which those for metrics and logs are encoded too.

    Args:
        rejected: Number of spans that are not stored.
        said: Why, or a warning about what is stored; the message is empty without it.
        encoding: That of the request.
    """
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    if encoding == "json":
        number = {"rejectedSpans": str(rejected)} if rejected else {}
        return msgspec.json.encode({"partialSuccess": {**number, "errorMessage": said}} if said else {})
    made = ExportTraceServiceResponse()
    if said:
        made.partial_success.rejected_spans = rejected
        made.partial_success.error_message = said
    return bytes(made.SerializeToString())


def _encoding(scope: "HTTPScope") -> Encoding:
    if scope["method"] != "POST":
        message = "OTLP is sent with POST"
        raise Refused(405, message, headers={"Allow": "POST"}, reason="method")
    found = media_type(header(scope["headers"], b"content-type"))
    if found not in _ENCODINGS:
        message = f'the content type is "{found[:100]}": expected {PROTOBUF} or {JSON}'
        raise Refused(415, message, reason="content_type")
    return _ENCODINGS[found]


def _inflater(encoding: str) -> _Inflater | None:
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        return None
    if encoding not in _WINDOW_BITS:
        message = f'the content encoding is "{encoding[:100]}": expected gzip, deflate or none'
        raise Refused(415, message, headers={"Accept-Encoding": "gzip, deflate"}, reason="content_encoding")
    return _Inflater(encoding)


def _too_large(message: str) -> Refused:
    return Refused(413, f"{message} (--max-request-mb): send smaller batches", reason="too_large")


def _failed(error: Exception) -> Refused:
    log.error("a request could not be answered", exc_info=error)
    return Refused(500, "the server has failed: its log says why")
