"""One connection: HTTP/1.1 with keep-alive, as little of it as the providers' clients use."""

import asyncio
import socket
import struct
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from tests.judge_server.faults import Reaction
from tests.judge_server.question import Api, Question
from tests.judge_server.wire import error

if TYPE_CHECKING:
    from tests.judge_server.server import JudgeServer

_APIS: dict[str, Api] = {"/chat/completions": "chat", "/responses": "responses", "/v1/messages": "messages"}


class Line(asyncio.Protocol):
    """A client's connection: one request after another."""

    transport: asyncio.Transport

    def __init__(self, server: "JudgeServer") -> None:
        self.server = server
        self.received = bytearray()
        self.timer: asyncio.TimerHandle | None = None
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        server = self.server
        server.lines.add(self)
        server.connections += 1
        server.peak_connections = max(server.peak_connections, server.connections)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.lines.discard(self)
        self.server.connections -= 1
        if self.timer is not None:
            self.timer.cancel()
        if self.busy:
            self.server.in_flight -= 1
            self.server.counts["abandoned"] += not self.server.stopping

    def data_received(self, data: bytes) -> None:
        self.received += data
        if not self.busy:
            self.next()

    def next(self) -> None:
        """Takes up the next whole request, if there is one."""
        end = self.received.find(b"\r\n\r\n")
        if end < 0:
            return
        first, *lines = self.received[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        if len(self.received) < end + 4 + length:
            return
        body = bytes(self.received[end + 4 : end + 4 + length])
        del self.received[: end + 4 + length]
        method, path, _ = first.split(" ", 2)
        try:
            self.take(method, path, headers, body)
        except Exception as problem:
            self.server.problems.append(problem)
            self.send(500, b"{}")

    def take(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        server = self.server
        route = path.partition("?")[0]
        api = next((api for ending, api in _APIS.items() if route.endswith(ending)), None)
        if method == "GET" and route == "/stats":
            usage = {
                **server.counts,
                "peak_in_flight": server.peak_in_flight,
                "cpu_seconds": time.process_time(),
            }
            self.send(200, msgspec.json.encode(usage))
            return
        if api is None or method != "POST":
            self.send(404, msgspec.json.encode(error("chat", 404)))
            return
        asked = msgspec.json.decode(body)
        if asked.get("stream") and api != "messages":
            raise ValueError(f"streams of {route} are not served")
        question, reaction = server.take(api, path, headers, asked)
        self.busy = True
        server.in_flight += 1
        server.peak_in_flight = max(server.peak_in_flight, server.in_flight)
        if reaction.kind != "hang":
            self.timer = asyncio.get_running_loop().call_later(
                reaction.latency or 0.0, self.react, question, reaction
            )

    def react(self, question: Question, reaction: Reaction) -> None:
        """What the client sees, after the latency."""
        if reaction.kind == "reset":
            self.done()
            self.reset()
            return
        try:
            body = self.server.body(question, reaction)
        except Exception as problem:
            self.server.problems.append(problem)
            self.done()
            self.send(500, b"{}")
            return
        streamed = question.stream and reaction.status == 200
        whole = _head(reaction.status, len(body), reaction.retry_after, streamed, reaction.headers) + body
        if reaction.kind in ("cut", "stall"):
            self.transport.write(whole[: -len(body) // 2])
            if reaction.kind == "cut":
                self.done()
                self.transport.close()
        elif reaction.kind == "drip":
            self.drip(question, whole, reaction.pace)
        else:
            self.finish(question, reaction.status, whole)

    def drip(self, question: Question, left: bytes, pace: float) -> None:
        if len(left) == 1:
            self.finish(question, 200, left)
        else:
            self.transport.write(left[:1])
            self.timer = asyncio.get_running_loop().call_later(pace, self.drip, question, left[1:], pace)

    def finish(self, question: Question, status: int, last: bytes) -> None:
        question.status = status
        self.done()
        self.transport.write(last)
        self.next()

    def done(self) -> None:
        self.busy, self.timer = False, None
        self.server.in_flight -= 1

    def send(self, status: int, body: bytes) -> None:
        self.transport.write(_head(status, len(body), None, False) + body)

    def reset(self) -> None:
        """Ends the connection with a RST, not an orderly end."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


def _head(
    status: int,
    length: int,
    retry_after: float | str | None,
    stream: bool,
    headers: tuple[tuple[str, str], ...] = (),
) -> bytes:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Overloaded"
    hint = "" if retry_after is None else f"retry-after: {retry_after}\r\n"
    hint += "".join(f"{name}: {value}\r\n" for name, value in headers)
    kind = f"content-type: {'text/event-stream' if stream else 'application/json'}\r\n"
    return f"HTTP/1.1 {status} {phrase}\r\n{kind}{hint}content-length: {length}\r\n\r\n".encode("latin-1")
