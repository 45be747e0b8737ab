"""Decides which requests are allowed: tokens, the headers Host and Origin, limits, and response headers.

The guard is around the whole application, so that nothing can be reached past it. Without tokens the server
listens on loopback only; a page of another site that a browser on this machine shows can still send requests
there, under a name that it makes point to this machine (DNS rebinding) or across sites. The headers Host and
Origin, which pages cannot forge, give such requests away.
"""

import asyncio
import ipaddress
import logging
import math
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from trivium.errors import StoreError
from trivium.store.audit import audit
from trivium.store.store import Store
from trivium.store.tokens import Scope as TokenScope
from trivium.store.tokens import Sessions, Token, Tokens, matching
from trivium.web.errors import JSON, OTLP_PATHS, RETRY_AFTER, Refused, header, media_type, otlp_encoding
from trivium.web.paths import check_path, keep_encoded_slashes
from trivium.web.sessions import SESSION, cookie_in, over_tls

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send
    from typing_extensions import TypeIs

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})

LOGIN_PATH: Final = "/login"
LOGOUT_PATH: Final = "/logout"

PUBLIC_PATHS: Final = frozenset({"/healthz", "/readyz", LOGIN_PATH})
"""What may be asked without a token: whether the server works, and the page on which a token is entered."""

API_FOLDER: Final = "/api/"
"""The JSON interface."""

PUBLIC_FOLDER: Final = "/assets/"
"""Styles and scripts of the pages."""

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

TOKENS_KNOWN_SECONDS = 5.0
"""How long the list of tokens is used before it is read again: a revoked token works no longer than this."""

NEW_TOKEN_SECONDS = 1.0
"""How long the list is used for a token that is not in it: wrong tokens cost one reading a second."""

CHECKED_SECONDS = 2.0
"""Time between two checks of the token or login of an answer that goes on, such as a live page."""

USE_KEPT_SECONDS = 60.0
"""Time between two updates of when a token was used."""

MOST_HEAD_BYTES = 32 * 2**10
"""Size of the head of a request."""

FAILURES_A_MINUTE = 10
"""Wrong tokens of one address in a minute that are answered with 401 and kept in the audit log."""

AUDITED_A_MINUTE = 100
"""Wrong tokens in a minute, of all addresses, that are kept in the audit log."""

_REMEMBERED = 10_000
"""Addresses or tokens whose requests are counted; the least recent are forgotten."""

SECURITY_HEADERS: Final = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

_HOST: Final = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]*[^:\[\].])\.?)(?::[0-9]*)?")
"""A header Host: an address in brackets or a name, and a port."""

_FORWARDED: Final = (b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip", b"via")
"""Headers of a request that came through a proxy, and so perhaps not from this machine."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who may send requests, and how many.

    Attributes:
        tokens: Whether every request needs a token; without, only requests that came through a proxy do.
        names: Names that the header Host may have, besides those of loopback.
        addresses: Whether Host may also be any IP address: a page cannot rebind one.
        tls: Whether browsers reach the server by TLS under its names: their cookies go no other way then.
        requests_a_minute: Requests that one token may send in a minute; None for no quota.
        body_seconds: Time within which the body of a request has to be here.
        active_requests: Requests that are worked on at the same time; further ones are refused for now.
    """

    tokens: bool = False
    names: frozenset[str] = frozenset()
    addresses: bool = False
    tls: bool = False
    requests_a_minute: int | None = None
    body_seconds: float = 30.0
    active_requests: int = 500


class Guard:
    """Wraps an ASGI application; passes on the requests that are allowed.

    Args:
        app: The application.
        access: Who may send requests.
        store: Holds the tokens and the audit log.
        refuse: Answers a refused request.
        clock: Returns the Unix time.

    Attributes:
        refusals: Number of refused requests, by reason.
    """

    def __init__(
        self,
        app: "ASGIApp",
        access: Access,
        store: Store,
        *,
        refuse: "Callable[[HTTPScope, Receive, Send, Refused], Awaitable[None]]",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.refusals: Counter[str] = Counter()
        self._refuse = refuse
        self._app = app
        self._access = access
        self._store = store
        self._tokens = Tokens(store)
        self._sessions = Sessions(store)
        self._clock = clock
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="trivium-access")
        self._active = 0
        self._known: list[tuple[Token, str]] = []
        self._known_at = -math.inf
        self._used: dict[str, float] = {}
        self._failures = MinuteCounts()
        self._quotas = MinuteCounts()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer a request."""
        if not is_http(scope):
            await self._app(scope, receive, send)  # the lifespan; the server speaks no WebSocket
            return
        keep_encoded_slashes(scope)
        name = host_name(header(scope["headers"], b"host"))
        tls = self._access.tls and name not in LOOPBACK_NAMES
        state = scope.setdefault("state", {})
        state.update(tls=tls, guard=self)
        sending = _with_headers(send if scope["method"] != "HEAD" else _head_of(send))
        self._active += 1
        try:
            token = await self._admit(scope)
            if scope["method"] not in SAFE_METHODS:
                _check_media_type(scope)
        except Refused as refusal:
            self.refusals[refusal.reason] += 1
            state.update(actor=address_of(scope), token=None)
            receiving = _within(receive, self._access.body_seconds, scope["path"])
            await self._refuse(scope, receiving, sending, refusal)
        else:
            state.update(actor=address_of(scope) if token is None else token.actor, token=token)
            if token is not None:
                receive, sending = self._watched(scope, token, receive, sending)
            if scope["method"] == "HEAD":  # answered like GET, without the body
                scope = {**scope, "method": "GET"}
            await self._app(scope, _within(receive, self._access.body_seconds, scope["path"]), sending)
        finally:
            self._active -= 1

    def _watched(
        self, scope: "HTTPScope", token: Token, receive: "Receive", send: "Send"
    ) -> tuple["Receive", "Send"]:
        """Receive and send of a request whose answer ends once its token or login has ended.

        The application is told that the client is gone. A stream of events ends as a whole answer, so that
        its page asks anew; anything else is broken off, so that no part of it is taken for the whole.
        """
        session = "" if header(scope["headers"], b"authorization") else cookie_in(scope, SESSION)
        is_stream = ended = False

        async def receiving() -> Any:
            nonlocal ended
            while not ended:
                try:
                    async with asyncio.timeout(CHECKED_SECONDS):
                        return await receive()
                except TimeoutError:
                    ended = not await self._still_allowed(token, session)
                    if ended and is_stream:
                        await send({"type": "http.response.body", "body": b"", "more_body": False})
            return {"type": "http.disconnect"}

        async def sending(message: "Message") -> None:
            nonlocal is_stream
            if message["type"] == "http.response.start":
                is_stream = media_type(header(message["headers"], b"content-type")) == "text/event-stream"
            if not ended:
                await send(message)

        return receiving, sending

    async def _still_allowed(self, token: Token, session: str) -> bool:
        """Whether a token that was let in can still be used, and the login that stood for it goes on."""
        now = self._clock()
        try:
            if session and await self._in_thread(self._sessions.token_of, session, now=now) != token.id:
                return False
            active = await self._active_tokens(now, TOKENS_KNOWN_SECONDS - CHECKED_SECONDS)
        except Refused:  # what cannot be checked is not let on
            return False
        return any(each.id == token.id and each.state(now) == "active" for each, _ in active)

    async def _admit(self, scope: "HTTPScope") -> Token | None:
        """The token that a request comes with; None where none is needed.

        Raises:
            Refused: If it is not allowed.
        """
        headers, address = list(scope["headers"]), address_of(scope)
        _check_head(scope)
        self._check_host(header(headers, b"host"))
        check_path(scope["path"])
        is_login = scope["path"] in {LOGIN_PATH, LOGOUT_PATH} and scope["method"] not in SAFE_METHODS
        if (scope["path"] in PUBLIC_PATHS or scope["path"].startswith(PUBLIC_FOLDER)) and not is_login:
            return None
        if self._active > self._access.active_requests:
            message = "too many requests at once: send this again"
            raise Refused(503, message, headers=RETRY_AFTER, reason="overloaded")
        if scope["method"] not in SAFE_METHODS:
            _check_origin(scope)
        if is_login:
            return None
        credentials = header(headers, b"authorization")
        through_proxy = any(name in _FORWARDED for name, _ in headers)
        if not (self._access.tokens or through_proxy or credentials):
            return None
        session = "" if credentials else cookie_in(scope, SESSION)
        token = await (self._of_session(session) if session else self._token(credentials, address))
        wanted = wanted_scope(scope["method"], scope["path"])
        if not token.allows(wanted):
            message = f'the token "{token.name}" has no scope {wanted} (it has {", ".join(token.scopes)})'
            raise Refused(403, message, reason="scope")
        self._check_quota(token)
        return token

    async def sign_in(self, secret: str, address: str) -> str:
        """Begin a session with a token; returns the value of its cookie.

        Raises:
            Refused: If the token is wrong, or too many wrong ones came from the address.
        """
        token = await self._token(f"Bearer {secret.strip()}", address, failing="login failed")
        self._check_quota(token)
        now = self._clock()
        session = await self._in_thread(self._sessions.open, token.id, now=now)
        await self._quietly(audit, self._store, token.actor, "logged in", {"address": address}, now=now)
        return session

    async def sign_out(self, session: str, address: str) -> None:
        """End a session; one that has ended already stays so."""
        now = self._clock()
        ended = await self._in_thread(self._sessions.close, session, now=now)
        for token in await self._in_thread(self._tokens.all) if ended else []:
            if token.id == ended:
                await self._quietly(
                    audit, self._store, token.actor, "logged out", {"address": address}, now=now
                )

    async def _of_session(self, session: str) -> Token:
        now = self._clock()
        wanted = await self._in_thread(self._sessions.token_of, session, now=now)
        for token, _ in await self._active_tokens(now, TOKENS_KNOWN_SECONDS):
            if token.id == wanted and token.state(now) == "active":
                await self._note_use(token, now)
                return token
        raise _unauthorized("the login has ended: open /login", "session")

    def _check_host(self, host: str) -> None:
        name = host_name(host)
        known = LOOPBACK_NAMES | self._access.names
        if name and (name in known or (self._access.addresses and _is_address(name))):
            return
        message = (
            f'the header Host names "{host[:100]}", which is no name of this server. '
            f"Start it with --name {name[:100] or 'NAME'} if it is."
        )
        raise Refused(403, message, reason="host")

    async def _token(self, credentials: str, address: str, *, failing: str = "wrong token") -> Token:
        kind, _, secret = credentials.partition(" ")
        if not credentials:
            raise _unauthorized(
                "a token is needed: Authorization: Bearer trv_… (`trivium token create`)", "no_token"
            )
        now = self._clock()
        token = None
        if kind.lower() == "bearer":
            token = matching(secret.strip(), await self._active_tokens(now, TOKENS_KNOWN_SECONDS))
            if token is None:  # it may have been made just now
                token = matching(secret.strip(), await self._active_tokens(now, NEW_TOKEN_SECONDS))
        if token is not None and token.state(now) == "active":
            await self._note_use(token, now)
            return token
        if self._failures.add(address, now) > FAILURES_A_MINUTE:
            message = "too many wrong tokens from this address: wait a minute"
            raise Refused(429, message, headers=_next_minute(now), reason="wrong_tokens")
        if self._failures.add("", now) <= AUDITED_A_MINUTE:
            log.warning("%s sent a wrong, expired or revoked token", address)
            await self._quietly(audit, self._store, address, failing, {}, now=now)
        raise _unauthorized("the token is wrong, expired or revoked (`trivium token list`)", "wrong_token")

    async def _active_tokens(self, now: float, seconds: float) -> list[tuple[Token, str]]:
        """The tokens that could be used at some time within the last seconds."""
        if not 0 <= now - self._known_at < seconds:
            self._known = await self._in_thread(self._tokens.active, now)
            self._known_at = now
        return self._known

    async def _note_use(self, token: Token, now: float) -> None:
        if now - self._used.get(token.id, token.used or 0.0) >= USE_KEPT_SECONDS:
            self._used[token.id] = now
            await self._quietly(self._tokens.mark_used, token, now)

    async def _in_thread(self, function: Callable[..., T], *args: Any, **keywords: Any) -> T:
        """Call what uses the store, in threads that no page holds.

        Raises:
            Refused: If the store cannot be used now.
        """
        call = partial(function, *args, **keywords)
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)
        except StoreError as error:
            message = f"the store of tokens cannot be used now: {error}"
            raise Refused(503, message, headers=RETRY_AFTER, reason="store") from None

    async def _quietly(self, function: Callable[..., object], *args: Any, **keywords: Any) -> None:
        """Call what a request does not depend on."""
        try:
            await self._in_thread(function, *args, **keywords)
        except Refused as refusal:
            log.warning("%s", refusal)

    def _check_quota(self, token: Token) -> None:
        quota = self._access.requests_a_minute
        if quota is not None and self._quotas.add(token.id, self._clock()) > quota:
            message = f'the token "{token.name}" may send {quota:,} requests a minute (--requests-per-minute)'
            raise Refused(429, message, headers=_next_minute(self._clock()), reason="quota")


class MinuteCounts:
    """Counts events by key within a minute, of a bounded number of keys."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def add(self, key: str, now: float) -> int:
        """Count an event; returns how many there were in this minute, with it."""
        minute = int(now // 60)
        before, number = self._counts.pop(key, (minute, 0))
        number = number + 1 if before == minute else 1
        self._counts[key] = (minute, number)
        if len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
        return number


def wanted_scope(method: str, path: str) -> TokenScope:
    """The scope that a request needs."""
    if path in OTLP_PATHS:
        return "ingest"
    if path.startswith("/api/v1/audit"):
        return "admin"
    return "read" if method in SAFE_METHODS else "label"


def host_name(host: str) -> str:
    """The name in a header Host, without port, brackets and the root's dot; empty if it is malformed."""
    found = _HOST.fullmatch(host.strip().lower())
    return (found[1] or found[2]) if found else ""


def _check_media_type(scope: "HTTPScope") -> None:
    """Refuse a body of the JSON interface that is not called JSON: a form of another site can send others."""
    found = media_type(header(scope["headers"], b"content-type"))
    if scope["path"].startswith(API_FOLDER) and found != JSON:
        raise Refused(415, f'found the Content-Type "{found[:100]}", expected {JSON}')


async def send_refusal(scope: "HTTPScope", send: "Send", refusal: Refused) -> None:
    """Answer a request with a refusal, in the encoding that its path has."""
    body, media = refusal.answer(otlp=otlp_encoding(scope["path"], scope["headers"]))
    await send_whole(send, refusal.status, body, {"content-type": media, **refusal.headers})


async def send_whole(send: "Send", status: int, body: bytes, headers: Mapping[str, str]) -> None:
    """Send an answer with its length."""
    named = {**headers, "content-length": str(len(body))}
    encoded = [(name.lower().encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def is_http(scope: "Scope") -> "TypeIs[HTTPScope]":
    """Whether a scope is that of a request."""
    return str(scope["type"]) == "http"


def _unauthorized(message: str, reason: str) -> Refused:
    return Refused(401, message, headers={"WWW-Authenticate": 'Bearer realm="trivium"'}, reason=reason)


def _next_minute(now: float) -> dict[str, str]:
    """The header that says when the counts of a minute are reset."""
    return {"Retry-After": str(60 - int(now % 60))}


def _check_head(scope: "HTTPScope") -> None:
    """Refuse a request whose head is too large, also if it came at once."""
    size = len(scope["path"]) + len(scope.get("query_string") or b"")
    if size + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MOST_HEAD_BYTES:
        raise Refused(431, f"the head of the request is larger than {MOST_HEAD_BYTES // 1024} KiB")


def _check_origin(scope: "HTTPScope") -> None:
    """Refuse a request that changes something and was sent by a page of another site.

    Where the server does not know whether a proxy speaks TLS with the browser, either scheme may be its own.
    """
    headers = scope["headers"]
    origin, site = header(headers, b"origin").lower(), header(headers, b"sec-fetch-site")
    schemes = ("https",) if over_tls(scope) else ("http", "https")
    own = [f"{scheme}://{header(headers, b'host').strip().lower()}" for scheme in schemes]
    if (origin and origin not in own) or site in {"cross-site", "same-site"}:
        raise Refused(403, "the request was sent by a page of another site (header Origin)", reason="origin")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def address_of(scope: "HTTPScope") -> str:
    """The address that a request comes from; a proxy on this machine may state any text as one."""
    client = scope.get("client")
    return client[0] if client and _is_address(client[0]) else "unknown"


def _with_headers(send: "Send") -> "Send":
    """Add the headers of every answer, unless the answer has its own."""

    async def sending(message: "Message") -> None:
        if message["type"] == "http.response.start":
            present: MutableMapping[bytes, bytes] = dict(SECURITY_HEADERS)
            for name, _ in message["headers"]:
                present.pop(name.lower(), None)
            message["headers"] = [*message["headers"], *present.items()]
        await send(message)

    return sending


def _head_of(send: "Send") -> "Send":
    """Send the head of an answer, and end it there."""

    async def sending(message: "Message") -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return sending


def _within(receive: "Receive", seconds: float, path: str) -> "Receive":
    """Refuse a request whose body is not here within a time.

    Exporters of OpenTelemetry send again after 503, and drop their spans after 408.
    """
    end = asyncio.get_running_loop().time() + seconds
    complete = False

    async def receiving() -> Any:
        nonlocal complete
        if complete:
            return await receive()  # the end of the connection
        try:
            async with asyncio.timeout_at(end):
                message = await receive()
        except TimeoutError:
            text = f"the body did not come within {seconds:g} s (--body-timeout)"
            if path in OTLP_PATHS:
                raise Refused(503, text, headers=RETRY_AFTER, reason="timeout") from None
            raise Refused(408, text) from None
        complete = not message.get("more_body", False)
        return message

    return receiving
