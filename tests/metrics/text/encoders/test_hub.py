"""The hub, stood in for by a server on loopback: the library reads its address when it is imported, so
each test runs in a Python of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("huggingface_hub")
pytest.importorskip("onnxruntime")

COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "someone/tiny"

ASK = """
import json, sys
import trivium as tv
score = tv.score("semantic", output="fade", references=["cafe"], encoder=sys.argv[1])
print(json.dumps([score.status, score.value, score.reason, score.method]))
"""


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as fetching an encoder asks for."""

    def __init__(self, folder: Path, *args: object) -> None:
        self.folder = folder
        super().__init__(*args)  # type: ignore[arg-type]

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        files = [
            path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()
        ]
        path = self.path.partition("?")[0]
        if path.startswith(f"/api/models/{NAME}/tree/"):
            tree = [
                {"type": "file", "path": file, "size": (self.folder / file).stat().st_size, "oid": COMMIT}
                for file in files
            ]
            self._answer(json.dumps(tree).encode())
        elif path.startswith(f"/api/models/{NAME}"):
            siblings = [{"rfilename": file} for file in files]
            self._answer(json.dumps({"id": NAME, "sha": COMMIT, "siblings": siblings}).encode())
        elif path.startswith(f"/{NAME}/resolve/") and (file := path.split("/", 5)[5]) in files:
            self._answer((self.folder / file).read_bytes())
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{sha256(body).hexdigest()}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Address of a hub that has one encoder."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def hub(tiny_onnx_folder: Path) -> Iterator[str]:
    """Address of a hub that has the tiny encoder."""
    with serving(tiny_onnx_folder) as address:
        yield address


def ask(cache: Path, *, hub: str, encoder: str = NAME, **environment: str) -> tuple[str, float, str, str]:
    """Status, value, reason and method of a semantic score, in a Python of its own."""
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("HF_", "TRANSFORMERS_", "TRIVIUM_")) and not key.lower().endswith("_proxy")
    }
    settings = {"HF_HOME": str(cache), "HF_ENDPOINT": hub, "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, encoder],
        env=inherited | settings | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return tuple(json.loads(done.stdout.splitlines()[-1]))  # type: ignore[return-value]


def test_an_encoder_is_fetched_once_and_then_read_from_the_cache(hub: str, tmp_path: Path):
    status, value, _, method = ask(tmp_path, hub=hub)
    assert (status, method) == ("ok", f"{NAME}@{COMMIT[:12]} (onnx)")
    assert ask(tmp_path, hub="http://127.0.0.1:9", HF_HUB_OFFLINE="1") == (status, value, None, method)


def test_a_name_that_the_hub_does_not_know_is_skipped_with_that_reason(hub: str, tmp_path: Path):
    status, value, reason, _ = ask(tmp_path, hub=hub, encoder="someone/nothing")
    assert (status, value) == ("skipped", None)
    assert reason == "the hub has no public model called someone/nothing"


def test_without_network_the_reason_says_how_to_fetch(tmp_path: Path):
    status, value, reason, _ = ask(tmp_path, hub="http://127.0.0.1:9")
    assert (status, value) == ("skipped", None)
    assert "cannot be reached" in reason
    assert f"hf download {NAME}" in reason
    assert "--encoder FOLDER" in reason


def test_offline_is_respected(hub: str, tmp_path: Path):
    status, _, reason, _ = ask(tmp_path, hub=hub, HF_HUB_OFFLINE="1")
    assert status == "skipped"
    assert "HF_HUB_OFFLINE is set" in reason


def test_a_repository_that_nothing_here_can_run_is_not_fetched(tiny_onnx_folder: Path, tmp_path: Path):
    folder = tmp_path / "repository"
    shutil.copytree(tiny_onnx_folder, folder)
    (folder / "onnx" / "model.onnx").rename(folder / "pytorch_model.bin")
    with serving(folder) as hub:
        status, _, reason, _ = ask(tmp_path / "cache", hub=hub)
    assert status == "skipped"
    assert "pickled weights" in reason
