"""Posts each case to an HTTP endpoint, and reads at most ``limits.output_bytes`` of the response."""

import asyncio
import logging
import zlib
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

from trivium.agents.attempt import AgentFailure, AgentResponse, Request
from trivium.agents.response import decode_json, parse_response, too_large
from trivium.http import is_retryable_status, retry_after_seconds
from trivium.masking import mask

log = logging.getLogger(__name__)

_CONNECT_SECONDS = 30.0
_ERROR_BODY_BYTES = 2_000
"""Bytes of an error response's body that become part of the reason."""

ANSWER_FIELDS = (
    "answer",
    "response",
    "text",
    "content",
    "result",
    "completion",
    "reply",
    "message",
    "output_text",
    "generated_text",
)
"""Names under which endpoints return their text, where it is not ``output``."""


class EndpointAgent:
    """Calls an agent over HTTP.

    It receives ``{"input", "case", "repeat", "seed"}`` as JSON by POST. A JSON response with the key
    ``output`` has the fields of an Attempt (see :func:`trivium.agents.response.parse_response`). Of another
    JSON object the one text under a name of ``ANSWER_FIELDS`` is the output, which is logged once; its other
    keys are read as beside ``output``. Any other JSON or text is the output itself, and 204 means that there
    is none. The whole body is bounded by ``limits.output_bytes`` and decompressed while it is read, so that a
    huge one does not fill memory.

    Args:
        url: The address to post to.
        transport: The HTTP transport; the network by default.
    """

    runs_off_loop = True

    def __init__(self, url: str, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.name = mask(url)
        self._url = url
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fields: set[str] = set()

    async def call(self, request: Request) -> AgentResponse:
        """Post the case once."""
        body_fields = {
            "input": request.case.input,
            "case": request.case.id,
            "repeat": request.repeat,
            "seed": request.seed,
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/*;q=0.9, */*;q=0.1",
            "Accept-Encoding": ACCEPTED,
        }
        content = msgspec.json.encode(body_fields)
        async with self._client_of_loop().stream(
            "POST", self._url, content=content, headers=headers
        ) as response:
            if not response.is_success:
                raise await _status_failure(response)
            body = await read_decompressed_prefix(response, request.output_bytes + 1)
            if len(body) > request.output_bytes:
                raise too_large(request.output_bytes)
        value, is_json = _decoded(response, body)
        field = _answer_field(value) if is_json else None
        if field is None:
            return parse_response(value) if is_json else AgentResponse(output=value)
        if field not in self._fields:
            self._fields.add(field)
            log.warning('%s answers with an object: its text "%s" is the output', self.name, field)
        return parse_response({key: value[key] for key in value if key != field} | {"output": value[field]})

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    def _client_of_loop(self) -> httpx.AsyncClient:
        """Return the client of the current event loop; event loops cannot share connections."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop = loop
            self._client = httpx.AsyncClient(
                transport=self._transport,
                timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),  # the attempt has its own time limit
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            )
        return self._client


async def _status_failure(response: httpx.Response) -> AgentFailure:
    """Make the failure for a status other than 2xx, with the beginning of the body."""
    try:
        body = await read_decompressed_prefix(response, _ERROR_BODY_BYTES)
    except AgentFailure:  # the status is enough
        body = b""
    text = body.decode(errors="replace").strip()
    status = f"HTTP {response.status_code} {response.reason_phrase}".strip()
    if response.has_redirect_location:
        text = f"redirects to {response.headers['location']}; name that address instead"
    return AgentFailure(
        f"{status}: {text}" if text else status,
        retryable=is_retryable_status(response.status_code),
        retry_after=retry_after_seconds(response.headers),
    )


def _answer_field(value: Any) -> str | None:
    """The field of an answer that is its text; None if the answer says which or leaves it open."""
    if not isinstance(value, Mapping) or "output" in value or isinstance(value.get("error"), str):
        return None
    texts = [name for name in ANSWER_FIELDS if isinstance(value.get(name), str)]
    return texts[0] if len(texts) == 1 else None


def _decoded(response: httpx.Response, body: bytes) -> tuple[Any, bool]:
    """The JSON value or the text of an answer, and whether it is JSON."""
    if response.status_code == httpx.codes.NO_CONTENT:
        return None, False
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        return decode_json(body), True
    try:
        return body.decode(response.charset_encoding or "utf-8"), False
    except (UnicodeDecodeError, LookupError) as error:
        raise AgentFailure(f"the answer ({kind or 'of no stated type'}) is not text: {error}") from error


ACCEPTED = "gzip"
"""Content codings that the server may use (``Accept-Encoding``)."""

_GZIP_FRAME = 16 + zlib.MAX_WBITS


async def read_decompressed_prefix(response: "httpx.Response", size: int) -> bytes:
    """Read the first ``size`` bytes of a body; the rest is neither read nor decompressed.

    httpx itself would decompress any coding, one whole chunk at a time: 60 kB of zstd become 2 GB.

    Raises:
        AgentFailure: If the body has an unsupported coding, or is invalid gzip.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding not in {"", "identity", "gzip", "x-gzip"}:
        raise AgentFailure(f'the answer is packed as "{coding[:40]}", expected gzip or as it is')
    packed = zlib.decompressobj(_GZIP_FRAME) if coding.endswith("gzip") else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        left = size - len(body)
        try:
            body += packed.decompress(chunk, left) if packed else chunk[:left]
        except zlib.error as error:
            raise AgentFailure(f"the answer is no gzip, though it says so: {error}") from error
        if len(body) >= size:
            return bytes(body)
    if packed and not packed.eof and response.num_bytes_downloaded:
        raise AgentFailure("the answer is gzip that ends in the middle")
    return bytes(body)
