"""Builds request bytes from a template captured from PydanticAI's SDK, and decodes responses with it."""

import asyncio
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from trivium.metrics.judge.client.pydantic_ai_client import respond
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse, RequestError

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

_PLACEHOLDER = f"trivium-{secrets.token_hex(8)}-"
_PLACEHOLDER_PATTERN = re.compile(f"{_PLACEHOLDER}([0-9]+)-".encode())

_CLIENT_HEADERS = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})
"""Request headers that the sending client sets itself, so that templates leave them out."""

_TRANSPORT_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})
"""Response headers that no longer apply to the decoded body."""


class RequestTemplate(msgspec.Struct, frozen=True):
    """A request body with placeholders for texts: 0 instructions, 1 case, 2 and on the turns.

    Attributes:
        url: Address of the request.
        headers: Its headers. They contain the API key: never show them.
        pieces: Parts of the JSON body between the placeholders.
        places: Index of the text that goes between each two pieces.
    """

    url: str
    headers: dict[str, str]
    pieces: tuple[bytes, ...]
    places: tuple[int, ...]

    def __repr__(self) -> str:
        return f"RequestTemplate({self.url!r})"

    @property
    def address(self) -> str:
        """Scheme, host and path of ``url``, without credentials and query."""
        return address_of(self.url)

    def body(self, request: ModelRequest) -> bytes:
        """Return the body of a request.

        Raises:
            UnicodeEncodeError: If a text holds a lone surrogate.
        """
        texts = [_json_inner(each) for each in _texts(request)]
        body = [self.pieces[0]]
        for place, piece in zip(self.places, self.pieces[1:], strict=True):
            body += (texts[place], piece)
        return b"".join(body)


def address_of(url: str) -> str:
    """Scheme, host and path of a URL, without credentials and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class RequestTemplates:
    """Lets PydanticAI build requests and decode responses without a network.

    So PydanticAI alone decides what differs between models: no temperature for reasoning models, the name of
    the token limit, a stricter schema.

    Args:
        model: A model opened with ``transport``.
        transport: Replaces its connection.
        headers: Added to each request.
    """

    def __init__(
        self, model: "Model", transport: "CapturingTransport", headers: Mapping[str, str] | None = None
    ) -> None:
        self._model = model
        self._headers = headers or {}
        self._transport = transport
        self._lock = asyncio.Lock()
        self._templates: dict[tuple[Any, ...], RequestTemplate] = {}

    async def template(self, request: ModelRequest) -> RequestTemplate:
        """Return the template of a request; requests that differ only in their texts share one.

        Raises:
            RequestError: If PydanticAI refuses to send it.
        """
        schema = msgspec.json.encode([request.schema, request.body])
        settings = (request.temperature, request.seed, request.max_tokens, request.top_logprobs)
        others = (request.output, request.limit, request.reasoning_effort, request.marks)
        key = (schema, settings, others, len(request.turns))
        if key not in self._templates:
            async with self._lock:
                if key not in self._templates:  # others may have waited for the same
                    self._templates[key] = await self._capture_template(request)
        return self._templates[key]

    async def read(
        self, request: ModelRequest, *, status: int, headers: Mapping[str, str], body: bytes
    ) -> ModelResponse:
        """Decode an HTTP response with PydanticAI.

        Raises:
            RequestError: If it holds no answer.
        """
        import httpx2

        raw_headers = [
            (_header_bytes(name), _header_bytes(value))
            for name, value in headers.items()
            if name.lower() not in _TRANSPORT_HEADERS
        ]
        async with self._lock:
            self._transport.answer = httpx2.Response(status, headers=raw_headers, content=body)
            try:
                return await respond(self._model, request, self._headers)
            finally:
                self._transport.answer = None

    async def close(self) -> None:
        """Close the HTTP client, which never had a connection."""
        await self._transport.client.aclose()

    async def _capture_template(self, request: ModelRequest) -> RequestTemplate:
        marks = [f"{_PLACEHOLDER}{index}-" for index in range(len(request.turns) + 2)]
        marked = msgspec.structs.replace(
            request, instructions=marks[0], case=marks[1], turns=tuple(marks[2:])
        )
        captured = await self._capture(marked)
        parts = _PLACEHOLDER_PATTERN.split(captured.content)
        headers = {
            name: value
            for name, value in captured.headers.items()
            if name.lower() not in _CLIENT_HEADERS and "idempotency" not in name.lower()
        }
        return RequestTemplate(
            str(captured.url), headers, tuple(parts[::2]), tuple(int(place) for place in parts[1::2])
        )

    async def _capture(self, request: ModelRequest) -> "httpx2.Request":
        self._transport.captured.clear()
        try:
            await respond(self._model, request, self._headers)
        except RequestError:
            if not self._transport.captured:
                raise
        return self._transport.captured.pop()


class CapturingTransport:
    """An HTTP transport without a network: captures requests, or returns a prepared response.

    Attributes:
        client: HTTP client for the provider's SDK.
        captured: Requests captured so far.
        answer: The response to return, or None to capture.
    """

    def __init__(self) -> None:
        import httpx2

        transport = self

        class Transport(httpx2.AsyncBaseTransport):
            async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
                if transport.answer is not None:
                    return transport.answer
                await request.aread()
                transport.captured.append(request)
                raise httpx2.ConnectError("not sent", request=request)

        self.client = httpx2.AsyncClient(transport=Transport())
        self.captured: list[httpx2.Request] = []
        self.answer: httpx2.Response | None = None


def _texts(request: ModelRequest) -> list[str]:
    first, *others = request.turns
    return [request.instructions, request.case, first, *(turn or "(no answer)" for turn in others)]


def _header_bytes(header: str) -> bytes:
    """Return the original bytes of a header or its name."""
    return header.encode(errors="surrogateescape")


def _json_inner(text: str) -> bytes:
    """Escape a text for a JSON string, without the quotes."""
    return msgspec.json.encode(text)[1:-1]
