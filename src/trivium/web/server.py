"""Runs the application: listens, limits how slowly a request may come, and ends gracefully."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from trivium.errors import InputError, Problem

if TYPE_CHECKING:
    from litestar.types import ASGIApp

HEAD_SECONDS = 10.0
"""Time within which the head of a request has to be here, counted from the connection or its first byte."""

REST_SECONDS = 10.0
"""Time within which the rest of a body has to be here whose request is answered; it is thrown away."""

ANSWER_SECONDS = 30.0
"""Time within which a client has to read some of a long answer."""

KEEP_ALIVE_SECONDS = 75
"""Time that a connection stays open between two requests; exporters send every few seconds."""

GRACEFUL_SECONDS = 10
"""Time that requests have to end when the server stops."""

MOST_CONNECTIONS = 2_000

MOST_HEAD_BYTES = 32 * 2**10


class _Protocol(H11Protocol):
    """Closes connections whose request does not come, or whose answer is not read."""

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
        elif state is h11.IDLE:  # the rest of a body that nobody wanted is here
            self._limit("next request", KEEP_ALIVE_SECONDS)
        elif not self._answered():
            self._limit()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of a body that was refused before it was here.

        A client that is still sending would not see an answer after which the connection is closed.
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
        """Say nothing of a wish for HTTP/2 or WebSocket, which is answered in HTTP/1.1."""

    def _answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _limit(self, what: str = "", seconds: float = 0.0) -> None:
        """End the connection unless something comes within a time; the time does not begin anew for it."""
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
    """Keeps the signal that ended it, and calls back once it listens."""

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
            self._listening()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End gracefully at the first signal; uvicorn's own method would send it to the process again."""

        def end(number: int, _: FrameType | None) -> None:
            self.force_exit = self.should_exit
            self.should_exit = True
            self.ended_by = self.ended_by or number
            self._ending()

        before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
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
    access_log: bool = False,
) -> int | None:
    """Serve an application until a signal comes; a second one ends it at once.

    Args:
        app: The application.
        host: Address to listen on.
        port: Port to listen on; 0 for any that is free.
        listening: Called with the port once requests can be sent.
        ending: Called at the first signal, so that answers that go on for long end.
        access_log: Log every request.

    Returns:
        The signal that ended it.

    Raises:
        InputError: If it cannot listen there.
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
        forwarded_allow_ips=["127.0.0.1", "::1"],
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
    """Sockets that are bound to all addresses of a host."""
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            # All have the port that the first one got.
            bound.bind((address[0], port or sockets[0].getsockname()[1], *address[2:]))
    except (OSError, OverflowError) as error:
        for each in sockets:
            each.close()
        what = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        raise InputError("", Problem(f"{host}:{port}", f"cannot listen here: {what}")) from None
    return sockets


def _log_like_trivium(*, access_log: bool) -> None:
    """Log what uvicorn has to say where Trivium logs."""
    handlers = logging.getLogger("trivium").handlers
    for name, level in (("uvicorn.error", logging.WARNING), ("uvicorn.access", logging.INFO)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        logger.handlers = list(handlers) if name == "uvicorn.error" or access_log else []
