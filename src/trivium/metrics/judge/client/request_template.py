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

_MARK = f"trivium-{secrets.token_hex(8)}-"
_MARKED = re.compile(f"{_MARK}([0-9]+)-".encode())

LEFT_TO_THE_CLIENT = frozenset(
    {"host", "content-length", "connection", "accept-encoding", "transfer-encoding"}
)


class RequestTemplate(msgspec.Struct, frozen=True):
    """A request body with placeholders for texts: 0 instructions, 1 case, 2 and on the turns.

    Attributes:
        url: Address of the request.
        headers: Its headers. They contain the API key: never show them.
        pieces: Parts of the JSON body between the placeholders.
        places: Index of the text between each two pieces.
    """

    url: str
    headers: dict[str, str]
    pieces: tuple[bytes, ...]
    places: tuple[int, ...]

    def __repr__(self) -> str:
        return f"RequestTemplate({self.url!r})"

    @property
    def address(self) -> str:
        """Host and path, without what could be a secret."""
        return address_of(self.url)

    def body(self, call: ModelRequest) -> bytes:
        """Return the body of a request.

        Raises:
            UnicodeEncodeError: If a text holds a lone surrogate.
        """
        texts = [_inside(each) for each in _texts(call)]
        body = [self.pieces[0]]
        for place, piece in zip(self.places, self.pieces[1:], strict=True):
            body += (texts[place], piece)
        return b"".join(body)


def address_of(url: str) -> str:
    """Scheme, host and path of a URL, without what could be a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class RequestTemplates:
    """Lets PydanticAI write requests and decode responses without a network.

    What differs between models (no temperature for reasoning models, the name of the token limit, a stricter
    schema) is therefore decided by PydanticAI alone.

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
        self._one_at_a_time = asyncio.Lock()
        self._templates: dict[tuple[Any, ...], RequestTemplate] = {}

    async def template(self, call: ModelRequest) -> RequestTemplate:
        """Return the template of a request; requests that differ only in their texts share one.

        Raises:
            RequestError: If PydanticAI refuses to send it.
        """
        schema = msgspec.json.encode([call.schema, call.body])
        settings = (call.temperature, call.seed, call.max_tokens, call.top_logprobs)
        others = (call.output, call.limit, call.reasoning_effort, call.marks)
        key = (schema, settings, others, len(call.turns))
        if key not in self._templates:
            async with self._one_at_a_time:
                if key not in self._templates:  # others may have waited for the same
                    self._templates[key] = await self._capture_template(call)
        return self._templates[key]

    async def read(
        self, call: ModelRequest, *, status: int, headers: Mapping[str, str], body: bytes
    ) -> ModelResponse:
        """Decode an HTTP response with PydanticAI.

        Raises:
            RequestError: If it holds no answer.
        """
        import httpx2

        kept = [
            (_as_sent(name), _as_sent(value))
            for name, value in headers.items()
            if name.lower() not in _OF_THE_WIRE
        ]
        async with self._one_at_a_time:
            self._transport.answer = httpx2.Response(status, headers=kept, content=body)
            try:
                return await respond(self._model, call, self._headers)
            finally:
                self._transport.answer = None

    async def close(self) -> None:
        """Close the client that never had a connection."""
        await self._transport.client.aclose()

    async def _capture_template(self, call: ModelRequest) -> RequestTemplate:
        marks = [f"{_MARK}{index}-" for index in range(len(call.turns) + 2)]
        marked = msgspec.structs.replace(call, instructions=marks[0], case=marks[1], turns=tuple(marks[2:]))
        request = await self._capture(marked)
        parts = _MARKED.split(request.content)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in LEFT_TO_THE_CLIENT and "idempotency" not in name.lower()
        }
        return RequestTemplate(
            str(request.url), headers, tuple(parts[::2]), tuple(int(place) for place in parts[1::2])
        )

    async def _capture(self, call: ModelRequest) -> "httpx2.Request":
        self._transport.captured.clear()
        try:
            await respond(self._model, call, self._headers)
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


_OF_THE_WIRE = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})


def _texts(call: ModelRequest) -> list[str]:
    first, *others = call.turns
    return [call.instructions, call.case, first, *(turn or "(no answer)" for turn in others)]


def _as_sent(header: str) -> bytes:
    """A header or its name in its original bytes."""
    return header.encode(errors="surrogateescape")


def _inside(text: str) -> bytes:
    """Escape a text for a JSON string, without the quotes."""
    return msgspec.json.encode(text)[1:-1]
