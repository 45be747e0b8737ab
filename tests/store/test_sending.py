"""Tests sending spans to an OTLP endpoint on loopback, and its errors."""

import resource
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from trivium.errors import InputError
from trivium.store.export.otlp import MAX_SPANS, MAX_TRIES, send
from trivium.traces.trace import Span, Trace
from trivium.traces.writers.otlp import resource_spans, traces_to_export


@pytest.fixture
def endpoint():
    """An endpoint that keeps what it gets, and answers as told: status, headers, body."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            server.got.append((self.path, self.headers, Parse(body, ExportTraceServiceRequest())))
            status, headers, content = server.answers.pop(0) if server.answers else (200, {}, b"{}")
            self.send_response(status)
            for key, value in ({"content-type": "application/json"} | headers).items():
                self.send_header(key, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            with suppress(ConnectionError):  # the reader has left
                self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.got, server.answers = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/v1/traces"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def spans(number):
    made = tuple(
        Span(id=str(at), kind="tool", name=f"t{at}", start=float(at), end=at + 1.0) for at in range(number)
    )
    return Trace(spans=made)


def sent(url, *traces, waits=None):
    waits = [] if waits is None else waits
    return send(resource_spans(traces_to_export(traces)), url, sleep=waits.append)


def names(endpoint):
    requests = [got for *_, got in endpoint.got]
    return [
        [span.name for r in got.resource_spans for scope in r.scope_spans for span in scope.spans]
        for got in requests
    ]


def test_every_span_arrives_once_and_no_request_is_large(endpoint):
    assert sent(endpoint.url, spans(3), spans(2 * MAX_SPANS + 1), spans(2)) == 2 * MAX_SPANS + 6
    arrived = names(endpoint)
    assert max(map(len, arrived)) <= MAX_SPANS
    assert sorted(name for request in arrived for name in request) == sorted(
        f"execute_tool t{at}" for number in (3, 2 * MAX_SPANS + 1, 2) for at in range(number)
    )
    assert {path for path, *_ in endpoint.got} == {"/v1/traces"}


def test_headers_come_from_the_variable_of_opentelemetry(endpoint, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=a%20b, other=1")
    sent(endpoint.url, spans(1))
    (headers,) = [headers for _, headers, _ in endpoint.got]
    assert (headers["x-key"], headers["other"]) == ("a b", "1")


def test_a_retryable_request_is_sent_again(endpoint):
    endpoint.answers = [(503, {}, b""), (429, {"retry-after": "0"}, b""), (200, {}, b"{}")]
    assert sent(endpoint.url, spans(1)) == 1
    assert len(endpoint.got) == 3


def test_the_wait_doubles_with_jitter_and_is_bounded(endpoint):
    endpoint.answers = [
        (503, {}, b""),
        (429, {"retry-after": "7"}, b""),
        (502, {"retry-after": "86400"}, b""),
    ]
    waits = []
    sent(endpoint.url, spans(1), waits=waits)
    assert 0.5 <= waits[0] <= 1.0
    assert waits[1:] == [7.0, 30.0]


@pytest.mark.parametrize("status", [429, 503])
def test_a_date_in_retry_after_is_observed(endpoint, status):
    tomorrow = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)
    endpoint.answers = [(status, {"retry-after": tomorrow}, b"")]
    waits = []
    assert sent(endpoint.url, spans(1), waits=waits) == 1
    assert waits == [30.0]


def test_an_endpoint_that_never_accepts_is_an_error(endpoint):
    endpoint.answers = [(503, {"retry-after": "0"}, b"busy")] * 9
    with pytest.raises(InputError, match="answered 503: busy"):
        sent(endpoint.url, spans(1))
    assert len(endpoint.got) == MAX_TRIES


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((400, {}, b"bad span"), "answered 400: bad span"),
        ((404, {}, b""), "answered 404$"),
        ((200, {}, b'{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "x"}}'), "refused 2 spans: x"),
    ],
)  # fmt: skip
def test_rejected_spans_are_reported(endpoint, answer, told):
    endpoint.answers = [answer]
    with pytest.raises(InputError, match=told):
        sent(endpoint.url, spans(2))


@pytest.mark.parametrize(
    ("headers", "body"),
    [({"content-type": "text/plain"}, b"ok"), ({}, b"{"), ({}, b"[]"), ({}, b'{"partialSuccess": {}}')],
)
def test_other_answers_of_success_are_success(endpoint, headers, body):
    endpoint.answers = [(200, headers, body)]
    assert sent(endpoint.url, spans(1)) == 1


def test_the_error_says_how_much_had_been_sent(endpoint):
    endpoint.answers = [(200, {}, b"{}"), (500, {}, b"")]
    with pytest.raises(InputError, match=r"answered 500 \(1,000 spans had been sent\)"):
        sent(endpoint.url, spans(MAX_SPANS + 1))


def test_an_endless_response_is_not_read_to_the_end(endpoint):
    endpoint.answers = [
        (200, {}, b"[" * 50_000_000),
        (400, {"content-encoding": "gzip"}, b"no " * 20_000_000),
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert sent(endpoint.url, spans(1)) == 1
    with pytest.raises(InputError, match="answered 400: no no no"):
        sent(endpoint.url, spans(1))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 * 1024, "kilobytes"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/v1/traces", "ftp://127.0.0.1/", "http://[", "nonsense"])
def test_an_unreachable_address_is_reported(url):
    with pytest.raises(InputError, match="cannot be reached"):
        sent(url, spans(1))


def test_without_spans_nothing_is_sent(endpoint):
    assert sent(endpoint.url) == 0
    assert endpoint.got == []
