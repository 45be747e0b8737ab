import asyncio
import gzip
import json
import resource
import threading
import zlib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.agents.asked import Waits, asked
from trivium.agents.adapters.http import EndpointAgent
from trivium.agents.attempt import Usage
from trivium.agents.invoke import attempt_seed, invoke
from trivium.suites.case import Case
from trivium.suites.settings import Limits

PACKED = gzip.compress(b'"packed"', mtime=0)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/agent"


@contextmanager
def serving(answer):
    """A real server on loopback. ``answer(handler, body)`` writes the response."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            answer(self, self.rfile.read(int(self.headers["Content-Length"] or 0)))

        do_GET = do_PUT = do_POST  # noqa: N815 - names of the library

        def log_message(self, *args):
            pass

        def reply(self, status, content, **headers):
            content = content if isinstance(content, bytes) else content.encode()
            self.send_response(status)
            headers = {"Content-Type": "application/json"} | {
                k.replace("_", "-"): v for k, v in headers.items()
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answering(content, status=200, **headers):
    return serving(lambda handler, body: handler.reply(status, content, **headers))


def test_the_case_is_posted_as_json():
    posted = []

    def answer(handler, body):
        posted.append((handler.headers["Content-Type"], json.loads(body)))
        handler.reply(200, '"fine"')

    with serving(answer) as server:
        assert asked(server.url, input={"q": "é"}, repeat=1, seed=3).output == "fine"
    seed = attempt_seed(3, "c1", 1)
    assert posted == [("application/json", {"input": {"q": "é"}, "case": "c1", "repeat": 1, "seed": seed})]


def test_the_fields_of_an_attempt_are_understood():
    span = {"id": "s", "kind": "tool", "name": "search"}
    response = {
        "output": "text",
        "trace": {"spans": [span]},
        "usage": {"input_tokens": 5, "total_tokens": 9},
        "seconds": 0.25,
        "latency": 3,
    }
    with answering(json.dumps(response)) as server:
        attempt = asked(server.url)
    assert (attempt.output, attempt.seconds, attempt.usage) == ("text", 0.25, Usage(input_tokens=5))
    assert [each.name for each in attempt.trace.spans] == ["search"]
    assert attempt.metadata == {"latency": 3}


@pytest.mark.parametrize(
    ("content", "headers", "output"),
    [
        ("[1, 2]", {}, [1, 2]),
        ('{"answer": 1}', {"Content_Type": "application/problem+json; charset=utf-8"}, {"answer": 1}),
        ("plain text", {"Content_Type": "text/plain"}, "plain text"),
        ('{"answer": 1}', {"Content_Type": "text/plain"}, '{"answer": 1}'),
        ("grüße".encode("latin-1"), {"Content_Type": "text/plain; charset=iso-8859-1"}, "grüße"),
        ("grüße", {"Content_Type": "text/plain"}, "grüße"),
        (PACKED, {"Content_Encoding": "gzip"}, "packed"),
        ('"as it is"', {"Content_Encoding": "identity"}, "as it is"),
        (rb'"a\ud800b"', {}, "a\ufffdb"),
        ("", {"Content_Type": "text/plain"}, ""),
    ],
)
def test_any_json_or_text_is_an_output(content, headers, output):
    with answering(content, **headers) as server:
        assert asked(server.url).output == output


@pytest.mark.parametrize(
    ("answer", "output", "metadata"),
    [
        ({"answer": "Paris", "sources": ["a"]}, "Paris", {"sources": ["a"]}),
        ({"text": "Paris", "answer": 4}, "Paris", {"answer": 4}),
        # Two texts, or none under such a name: the object is the answer.
        ({"answer": "Paris", "text": "It is Paris"}, {"answer": "Paris", "text": "It is Paris"}, {}),
        ({"city": "Paris"}, {"city": "Paris"}, {}),
        ({"output": "Paris", "answer": "Rome"}, "Paris", {"answer": "Rome"}),
    ],
)
def test_of_an_object_the_one_text_of_a_known_name_is_the_output_and_that_is_said(
    answer, output, metadata, caplog
):
    with serving(lambda handler, _: handler.reply(200, json.dumps(answer))) as server:
        attempt = asked(server.url)
        asked(server.url)
    assert (attempt.output, attempt.metadata) == (output, metadata)
    said = [line for line in caplog.messages if "answers with an object" in line]
    assert len(said) == (0 if "output" in answer else 2)  # once for each agent


def test_a_misspelt_key_of_the_answer_is_told_with_the_nearest(caplog):
    with serving(lambda handler, _: handler.reply(200, json.dumps({"anwser": "Paris", "took": 3}))) as server:
        assert asked(server.url).output == {"anwser": "Paris", "took": 3}
    assert 'Its keys: anwser, took. Did you mean "answer"?' in " ".join(caplog.messages)


@pytest.mark.parametrize(
    ("content", "headers", "reason"),
    [
        ("{broken", {}, "the answer is no valid JSON: "),
        ("[NaN]", {}, "the answer is no valid JSON: NaN is no JSON"),
        ("[" * 100_000, {}, "the answer is no valid JSON: "),
        (b"\xff\xfe", {"Content_Type": "text/plain"}, "the answer (text/plain) is not text: "),
        (b"\x89PNG", {"Content_Type": "image/png"}, "the answer (image/png) is not text: "),
        ("x", {"Content_Type": "text/plain; charset=klingon"}, "the answer (text/plain) is not text: "),
        ("null", {}, "nothing came back"),
        ('{"output": null}', {}, "nothing came back"),
        ('{"error": "no such paper"}', {}, "no such paper"),
        ('{"output": "x", "usage": 3}', {}, "the answer has a field of the wrong type: "),
        (b"no", {"Content_Encoding": "gzip"}, "the answer is no gzip, though it says so: "),
        (PACKED[:20], {"Content_Encoding": "gzip"}, "the answer is gzip that ends in the middle"),
        (PACKED, {"Content_Encoding": "gzip, gzip"}, 'the answer is packed as "gzip, gzip", expected gzip'),
        (b"?", {"Content_Encoding": "br"}, 'the answer is packed as "br", expected gzip or as it is'),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failed_attempt(content, headers, reason):
    with answering(content, **headers) as server:
        attempt = asked(server.url)
    assert attempt.error.startswith(reason)
    assert attempt.output is None


def test_a_refusal_says_status_and_words_without_secrets():
    with answering("bad key sk-abcdefghijkl1234", status=401) as server:
        attempt = asked(server.url)
    assert attempt.error == "HTTP 401 Unauthorized: bad key [masked]"


def test_a_redirect_names_the_address_to_use():
    with answering("", status=307, Location="http://127.0.0.1/other") as server:
        attempt = asked(server.url)
    assert attempt.error.endswith("redirects to http://127.0.0.1/other; name that address instead")


def test_a_busy_server_is_asked_again_when_it_says():
    calls = []

    def answer(handler, body):
        calls.append(1)
        if len(calls) == 1:
            handler.reply(429, "later", Retry_After="11")
        elif len(calls) == 2:
            handler.reply(503, "busy")
        else:
            handler.reply(200, '"fine"')

    waits = Waits()
    with serving(answer) as server:
        attempt = asked(server.url, waits=waits)
    assert attempt.output == "fine"
    assert attempt.metadata == {"tries": 3}
    assert waits[0] == 11.0
    assert 0.5 <= waits[1] <= 1.0


def test_a_connection_cut_short_is_asked_again():
    calls = []

    def answer(handler, body):
        calls.append(1)
        if len(calls) == 1:
            handler.close_connection = True
            handler.connection.close()
        else:
            handler.reply(200, '"fine"')

    with serving(answer) as server:
        assert asked(server.url).output == "fine"
    assert len(calls) == 2


def test_an_endpoint_that_does_not_listen_is_retried_then_given_up():
    with answering("") as server:
        url = server.url
    waits = Waits()
    attempt = asked(url, waits=waits, retries=2)
    assert attempt.error.startswith("ConnectError")
    assert attempt.error.endswith("(tried 3 times)")
    assert len(waits) == 2


def test_a_flood_is_cut_off_without_being_held():
    sent = 0

    def answer(handler, body):
        nonlocal sent
        handler.send_response(200)
        handler.send_header("Content-Type", "text/plain")
        handler.end_headers()
        handler.close_connection = True
        try:
            while sent < 50_000_000:
                sent += handler.wfile.write(b"x" * 100_000)
        except OSError:
            pass

    with serving(answer) as server:
        attempt = asked(server.url, output_bytes=100_000)
    assert attempt.error == "the output is larger than 100,000 bytes (limits.output_bytes)"
    assert sent < 50_000_000


def test_no_content_is_no_output():
    with answering("", status=204) as server:
        assert asked(server.url).error == "nothing came back"


def bomb(packing) -> bytes:
    """300 MB of nothing, packed a megabyte at a time so that making it takes no memory."""
    return b"".join(packing.compress(bytes(1_000_000)) for _ in range(300)) + packing.flush()


def zstd():
    return pytest.importorskip("zstandard").ZstdCompressor().compressobj()


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("coding", "packing"), [("gzip", lambda: zlib.compressobj(wbits=31)), ("zstd", zstd)]
)
def test_an_answer_that_unpacks_to_far_more_is_not_unpacked(coding, packing, status):
    encodings = []

    def answer(handler, body):
        encodings.append(handler.headers["Accept-Encoding"])
        handler.reply(status, content, Content_Encoding=coding, Content_Type="text/plain")

    content = bomb(packing())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(answer) as server:
        attempt = asked(server.url, output_bytes=100_000)
    assert encodings == ["gzip"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 * 1024, "kilobytes"
    if status == 400:
        assert attempt.error.startswith("HTTP 400 Bad Request")
    elif coding == "gzip":
        assert attempt.error == "the output is larger than 100,000 bytes (limits.output_bytes)"
    else:
        assert attempt.error == 'the answer is packed as "zstd", expected gzip or as it is'


def test_a_long_refusal_is_not_read_to_its_end():
    with answering("word " * 1_000_000, status=400) as server:
        attempt = asked(server.url)
    assert attempt.error.startswith("HTTP 400 Bad Request: word word")
    assert len(attempt.error) < 2_100


def test_a_server_that_hangs_is_given_up():
    release = threading.Event()
    with serving(lambda handler, body: release.wait()) as server:
        attempt = asked(server.url, seconds=0.1)
        release.set()
    assert attempt.error == "no answer within 0.1 s (limits.seconds)"


def test_an_agent_works_on_one_event_loop_after_another():
    with answering('"fine"') as server:
        agent = EndpointAgent(server.url)

        async def once():
            attempt = await invoke(agent, Case(id="1", input=""), 0, Limits(), seed=1)
            await agent.close()
            return attempt

        assert [asyncio.run(once()).output for _ in range(2)] == ["fine", "fine"]


def test_the_name_of_an_agent_holds_no_secret():
    assert (
        EndpointAgent("https://api.example/run?api_key=abcdef").name
        == "https://api.example/run?api_key=[masked]"
    )
