"""Fast path: OpenAI-compatible and Anthropic over aiohttp."""

import asyncio
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar
from urllib.parse import urljoin, urlsplit

import msgspec

from trivium.metrics.judge.client.model_factory import open_model
from trivium.metrics.judge.client.provider_errors import error_within
from trivium.metrics.judge.client.pydantic_ai_client import (
    Heard,
    Left,
    UsualClient,
    passed_over,
    thinned,
    unheard,
)
from trivium.metrics.judge.client.request import MOST_TOKENS, Alternative, Call, Reply, Token, Trouble
from trivium.metrics.judge.client.request_template import Shape, Shaping, Tap, address_of
from trivium.suites.settings import ServerSettings

if TYPE_CHECKING:
    import ssl

    import aiohttp
    from pydantic_ai.models import Model


SPOKEN = frozenset(
    {"openai", "openai-chat", "anthropic", "deepseek", "fireworks", "litellm", "ollama", "together", "vllm"}
)
"""Providers by their PydanticAI names that are reached with one fixed key and speak either format."""

MOST_BODY = 16_000_000
"""Bytes of an answer; a longer one is none."""

SCREENED_AT_ONCE = 4096

ERRORS_AT_ONCE, LONGEST_ERROR = 64, 4096
"""Errors that are known by heart, and the bytes that one may have."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})
FOLLOWED = frozenset({307, 308})
"""Redirects that keep method and body; they are followed on the same host."""

MOST_REDIRECTS = 5

OF_AN_ERROR = ("content-type", "retry-after", "retry-after-ms")
"""Headers that what an error means depends on."""


def lean_client(
    name: str, server: ServerSettings | None = None, headers: Mapping[str, str] | None = None
) -> "LeanClient | None":
    """A lean client for a model, or None where it has to be asked the usual way.

    Args:
        name: Its PydanticAI name.
        server: Where it is asked, if not where the environment says.
        headers: Added to each request.

    Raises:
        ModelOff: If it cannot be used.
    """
    prefix = name.partition(":")[0]
    if prefix not in SPOKEN:
        return None
    tap = Tap()
    model = open_model(name, over=tap.client, server=server)
    if type(model) not in _shaped(prefix):
        return None
    proxy = proxy_of(str(model.base_url))
    if proxy is not None and not proxy.startswith(("http://", "https://")):
        return None
    if urlsplit(str(model.base_url)).username is not None:
        return None  # which goes in place of the key, as the SDK's client has it
    read = message_reply if prefix == "anthropic" else chat_reply

    def usual() -> UsualClient:
        return UsualClient(open_model(name, server=server), headers)

    return LeanClient(model, Shaping(model, tap, headers), usual, read, proxy)


def _shaped(prefix: str) -> "tuple[type[Model], ...]":
    """Classes of models whose requests can be shaped; the SDK of another provider takes seconds to import."""
    if prefix == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel

        return (AnthropicModel,)
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.models.openai import OpenAIChatModel

    return OpenAIChatModel, OllamaModel


class LeanClient:
    """Sends what PydanticAI would send, reads usual answers itself and has PydanticAI read the others.

    Args:
        model: Opened over a tap.
        shaping: How its requests are shaped.
        usual: Opens the way around, for texts that PydanticAI would change.
        read: Reads a usual answer.
        proxy: Between here and there, or None.

    Attributes:
        model: It.
    """

    def __init__(
        self,
        model: "Model",
        shaping: Shaping,
        usual: Callable[[], UsualClient],
        read: Callable[[bytes], Reply | None],
        proxy: str | None,
    ) -> None:
        self.model = model
        self._shaping = shaping
        self._open_usual = usual
        self._usual: UsualClient | None = None
        self._read = read
        self._proxy = proxy
        self._session: aiohttp.ClientSession | None = None
        self._transports: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._moved: dict[str, str] = {}
        self._errors: dict[tuple[object, ...], Trouble] = {}
        self._screened: dict[str, bool] = {}
        self._screens = bool(model.profile.get("may_tokenize_special_tokens_in_content"))

    async def send(self, call: Call, left: Left = unheard, heard: Heard = passed_over) -> Reply:
        """See :meth:`~trivium.metrics.judge.client.pydantic_ai_client.Client.send`."""
        if self._screens and any(self._changes(text) for text in (call.instructions, call.case, *call.turns)):
            self._usual = self._usual or self._open_usual()
            return await self._usual.send(call, left, heard)
        shape = await self._shaping.shape(call)
        try:
            body = shape.body(call)
        except UnicodeEncodeError as error:
            why = f"{call.model}: what it would be sent is no text: {error.reason}"
            raise Trouble(why, kind="final") from None
        status, headers, answer = await self._exchange(call, shape, body, left)
        heard(headers)
        if status == 200:
            kind = headers.get("content-type", "json")
            if "json" not in kind.lower():
                why = f"the answer is {kind}, no JSON: is {shape.address} where a model is asked?"
                raise Trouble(f"{call.model}: {why}", kind="failing", billed=True)
            reply = self._read(answer)
            if reply is not None and not (self._screens and "\u200d" in reply.text):
                return reply
            if reply is None and (trouble := error_within(call, answer)) is not None:
                raise trouble
        return await self._read_once(call, status, headers, answer)

    async def close(self) -> None:
        """See :meth:`~trivium.metrics.judge.client.pydantic_ai_client.Client.close`."""
        # The session forgets connections that it began to end, and a server may be slow at its part in that:
        # to say goodbye over TLS, to take in what was being sent.
        for transport in self._transports:
            transport.abort()
        if self._session is not None:
            await self._session.close()
        await asyncio.sleep(0)  # lets them notice
        await self._shaping.close()
        if self._usual is not None:
            await self._usual.close()

    async def _exchange(
        self, call: Call, shape: Shape, body: bytes, left: Left
    ) -> tuple[int, dict[str, str], bytes]:
        import aiohttp

        if self._session is None:
            self._session = _session(shape.url, self._transports)
        sent = False
        url = self._moved.get(shape.url, shape.url)
        try:
            for _ in range(MOST_REDIRECTS):
                async with self._session.post(
                    url,
                    data=body,
                    headers=shape.headers,
                    proxy=self._proxy,
                    allow_redirects=False,
                    trace_request_ctx=left,
                ) as response:
                    sent = True
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    if response.status not in REDIRECTS:
                        return response.status, headers, await _bounded(call, response)
                    url = _followed(call, response.status, url, headers.get("location", ""))
                    self._moved[shape.url] = url
            why = f"{call.model}: {shape.address} redirects more than {MOST_REDIRECTS} times"
            raise Trouble(why, kind="final", same_for_all=True)
        except aiohttp.ClientHttpProxyError as error:
            raise Trouble(f"{call.model}: the proxy refuses: {error.status}", kind="lost") from None
        except aiohttp.ClientConnectorError as error:
            raise Trouble(f"{call.model}: no connection: {error}", kind="lost") from None
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            where = "in the middle of the answer" if sent else "before the answer"
            why = f"{call.model}: the connection was lost {where}: {type(error).__name__}"
            raise Trouble(why, kind="lost", billed=True) from None

    async def _read_once(self, call: Call, status: int, headers: dict[str, str], answer: bytes) -> Reply:
        """What PydanticAI makes of an answer; it takes milliseconds, so errors that repeat are read once."""
        key = (call.model, status, answer, *map(headers.get, OF_AN_ERROR))
        if (known := self._errors.get(key)) is not None:
            raise known.again()
        try:
            return await self._shaping.read(call, status=status, headers=headers, body=answer)
        except Trouble as trouble:
            a_date = not headers.get("retry-after", "0").replace(".", "").isdecimal()
            if status >= 400 and len(answer) <= LONGEST_ERROR and not a_date:
                if len(self._errors) >= ERRORS_AT_ONCE:
                    self._errors.clear()
                self._errors[key] = trouble.again()
            raise

    def _changes(self, text: str) -> bool:
        """Whether PydanticAI would send something else: it breaks up what a tokenizer takes for a command."""
        if text not in self._screened:
            from pydantic_ai.messages import ModelRequest, UserPromptPart

            if len(self._screened) >= SCREENED_AT_ONCE:
                self._screened.clear()
            (prepared,) = self.model.prepare_messages([ModelRequest(parts=[UserPromptPart(text)])])
            part = prepared.parts[0]
            self._screened[text] = not isinstance(part, UserPromptPart) or part.content != text
        return self._screened[text]


def proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address, as the providers' SDKs would have it."""
    parts = urlsplit(url)
    if parts.hostname is None or urllib.request.proxy_bypass(parts.hostname):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _followed(call: Call, status: int, url: str, location: str) -> str:
    """Where a redirect leads, on the same host; the key is carried to no other.

    Raises:
        Trouble: If it leads elsewhere, or is of a kind that would lose the request.
    """
    target = urljoin(url, location)
    here, there = urlsplit(url), urlsplit(target)
    try:
        same = (here.scheme, here.hostname, here.port) == (there.scheme, there.hostname, there.port)
        secured = (here.scheme, there.scheme) == ("http", "https") and (here.port, there.port) == (None, None)
        same = same or (secured and here.hostname == there.hostname)
    except ValueError:  # of a port
        same = False
    if location and same and status in FOLLOWED:
        return target
    place = address_of(target) if location else "nowhere"
    why = f"{call.model}: {address_of(url)} redirects (HTTP {status}) to {place}, which is not followed"
    if not same and location:
        why += ", as the key would go to another host; if that is meant, name it as the base URL"
    raise Trouble(why, kind="final", same_for_all=True)


def _session(url: str, transports: "weakref.WeakSet[asyncio.Transport]") -> "aiohttp.ClientSession":
    """A session that notes the transports of its connections."""
    import aiohttp

    class Connector(aiohttp.TCPConnector):
        async def connect(self, *args: Any, **kwargs: Any) -> "aiohttp.connector.Connection":
            connection = await super().connect(*args, **kwargs)
            if connection.transport is not None:
                transports.add(connection.transport)
            return connection

    secure: ssl.SSLContext | bool = True
    departures = aiohttp.TraceConfig()
    departures.on_request_chunk_sent.append(_left)
    if url.startswith("https"):
        import httpx2

        secure = httpx2.create_ssl_context()  # what the SDKs trust, SSL_CERT_FILE included
    return aiohttp.ClientSession(
        connector=Connector(limit=0, ssl=secure, keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "gzip, deflate"},
        trace_configs=[departures],
    )


async def _left(_session: object, request: SimpleNamespace, _sent: object) -> None:
    """A request goes out: there is a connection, and the first of its body is written."""
    request.trace_request_ctx()


async def _bounded(call: Call, response: "aiohttp.ClientResponse") -> bytes:
    chunks, size = [], 0
    while chunk := await response.content.readany():
        chunks.append(chunk)
        size += len(chunk)
        if size > MOST_BODY:
            why = f"{call.model}: the answer is longer than {MOST_BODY:,} bytes"
            raise Trouble(why, kind="failing", billed=True)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


_Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class _Told(msgspec.Struct, gc=False):
    token: str
    logprob: float
    top_logprobs: list[Alternative] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Told] | None = None


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


def chat_reply(body: bytes) -> Reply | None:
    """A chat completion as OpenAI and its likes write it."""
    chat: _Chat[Any]
    try:
        chat = _LOGGED.decode(body)
    except _UNREADABLE:
        try:
            chat = _CHAT.decode(body)  # log-probabilities that are none cost the answer nothing
        except _UNREADABLE:
            return None
    if len(chat.choices) != 1:
        return None
    choice = chat.choices[0]
    message, finish = choice.message, _CHAT_FINISH.get(choice.finish_reason)
    text = message.tool_calls[0].function.arguments if message.tool_calls else message.content
    # Thoughts between tags, refusals and empty answers are left to those who know them all.
    if finish is None or message.refusal or not text or "<think" in text[:200]:
        return None
    usage = chat.usage or _ChatUsage(prompt_tokens=0, completion_tokens=0)
    details = usage.prompt_tokens_details
    return Reply(
        text=text,
        finish=finish,
        model=chat.model or "",
        logprobs=_logprobs(getattr(choice, "logprobs", None), text, body),
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        cached_tokens=(details and details.cached_tokens) or 0,
        cost_usd=None,
    )


def _logprobs(found: _Logprobs | None, text: str, body: bytes) -> list[Token] | None:
    """Log-probabilities of the tokens of a text."""
    if found is None or not found.content:
        return None
    if text in "".join([told.token for told in found.content]):
        return [Token(told.token, told.logprob, told.top_logprobs) for told in found.content]
    # Some token is a piece of a character, which its bytes tell.
    return thinned(msgspec.json.decode(body)["choices"][0]["logprobs"]["content"])


def message_reply(body: bytes) -> Reply | None:
    """A message as Anthropic writes it."""
    try:
        message = _MESSAGE.decode(body)
    except _UNREADABLE:
        return None
    finish = _MESSAGE_FINISH.get(message.stop_reason)
    if finish is None or len(message.content) != 1:
        return None
    block = message.content[0]
    called = bytes(block.input)
    if block.type == "tool_use" and called.startswith(b"{"):
        text = called.decode(errors="replace")  # as it stands: what is said twice has to be seen
    elif block.type == "text" and block.text:
        text = block.text
    else:
        return None
    usage = message.usage or _MessageUsage(input_tokens=0, output_tokens=0)
    cached, put = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    return Reply(
        text=text,
        finish=finish,
        model=message.model or "",
        logprobs=None,
        input_tokens=usage.input_tokens + cached + put,
        output_tokens=usage.output_tokens,
        cached_tokens=cached,
        cache_write_tokens=put,
        cost_usd=None,
    )
