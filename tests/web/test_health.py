"""Whether the server works, and whether it can take traces; connections that stay silent are closed."""

import asyncio
import time

import uvicorn
from uvicorn.server import ServerState

from tests.otlp_requests import agent_trace, body
from trivium.errors import StoreError
from trivium.monitor.otlp import IntakeLimits
from trivium.web import server


def test_a_server_that_works_is_healthy_and_ready(client):
    assert client.get("/healthz").json() == {"status": "ok"}
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["status"] == "ready"


def test_a_backlog_is_told_and_keeps_nobody_from_sending(connect):
    clock = [time.time()]
    client = connect(clock=lambda: clock[0])
    client.services.intake.receive(body(agent_trace()), "protobuf")
    client.services.completer.complete(clock[0] + 1)
    clock[0] += 1000  # the default of stalled_after is 900 s
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["waiting_samples"] == 1
    assert ready.json()["oldest_seconds"] >= 900
    assert ready.json()["stalled"] == ["support"]


def test_it_is_not_ready_while_the_intake_is_full(connect):
    ready = connect(limits=IntakeLimits(waiting_requests=0)).get("/readyz")
    assert (ready.status_code, ready.json()["status"], ready.json()["store"]) == (503, "unavailable", True)


def test_it_is_not_ready_while_the_store_is_away(client, monkeypatch):
    def away(*_):
        raise StoreError("it is away")

    monkeypatch.setattr(client.services.store, "check", away)
    ready = client.get("/readyz")
    assert (ready.status_code, ready.json()["store"]) == (503, False)
    assert client.get("/healthz").status_code == 200


async def answer(_, __, send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_connection_whose_request_does_not_come_is_closed(monkeypatch):
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.2)
    config = uvicorn.Config(answer, log_config=None, ws="none", timeout_keep_alive=60)
    config.load()

    async def talk(*parts: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: server._Protocol(config, ServerState(), {}), "127.0.0.1", 0
        )
        async with listening:
            reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
            received = b""
            try:
                for part in parts:
                    writer.write(part)
                    if part.endswith(b"\r\n\r\n"):
                        received += await reader.readuntil(b"\r\n\r\n")
                received += await asyncio.wait_for(reader.read(), 60)
            except ConnectionResetError:
                pass
            writer.close()
            return received

    assert asyncio.run(talk()) == b""
    assert asyncio.run(talk(b"GET / HTTP/1.1\r\nhost: x\r\n")) == b""
    request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    assert asyncio.run(talk(request, b"GET /")).startswith(b"HTTP/1.1 204")
