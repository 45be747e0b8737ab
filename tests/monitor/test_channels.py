"""Channels send what an alert says, and tell nobody its secrets."""

import hmac
import json
import logging
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.monitor.samples import BEGIN
from trivium.errors import InputError
from trivium.monitor.alerting.channels import SIGNATURE, Channel, NotSent, missing_variables
from trivium.monitor.alerting.messages import Bad, Example, Message
from trivium.suites.monitor_settings import ChannelSettings

MESSAGE = Message(
    monitor="support", alert=7, key="7-0", status="critical", title="support: pass rate is critical",
    time=BEGIN, opened=BEGIN, error=0.05,
    mean=Bad(
        figure="pass_rate", severity=3, threshold=0.7, sure=True, mean=0.5, low=0.4, high=0.6, samples=90
    ),
    examples=(Example(trace="abc", time=BEGIN, figure=0.0, score=0.0, query="why?", output="dunno"),),
)  # fmt: skip
BODY = b'{"title":"support: pass rate is critical"}'


def send(**settings) -> None:
    Channel(ChannelSettings(**settings), clock=lambda: 1_700_000_000.5).send(MESSAGE, BODY, "7-0:0")


class Receiver:
    """An HTTP server on loopback that keeps requests, and answers with a status."""

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.status, self.headers, self.body = 200, {}, b""
        self.hang = threading.Event()
        self.hang.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append(
                    ({name.lower(): value for name, value in self.headers.items()}, body)
                )
                receiver.hang.wait(20)
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(receiver.body)))
                self.end_headers()
                with suppress(ConnectionError):  # the client reads only so much
                    self.wfile.write(receiver.body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield found
    found.hang.set()
    found.server.shutdown()
    found.server.server_close()


def test_a_webhook_gets_the_message_as_json(receiver):
    send(webhook=receiver.url)
    ((headers, body),) = receiver.requests
    assert (body, headers["content-type"], headers["idempotency-key"]) == (BODY, "application/json", "7-0:0")
    assert SIGNATURE.lower() not in headers


def test_a_webhook_is_signed_with_its_secret(receiver, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "s3cret-of-the-hook")
    send(webhook=receiver.url, secret="${HOOK_SECRET}")
    ((headers, body),) = receiver.requests
    stamp, digest = (part.split("=")[1] for part in headers[SIGNATURE.lower()].split(","))
    assert stamp == "1700000000"
    assert digest == hmac.digest(b"s3cret-of-the-hook", b"1700000000." + body, "sha256").hex()


def test_addresses_and_headers_come_from_the_environment(receiver, monkeypatch):
    monkeypatch.setenv("HOOK_URL", receiver.url)
    monkeypatch.setenv("HOOK_TOKEN", "abcdef")
    send(webhook="${HOOK_URL}", headers={"authorization": "Bearer ${HOOK_TOKEN}"})
    assert receiver.requests[0][0]["authorization"] == "Bearer abcdef"


@pytest.mark.parametrize(
    ("status", "retry"),
    [(500, True), (503, True), (522, True), (429, True), (408, True), (404, False), (401, False)],
)
def test_a_refusal_is_tried_again_only_if_that_may_help(receiver, status, retry):
    receiver.status = status
    with pytest.raises(NotSent, match=f"answered {status}") as error:
        send(webhook=receiver.url)
    assert error.value.retry is retry


@pytest.mark.parametrize("private", [False, True])
def test_a_webhook_in_the_private_network_is_told_once_unless_allowed(receiver, caplog, private):
    channel = Channel(ChannelSettings(webhook=receiver.url, private=private))
    for _ in range(2):
        channel.send(MESSAGE, BODY, "7-0:0")
    told = [each for each in caplog.messages if "leads to 127.0.0.1, an address of the private" in each]
    assert len(told) == (not private)


def test_redirects_are_not_followed(receiver):
    receiver.status, receiver.headers = 302, {"location": receiver.url}
    with pytest.raises(NotSent, match="redirects are not followed") as error:
        send(webhook=receiver.url)
    assert len(receiver.requests) == 1
    assert not error.value.retry


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120.0), ("Tue, 14 Nov 2023 22:15:20 GMT", 119.5), ("soon", None)],
)  # the clock of send() is at 22:13:20.5
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_heard(receiver, status, header, seconds):
    receiver.status, receiver.headers = status, {"retry-after": header}
    with pytest.raises(NotSent) as error:
        send(webhook=receiver.url)
    assert error.value.after == seconds


def test_the_answer_is_wanted_uncompressed_since_its_beginning_is_shown(receiver):
    send(webhook=receiver.url)
    assert receiver.requests[0][0]["accept-encoding"] == "identity"


def test_a_webhook_that_hangs_is_given_up_after_the_timeout(receiver):
    receiver.hang.clear()
    with pytest.raises(NotSent, match="cannot be reached"):
        send(webhook=receiver.url, timeout=0.05)


def test_an_endless_response_is_cut(receiver):
    receiver.status, receiver.body = 400, b"x" * 1_000_000
    with pytest.raises(NotSent) as error:
        send(webhook=receiver.url)
    assert len(str(error.value)) < 600


def test_nobody_listens():
    with pytest.raises(NotSent, match="cannot be reached") as error:
        send(webhook="http://127.0.0.1:9/")
    assert error.value.retry


def test_errors_do_not_tell_secrets(receiver, monkeypatch):
    monkeypatch.setenv("HOOK_SECRET", "correct horse battery")
    receiver.status, receiver.body = 500, b"you sent correct horse battery"
    with pytest.raises(NotSent) as error:
        send(webhook=receiver.url, secret="${HOOK_SECRET}")
    assert "horse" not in str(error.value)
    assert "[masked]" in str(error.value)


def test_a_variable_that_is_not_set_is_named_before_anything_is_sent(monkeypatch):
    monkeypatch.delenv("NO_SUCH", raising=False)
    channels = [ChannelSettings(log="error"), ChannelSettings(webhook="${NO_SUCH}")]
    with pytest.raises(
        InputError, match=r"channels\[1\]\.webhook: the environment variable NO_SUCH is not set"
    ):
        missing_variables(channels, "suite.yaml")
    with pytest.raises(NotSent, match="NO_SUCH is not set"):
        send(webhook="${NO_SUCH}")


@pytest.mark.parametrize(("level", "number"), [("warning", logging.WARNING), ("error", logging.ERROR)])
def test_the_log_gets_the_sentence(caplog, level, number):
    send(log=level)
    assert [(record.levelno, record.message) for record in caplog.records] == [(number, MESSAGE.title)]


def test_a_command_gets_the_message_on_standard_input(tmp_path):
    file = tmp_path / "got"
    code = "import os, sys; open(sys.argv[1], 'w').write(os.environ['TRIVIUM_ALERT_KEY'] + sys.stdin.read())"
    send(command=(sys.executable, "-c", code, str(file)))
    assert file.read_text() == "7-0:0" + BODY.decode()


def test_a_command_that_fails_is_tried_again():
    with pytest.raises(NotSent, match="exit code 3") as error:
        send(command=(sys.executable, "-c", "raise SystemExit(3)"))
    assert error.value.retry


def test_a_command_that_hangs_is_killed():
    with pytest.raises(NotSent, match=r"was killed after 0\.2 s"):
        send(command=(sys.executable, "-c", "import signal; signal.pause()"), timeout=0.2)


def test_a_command_that_does_not_exist():
    with pytest.raises(NotSent, match="cannot be started"):
        send(command=("/no/such/program",))


class Mail(socketserver.StreamRequestHandler):
    """A mail server that speaks as much SMTP as is needed here."""

    def handle(self) -> None:
        server = self.server
        self._say("220 test")
        while line := self.rfile.readline().decode().strip():
            word = line.split(" ")[0].upper()
            server.lines.append(line)
            if word == "EHLO":
                self._say("250-test\r\n250 AUTH PLAIN")
            elif word == "AUTH":
                self._say("235 ok" if server.login else "535 wrong")
            elif word == "DATA":
                self._say("354 go on")
                while (data := self.rfile.readline()) != b".\r\n":
                    server.data += data
                self._say("250 ok")
            elif word == "RCPT":
                self._say(server.answer)
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


class MailServer(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Mail)
        self.lines: list[str] = []
        self.data, self.answer, self.login = b"", "250 ok", True

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_an_email_says_what_the_alert_says():
    with mail_server() as server:
        send(
            email=("a@example.org", "b@example.org"),
            sender="t@example.org",
            smtp=server.address,
            encryption="none",
        )
    text = server.data.decode()
    assert "Subject: support: pass rate is critical" in text
    assert "To: a@example.org, b@example.org" in text
    assert "From: t@example.org" in text
    assert "Message-ID: <7-0-0@trivium>" in text
    assert "abc: why? -> dunno" in text


def test_an_email_is_sent_as_a_user(monkeypatch):
    monkeypatch.setenv("MAIL_PASSWORD", "open sesame")
    settings = {"user": "me", "password": "${MAIL_PASSWORD}", "encryption": "none"}
    with mail_server() as server:
        send(email=("a@example.org",), smtp=server.address, **settings)
        assert any(line.startswith("AUTH PLAIN") for line in server.lines)
        server.login = False
        with pytest.raises(NotSent, match="user or password is wrong") as error:
            send(email=("a@example.org",), smtp=server.address, **settings)
    assert not error.value.retry


def test_a_server_without_starttls_gets_no_email():
    with mail_server() as server, pytest.raises(NotSent, match="offers no STARTTLS") as error:
        send(email=("a@example.org",), smtp=server.address)
    assert not error.value.retry
    assert server.data == b""


@pytest.mark.parametrize(("answer", "retry"), [("450 later", True), ("550 no such user", False)])
def test_a_refused_recipient(answer, retry):
    with mail_server() as server:
        server.answer = answer
        with pytest.raises(NotSent, match="refused") as error:
            send(email=("a@example.org",), smtp=server.address, encryption="none")
    assert error.value.retry is retry


def test_a_mail_server_that_is_not_there():
    with pytest.raises(NotSent):
        send(email=("a@example.org",), smtp="127.0.0.1:9", encryption="tls", timeout=1)


def test_a_title_cannot_add_headers():
    with mail_server() as server:
        settings = ChannelSettings(email=("a@example.org",), smtp=server.address, encryption="none")
        title = "bad\r\nBcc: x@example.org"
        message = Message(monitor="m", title=title, key="1")
        Channel(settings).send(message, json.dumps({}).encode(), "1")
    assert b"\nBcc:" not in server.data.split(b"\r\n\r\n")[0]


@pytest.mark.parametrize("field", ["sender", "email"])
def test_a_line_feed_in_an_address_is_refused_for_good(field, monkeypatch):
    monkeypatch.setenv("ADDRESS", "a@example.org\r\nBcc: all@example.org")
    fields = {"email": ("b@example.org",), "sender": "c@example.org"}
    fields[field] = ("${ADDRESS}",) if field == "email" else "${ADDRESS}"
    channel = Channel(ChannelSettings(smtp="localhost:1", **fields))
    with pytest.raises(NotSent, match="sender or recipients") as caught:
        channel.send(Message(monitor="m", title="t", key="1"), b"{}", "1")
    assert not caught.value.retry
    assert "all@example.org" not in str(caught.value)
