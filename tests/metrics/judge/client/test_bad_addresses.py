"""An address at which no model is: said once, with its reason, and soon."""

import http.server
import threading
from contextlib import contextmanager

import pytest

from tests.judge_server import JudgeServer, failure
from tests.metrics.judge.asked import ATTEMPT, CASE, GPT, clarity, judged, served
from trivium.metrics.judge.client.pydantic_ai_models import why_unavailable

PAIRS = [(CASE, ATTEMPT)] * 5


class _Website(http.server.BaseHTTPRequestHandler):
    """Says hello to whoever asks whatever."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        page = b"<html><body>Welcome to nginx!</body></html>"
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        pass


@contextmanager
def website():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Website)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reasons(monkeypatch, url, caplog):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
    scores = judged(pairs=PAIRS, on_failure="skip")
    assert {score["clarity"].status for score in scores} == {"skipped"}
    return {score["clarity"].reason for score in scores}, caplog.text


def test_a_website_is_not_a_model_and_is_named_by_its_address(monkeypatch, caplog):
    with website() as place:
        why, logged = reasons(monkeypatch, f"http://{place}/", caplog)
    asked = f"the answer is text/html; charset=utf-8, no JSON: is http://{place}/chat/completions where"
    assert all(asked in each for each in why)
    assert logged.count("judge unavailable, giving up for now") <= 1


def test_an_address_with_credentials_is_asked_with_them(monkeypatch, caplog):
    with served(JudgeServer(answer=lambda _: clarity(4)), monkeypatch) as server:
        url = server.openai_url.replace("://", "://user:hidden-word@")
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        (scores,) = judged()
        assert scores["clarity"].status == "ok"
        (question,) = server.requests
        assert question.headers["authorization"].startswith("Basic ")
    assert "hidden-word" not in caplog.text + str(scores["clarity"])


def test_tls_to_a_plain_port_says_so_for_every_judgement(monkeypatch, caplog):
    with website() as place:
        why, logged = reasons(monkeypatch, f"https://{place}/v1", caplog)
    assert all("no connection" in each and "SSL" in each for each in why)
    assert logged.count("judge unavailable, giving up for now") <= 1


@pytest.mark.parametrize(
    "url",
    [
        "localhost:11434",
        "localhost:11434/v1",
        "/v1",
        "ftp://there/v1",
        "http:///v1",
        "http://127.0.0.1:99999/v1",
        f"http://{'a' * 64}.example/v1",
    ],
)
def test_an_invalid_address_is_reported_before_any_request(monkeypatch, url):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-real-key-1234567890")
    assert "expected http://… or https://…" in str(why_unavailable(GPT))
    (scores,) = judged(on_failure="skip")
    assert "the base URL is" in scores["clarity"].reason


@pytest.mark.parametrize(
    "key", ["sk-test\n", "sk-test\r", "sk-\u043a\u043b\u044e\u0447", " sk-test", "sk\x7ftest"]
)
@pytest.mark.parametrize("model", [GPT, "openai-responses:gpt-4o", "anthropic:claude-haiku-4-5"])
def test_a_key_that_cannot_be_sent_turns_the_judge_off(monkeypatch, caplog, model, key):
    with served(JudgeServer(), monkeypatch) as server:
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
            monkeypatch.setenv(name, key)
        (scores,) = judged(models=(model,))
    assert (scores["clarity"].status, scores["clarity"].method) == ("fallback", "similarity")
    assert "_API_KEY holds a line break or another character" in scores["clarity"].reason
    assert caplog.text.count("is off: ") == 1
    assert "sk" not in caplog.text.replace("asked", "")
    assert not server.requests


def test_requests_that_were_not_sent_are_not_counted(monkeypatch, tmp_path):
    """Once the key is refused, the other judgements are given up without asking."""
    from tests.runs.judging.suites import run, suite
    from trivium.store.store import Store

    with served(JudgeServer(plan=lambda _: failure(401)), monkeypatch) as server:
        with Store(str(tmp_path / "store.db")) as store:
            spent = run(suite(60, concurrency=2), store).summary().spent
        assert spent.requests == len(server.requests) < 60
