"""Judge requests of worker processes, sent by the process of the run.

The limits, the budget, the cache and the connections of a run's judges exist once, in the process of the run.
Workers, on this machine or on others, build prompts and read answers; a :class:`RemoteModels` in each passes
its requests on to the :class:`RequestServer` of the run, over one TCP connection.

A message is its length in bytes (4, big-endian) and a MessagePack record. The first one has a token that only
the workers of the run know; nothing else is read from a connection without it.

Requests in hand are bounded: while there are enough of them, the server does not read from workers that have
more than their share of the bytes. TCP passes that on, and those workers hold their further requests back. A
worker that nothing is read from has a request in hand, and every request is answered or fails, so it is read
from again; only then, or when an answer cannot be delivered, is it noticed that such a worker has ended.
"""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from hmac import compare_digest
from typing import Literal, NamedTuple, cast

import msgspec

from trivium.agents.attempt import AgentFailure
from trivium.agents.failures import reason
from trivium.errors import TriviumError
from trivium.metrics.judge.budget.budget import BudgetExhausted
from trivium.metrics.judge.client.model_factory import ModelUnavailable
from trivium.metrics.judge.client.models import AskResult, Model, Models
from trivium.metrics.judge.client.request import GivenUp, ModelRequest
from trivium.suites.sanitize import sanitise

MAX_MESSAGE_BYTES = 1 << 28
MAX_TOKEN_BYTES = 1 << 10
"""Longest message of a worker, and of a connection that has not sent the token yet."""

MAX_BYTES_IN_HAND = 1 << 26
"""Bytes of the requests of all workers from which on no more are read, if there are enough to send."""

SECONDS_TO_CONNECT = 30.0

SECONDS_OF_SILENCE = 60
"""After so long the system asks whether the other side is still there: a firewall may have forgotten the
connection, and a worker would wait for ever."""


class Address(NamedTuple):
    """Where the executor of a run answers requests.

    Attributes:
        host: Its machine.
        port: Its port.
        token: What a worker sends first.
    """

    host: str
    port: int
    token: str


class _Hello(msgspec.Struct, tag=True):
    token: str


class _Open(msgspec.Struct, tag=True):
    id: int
    name: str


class _Ask(msgspec.Struct, tag=True):
    id: int
    name: str
    request: ModelRequest
    about: tuple[str, ...]


class _Drop(msgspec.Struct, tag=True):
    keys: list[str]


Failure = Literal["given up", "failing", "exhausted", "unavailable", "unexpected"]


class _Reply(msgspec.Struct):
    """The answer to a message; the first one, with id 0, answers the token."""

    id: int
    model: Model | None = None
    result: AskResult | None = None
    failure: Failure | None = None
    why: str = ""


_LENGTH = 4
_encode = msgspec.msgpack.Encoder().encode
_decode_message = msgspec.msgpack.Decoder(_Hello | _Open | _Ask | _Drop).decode
_decode_reply = msgspec.msgpack.Decoder(_Reply).decode


class UnexpectedError(AgentFailure):
    """An unexpected error in the process of the run; its text begins with its kind, as it would there."""


class _Connection(asyncio.Protocol):
    """Splits what arrives into messages, and stops and goes on reading.

    Args:
        received: Called with each message.
        lost: Called when the connection has ended, by either side.
        most: Longest message, bytes; a longer one ends the connection.

    Attributes:
        in_hand: Bytes of the messages that arrived and are not answered yet.
    """

    def __init__(
        self,
        received: Callable[["_Connection", bytes], None],
        lost: Callable[["_Connection"], None],
        most: int,
    ) -> None:
        self._received = received
        self._lost = lost
        self.most = most
        self.in_hand = 0
        self._arrived = bytearray()
        self._reading = True
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        made: socket.socket = transport.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SECONDS_OF_SILENCE)

    def data_received(self, data: bytes) -> None:
        self._arrived += data
        self._split()

    def _split(self) -> None:
        while self._reading and len(self._arrived) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._arrived[:_LENGTH], "big")
            if end - _LENGTH > self.most:
                self.close()
                return
            if len(self._arrived) < end:
                return
            message = bytes(self._arrived[_LENGTH:end])
            del self._arrived[:end]
            self._received(self, message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self._lost(self)

    def pause(self) -> None:
        """Read nothing more, and pass on no more messages."""
        self._reading = False
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        """Pass on what has arrived, and read on, unless a message leads to a further pause."""
        self._reading = True
        self._split()
        if self._reading and self._transport is not None:
            self._transport.resume_reading()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def writable(self) -> None:
        """Wait until the other side has read nearly all that was sent, or the connection has ended."""
        await self._writable.wait()

    def send(self, content: bytes) -> None:
        """Send an encoded message, unless the connection has ended."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(len(content).to_bytes(_LENGTH, "big") + content)

    def close(self) -> None:
        """End the connection; what was sent before is still delivered, unless it waits to be read."""
        if self._transport is None:
            return
        if self._writable.is_set():
            self._transport.close()
        else:
            self._transport.abort()


class RequestServer:
    """Answers the requests of workers with the models of the run.

    A request whose worker is lost meanwhile is answered nevertheless: it is paid for, and whoever scores the
    attempt again finds the answer in the cache.

    Args:
        models: The models. All methods run on the event loop on which they are asked.
        most: Requests that are read however long they are: as many as one process would have under way.
    """

    def __init__(self, models: Models, most: int) -> None:
        self._models = models
        self._most = most
        self._token = secrets.token_hex(32)
        self._server: asyncio.Server | None = None
        self._connections: dict[_Connection, bool] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._in_hand = 0
        self._paused: dict[_Connection, None] = {}

    async def start(self, host: str) -> Address:
        """Listen on a free port.

        Raises:
            TriviumError: If nothing can listen on the host.
        """
        try:
            self._server = await asyncio.get_running_loop().create_server(self._connection, host, 0)
        except OSError as refused:
            raise TriviumError(f"workers cannot reach the judges of the run: {refused}") from refused
        return Address(host, self._server.sockets[0].getsockname()[1], self._token)

    async def close(self) -> None:
        """End all connections. The loop has cancelled what was under way."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.close()

    def _connection(self) -> _Connection:
        made = _Connection(self._received, self._lost, MAX_TOKEN_BYTES)
        self._connections[made] = False
        asyncio.get_running_loop().call_later(SECONDS_TO_CONNECT, self._end_unknown, made)
        return made

    def _end_unknown(self, connection: _Connection) -> None:
        if self._connections.get(connection) is False:
            connection.close()

    def _lost(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)
        self._paused.pop(connection, None)
        self._resume()

    def _received(self, connection: _Connection, content: bytes) -> None:
        try:
            message = _decode_message(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            connection.close()
            return
        if not self._connections.get(connection):
            if isinstance(message, _Hello) and compare_digest(message.token.encode(), self._token.encode()):
                self._connections[connection] = True
                connection.most = MAX_MESSAGE_BYTES
                connection.send(_encode(_Reply(0)))
            else:
                connection.close()
        elif isinstance(message, _Drop):
            self._models.drop(message.keys)
        elif isinstance(message, _Open | _Ask):
            task = asyncio.get_running_loop().create_task(self._answer(message, connection))
            self._under_way.add(task)
            self._count(connection, len(content))
            task.add_done_callback(partial(self._answered, connection, len(content)))
            if self._has_enough(connection):
                self._paused[connection] = None
                connection.pause()

    def _count(self, connection: _Connection, size: int) -> None:
        connection.in_hand += size
        self._in_hand += size

    def _answered(self, connection: _Connection, size: int, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        self._count(connection, -size)
        self._resume()

    def _has_enough(self, connection: _Connection) -> bool:
        """Whether enough requests are in hand, and more than its share of their bytes is of this worker."""
        return (
            self._in_hand >= MAX_BYTES_IN_HAND
            and len(self._under_way) >= self._most
            and connection.in_hand * len(self._connections) >= MAX_BYTES_IN_HAND
        )

    def _resume(self) -> None:
        for connection in list(self._paused):
            if not self._has_enough(connection):
                del self._paused[connection]
                connection.resume()

    async def _answer(self, message: _Open | _Ask, connection: _Connection) -> None:
        connection.send(await _reply(message.id, self._result(message)))

    async def _result(self, message: _Open | _Ask) -> _Reply:
        if isinstance(message, _Open):
            return _Reply(message.id, model=await self._models.model(message.name))
        result = await self._models.ask(message.name, message.request, about=message.about)
        return _Reply(message.id, result=result)


async def _reply(id: int, result: Awaitable[_Reply]) -> bytes:  # noqa: A002
    """Await a reply and encode it; an exception becomes one, too, or a worker would wait for ever."""
    try:
        return _encode(await result)
    except GivenUp as failure:
        return _failed(id, "failing" if failure.transient else "given up", str(failure))
    except BudgetExhausted as failure:
        return _failed(id, "exhausted", str(failure))
    except ModelUnavailable as failure:
        return _failed(id, "unavailable", str(failure))
    except Exception as failure:
        return _failed(id, "unexpected", reason(failure))


def _failed(id: int, failure: Failure, why: str) -> bytes:  # noqa: A002
    return _encode(_Reply(id, failure=failure, why=sanitise(why)[0]))


class RemoteModels:
    """Models that the process of the run asks; see :class:`Models`.

    Args:
        on_lost: Called if the connection is lost. Nothing is answered then.
    """

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._connection: _Connection | None = None
        self._closed = False
        self._turn = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[_Reply]] = {}
        self._known: dict[str, Model] = {}
        self._last_id = 0

    async def open(self, address: Address) -> None:
        """Connect to the process of the run.

        Raises:
            TriviumError: If it cannot be reached.
        """
        loop = asyncio.get_running_loop()
        known = self._waiting[0] = loop.create_future()
        try:
            async with asyncio.timeout(SECONDS_TO_CONNECT):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self._received, self._lost, MAX_MESSAGE_BYTES),
                    address.host,
                    address.port,
                )
                connection.send(_encode(_Hello(address.token)))
                await known
        except (OSError, TimeoutError) as refused:
            what = f"the process of the run, which asks the judges, cannot be reached at {address.host}"
            raise TriviumError(
                f"{what}:{address.port}: {str(refused) or type(refused).__name__}"
            ) from refused
        finally:
            del self._waiting[0]
        self._connection = connection

    async def model(self, name: str) -> Model:
        """See :meth:`Models.model`."""
        if name not in self._known:
            reply = await self._request(lambda id_: _Open(id_, name))
            assert reply.model is not None  # noqa: S101 - as for every reply without a failure
            self._known[name] = reply.model
        return self._known[name]

    async def ask(self, name: str, request: ModelRequest, *, about: tuple[str, ...]) -> AskResult:
        """See :meth:`Models.ask`."""
        reply = await self._request(lambda id_: _Ask(id_, name, request, about))
        assert reply.result is not None  # noqa: S101 - as for every reply without a failure
        return reply.result

    def drop(self, keys: Iterable[str]) -> None:
        """See :meth:`Models.drop`."""
        if self._connection is not None:
            self._connection.send(_encode(_Drop(list(keys))))

    async def close(self) -> None:
        """See :meth:`Models.close`."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    async def _request(self, message: Callable[[int], _Open | _Ask]) -> _Reply:
        assert self._connection is not None  # noqa: S101 - nothing is asked before it is open
        self._last_id = id_ = self._last_id + 1
        waiting: asyncio.Future[_Reply] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = waiting
        try:
            async with self._turn:
                await self._connection.writable()
                self._connection.send(_encode(message(id_)))
            reply = await waiting
        finally:
            del self._waiting[id_]
        if reply.failure in {"given up", "failing"}:
            raise GivenUp(reply.why, transient=reply.failure == "failing")
        if reply.failure == "exhausted":
            raise BudgetExhausted(reply.why)
        if reply.failure == "unavailable":
            raise ModelUnavailable(reply.why)
        if reply.failure == "unexpected":
            raise UnexpectedError(reply.why)
        return reply

    def _received(self, _: _Connection, content: bytes) -> None:
        reply = _decode_reply(content)
        waiting = self._waiting.get(reply.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)

    def _lost(self, _: _Connection) -> None:
        if 0 in self._waiting:
            self._waiting[0].set_exception(ConnectionRefusedError("it ends the connection"))
        elif not self._closed:
            self._on_lost()
