"""Runs the web application: listens, closes slow connections, and shuts down gracefully."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from trivium.errors import InputError, Problem
from trivium.web.security import MOST_HEAD_BYTES

if TYPE_CHECKING:
    from litestar.types import ASGIApp

HEAD_SECONDS = 10.0
"""Time limit for the head of a request, counted from the connection or the first byte."""

REST_SECONDS = 10.0
"""Time limit for the rest of a body after the response was sent; the server discards it."""

ANSWER_SECONDS = 30.0
"""Time limit for a client to read some more of a long response."""

KEEP_ALIVE_SECONDS = 75
"""Time that an idle connection stays open; exporters send every few seconds."""

GRACEFUL_SECONDS = 10
"""Time that requests in progress have to finish when the server stops."""

MOST_CONNECTIONS = 2_000


class _Protocol(H11Protocol):
    """Closes a connection if its request arrives too slowly, or its client does not read the response."""

    _timer: asyncio.TimerHandle | None = None
    _timed = ""
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit("head", HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        state = self.conn.their_state
        if state is h11.IDLE and (self.conn.trailing_data[0] or self.cycle is None):
            self._limit("head", HEAD_SECONDS)
        elif state is h11.IDLE:  # the discarded rest of a body has arrived
            self._limit("next request", KEEP_ALIVE_SECONDS)
        elif not self._answered():
            self._limit()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that the server refused early.

        If the connection were closed at once, a client that is still sending would not see the response.
        """
        self._limit()
        super().on_response_complete()
        if self._answered() and self.conn.their_state is h11.SEND_BODY:
            self._limit("rest", REST_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        self._unset_write_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit()
        self._unset_write_timer()
        super().connection_lost(exc)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing if a client asks for HTTP/2 or WebSocket: the server answers in HTTP/1.1."""

    def _answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _limit(self, what: str = "", seconds: float = 0.0) -> None:
        """Start the timer for ``what``, which aborts the connection; a running timer for it is kept."""
        if what == self._timed:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort) if what else None
        self._timed = what

    def _unset_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


class _Server(uvicorn.Server):
    """A uvicorn server that keeps the signal that stopped it, and calls back once it listens."""

    def __init__(
        self, config: uvicorn.Config, listening: Callable[[], None], ending: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.ended_by: int | None = None
        self._listening = listening
        self._ending = ending

    async def startup(self, sockets: list[Any] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            gc.freeze()  # a collection that looks at all modules would hold answers up for 100 ms
            self._listening()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully at the first signal; uvicorn's own method would raise the signal again."""

        def end(number: int, _: FrameType | None) -> None:
            self.force_exit = self.should_exit
            self.should_exit = True
            self.ended_by = self.ended_by or number
            self._ending()

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(
    app: "ASGIApp",
    *,
    host: str,
    port: int,
    listening: Callable[[int], None],
    ending: Callable[[], None],
    proxies: Sequence[str] = (),
    access_log: bool = False,
) -> int | None:
    """Serve an application until a signal stops it; a second signal stops it at once.

    Args:
        app: The application.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        listening: Called with the port once requests can be sent.
        ending: Called at the first signal, to end long responses such as streams.
        proxies: Addresses or networks of the proxies whose word on a client's address and scheme is taken.
        access_log: Whether to log every request.

    Returns:
        The signal that stopped the server.

    Raises:
        InputError: If the server cannot listen on this host and port.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=access_log,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        h11_max_incomplete_event_size=MOST_HEAD_BYTES,
    )
    sockets = _sockets(host, port)
    server = _Server(config, lambda: listening(sockets[0].getsockname()[1]), ending)
    _log_like_trivium(access_log=access_log)
    server.run(sockets)
    return server.ended_by


def _sockets(host: str, port: int) -> list[socket.socket]:
    """Bind a socket to each address of a host."""
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # All sockets share the port of the first.
            bound.bind((address[0], port or sockets[0].getsockname()[1], *address[2:]))
    except (OSError, OverflowError) as error:
        for opened in sockets:
            opened.close()
        what = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise InputError("", Problem(f"{host}:{port}", f"cannot listen here: {what}")) from None
    return sockets


def _log_like_trivium(*, access_log: bool) -> None:
    """Send uvicorn's log messages to the handlers of Trivium's logger."""
    handlers = logging.getLogger("trivium").handlers
    for name, level in (("uvicorn.error", logging.WARNING), ("uvicorn.access", logging.INFO)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        logger.handlers = list(handlers) if name == "uvicorn.error" or access_log else []
