"""Connections that do not send what they announce, or do not read what they asked for, are ended."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from trivium.web import server as serving
from trivium.web.errors import Refused
from trivium.web.security import send_refusal
from trivium.web.server import _Protocol

BOUND_SECONDS = 30


@asynccontextmanager
async def connected(app):
    """A connection to a server of an application."""
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(app, http=_Protocol, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    listening = await loop.create_server(lambda: _Protocol(config, state, {}, loop), "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname())
        yield reader, writer
        writer.transport.abort()
    finally:
        listening.close()
        async with asyncio.timeout(BOUND_SECONDS):
            while state.connections:
                for each in list(state.connections):
                    each.transport.abort()
                await asyncio.sleep(0)


async def refuses(scope, receive, send) -> None:
    """Answers without reading the body."""
    await send_refusal(scope, send, Refused(413, "too large"))


async def answers_much(scope, receive, send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": bytes(50_000_000)})


async def until_closed(reader, writer, piece: bytes) -> None:
    """Send a little, again and again, until the server ends the connection."""
    async with asyncio.timeout(BOUND_SECONDS):
        try:
            while not reader.at_eof():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.002)
        except ConnectionError:
            pass


async def answer_of(reader) -> bytes:
    async with asyncio.timeout(BOUND_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        return head + await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))


@pytest.fixture
def short(monkeypatch):
    for name in ("HEAD_SECONDS", "REST_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(serving, name, 0.05)


def test_a_head_that_drips_is_given_up(short):
    async def main() -> None:
        async with connected(refuses) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\n")
            await until_closed(reader, writer, b"x: y\r\n")

    asyncio.run(main())


def test_the_rest_of_a_refused_body_that_drips_is_given_up(short):
    async def main() -> None:
        async with connected(refuses) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n")
            assert b" 413 " in await answer_of(reader)
            await until_closed(reader, writer, b"x")

    asyncio.run(main())


def test_a_client_sees_why_its_large_body_is_refused_and_may_go_on():
    """A connection that is closed while a client sends takes the answer with it."""

    async def main() -> None:
        async with connected(refuses) as (reader, writer):
            for _ in range(2):
                writer.write(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5000000\r\n\r\n")
                writer.write(bytes(5_000_000))
                async with asyncio.timeout(BOUND_SECONDS):
                    await writer.drain()
                assert b" 413 " in await answer_of(reader)

    asyncio.run(main())


def test_a_wish_for_another_protocol_is_passed_over(caplog):
    """Any client may state one, as curl does for HTTP/2; uvicorn would advise to install further packages."""

    async def main() -> None:
        async with connected(refuses) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n")
            assert b" 413 " in await answer_of(reader)

    asyncio.run(main())
    assert caplog.text == ""


def test_a_client_that_does_not_read_its_answer_is_given_up(short):
    async def main() -> None:
        ended = asyncio.Event()

        async def app(scope, receive, send) -> None:
            try:
                await answers_much(scope, receive, send)
                await send({"type": "http.response.body", "body": b""})
            finally:
                ended.set()

        async with connected(app) as (_, writer):
            writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            async with asyncio.timeout(BOUND_SECONDS):
                await ended.wait()

    asyncio.run(main())
