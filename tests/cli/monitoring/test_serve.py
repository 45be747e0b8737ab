"""``trivium serve``: starts only where it is safe, says where it listens, and stops gracefully."""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.otlp_requests import agent_trace, body
from trivium.cli.main import run_command
from trivium.cli.monitoring.serve import open_in_browser
from trivium.store.live_traces import LiveTraces
from trivium.store.store import Store
from trivium.store.tokens import Tokens

HEADERS = {"content-type": "application/x-protobuf"}


class Server:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.store = f"sqlite:///{folder / 'store.db'}"
        command = [sys.executable, "-m", "trivium", "serve", *arguments, "--port", "0", "--store", self.store]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "stop:" in line:
                break
        found = re.search(r"serves (http://\S+:\d+)", self.said)
        assert found, self.said + self.process.stderr.read()
        self.url = found[1]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err


@pytest.fixture
def serve(tmp_path):
    """Starts servers, and ends those that still run."""
    started = []

    def start(*arguments: str) -> Server:
        server = Server(tmp_path, *arguments)
        started.append(server)
        return server

    yield start
    for server in started:
        server.process.kill()
        server.process.communicate()


@pytest.mark.cpu(8, "a server starts, scores, and loads the prices of models")
def test_it_stores_scores_and_stops_gracefully(serve, tmp_path):
    suite = tmp_path / "support.yaml"
    suite.write_text("name: support\nmonitor: {sample_rate: 1.0, quiet: 0.01}\n")
    server = serve(str(suite))
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT={server.url}" in server.said
    assert "support" in server.said
    with httpx.Client(base_url=server.url) as client:
        assert client.post("/v1/traces", content=body(agent_trace()), headers=HEADERS).status_code == 200
        deadline = time.monotonic() + 60
        with Store(server.store) as store:
            while not (runs := store.live_runs("support")) and time.monotonic() < deadline:
                pass
        assert runs
    code, err = server.end()
    assert (code, err) == (0, "")


def test_ctrl_c_ends_it_with_130_and_keeps_what_was_received(serve):
    server = serve("--access-log")
    trace = bytes(range(16))
    httpx.post(f"{server.url}/v1/traces", content=body(agent_trace(trace)), headers=HEADERS)
    code, err = server.end(signal.SIGINT)
    assert code == 130
    assert "POST /v1/traces" in err
    with Store(server.store) as store:
        assert LiveTraces(store).trace(trace.hex()) is not None


def test_limits_are_options(serve, tmp_path):
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        _, secret = Tokens(store).create("bot", ["ingest"], now=time.time(), actor="tests")
    server = serve(
        "--require-token", "--name", "traces.example.org", "--max-request-mb", "0.001",
        "--body-timeout", "0.2", "--requests-per-minute", "3",
    )  # fmt: skip
    assert "OTEL_EXPORTER_OTLP_HEADERS" in server.said
    with httpx.Client(base_url=server.url) as client:

        def status(content: bytes, **headers: str) -> int:
            return client.post("/v1/traces", content=content, headers=HEADERS | headers).status_code

        assert status(b"") == 401
        guesses = [{"authorization": "Bearer x", "x-forwarded-for": f"203.0.113.{n}"} for n in range(24)]
        assert status(b"", **guesses[0]) == 401
        # Nobody's word on an address is taken; the counts begin anew with each minute.
        assert 429 in [status(b"", **each) for each in guesses]
        client.headers["authorization"] = f"Bearer {secret}"
        assert status(b"", host="traces.example.org") == 200
        assert status(bytes(1100)) == 413
        address = httpx.URL(server.url)
        with socket.create_connection((address.host, address.port)) as slow:
            head = (
                f"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {secret}\r\n"
                "content-type: application/x-protobuf\r\ncontent-length: 100\r\n\r\nslow"
            )
            slow.sendall(head.encode())
            assert slow.recv(100).startswith(b"HTTP/1.1 503 ")
        assert any(status(b"") == 429 for _ in range(8))  # the counts begin anew with each minute


def test_the_documented_proxy_makes_cookies_for_tls_and_states_addresses(serve, tmp_path):
    with Store(f"sqlite:///{tmp_path / 'store.db'}") as store:
        Tokens(store).create("bot", ["ingest"], now=time.time(), actor="tests")
    page = (Path(__file__).parents[3] / "docs" / "serve.md").read_text(encoding="utf-8")
    options = re.search(r"trivium serve support\.yaml (--name traces\.example\.org .*)", page)[1].split()
    stated = dict(re.findall(r"proxy_set_header ([\w-]+) (\S+);", page))
    assert set(stated) == {"Host", "X-Forwarded-For", "X-Forwarded-Proto"}

    def headers(address: str) -> dict[str, str]:
        values = {"$host": "traces.example.org", "$scheme": "https", "$remote_addr": address}
        return {name: values[variable] for name, variable in stated.items()}

    server = serve(*options)
    with httpx.Client(base_url=server.url) as client:
        cookie = client.get("/login", headers=headers("203.0.113.1")).headers["set-cookie"]
        assert re.match(r"__Host-trivium_visitor=\S+;", cookie)
        assert {"Secure", "HttpOnly", "Path=/"} <= set(cookie.split("; "))
        wrong = [
            client.post("/v1/traces", headers={**headers(f"203.0.113.{n}"), "authorization": "Bearer x"})
            for n in range(14)
        ]
        assert {each.status_code for each in wrong} == {401}


def exit_of(*arguments: str, capfd) -> tuple[int, str]:
    code = run_command(["serve", *arguments])
    return code, capfd.readouterr().err


@pytest.mark.parametrize("arguments", [["--host", "0.0.0.0"], ["--name", "a.example"], ["--require-token"]])
def test_without_a_token_it_refuses_to_be_reached_from_elsewhere(arguments, tmp_path, capfd):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    code, err = exit_of(*arguments, "--store", url, capfd=capfd)
    assert code == 2
    assert "trivium token create NAME --scope ingest" in err
    assert "TLS" in err


@pytest.mark.parametrize("name", ["https://traces.example.org", "a.example/traces", " ", "me@a.example"])
def test_what_no_header_host_can_hold_is_no_name(name, capfd):
    code, err = exit_of("--name", name, capfd=capfd)
    assert code == 2
    assert "traces.example.org, without https://" in err


@pytest.mark.parametrize("proxy", ["*", "nginx", "10.0.0.1/8", ""])
def test_what_is_no_address_is_no_proxy(proxy, capfd):
    code, err = exit_of("--proxy", proxy, capfd=capfd)
    assert code == 2
    assert "neither an IP address nor a network" in err


def test_two_monitors_need_two_names(tmp_path, capfd):
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("name: support\nmonitor: {}\n")
    code, err = exit_of(str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), capfd=capfd)
    assert (code, "a name of its own" in err) == (2, True)


def test_a_port_that_is_taken_is_said(tmp_path, capfd):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, err = exit_of("--port", port, "--store", f"sqlite:///{tmp_path / 'store.db'}", capfd=capfd)
    assert code == 2
    assert f"127.0.0.1:{port}: cannot listen here" in err


def test_without_the_extra_it_says_what_to_install(monkeypatch, capfd):
    find = importlib.util.find_spec
    found = lambda name: None if name == "litestar" else find(name)  # noqa: E731
    monkeypatch.setattr("trivium.cli.doctor.find_spec", found)
    code, err = exit_of(capfd=capfd)
    assert code == 2
    assert 'pip install "trivium[serve]"' in err
    assert len(err.splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="xdg-open opens addresses on Linux")
def test_what_an_opener_says_where_there_is_no_browser_is_not_shown(tmp_path, monkeypatch, capfd):
    opener = tmp_path / "xdg-open"
    opener.write_text('#!/bin/sh\necho "$1" >> "$0.asked"\necho "no method available" >&2\nexit 3\n')
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert open_in_browser("http://127.0.0.1:1/runs").wait() == 3
    assert (tmp_path / "xdg-open.asked").read_text() == "http://127.0.0.1:1/runs\n"
    assert capfd.readouterr() == ("", "")
