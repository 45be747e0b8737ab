"""Asks OpenAI-compatible and Anthropic APIs over aiohttp, without PydanticAI or an SDK."""

import asyncio
import os
import ssl
import sys
import urllib.request
import weakref
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import msgspec

from trivium.metrics.judge.client.provider_errors import decoded, error_of_response, rejected_answer
from trivium.metrics.judge.client.providers import (
    PROVIDERS,
    ModelDescription,
    describe_direct,
    request_headers,
)
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse, OnSent, RequestError
from trivium.metrics.judge.client.wire_formats import FORMATS, WireFormat, restored
from trivium.suites.settings import ServerSettings

if TYPE_CHECKING:
    import aiohttp

MAX_BODY_BYTES = 16_000_000
"""Largest response body; a longer one is an error."""

REDIRECTS, FOLLOWED_REDIRECTS, MAX_REDIRECTS = frozenset({301, 302, 303, 307, 308}), frozenset({307, 308}), 5
"""Those that keep method and body are followed on the same host."""


def open_direct_client(
    name: str, server: ServerSettings | None = None, headers: Mapping[str, str] | None = None
) -> "DirectClient | None":
    """Open a direct client (:func:`describe_direct`), or return None if the model needs PydanticAI's client.

    Raises:
        ModelUnavailable: If the model cannot be used.
    """
    if (model := describe_direct(name, server)) is None:
        return None
    proxy = proxy_of(model.base_url)
    if proxy is not None and not proxy.startswith(("http://", "https://")):
        return None
    wire_format = FORMATS[PROVIDERS[name.partition(":")[0]].format]
    return DirectClient(model, wire_format, request_headers(name, model.base_url, headers or {}), proxy)


class DirectClient:
    """Sends requests in one of the three formats, with ``headers``, which hold the key, through a proxy."""

    def __init__(
        self,
        description: ModelDescription,
        wire_format: WireFormat,
        headers: dict[str, str],
        proxy: str | None,
    ) -> None:
        self.description = description
        self._format = wire_format
        self._headers = headers
        self._proxy = proxy
        base = urlsplit(description.base_url)
        self._url = base._replace(path=base.path.rstrip("/") + wire_format.path).geturl()
        self._session: aiohttp.ClientSession | None = None
        self._transports: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self._redirected: str | None = None

    async def send(self, request: ModelRequest, on_sent: OnSent = lambda: None) -> ModelResponse:
        """See :meth:`~trivium.metrics.judge.client.request.Client.send`."""
        try:
            body = msgspec.json.encode(self._format.build(request, self.description))
        except UnicodeEncodeError as error:
            why = f"{request.model}: the request cannot be encoded as text: {error.reason}"
            raise RequestError(why, kind="permanent") from None
        status, headers, answer = await self._exchange(request, body, on_sent)
        if status == 200 and "json" not in (kind := headers.get("content-type", "json")).lower():
            why = f"the answer is {kind}, no JSON: is {_place(self._url)} where a model is asked?"
            raise RequestError(f"{request.model}: {why}", kind="provider_error", billed=True)
        response = self._format.read(answer) if status < 400 else rejected_answer(decoded(answer))
        if response is None:
            raise error_of_response(request, status, headers, decoded(answer))
        if self.description.screened:
            response = msgspec.structs.replace(response, text=restored(response.text))
        return response

    async def close(self) -> None:
        """See :meth:`~trivium.metrics.judge.client.request.Client.close`."""
        # The session forgets connections that it has begun to close, while a slow server may keep them open
        # (TLS shutdown, unread request).
        for transport in self._transports:
            transport.abort()
        if self._session is not None:
            await self._session.close()
        await asyncio.sleep(0)  # lets the transports finish closing

    async def _exchange(
        self, request: ModelRequest, body: bytes, on_sent: OnSent
    ) -> tuple[int, dict[str, str], bytes]:
        import aiohttp

        if self._session is None:
            self._session = _session(self._url, self._transports)
        sent = False
        url = self._redirected or self._url
        try:
            for _ in range(MAX_REDIRECTS):
                async with self._session.post(
                    url,
                    data=body,
                    headers=self._headers,
                    proxy=self._proxy,
                    allow_redirects=False,
                    trace_request_ctx=on_sent,
                ) as response:
                    sent = True
                    headers = {name.lower(): value for name, value in response.headers.items()}
                    if response.status not in REDIRECTS:
                        return response.status, headers, await _read_body(request, response)
                    url = _redirect_target(request, response.status, url, headers.get("location", ""))
                    self._redirected = url
            why = f"{request.model}: {_place(self._url)} redirects more than {MAX_REDIRECTS} times"
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
    place = _place(target) if location else "nowhere"
    why = f"{request.model}: {_place(url)} redirects (HTTP {status}) to {place}, which is not followed"
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

    trace = aiohttp.TraceConfig()
    trace.on_request_chunk_sent.append(_on_body_sent)
    secure = trusted_certificates() if url.startswith("https") else True
    return aiohttp.ClientSession(
        connector=Connector(limit=0, ssl=secure, keepalive_timeout=60),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"accept-encoding": "gzip, deflate"},
        trace_configs=[trace],
    )


def trusted_certificates() -> ssl.SSLContext:
    """Trust what the providers' SDKs do: ``SSL_CERT_FILE``, ``SSL_CERT_DIR``, or what the system trusts."""
    paths = ssl.get_default_verify_paths()
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if named or (sys.platform == "linux" and (paths.cafile or paths.capath)):
        return ssl.create_default_context()
    import truststore  # for macOS, and a Python that was built for another Linux

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


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


def _place(url: str) -> str:
    """Scheme, host and path of a URL, without credentials and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
