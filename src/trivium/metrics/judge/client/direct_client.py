"""Direct HTTP client: an optional fast path for OpenAI-compatible and Anthropic APIs over aiohttp.

It sends bytes from a template that PydanticAI wrote and decodes ordinary responses itself; PydanticAI reads
the others. Measured on loopback, a judgement takes 2.3 to 2.7 ms of CPU time here and 9.5 to 10.2 ms with
PydanticAI. ``judge.client: pydantic-ai`` turns this client off.
"""

import asyncio
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec

from trivium.metrics.judge.client.model_factory import ModelDescription, describe, open_model
from trivium.metrics.judge.client.provider_errors import error_in_body
from trivium.metrics.judge.client.pydantic_ai_client import (
    OnSent,
    PydanticAIClient,
    compact_logprobs,
    ignore_sent,
)
from trivium.metrics.judge.client.request import (
    MAX_TOKENS,
    Alternative,
    ModelRequest,
    ModelResponse,
    RequestError,
    Token,
)
from trivium.metrics.judge.client.request_template import RequestTemplate, address_of
from trivium.metrics.judge.client.template_cache import TemplateCache
from trivium.metrics.judge.client.template_capture import OfflineModel, RequestTemplates, has_templates
from trivium.suites.settings import ServerSettings

if TYPE_CHECKING:
    import ssl

    import aiohttp


DIRECT_PROVIDERS = frozenset(
    {"openai", "openai-chat", "anthropic", "deepseek", "fireworks", "litellm", "ollama", "together", "vllm"}
)
"""PydanticAI names of providers that use one fixed key and one of the two formats."""

MAX_BODY_BYTES = 16_000_000
"""Largest response body; a longer one is an error."""

MAX_SCREENED_TEXTS, MAX_CACHED_ERRORS, MAX_CACHED_ERROR_BYTES = 4096, 64, 4096
"""Number of screened texts and of decoded errors to cache, and the largest body of such an error."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})
FOLLOWED_REDIRECTS = frozenset({307, 308})
"""Redirects that keep method and body. They are followed on the same host."""
MAX_REDIRECTS = 5

ERROR_HEADERS = ("content-type", "retry-after", "retry-after-ms")
"""Headers that change how an error is decoded; part of the key of a cached error."""


def open_direct_client(
    name: str, server: ServerSettings | None = None, headers: Mapping[str, str] | None = None
) -> "DirectClient | None":
    """Open a direct client for a model, or return None if the model needs PydanticAI's client.

    Args:
        name: Its PydanticAI name.
        server: Its server, if not the one that the environment names.
        headers: Added to each request.

    Raises:
        ModelUnavailable: If the model cannot be used.
    """
    prefix = name.partition(":")[0]
    if prefix not in DIRECT_PROVIDERS:
        return None
    stored = TemplateCache.open(name, server)
    model = OfflineModel(name, server)
    if stored is None or (description := stored.description) is None:
        opened, _ = model.open()
        if not has_templates(opened, prefix):
            return None
        description = describe(opened, name)
    proxy = proxy_of(description.base_url)
    if proxy is not None and not proxy.startswith(("http://", "https://")):
        return None
    if urlsplit(description.base_url).username is not None:
        return None  # the SDK sends user and password in place of the key
    read = message_response if prefix == "anthropic" else chat_response

    def fallback() -> PydanticAIClient:
        return PydanticAIClient(open_model(name, server=server), headers)

    templates = RequestTemplates(model, headers, stored)
    return DirectClient(description, model, templates, fallback, read, proxy)


class DirectClient:
    """Sends what PydanticAI would send, decodes ordinary responses and leaves the others to PydanticAI.

    Args:
        description: What is known about the model.
        model: The model.
        templates: Templates of its requests.
        fallback: Opens PydanticAI's client, for texts that PydanticAI would change.
        read: Decodes an ordinary response; returns None for any other.
        proxy: URL of the proxy, or None.

    Attributes:
        description: What is known about the model.
    """

    def __init__(
        self,
        description: ModelDescription,
        model: OfflineModel,
        templates: RequestTemplates,
        fallback: Callable[[], PydanticAIClient],
        read: Callable[[bytes], ModelResponse | None],
        proxy: str | None,
    ) -> None:
        self.description = description
        self._model = model
        self._templates = templates
        self._open_fallback = fallback
        self._fallback: PydanticAIClient | None = None
        self._read = read
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._transports: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._redirected: dict[str, str] = {}
        self._errors: dict[tuple[object, ...], RequestError] = {}
        self._screened: dict[str, bool] = {}
        self._screens = description.screened

    async def send(self, request: ModelRequest, on_sent: OnSent = ignore_sent) -> ModelResponse:
        """See :meth:`~trivium.metrics.judge.client.pydantic_ai_client.Client.send`."""
        if self._screens and any(
            self._altered_by_sdk(text) for text in (request.instructions, request.case, *request.turns)
        ):
            self._fallback = self._fallback or self._open_fallback()
            return await self._fallback.send(request, on_sent)
        template = await self._templates.template(request)
        try:
            body = template.body(request)
        except UnicodeEncodeError as error:
            why = f"{request.model}: the request cannot be encoded as text: {error.reason}"
            raise RequestError(why, kind="permanent") from None
        status, headers, body_bytes = await self._exchange(request, template, body, on_sent)
        if status == 200:
            kind = headers.get("content-type", "json")
            if "json" not in kind.lower():
                why = f"the answer is {kind}, no JSON: is {template.address} where a model is asked?"
                raise RequestError(f"{request.model}: {why}", kind="provider_error", billed=True)
            response = self._read(body_bytes)
            if response is not None and not (self._screens and "\u200d" in response.text):
                return response
            if response is None and (failure := error_in_body(request, body_bytes)) is not None:
                raise failure
        return await self._read_with_sdk(request, status, headers, body_bytes)

    async def close(self) -> None:
        """See :meth:`~trivium.metrics.judge.client.pydantic_ai_client.Client.close`."""
        # The session forgets connections that it has begun to close, while a slow server may keep them open
        # (TLS shutdown, unread request).
        for transport in self._transports:
            transport.abort()
        if self._session is not None:
            await self._session.close()
        await asyncio.sleep(0)  # lets the transports finish closing
        await self._templates.close()
        if self._fallback is not None:
            await self._fallback.close()

    async def _exchange(
        self, request: ModelRequest, template: RequestTemplate, body: bytes, on_sent: OnSent
    ) -> tuple[int, dict[str, str], bytes]:
        import aiohttp

        if self._session is None:
            self._session = _session(template.url, self._transports)
        sent = False
        url = self._redirected.get(template.url, template.url)
        try:
            for _ in range(MAX_REDIRECTS):
                async with self._session.post(
                    url,
                    data=body,
                    headers=template.headers,
                    proxy=self._proxy,
                    allow_redirects=False,
                    trace_request_ctx=on_sent,
                ) as response:
                    sent = True
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    if response.status not in REDIRECTS:
                        return response.status, headers, await _read_body(request, response)
                    url = _redirect_target(request, response.status, url, headers.get("location", ""))
                    self._redirected[template.url] = url
            why = f"{request.model}: {template.address} redirects more than {MAX_REDIRECTS} times"
            raise RequestError(why, kind="permanent", same_for_all=True)
        except aiohttp.ClientHttpProxyError as error:
            raise RequestError(
                f"{request.model}: the proxy refuses: {error.status}", kind="connection"
            ) from None
        except aiohttp.ClientConnectorError as error:
            raise RequestError(f"{request.model}: no connection: {error}", kind="connection") from None
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            where = "in the middle of the answer" if sent else "before the answer"
            why = f"{request.model}: the connection was lost {where}: {type(error).__name__}"
            raise RequestError(why, kind="connection", billed=True) from None

    async def _read_with_sdk(
        self, request: ModelRequest, status: int, headers: dict[str, str], body_bytes: bytes
    ) -> ModelResponse:
        """Decode a response with PydanticAI. That takes milliseconds, so repeated errors are decoded once."""
        key = (request.model, status, body_bytes, *map(headers.get, ERROR_HEADERS))
        if (known := self._errors.get(key)) is not None:
            raise known.again()
        try:
            return await self._templates.read(request, status=status, headers=headers, body=body_bytes)
        except RequestError as failure:
            a_date = not headers.get("retry-after", "0").replace(".", "").isdecimal()
            if status >= 400 and len(body_bytes) <= MAX_CACHED_ERROR_BYTES and not a_date:
                if len(self._errors) >= MAX_CACHED_ERRORS:
                    self._errors.clear()
                self._errors[key] = failure.again()
            raise

    def _altered_by_sdk(self, text: str) -> bool:
        """Whether PydanticAI would change a text: it breaks up special tokens."""
        if text not in self._screened:
            from pydantic_ai.messages import ModelRequest as SdkRequest
            from pydantic_ai.messages import UserPromptPart

            if len(self._screened) >= MAX_SCREENED_TEXTS:
                self._screened.clear()
            model, _ = self._model.open()
            (prepared,) = model.prepare_messages([SdkRequest(parts=[UserPromptPart(text)])])
            part = prepared.parts[0]
            self._screened[text] = not isinstance(part, UserPromptPart) or part.content != text
        return self._screened[text]


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for an address, as the providers' SDKs would."""
    parts = urlsplit(url)
    if parts.hostname is None or urllib.request.proxy_bypass(parts.hostname):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _redirect_target(request: ModelRequest, status: int, url: str, location: str) -> str:
    """Return the target of a redirect on the same host. The key is sent to no other host.

    Raises:
        RequestError: If it leads to another host, or would drop the method or body.
    """
    target = urljoin(url, location)
    here, there = urlsplit(url), urlsplit(target)
    try:
        same = (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port)
        secured = (here.scheme, there.scheme) == ("http", "https") and (here.port, there.port) == (None, None)
        same = same or (secured and here.hostname == there.hostname)
    except ValueError:  # invalid port
        same = False
    if location and same and status in FOLLOWED_REDIRECTS:
        return target
    place = address_of(target) if location else "nowhere"
    why = f"{request.model}: {address_of(url)} redirects (HTTP {status}) to {place}, which is not followed"
    if not same and location:
        why += ", as the key would go to another host; if that is meant, name it as the base URL"
    raise RequestError(why, kind="permanent", same_for_all=True)


def _session(url: str, transports: "weakref.WeakSet[asyncio.Transport]") -> "aiohttp.ClientSession":
    """Create a session that records the transports of its connections."""
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *args: Any, **kwargs: Any) -> "aiohttp.connector.Connection":
            connection = await super().connect(*args, **kwargs)
            if connection.transport is not None:
                transports.add(connection.transport)
            return connection

    secure: ssl.SSLContext | bool = True
    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(_on_body_sent)
    if url.startswith("https"):
        import httpx2

        secure = httpx2.create_ssl_context()  # trusts what the SDKs trust, SSL_CERT_FILE included
    return aiohttp.ClientSession(
        connector=Connector(limit=0, ssl=secure, keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "gzip, deflate"},
        trace_configs=[trace],
    )


async def _on_body_sent(_session: object, request: SimpleNamespace, _sent: object) -> None:
    """Report that a request is sent: connected, and the first part of its body written."""
    request.trace_request_ctx()


async def _read_body(request: ModelRequest, response: "aiohttp.ClientResponse") -> bytes:
    chunks, size = [], 0
    while chunk := await response.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            why = f"{request.model}: the answer is longer than {MAX_BODY_BYTES:,} bytes"
            raise RequestError(why, kind="provider_error", billed=True)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]


class _TokenLogprob(msgspec.Struct, gc=False):
    token: str
    logprob: float
    top_logprobs: list[Alternative] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_TokenLogprob] | None = None


class _Function(msgspec.Struct):
    arguments: str


class _ToolCall(msgspec.Struct):
    function: _Function
    type: str = "function"


class _Message(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(msgspec.Struct):
    message: _Message
    finish_reason: str


class _LoggedChoice(_Choice):
    logprobs: _Logprobs | None = None


C = TypeVar("C", bound=_Choice)


class _PromptDetails(msgspec.Struct):
    cached_tokens: _Count | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: _Count
    completion_tokens: _Count
    prompt_tokens_details: _PromptDetails | None = None


class _Chat(msgspec.Struct, Generic[C]):
    choices: list[C]
    model: str | None = None
    usage: _ChatUsage | None = None


class _Block(msgspec.Struct):
    type: str
    text: str = ""
    input: msgspec.Raw = msgspec.Raw(b"null")


class _MessageUsage(msgspec.Struct):
    input_tokens: _Count
    output_tokens: _Count
    cache_creation_input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None


class _MessageBody(msgspec.Struct):
    content: list[_Block]
    stop_reason: str
    model: str | None = None
    usage: _MessageUsage | None = None


_LOGGED = msgspec.json.Decoder(_Chat[_LoggedChoice])
_CHAT = msgspec.json.Decoder(_Chat[_Choice])
_MESSAGE = msgspec.json.Decoder(_MessageBody)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_CHAT_FINISH = {"stop": "stop", "length": "length", "tool_calls": "tool_call"}
_MESSAGE_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_call",
}


def chat_response(body: bytes) -> ModelResponse | None:
    """Decode a chat completion in OpenAI's format; None if it is not an ordinary one."""
    chat: _Chat[Any]
    try:
        chat = _LOGGED.decode(body)
    except _UNREADABLE:
        try:
            chat = _CHAT.decode(body)  # malformed log-probabilities do not make the answer unusable
        except _UNREADABLE:
            return None
    if len(chat.choices) != 1:
        return None
    choice = chat.choices[0]
    message, finish = choice.message, _CHAT_FINISH.get(choice.finish_reason)
    text = message.tool_calls[0].function.arguments if message.tool_calls else message.content
    # Thoughts between tags, refusals and empty answers are left to PydanticAI.
    if finish is None or message.refusal or not text or "<think" in text[:200]:
        return None
    usage = chat.usage or _ChatUsage(prompt_tokens=0, completion_tokens=0)
    details = usage.prompt_tokens_details
    return ModelResponse(
        text=text,
        finish=finish,
        model=chat.model or "",
        logprobs=_logprobs(getattr(choice, "logprobs", None), text, body),
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=(details and details.cached_tokens) or 0,
        cost_usd=None,
    )


def _logprobs(logprobs: _Logprobs | None, text: str, body: bytes) -> list[Token] | None:
    """Return the log-probabilities of the tokens of a text."""
    if logprobs is None or not logprobs.content:
        return None
    if text in "".join([each.token for each in logprobs.content]):
        return [Token(each.token, each.logprob, each.top_logprobs) for each in logprobs.content]
    # A token is part of a character, so decode the bytes, too.
    return compact_logprobs(msgspec.json.decode(body)["choices"][0]["logprobs"]["content"])


def message_response(body: bytes) -> ModelResponse | None:
    """Decode a message in Anthropic's format; None if it is not an ordinary one."""
    try:
        message = _MESSAGE.decode(body)
    except _UNREADABLE:
        return None
    finish = _MESSAGE_FINISH.get(message.stop_reason)
    if finish is None or len(message.content) != 1:
        return None
    block = message.content[0]
    arguments = bytes(block.input)
    if block.type == "tool_use" and arguments.startswith(b"{"):
        text = arguments.decode(errors="replace")  # undecoded, so that duplicate keys are noticed
    elif block.type == "text" and block.text:
        text = block.text
    else:
        return None
    usage = message.usage or _MessageUsage(input_tokens=0, output_tokens=0)
    cached, cache_write = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return ModelResponse(
        text=text,
        finish=finish,
        model=message.model or "",
        logprobs=None,
        input_tokens=usage.input_tokens + cached + cache_write,
        output_tokens=usage.output_tokens,
        cached_tokens=cached,
        cache_write_tokens=cache_write,
        cost_usd=None,
    )
