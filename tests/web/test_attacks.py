"""Attack tables: every route by scope and method, odd paths, Origins, Hosts, cursors, and heads.

The routes are read from the application: one without a scope here fails the first test.
"""

import pytest
from litestar.testing import TestClient

from tests.web.conftest import SUITE, serving
from trivium.monitor.monitored import monitored
from trivium.store.tokens import SCOPES, Tokens
from trivium.web.app import create_app
from trivium.web.security import MOST_HEAD_BYTES, Access
from trivium.web.services import Services

NOW = 1_700_000_000.0
PUBLIC, PAGES, JSON, OTLP = "public", {"accept": "text/html"}, "application/json", "application/x-protobuf"


def all_with(scopes: dict[str, str], *routes: str) -> dict[str, dict[str, str]]:
    return dict.fromkeys(routes, scopes)


ROUTES: dict[str, dict[str, str]] = {
    **all_with({"GET": PUBLIC}, "/healthz", "/readyz", "/assets/{digest:str}/{name:str}"),
    "/login": {"GET": PUBLIC, "POST": PUBLIC},
    "/logout": {"POST": PUBLIC},
    **all_with(
        {"POST": "ingest"},
        "/v1/traces", "/v1/metrics", "/v1/logs",
        "/v1/traces/v1/traces", "/v1/traces/v1/metrics", "/v1/traces/v1/logs",
    ),
    **all_with(
        {"GET": "read"},
        "/", "/metrics", "/runs", "/runs/{run:str}", "/runs/{run:str}/case", "/runs/{run:str}/trace",
        "/runs/{run:str}/trust", "/runs/{run:str}/trust/certificate", "/runs/{run:str}/before", "/compare",
        "/compare/{base:str}/{head:str}", "/search", "/monitors", "/monitors/{monitor:str}",
        "/monitors/{monitor:str}/events", "/alerts/{number:int}", "/traces/{trace:str}",
        "/traces/{trace:str}/case",
        "/labels/{queue:str}/trust", "/labels/{queue:str}/trust/certificate", "/api/v1",
        "/api/v1/{path:str}", "/api/v1/openapi.json", "/api/v1/runs", "/api/v1/runs/{run:str}",
        "/api/v1/runs/{run:str}/agreement", "/api/v1/runs/{run:str}/attempt",
        "/api/v1/runs/{run:str}/attempts", "/api/v1/runs/{run:str}/certificate",
        "/api/v1/compare/{base:str}/{head:str}", "/api/v1/search", "/api/v1/intake",
        "/api/v1/traces/{trace:str}", "/api/v1/monitors", "/api/v1/monitors/{monitor:str}/alerts",
        "/api/v1/monitors/{monitor:str}/samples", "/api/v1/monitors/{monitor:str}/status",
        "/api/v1/labels/queues", "/api/v1/labels/queues/{queue:str}/agreement",
        "/api/v1/labels/queues/{queue:str}/certificate",
    ),
    **all_with(
        {"GET": "read", "POST": "label"},
        "/labels", "/labels/{queue:str}", "/labels/{queue:str}/people",
        "/api/v1/monitors/{monitor:str}/marks",
    ),
    **all_with(
        {"POST": "label"},
        "/api/v1/labels/queues/{queue:str}/next", "/api/v1/labels/queues/{queue:str}/answers",
        "/api/v1/labels/queues/{queue:str}/undo",
    ),
    "/api/v1/audit": {"GET": "admin"},
}  # fmt: skip
"""Scope of each method of each route; HEAD is as GET."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
FILLED = {"{monitor:str}": "support", "{number:int}": "1"}


@pytest.fixture(scope="module")
def server(shared_store):
    """A server that asks for tokens and ends live pages at once, with a token of each scope."""
    made = {scope: Tokens(shared_store).create(scope, [scope], now=NOW, actor="tests")[1] for scope in SCOPES}
    with serving(shared_store, Access(tokens=True, names=frozenset({"traces.example.org"}))) as client:
        client.services.stopping.set()
        client.follow_redirects = False
        client.by_scope = {name: {"authorization": f"Bearer {secret}"} for name, secret in made.items()}
        yield client


def path_of(route: str) -> str:
    for part in route.split("/"):
        if part.startswith("{"):
            route = route.replace(part, FILLED.get(part, "none"))
    return route


def send(client: TestClient, method: str, path: str, headers: dict[str, str] | None = None):
    """Send a request with a small body that suits the path."""
    kind = JSON if path.startswith("/api/") else OTLP
    body = {"content": b"{}" if kind == JSON else b""} if method in {"POST", "PUT", "PATCH"} else {}
    given = {"content-type": kind} | (headers or {})
    return client.request(method, f"http://127.0.0.1{path}", headers=given, **body)


def test_every_route_has_a_scope(shared_store):
    services = Services(shared_store, [monitored(SUITE)])
    try:
        routes = create_app(services)._app.routes
    finally:
        services.stop()
    found = {route.path: set(getattr(route, "methods", ())) - {"OPTIONS"} or {"POST"} for route in routes}
    assert found == {path: set(methods) for path, methods in ROUTES.items()}


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_is_open_to_its_scope_and_to_admin_alone(server, route):
    path, scopes = path_of(route), ROUTES[route]
    scopes = {"HEAD": scopes["GET"], **scopes} if "GET" in scopes else scopes
    for method in METHODS:
        wanted = scopes.get(method)
        anybody = send(server, method, path).status_code
        if wanted == PUBLIC:
            assert anybody not in {401, 405}, method
            continue
        assert anybody == 401 or wanted is None, method
        for scope, headers in server.by_scope.items():
            answer = send(server, method, path, headers)
            assert answer.status_code < 500, (method, scope)
            if wanted is None:
                assert answer.status_code in {401, 403, 404, 405} or method == "OPTIONS", (method, scope)
            else:
                refused = answer.status_code == 403 and (method == "HEAD" or "has no scope" in answer.text)
                assert refused != (scope in {wanted, "admin"}), (method, scope)
                assert answer.status_code != 405, (method, scope)
            assert method != "HEAD" or answer.content == b"", scope


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1//audit", "//api/v1/audit", "/api//v1/audit", "/api/v1/audit/", "/api/v1%2Faudit",
        "/api/v1%2F%2Faudit", "/api%2fv1/audit", "/API/v1/audit", "/api/v1/audit%00", "/api/v1/audit%20",
        "/api/v1/audit;x", "/api/v1/audit%3Fx", "/api/v1/./audit", "/api/v1/x/../audit",
        "/assets/../api/v1/audit", "/assets/%2e%2e/api/v1/audit", "/assets%2F..%2Fapi/v1/audit",
        "/healthz/../api/v1/audit", "/healthz%2F..%2Fapi%2Fv1%2Faudit", "/login/../api/v1/audit",
        "/api/v1/%61udit", "/api/v1/audit?x=/healthz", "/api/v1/\ufdd0audit",
    ],
)  # fmt: skip
def test_no_way_of_writing_a_path_leads_past_its_scope(server, path):
    for scope in ("ingest", "read", "label"):
        answer = send(server, "GET", path, server.by_scope[scope])
        assert answer.status_code in {403, 404, 405}, scope
    assert send(server, "GET", path).status_code in {401, 404}
    assert "entries" not in send(server, "POST", path, server.by_scope["label"]).text


@pytest.mark.parametrize(
    "path", ["/v1/traces/", "//v1/traces", "/v1%2Ftraces", "/v1/Traces", "/v1/traces%00"]
)
def test_no_way_of_writing_a_path_sends_traces_without_its_scope(server, path):
    for scope in SCOPES:
        assert send(server, "POST", path, server.by_scope[scope]).status_code in {403, 404, 405}, scope


ORIGINS = [
    ({}, True), ({"origin": "http://127.0.0.1"}, True), ({"origin": "HTTP://127.0.0.1"}, True),
    ({"origin": "https://127.0.0.1"}, True), ({"origin": "https://evil.example"}, False),
    ({"origin": "null"}, False), ({"origin": "http://127.0.0.1:81"}, False),
    ({"origin": "http://127.0.0.1.evil.example"}, False), ({"origin": "http://evil@127.0.0.1"}, False),
    ({"origin": "evil://127.0.0.1"}, False), ({"origin": "://127.0.0.1"}, False),
    ({"origin": "127.0.0.1"}, False), ({"sec-fetch-site": "cross-site"}, False),
    ({"sec-fetch-site": "same-site"}, False), ({"sec-fetch-site": "same-origin"}, True),
    ({"origin": "http://127.0.0.1", "x-forwarded-proto": "https"}, False),
    ({"origin": "https://127.0.0.1", "x-forwarded-proto": "https"}, True),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "own"), ORIGINS)
def test_pages_of_other_sites_change_nothing(server, headers, own):
    posts = [path_of(route) for route, methods in ROUTES.items() if "POST" in methods]
    assert len(posts) > 10
    for path in posts:
        answer = send(server, "POST", path, server.by_scope["admin"] | headers)
        assert ("page of another site" not in answer.text) == own, path


@pytest.mark.parametrize(
    "kind", ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_the_json_interface_takes_json_alone(server, kind):
    for route, methods in ROUTES.items():
        if "POST" in methods and route.startswith("/api/"):
            answer = send(server, "POST", path_of(route), server.by_scope["label"] | {"content-type": kind})
            assert (answer.status_code, "expected application/json" in answer.text) == (415, True), route


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True), ("LOCALHOST:4318", True), ("127.0.0.1:1", True), ("[::1]:4318", True),
        ("localhost.", True), ("localhost:", True), ("traces.example.org", True), ("::1", False),
        ("evil.example", False), ("localhost.evil.example", False), ("10.0.0.7", False), ("", False),
        ("evil.example@localhost", False), ("[::1].evil.example", False), ("localhost:evil.com", False),
        ("localhost..", False), ("[::1]:x", False), (":4318", False), (".", False), ("[]", False),
        ("[[::1]]", False), ("localhost:80:80", False), ("localhost,evil.example", False),
        ("localhost/evil", False), ("local\u00a0host", False), ("127.1", False), ("0x7f.1", False),
    ],
)  # fmt: skip
def test_other_names_in_host_are_refused_also_on_loopback(server, host, known):
    headers = server.by_scope["admin"] | {"host": host.encode("latin-1")}
    for path in ("/healthz", "/runs", "/login"):
        status = server.get(path, headers=headers).status_code
        assert (status == 200) == known, path
        assert known or status == 403, path


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "-1", "0", "1.5", "1e9", "9" * 30, "null", "%00", "1;drop table runs", "' or 1=1 --", "\u0661"],
)
def test_no_cursor_breaks_a_page(server, cursor):
    for path in (
        "/api/v1/audit", "/api/v1/monitors/support/samples", "/api/v1/search?q=a", "/api/v1/runs",
        "/api/v1/runs/none/attempts", "/monitors/support", "/search?q=a", "/runs",
    ):  # fmt: skip
        address, _, query = path.partition("?")
        given = {"q": "a"} if query else {}
        answer = server.get(
            address,
            params=given | dict.fromkeys(("before", "after", "limit", "sort", "by"), cursor),
            headers=server.by_scope["admin"] | PAGES,
        )
        assert answer.status_code < 500, path


@pytest.mark.parametrize(
    ("size", "status"), [(MOST_HEAD_BYTES - 2_000, 200), (MOST_HEAD_BYTES, 431), (2 * MOST_HEAD_BYTES, 431)]
)
def test_a_head_that_comes_at_once_has_the_limit_of_one_in_pieces(server, size, status):
    assert server.get("/healthz", headers={"x-long": "a" * size}).status_code == status
    assert server.get("/healthz", params={"x": "a" * min(size, 60_000)}).status_code == status


def test_head_is_get_without_a_body(server):
    headers = server.by_scope["admin"]
    for path in ("/healthz", "/runs", "/api/v1/monitors", "/metrics", "/login"):
        got, head = (server.request(method, path, headers=headers) for method in ("GET", "HEAD"))
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"], path
    missing = server.head("/nothing", headers=headers)
    assert (missing.status_code, missing.content) == (404, b"")
