"""A stand-in for Opik's REST API on loopback: as much as pushing a run and ``opik.evaluate`` ask of it."""

import gzip
import json
import re
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

FACTS = {
    "/is-alive/ver": {"version": "2.0.0"},
    "/is-alive/ping": {"message": "Healthy Server", "healthy": True},
    "/v1/private/projects/retrieve": {"id": str(uuid4()), "name": "Default Project"},
    "/v1/private/auth/workspace": {"workspace_name": "default"},
}


class OpikServer(ThreadingHTTPServer):
    """Keeps what it is sent, by id.

    Attributes:
        requests: Method, path and content of each request.
        kept: Records by kind and id.
        scores: Feedback scores by trace and name.
        refuse: Status and message for requests whose path has a certain word.
    """

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/api"
        self.requests, self.kept, self.scores = [], defaultdict(dict), {}
        self.refuse = {}

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()

    def answer(self, method, path, body):
        """Status and content for a request."""
        for word, (status, message) in self.refuse.items():
            if word in path:
                return status, {"message": message}
        if path in FACTS:
            return 200, FACTS[path]
        own = path.removeprefix("/v1/private/")
        if found := re.fullmatch("(traces|spans|datasets/items|experiments/items)(/batch)?", own):
            return self._keep(found[1], body)
        if own == "traces/feedback-scores":
            self.scores |= {(score["id"], score["name"]): score for score in body["scores"]}
            return 204, None
        if own in {"datasets", "experiments"} and method == "POST":
            self.kept[own][body["id"]] = body
            return 201, body
        return self._look_up(own, body)

    def _keep(self, kind, body):
        records = next(value for value in body.values() if isinstance(value, list))
        self.kept[kind] |= {record["id"]: record for record in records}
        return 204, None

    def _look_up(self, own, body):
        if own == "datasets/retrieve":
            return 200, next(iter(self.kept["datasets"].values()))
        if own == "datasets/items/stream":
            items = [] if body.get("last_retrieved_id") else self.kept["datasets/items"].values()
            return 200, "".join(json.dumps(item) + "\n" for item in items)
        if re.fullmatch("datasets/[^/]+/versions", own):
            return 200, {"content": [], "page": 1, "size": 0, "total": 0}
        if found := re.fullmatch("(datasets|experiments)/([^/]+)", own):
            return 200, self.kept[found[1]].get(found[2], {})
        return 404, {"message": "not known here"}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        body = json.loads(raw) if raw else {}
        path = self.path.partition("?")[0].removeprefix("/api")
        self.server.requests.append((self.command, path, body))
        if self.command == "POST" and isinstance(body, dict) and "/private/" in path:
            body.setdefault("id", str(uuid4()))
        status, content = self.server.answer(self.command, path, body)
        reply_body = (
            b""
            if content is None
            else content.encode()
            if isinstance(content, str)
            else json.dumps(content).encode()
        )
        self.send_response(status)
        self.send_header("content-type", "application/json")
        if "id" in body and status == 201:
            self.send_header("location", f"{self.path}/{body['id']}")
        self.send_header("content-length", str(len(reply_body)))
        self.end_headers()
        self.wfile.write(reply_body)

    do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815 - names that http.server asks for

    def log_message(self, *_):
        pass
