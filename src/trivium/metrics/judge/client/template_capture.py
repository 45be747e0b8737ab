"""Captures request templates from PydanticAI, which sends nothing, and decodes responses with it."""

import asyncio
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from trivium.metrics.judge.client.model_factory import ModelUnavailable, describe, open_model
from trivium.metrics.judge.client.pydantic_ai_client import respond
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse, RequestError
from trivium.metrics.judge.client.request_template import RequestTemplate
from trivium.metrics.judge.client.template_cache import TemplateCache
from trivium.suites.settings import ServerSettings

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model

_PLACEHOLDER = f"trivium-{secrets.token_hex(8)}-"
_PLACEHOLDER_PATTERN = re.compile(f"{_PLACEHOLDER}([0-9]+)-".encode())

_CLIENT_HEADERS = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})
"""Request headers that the sending client sets itself, so that templates leave them out."""

_TRANSPORT_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection"})
"""Response headers that no longer apply to the decoded body."""


class OfflineModel:
    """A model of PydanticAI without a network, opened at first use, which imports PydanticAI.

    Args:
        name: Its PydanticAI name.
        server: Its server, if not the one that the environment names.
    """

    def __init__(self, name: str, server: ServerSettings | None = None) -> None:
        self.name = name
        self._server = server
        self._opened: tuple[Model, CapturingTransport] | None = None

    def open(self) -> "tuple[Model, CapturingTransport]":
        """Return the model and the transport that replaces its connection.

        Raises:
            ModelUnavailable: If the model cannot be used.
        """
        if self._opened is None:
            transport = CapturingTransport()
            self._opened = open_model(self.name, http_client=transport.client, server=self._server), transport
        return self._opened

    async def close(self) -> None:
        """Close the HTTP client, which never had a connection."""
        if self._opened is not None:
            await self._opened[1].client.aclose()


def has_templates(model: "Model", provider: str) -> bool:
    """Whether the requests of a model's class can be captured.

    Args:
        model: The model.
        provider: Its provider, whose SDK alone is imported, because each takes long to import.
    """
    if provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel

        return type(model) is AnthropicModel
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.models.openai import OpenAIChatModel

    return type(model) in (OpenAIChatModel, OllamaModel)


class RequestTemplates:
    """Lets PydanticAI build requests and decode responses without a network.

    So PydanticAI alone decides what differs between models: no temperature for reasoning models, the name of
    the token limit, a stricter schema.

    Args:
        model: The model.
        headers: Added to each request.
        stored: Templates of earlier commands, or None.
    """

    def __init__(
        self,
        model: OfflineModel,
        headers: Mapping[str, str] | None = None,
        stored: TemplateCache | None = None,
    ) -> None:
        self._model = model
        self._headers = headers or {}
        self._stored = stored
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
                    self._templates[key] = await self._stored_or_captured(key, request)
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
        model, transport = self._open(request)
        async with self._lock:
            transport.answer = httpx2.Response(status, headers=raw_headers, content=body)
            try:
                return await respond(model, request, self._headers)
            finally:
                transport.answer = None

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    def _open(self, request: ModelRequest) -> "tuple[Model, CapturingTransport]":
        try:
            return self._model.open()
        except ModelUnavailable as unavailable:  # it was available to an earlier command
            raise RequestError(str(unavailable), kind="permanent", same_for_all=True, sent=False) from None

    async def _stored_or_captured(self, key: tuple[Any, ...], request: ModelRequest) -> RequestTemplate:
        stored = self._stored
        # PydanticAI may warn that it ignores such settings, which a stored template would not.
        if stored is None or request.body or request.reasoning_effort is not None:
            return await self._capture_template(request)
        template = stored.get(key, self._headers)
        if template is None:
            template = await self._capture_template(request)
            model, _ = self._open(request)
            stored.put(key, template, describe(model, self._model.name), self._headers)
        return template

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
        model, transport = self._open(request)
        transport.captured.clear()
        try:
            await respond(model, request, self._headers)
        except RequestError:
            if not transport.captured:
                raise
        return transport.captured.pop()


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


def _header_bytes(header: str) -> bytes:
    """Return the original bytes of a header or its name."""
    return header.encode(errors="surrogateescape")
