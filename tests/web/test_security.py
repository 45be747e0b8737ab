"""Who is let in: tokens and their scopes, the headers Host and Origin, quotas, and wrong tokens."""

import pytest

from tests.otlp_requests import agent_trace, body
from trivium.errors import InputError
from trivium.store.audit import audit_log
from trivium.store.tokens import Tokens, hash_of
from trivium.web.security import (
    FAILURES_A_MINUTE,
    NEW_TOKEN_SECONDS,
    TOKENS_KNOWN_SECONDS,
    Access,
    address_of,
    host_name,
)

NOW = 1_700_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def token(store):
    def made(*scopes: str, **options) -> dict[str, str]:
        _, secret = Tokens(store).create("t", scopes, now=NOW, actor="tests", **options)
        return {"authorization": f"Bearer {secret}"}

    return made


def traces(client, headers=None):
    content = {"content-type": "application/x-protobuf"}
    return client.post("/v1/traces", content=body(agent_trace()), headers=content | (headers or {}))


def test_a_public_server_may_be_called_by_its_address(connect):
    client = connect(Access(tokens=True, addresses=True))
    assert client.get("/healthz", headers={"host": "10.0.0.7:4318"}).status_code == 200
    assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 403


def test_loopback_needs_no_token_but_what_comes_through_a_proxy_does(client, token):
    assert traces(client).status_code == 200
    forwarded = {"x-forwarded-for": "203.0.113.9"}
    assert traces(client, forwarded).status_code == 401
    assert traces(client, forwarded | token("ingest")).status_code == 200


def test_a_token_allows_what_its_scopes_say(connect, token, clock):
    client = connect(Access(tokens=True), clock=clock)
    assert traces(client).status_code == 401
    assert traces(client).headers["www-authenticate"].startswith("Bearer")
    assert client.get("/healthz").status_code == 200
    headers = token("read")
    assert traces(client, headers).status_code == 403
    assert client.get("/nothing", headers=headers).status_code == 404
    assert client.get("/nothing").status_code == 401


def test_admin_allows_everything(connect, token, clock):
    client, headers = connect(Access(tokens=True), clock=clock), token("admin")
    assert traces(client, headers).status_code == 200
    assert client.get("/nothing", headers=headers).status_code == 404


def test_an_expired_token_is_refused(connect, token, clock):
    client, headers = connect(Access(tokens=True), clock=clock), token("ingest", expires=NOW + 60)
    assert traces(client, headers).status_code == 200
    clock.now += 61
    assert traces(client, headers).status_code == 401


def test_a_revoked_token_is_refused_within_seconds(connect, store, token, clock):
    client, headers = connect(Access(tokens=True), clock=clock), token("ingest")
    assert traces(client, headers).status_code == 200
    Tokens(store).revoke("t", now=clock.now, actor="tests")
    clock.now += TOKENS_KNOWN_SECONDS
    assert traces(client, headers).status_code == 401


def test_a_rotated_token_works_for_its_grace(connect, store, token, clock):
    tokens, old = Tokens(store), token("ingest")
    client = connect(Access(tokens=True), clock=clock)
    _, secret = tokens.rotate("t", now=NOW, grace=3600, actor="tests")
    assert traces(client, {"authorization": f"Bearer {secret}"}).status_code == 200
    assert traces(client, old).status_code == 200
    clock.now += 3600
    assert traces(client, old).status_code == 401
    assert traces(client, {"authorization": f"Bearer {secret}"}).status_code == 200


def test_wrong_tokens_are_audited_and_then_slowed_down(connect, store, token, clock, caplog):
    client = connect(Access(tokens=True), clock=clock)
    wrong = {"authorization": "Bearer trv_guessed"}
    answers = [traces(client, wrong).status_code for _ in range(FAILURES_A_MINUTE + 2)]
    assert answers == [401] * FAILURES_A_MINUTE + [429] * 2
    assert traces(client, wrong).headers["retry-after"] == "40"  # the minute is 20 s old
    entries = audit_log(store)
    assert len(entries) == FAILURES_A_MINUTE
    assert {entry.action for entry in entries} == {"wrong token"}
    assert "trv_guessed" not in caplog.text + str(entries)


def test_a_new_token_works_after_a_second(connect, token, clock):
    client = connect(Access(tokens=True), clock=clock)
    assert traces(client, {"authorization": "Bearer trv_other"}).status_code == 401
    headers = token("ingest")
    clock.now += NEW_TOKEN_SECONDS
    assert traces(client, headers).status_code == 200


def test_a_right_token_passes_whatever_others_guess(connect, token, clock):
    headers = token("ingest")
    client = connect(Access(tokens=True), clock=clock)
    for _ in range(FAILURES_A_MINUTE + 2):
        traces(client, {"authorization": "Bearer trv_guessed"})
    assert traces(client, headers).status_code == 200


def test_a_token_has_a_quota_a_minute(connect, token, clock):
    client, headers = connect(Access(tokens=True, requests_a_minute=2), clock=clock), token("ingest")
    assert [traces(client, headers).status_code for _ in range(3)] == [200, 200, 429]
    assert traces(client, headers).headers["retry-after"] == "40"  # the minute is 20 s old
    clock.now += 40
    assert traces(client, headers).status_code == 200


def test_too_many_requests_at_once_are_refused_for_now(connect):
    client = connect(Access(active_requests=0))
    response = traces(client)
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert client.get("/healthz").status_code == 200


def test_every_answer_has_the_headers_of_safety(client):
    for path in ("/healthz", "/nothing", "/v1/traces"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers


def test_errors_have_one_shape(client):
    answer = client.get("/nothing").json()
    assert answer["error"] == "not_found"
    assert set(answer) == {"error", "message"}


def test_the_store_holds_no_secret(store, tmp_path):
    token, secret = Tokens(store).create("t", ["ingest"], now=NOW, actor="tests")
    assert secret.startswith("trv_")
    assert len(secret) >= 40
    store.close()
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert secret.encode() not in content
    assert secret.removeprefix("trv_").encode() not in content
    assert hash_of(secret).encode() in content
    assert token.id.encode() in content


def test_names_of_tokens_are_checked(store):
    tokens = Tokens(store)
    tokens.create("bot", ["ingest"], now=NOW, actor="tests")
    for name in ("bot", " ", "a\nb"):
        with pytest.raises(InputError):
            tokens.create(name, ["ingest"], now=NOW, actor="tests")
    with pytest.raises(InputError, match='Did you mean "bot"'):
        tokens.revoke("bott", now=NOW, actor="tests")
    tokens.revoke("bot", now=NOW, actor="tests")
    tokens.create("bot", ["ingest"], now=NOW, actor="tests")
    assert [entry.action for entry in audit_log(store)] == ["token created", "token revoked", "token created"]


@pytest.mark.parametrize(
    ("header", "name"),
    [("A.b:80", "a.b"), ("a.b.", "a.b"), ("[::1]:4318", "::1"), ("[::1]", "::1"), ("127.0.0.1", "127.0.0.1")],
)
def test_the_name_in_host_is_read(header, name):
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("client", "address"),
    [
        (("203.0.113.9", 1), "203.0.113.9"), (("::1", 1), "::1"), (("<b>\x9b31m", 1), "unknown"),
        (("1" * 30_000, 1), "unknown"), (None, "unknown"),
    ],
)  # fmt: skip
def test_an_address_that_a_client_made_up_is_not_kept(client, address):
    """A proxy on this machine states the address of its client, who may have stated any text."""
    assert address_of({"type": "http", "client": client}) == address
