"""A server that never stops talking is cut short, and one that cannot prove who it is hears nothing."""

import asyncio
import gc
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
import tracemalloc
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from trivium.metrics.judge.client.direct_client import MAX_BODY_BYTES, open_direct_client
from trivium.metrics.judge.client.request import ModelRequest, ModelResponse, RequestError

NAME = "openai:gpt-4o-mini"
ANSWER = (
    b'{"id":"1","object":"chat.completion","created":1,"model":"gpt-4o-mini","choices":[{"index":0,"finish_reason":'
    b'"stop","message":{"role":"assistant","content":"{}"}}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}'
)
CALL = ModelRequest(
    provider="openai-chat",
    address="",
    model="gpt-4o-mini",
    instructions="Judge it.",
    turns=("The text.",),
    schema={"type": "object", "properties": {}, "required": [], "additionalProperties": False},
    output="native",
    temperature=0.0,
    seed=3,
    max_tokens=900,
    top_logprobs=5,
    sample=0,
)

Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Wire:
    """A server that says whatever it is told to."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.requests = 0

    async def line(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            await self.respond(writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has left, which is the point
        finally:
            writer.close()


@contextmanager
def listening(wire: Wire, *, secure: ssl.SSLContext | None = None) -> Iterator[str]:
    """The server on a thread of its own; its base URL."""
    ready = threading.Event()
    found: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        loop.set_exception_handler(lambda *_: None)  # handshakes that fail are what is tested
        server = await asyncio.start_server(wire.line, "127.0.0.1", 0, ssl=secure)
        found.append((server.sockets[0].getsockname()[1], loop, stop))
        ready.set()
        await stop.wait()
        server.close()
        lines = asyncio.all_tasks() - {asyncio.current_task()}
        for line in lines:
            line.cancel()
        await asyncio.gather(*lines, return_exceptions=True)
        await asyncio.sleep(0)

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    ready.wait()
    port, loop, stop = found[0]
    try:
        yield f"{'https' if secure else 'http'}://127.0.0.1:{port}/v1"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def asked(monkeypatch: pytest.MonkeyPatch, url: str) -> ModelResponse:
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")

    async def ask() -> ModelResponse:
        client = open_direct_client(NAME)
        assert client is not None
        try:
            return await client.send(CALL)
        finally:
            await client.close()

    return asyncio.run(ask())


def head(*headers: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", b"content-type: application/json", *headers, b"", b""])


@pytest.mark.parametrize("announced", [b"content-length: 1000000000", b"transfer-encoding: chunked"], ids=str)
def test_an_answer_without_an_end_is_refused(monkeypatch, announced):
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head(announced))
        piece = b" " * 65536
        while True:
            writer.write(b"10000\r\n" + piece + b"\r\n" if b"chunked" in announced else piece)
            sent += len(piece)
            await writer.drain()

    with listening(Wire(endless)) as url, pytest.raises(RequestError, match="longer than 16,000,000 bytes"):
        asked(monkeypatch, url)
    assert sent < 3 * MAX_BODY_BYTES, "more was read than is kept"


def test_an_answer_that_unpacks_to_far_more_is_refused_within_bounded_memory(monkeypatch):
    packed = gzip.compress(bytes(400_000_000), compresslevel=9)

    async def bomb(writer: asyncio.StreamWriter) -> None:
        writer.write(head(b"content-encoding: gzip", b"content-length: %d" % len(packed)) + packed)

    with listening(Wire(bomb)) as url:
        tracemalloc.start()
        try:
            with pytest.raises(RequestError, match="longer than"):
                asked(monkeypatch, url)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * MAX_BODY_BYTES


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate that signs itself, and a server's side of it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificate")
    key, signed = folder / "key.pem", folder / "signed.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=127.0.0.1",
    ]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(signed)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed, key)
    return signed, context


async def _answer(writer: asyncio.StreamWriter) -> None:
    writer.write(head(b"connection: close", b"content-length: %d" % len(ANSWER)) + ANSWER)


def test_a_server_that_signed_its_own_certificate_hears_nothing(monkeypatch, certificate):
    _, context = certificate
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    wire = Wire(_answer)
    with listening(wire, secure=context) as url, pytest.raises(RequestError, match="certificate"):
        asked(monkeypatch, url)
    assert wire.requests == 0


def test_a_certificate_that_the_environment_trusts_is_accepted(monkeypatch, certificate):
    signed, context = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(signed))
    with listening(Wire(_answer), secure=context) as url:
        assert asked(monkeypatch, url).text == "{}"


@pytest.mark.parametrize(
    "header", [b"x-request: \xff\xfe", b"x-r\xe9quest: 1", b"retry-after: \xb2", b"x: \x7f"]
)
@pytest.mark.parametrize("status", [b"200 OK", b"429 Too Many Requests", b"500 \xc3\xa9\xff"])
def test_headers_that_are_not_text_are_ignored(monkeypatch, header, status):
    async def odd(writer: asyncio.StreamWriter) -> None:
        writer.write(head(header, b"content-length: 2").replace(b"200 OK", status) + b"{}")

    with listening(Wire(odd)) as url, pytest.raises(RequestError) as caught:
        asked(monkeypatch, url)
    assert caught.value.kind in (
        "rate_limited" if status.startswith(b"429") else "provider_error",
        "connection",
    )


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """What is left behind is told by the garbage collector."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(each.message) for each in caught] == []


@contextmanager
def one_visitor(serve: Callable[[socket.socket, threading.Event], None], **options: int) -> Iterator[int]:
    """A server on a thread of its own that has one connection, until the end; its port."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for name, value in options.items():
            level = socket.IPPROTO_TCP if name.startswith("TCP") else socket.SOL_SOCKET
            listener.setsockopt(level, getattr(socket, name), value)

        def work() -> None:
            visitor, _ = listener.accept()
            with visitor:
                serve(visitor, over)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            socket.create_connection(listener.getsockname()).close()  # in case that nobody came
            thread.join()


def test_a_server_that_does_not_say_goodbye_leaves_no_connection_open(monkeypatch, certificate):
    signed, context = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(signed))

    def mute(visitor: socket.socket, over: threading.Event) -> None:
        with context.wrap_socket(visitor, server_side=True) as secure:
            secure.recv(65536)
            secure.sendall(head(b"connection: close", b"content-length: %d" % len(ANSWER)) + ANSWER)
            over.wait()  # a client that closes the connection over TLS is not answered

    with one_visitor(mute) as port, nothing_left_open():
        assert asked(monkeypatch, f"https://127.0.0.1:{port}/v1").text == "{}"


def test_a_server_that_takes_no_request_in_leaves_no_connection_open(monkeypatch):
    """Small pieces and buffers, so that most of the prompt is still to be sent when the client leaves."""
    begun = threading.Event()

    def deaf(visitor: socket.socket, over: threading.Event) -> None:
        visitor.recv(1)
        begun.set()
        over.wait()

    async def ask() -> None:
        client = open_direct_client(NAME)
        assert client is not None
        asking = asyncio.create_task(client.send(msgspec.structs.replace(CALL, turns=("x" * 900_000,))))
        await asyncio.to_thread(begun.wait)
        asking.cancel()
        await asyncio.wait([asking])
        await client.close()

    with one_visitor(deaf, TCP_MAXSEG=536, SO_RCVBUF=4096) as port, nothing_left_open():
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
        asyncio.run(ask())
