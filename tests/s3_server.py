"""A server on loopback that speaks as much of S3 as reading, listing and writing objects needs."""

import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

BUCKET = "bucket"


class Objects:
    """What the server holds and does.

    Attributes:
        content: The objects by key.
        requests: Method and key of each request.
        failures: Status codes to answer the next requests for a key with; the last one for ever if it is 403.
    """

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.failures: dict[str, list[int]] = {}
        self.address = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    objects: Objects

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _key(self) -> str | None:
        """The key of the request; None if it has been answered."""
        self.url = urlsplit(self.path)
        _, bucket, key = (unquote(self.url.path) + "/").split("/", 2)
        key = key.rstrip("/")
        self.objects.requests.append((self.command, key))
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        failures = self.objects.failures.get(key)
        if failures:
            status = failures[0] if failures[0] == 403 else failures.pop(0)
            code = {403: "AccessDenied", 503: "SlowDown"}.get(status, "InternalError")
            self._answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())
            return None
        if bucket != BUCKET:
            self._answer(404, b"<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>")
            return None
        return key

    def do_GET(self) -> None:
        key = self._key()
        if key is None:
            return
        if not key:
            self._list()
        elif key not in self.objects.content:
            self._answer(404, b"<Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>")
        else:
            content = self.objects.content[key]
            tag = hashlib.md5(content, usedforsecurity=False).hexdigest()
            headers = {"ETag": f'"{tag}"', "Last_Modified": "Tue, 24 Nov 2026 00:00:00 GMT"}
            wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if self.command == "HEAD":
                self._answer(200, Content_Length=str(len(content)), **headers)
            elif wanted:
                first, last = int(wanted[1]), min(int(wanted[2] or len(content)), len(content) - 1)
                part = content[first : last + 1]
                self._answer(206, part, Content_Range=f"bytes {first}-{last}/{len(content)}", **headers)
            else:
                self._answer(200, content, **headers)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _list(self) -> None:
        given = {name: values[0] for name, values in parse_qs(self.url.query).items()}
        prefix, delimiter = given.get("prefix", ""), given.get("delimiter", "")
        keys, folders = [], []
        for key in sorted(self.objects.content):
            rest = key.removeprefix(prefix)
            if not key.startswith(prefix):
                continue
            if delimiter and delimiter in rest:
                folders.append(prefix + rest.partition(delimiter)[0] + delimiter)
            else:
                keys.append(key)
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(self.objects.content[key])}</Size>"
            '<LastModified>2026-11-24T00:00:00.000Z</LastModified><ETag>"x"</ETag></Contents>'
            for key in keys
        )
        entries += "".join(
            f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
            for folder in dict.fromkeys(folders)
        )
        body = (
            f"<ListBucketResult><Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix>"
            f"<KeyCount>{len(keys)}</KeyCount>"
            f"<MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
        )
        self._answer(200, body.encode(), Content_Type="application/xml")

    def do_PUT(self) -> None:
        key = self._key()
        if key is not None:
            body = self.body
            if "aws-chunked" in (self.headers.get("Content-Encoding") or ""):
                body = _unchunked(body)
            self.objects.content[key] = body
            self._answer(200, ETag='"x"')


def _unchunked(body: bytes) -> bytes:
    whole = b""
    while body:
        head, _, body = body.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            break
        whole, body = whole + body[:size], body[size + 2 :]
    return whole


@contextmanager
def serving() -> Iterator[Objects]:
    """Serve objects until the end."""
    objects = Objects()
    handler = type("Handler", (_Handler,), {"objects": objects})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    objects.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield objects
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
