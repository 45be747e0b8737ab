"""The intake of traces over HTTP: what is taken, what is refused, and in whose words."""

import asyncio
import gzip
import io
import json
import os
import tracemalloc
import zlib

import pytest
from google.rpc.status_pb2 import Status
from litestar.testing import TestClient
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from sqlalchemy import delete, func, select

from tests.otlp_requests import agent_trace, body, span
from trivium.errors import StoreError
from trivium.monitor.intake import Intake
from trivium.monitor.otlp import IntakeLimits
from trivium.store import schema
from trivium.web.otlp import MOST_MEMBERS, Receiver
from trivium.web.security import Access

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}

SPAN = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b174",
    "name": "work",
    "startTimeUnixNano": "1544712660000000000",
    "endTimeUnixNano": "1544712661000000000",
}


@pytest.fixture
def store(shared_store):
    """The store of all tests here, empty before each of them."""
    yield shared_store
    with shared_store.engine.begin() as connection:
        for table in reversed(schema.metadata.sorted_tables):
            connection.execute(delete(table))


@pytest.fixture
def client(shared_client):
    return shared_client


def json_body(*spans: dict) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


def stored(store) -> int:
    with store.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(schema.live_spans)).scalar_one()


def send(client: TestClient, content: bytes, headers=PROTOBUF, **more: str):
    return client.post("/v1/traces", content=content, headers=headers | more)


def status_of(response) -> Status:
    assert response.headers["content-type"] == "application/x-protobuf"
    return Status.FromString(response.content)


def test_spans_that_are_acknowledged_are_stored(client, store):
    response = send(client, body(agent_trace()))
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/x-protobuf"
    assert response.content == b""  # full success: the message is empty
    assert stored(store) == 3


def test_json_is_answered_in_json(client, store):
    response = send(client, json_body(SPAN), JSON)
    assert (response.status_code, response.json()) == (200, {})
    assert response.headers["content-type"] == "application/json"
    assert stored(store) == 1


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("Deflate", zlib.compress)]
)
def test_compressed_bodies_are_inflated(client, store, encoding, compress):
    response = send(client, compress(body(agent_trace())), **{"content-encoding": encoding})
    assert response.status_code == 200
    assert stored(store) == 3


def test_a_gzip_body_may_have_several_members(client, store):
    whole = body(agent_trace())
    response = send(
        client, gzip.compress(whole[:50]) + gzip.compress(whole[50:]), **{"content-encoding": "gzip"}
    )
    assert response.status_code == 200
    assert stored(store) == 3


def test_refused_spans_are_a_partial_success(client, store):
    good, bad = span(os.urandom(16)), span(b"")
    response = send(client, body([good, bad]))
    assert response.status_code == 200
    partial = ExportTraceServiceResponse.FromString(response.content).partial_success
    assert partial.rejected_spans == 1
    assert "trace id" in partial.error_message
    response = send(client, json_body(SPAN, {"name": "bad"}), JSON)
    assert response.json()["partialSuccess"]["rejectedSpans"] == "1"  # int64 is a text in protobuf's JSON
    assert stored(store) == 2


def test_a_text_that_cannot_be_stored_is_replaced_with_a_warning(client, store):
    response = send(client, json_body(SPAN | {"name": "cut \ud83d"}), JSON)
    partial = response.json()["partialSuccess"]
    assert (response.status_code, "rejectedSpans" in partial) == (200, False)
    assert "half of a surrogate pair: 1" in partial["errorMessage"]
    assert stored(store) == 1


def test_a_path_that_an_exporter_appended_twice_is_understood(client, store):
    assert client.post("/v1/traces/v1/traces", content=body(agent_trace()), headers=PROTOBUF).content == b""
    assert stored(store) == 3


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/logs", "/v1/traces/v1/metrics"])
def test_metrics_and_logs_are_accepted_and_dropped_and_the_answer_says_so(client, path):
    said = f"{path.rpartition('/')[2]} are accepted and dropped"
    response = client.post(path, content=b"\x0a\x00", headers=PROTOBUF)
    kind = ExportLogsServiceResponse if path.endswith("logs") else ExportMetricsServiceResponse
    assert response.status_code == 200
    assert said in kind.FromString(response.content).partial_success.error_message
    assert said in client.post(path, content=b"{}", headers=JSON).json()["partialSuccess"]["errorMessage"]
    assert client.post(path, content=b"", headers={"content-type": "text/plain"}).status_code == 415


def test_what_cannot_be_read_is_refused_in_the_request_s_encoding(client):
    response = send(client, b"\xff\xff\xff")
    assert response.status_code == 400
    assert status_of(response).code == 3
    assert "protobuf" in status_of(response).message
    response = send(client, b"{", JSON)
    assert (response.status_code, response.json()["code"]) == (400, 3)


def test_other_content_types_and_encodings_are_refused(client):
    assert send(client, b"", {"content-type": "text/plain"}).status_code == 415
    response = send(client, b"", **{"content-encoding": "br"})
    assert response.status_code == 415
    assert "gzip" in status_of(response).message
    assert client.get("/v1/traces").status_code == 405


def test_a_request_above_the_limit_is_refused_before_it_is_read(connect, store):
    client = connect(limits=IntakeLimits(request_bytes=1000))
    for chunked in (bytes(1001), iter([bytes(600), bytes(600)])):
        response = send(client, chunked)
        assert response.status_code == 413
        assert "1,000" in status_of(response).message
        assert "--max-request-mb" in status_of(response).message
    assert stored(store) == 0


def test_a_request_with_too_many_spans_is_refused(connect):
    response = send(connect(limits=IntakeLimits(request_spans=2)), body(agent_trace()))
    assert response.status_code == 413
    assert "more than 2 spans" in status_of(response).message
    assert "--max-request-mb" not in status_of(response).message


def test_a_gzip_bomb_is_inflated_to_the_limit_only(connect):
    client = connect(limits=IntakeLimits(request_bytes=100_000))
    bomb = gzip.compress(bytes(100_000_000))
    tracemalloc.start()
    response = send(client, bomb, **{"content-encoding": "gzip"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert response.status_code == 413
    assert "decompressed" in status_of(response).message
    assert peak < 20_000_000


@pytest.mark.parametrize("broken", [b"no gzip", gzip.compress(body(agent_trace()), mtime=0)[:-12]])
def test_broken_gzip_is_refused(client, broken):
    response = send(client, broken, **{"content-encoding": "gzip"})
    assert response.status_code == 400
    assert "gzip" in status_of(response).message


def test_a_gzip_body_of_very_many_empty_members_is_refused(connect):
    """Each costs time, and none makes the body larger."""
    client = connect(limits=IntakeLimits(request_bytes=10_000))
    headers = {"content-encoding": "gzip"}
    response = send(client, gzip.compress(b"") * (MOST_MEMBERS + 1), **headers)
    assert (response.status_code, "parts" in status_of(response).message) == (400, True)
    padded = gzip.GzipFile(fileobj=(raw := io.BytesIO()), mode="wb", compresslevel=0)
    padded.write(b"")
    padded.close()
    named = raw.getvalue()[:3] + b"\x08" + raw.getvalue()[4:10] + b"n" * 9_000 + b"\0" + raw.getvalue()[10:]
    response = send(client, iter([named, named]), **headers)
    assert response.status_code == 413


def test_an_answer_quotes_no_more_than_a_little_of_a_request(client):
    number = {"key": "a", "value": {"intValue": "9" * 100_000}}
    resource = {"resource": {"attributes": [number]}, "scopeSpans": []}
    response = send(client, json.dumps({"resourceSpans": [resource]}).encode(), JSON)
    assert response.status_code == 400
    assert len(response.content) < 2_000


def test_a_failure_of_the_server_is_answered_in_the_request_s_encoding(client, monkeypatch, caplog):
    def fails(*_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr(client.services.intake, "submit", fails)
    response = send(client, body(agent_trace()))
    assert (response.status_code, status_of(response).code) == (500, 13)
    assert "secret" not in response.text
    assert "secret detail" in caplog.text


def test_a_slow_body_is_sent_again_by_exporters(connect):
    """They drop the spans of a request that is answered with 408."""
    app = connect(Access(body_seconds=0.001)).app
    scope = {
        "type": "http", "method": "POST", "path": "/v1/traces", "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/x-protobuf")],
    }  # fmt: skip
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send_(message):
        sent.append(message)

    asyncio.run(app(scope, receive, send_))
    assert (sent[0]["status"], dict(sent[0]["headers"])[b"retry-after"]) == (503, b"2")
    assert b"--body-timeout" in sent[1]["body"]


def test_an_overloaded_server_says_when_to_send_again(connect):
    client = connect(limits=IntakeLimits(waiting_requests=0))
    response = send(client, body(agent_trace()))
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert status_of(response).code == 14


def test_a_store_that_is_away_is_said_to_be_unavailable(client, monkeypatch):
    def away(*_, **__):
        raise StoreError("the disk is full")

    monkeypatch.setattr(client.services.traces, "add_all", away)
    response = send(client, body(agent_trace()))
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert "the disk is full" in status_of(response).message
    monkeypatch.undo()
    assert send(client, body(agent_trace())).status_code == 200


def test_a_refused_token_is_answered_in_the_request_s_encoding(connect):
    client = connect(Access(tokens=True))
    assert status_of(send(client, body(agent_trace()))).code == 16
    assert send(client, json_body(SPAN), JSON).json()["code"] == 16


def test_a_body_that_is_cut_off_is_not_stored(client, store):
    scope = {
        "type": "http", "method": "POST", "path": "/v1/traces", "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/x-protobuf")],
    }  # fmt: skip
    whole = body(agent_trace())
    messages = [
        {"type": "http.request", "body": whole[:-1], "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent = []

    async def receive():
        return messages.pop(0)

    async def send_(message):
        sent.append(message)

    receiver = Receiver(client.services.intake)
    asyncio.run(receiver.answer(scope, receive, send_))
    receiver.close()
    assert sent[0]["status"] == 400
    assert receiver.refusals == {"cut_off": 1}
    assert stored(store) == 0


def test_a_request_waits_for_memory_that_others_have(client, store):
    """The second of two requests that come at the same time is refused while the first has the memory."""
    limits = IntakeLimits(waiting_bytes=1000)
    intake = Intake(client.services.traces, limits=limits)
    receiver = Receiver(intake)
    statuses = []

    async def one(first: asyncio.Event, go: asyncio.Event) -> None:
        parts = [bytes(600), b""]

        async def receive():
            if len(parts) == 1:
                first.set()
                await go.wait()
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send_(message):
            if "status" in message:
                statuses.append(message["status"])

        scope = {
            "type": "http", "method": "POST", "path": "/v1/traces",
            "headers": [(b"content-type", b"application/x-protobuf")],
        }  # fmt: skip
        await receiver.answer(scope, receive, send_)

    async def both() -> None:
        began, go = asyncio.Event(), asyncio.Event()
        waiting = asyncio.create_task(one(began, go))
        await began.wait()
        await one(asyncio.Event(), go)
        go.set()
        await waiting
        await one(asyncio.Event(), go)

    asyncio.run(both())
    receiver.close()
    intake.close()
    assert statuses[0] == 503
    assert 503 not in statuses[1:]
