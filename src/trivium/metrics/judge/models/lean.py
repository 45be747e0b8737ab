"""LeanClient: asks OpenAI-compatible endpoints and Anthropic over plain HTTP, for a third of the CPU."""

import asyncio
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from trivium.metrics.judge.models.call import Call, Reply
from trivium.metrics.judge.models.opening import open_model
from trivium.metrics.judge.models.provider_errors import error_within
from trivium.metrics.judge.models.shape import Shape, Shaping, Tap, address_of
from trivium.metrics.judge.models.trouble import Trouble
from trivium.metrics.judge.models.usual import Heard, Left, UsualClient, passed_over, unheard
from trivium.metrics.judge.models.wire import chat_reply, message_reply
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
        """See :meth:`~trivium.metrics.judge.models.usual.Client.send`."""
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
        """See :meth:`~trivium.metrics.judge.models.usual.Client.close`."""
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
