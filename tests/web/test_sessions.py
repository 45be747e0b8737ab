"""Browsers with tokens: the login, its end, and forms."""

import re

import pytest
from sqlalchemy import select

from tests.web.conftest import LOOPBACK
from trivium.store import schema as tables
from trivium.store.audit import audit_log
from trivium.store.tokens import SESSION_SECONDS, Tokens
from trivium.web.security import Access
from trivium.web.sessions import SESSION, local_address

HTML = {"Accept": "text/html"}


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def browser(connect, clock):
    client = connect(Access(tokens=True), clock=clock)
    client.follow_redirects = False
    return client


def token(store, clock, *scopes):
    return Tokens(store).create("ann", scopes or ("read", "label"), now=clock.now, actor="test")


def form_in(page):
    return re.search(r'name="form" value="(\w+)"', page)[1]


def log_in(browser, secret, following="/runs"):
    page = browser.get("/login", params={"next": following}, headers=HTML).text
    form = re.search(r'name="form" value="(\w+)"', page)[1]
    return browser.post(
        "/login",
        data={"form": form, "token": secret, "next": following},
        headers={"Origin": LOOPBACK, **HTML},
    )


def test_a_browser_without_a_login_is_sent_to_it_and_back(browser, store, clock):
    sent = browser.get("/runs?q=a%20b", headers=HTML)
    assert sent.status_code == 303
    assert sent.headers["Location"] == "/login?next=/runs%3Fq%3Da%2520b"
    assert browser.get("/runs").status_code == 401
    assert browser.get("/api/v1/monitors", headers=HTML).status_code == 401
    answer = log_in(browser, token(store, clock)[1], "/runs?q=a%20b")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/runs?q=a%20b")
    assert browser.get("/runs", headers=HTML).status_code == 200


def test_the_cookie_is_kept_from_scripts_and_other_sites_and_the_store_has_only_its_hash(
    browser, store, clock
):
    made, secret = token(store, clock)
    cookie = log_in(browser, secret).headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    with store.engine.connect() as connection:
        (row,) = connection.execute(select(tables.sessions)).all()
    assert row.token == made.id
    assert row.hash not in cookie
    assert secret not in cookie


NAMED = Access(tokens=True, tls=True, names=frozenset({"traces.example.org"}))


@pytest.mark.parametrize(
    ("host", "forwarded", "secure"),
    [
        ("127.0.0.1", "https", True), ("127.0.0.1", "http", False), ("127.0.0.1", "", False),
        ("traces.example.org", "", True), ("traces.example.org", "http", True),
    ],
)  # fmt: skip
def test_behind_tls_cookies_are_sent_over_tls_alone(connect, host, forwarded, secure):
    headers = {"Host": host, "X-Forwarded-Proto": forwarded, **HTML}
    cookie = connect(NAMED).get("/login", headers=headers).headers["Set-Cookie"]
    assert cookie.startswith("__Host-" if secure else "trivium_visitor=")
    assert ("Secure" in cookie) is secure


def test_a_login_over_tls_takes_no_cookie_that_another_server_of_the_domain_can_set(connect, store, clock):
    browser = connect(NAMED, clock=clock, base_url="https://traces.example.org")
    browser.follow_redirects = False
    _, secret = token(store, clock)
    page = browser.get("/login", headers=HTML).text
    headers = {"Origin": "https://traces.example.org", **HTML}
    entered = browser.post("/login", data={"form": form_in(page), "token": secret}, headers=headers)
    assert entered.status_code == 303
    page = browser.get("/labels", headers=HTML)
    assert page.status_code == 200
    session = browser.cookies["__Host-trivium_session"]
    browser.cookies.clear()
    for name, status in (("trivium_session", 303), ("__Host-trivium_session", 200)):
        assert browser.get("/runs", headers={**HTML, "Cookie": f"{name}={session}"}).status_code == status
    cookie = {"Cookie": f"__Host-trivium_session={session}"}
    ended = browser.post("/logout", data={"form": form_in(page.text)}, headers={**headers, **cookie})
    assert ended.headers["Set-Cookie"].startswith("__Host-trivium_session=")
    assert browser.get("/runs", headers={**HTML, **cookie}).status_code == 303


@pytest.mark.parametrize("ends", ["time", "revoked", "logout"])
def test_a_login_ends(browser, store, clock, ends):
    made, secret = token(store, clock)
    log_in(browser, secret)
    page = browser.get("/labels", headers=HTML)
    assert page.status_code == 200
    if ends == "time":
        clock.now += SESSION_SECONDS
    elif ends == "revoked":
        Tokens(store).revoke(made.id, now=clock.now, actor="test")
        clock.now += 10
    else:
        form = re.search(r'name="form" value="(\w+)"', page.text)[1]
        browser.post("/logout", data={"form": form})
    assert browser.get("/runs", headers=HTML).status_code == 303


def test_scopes_hold_for_a_login(browser, store, clock):
    log_in(browser, token(store, clock, "read")[1])
    page = browser.get("/labels", headers=HTML)
    form = re.search(r'name="form" value="(\w+)"', page.text)[1]
    refused = browser.post("/labels", data={"form": form, "run": "x", "dimension": "d"})
    assert refused.status_code == 403
    assert "no scope label" in refused.json()["message"]


def test_a_wrong_token_is_refused_and_after_many_for_a_while(browser, store, clock):
    statuses = [log_in(browser, "trv_wrong").status_code for _ in range(12)]
    assert statuses[:10] == [401] * 10
    assert statuses[10:] == [429] * 2


@pytest.mark.parametrize("form", ["", "0" * 64])
def test_a_form_of_another_browser_is_refused(browser, store, clock, form):
    secret = token(store, clock)[1]
    browser.get("/login", headers=HTML)
    assert browser.post("/login", data={"form": form, "token": secret}).status_code == 403
    log_in(browser, secret)
    assert browser.post("/labels", data={"form": form, "run": "x", "dimension": "d"}).status_code == 403


def test_a_form_of_another_site_is_refused(browser, store, clock):
    log_in(browser, token(store, clock)[1])
    form = re.search(r'name="form" value="(\w+)"', browser.get("/labels", headers=HTML).text)[1]
    answer = browser.post("/labels", data={"form": form}, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "address", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:x", "/a\nb", ""]
)
def test_a_login_leads_to_no_other_site(address):
    assert local_address(address) == "/runs"


@pytest.mark.parametrize(
    "other", ['theme={"dark":true}', "flag", "a=b c", "list[]=1", "name=\u00e9", "big=" + "x" * 9000]
)
def test_cookies_of_other_servers_on_this_host_end_no_login(browser, store, clock, other):
    log_in(browser, token(store, clock)[1])
    session = browser.cookies["trivium_session"]
    browser.cookies.clear()
    cookies = f"{other}; trivium_session={session}; {other}".encode()
    assert browser.get("/runs", headers={**HTML, "Cookie": cookies}).status_code == 200


def test_a_form_with_any_text_for_its_digest_is_refused(client):
    page = client.get("/login", headers=HTML)
    assert page.status_code == 200
    for digest in ("é", "", "\0"):
        assert client.post("/login", data={"form": digest, "token": "x"}).status_code == 403


FIELDS = {"place": "1", "answer": "value 0.25", "note": "<b>late"}


@pytest.mark.parametrize("method", ["ended", "no cookie"])
def test_a_label_sent_without_a_login_is_not_lost_silently(browser, store, clock, method):
    log_in(browser, token(store, clock)[1])
    form = form_in(browser.get("/labels", headers=HTML).text)
    clock.now += SESSION_SECONDS
    if method == "no cookie":
        browser.cookies.clear()
    sent = browser.post("/labels/labels-1?x=1", data={"form": form, **FIELDS}, headers=HTML)
    assert (sent.status_code, sent.headers["Content-Type"]) == (401, "text/html; charset=utf-8")
    assert "Your login has ended. Nothing was stored." in sent.text
    assert 'href="/login?next=/labels/labels-1%3Fx%3D1"' in sent.text
    assert "<bdi>0.25</bdi>" in sent.text
    assert "<bdi>&lt;b&gt;late</bdi>" in sent.text
    assert "Log out" not in sent.text
    assert form not in sent.text


def test_a_large_or_other_body_is_not_read_back(browser):
    large = browser.post("/labels/x", data={"note": "y" * 20_000}, headers=HTML)
    other = browser.post("/labels/x", json={"note": "yyyy"}, headers=HTML)
    for answer in (large, other):
        assert answer.status_code == 401
        assert "yyyy" not in answer.text


def test_programs_get_json_for_the_same_refusals(browser, store, clock):
    assert browser.post("/labels/x", data=FIELDS).json()["error"] == "unauthorized"
    assert browser.post("/api/v1/monitors/x/marks", json={}, headers=HTML).json()["error"] == "unauthorized"


def test_a_form_of_an_earlier_login_is_refused_with_what_was_typed(browser, store, clock):
    secret = token(store, clock)[1]
    log_in(browser, secret)
    form = form_in(browser.get("/labels", headers=HTML).text)
    log_in(browser, secret)
    sent = browser.post("/labels/x", data={"form": form, **FIELDS}, headers=HTML)
    assert (sent.status_code, sent.headers["Content-Type"]) == (403, "text/html; charset=utf-8")
    assert "<bdi>&lt;b&gt;late</bdi>" in sent.text
    assert 'href="/labels/x">Open the page again' in sent.text


def test_a_missing_scope_and_another_site_are_refused_with_a_page(browser, store, clock):
    log_in(browser, token(store, clock, "read")[1])
    scope = browser.post("/labels", data={}, headers=HTML)
    origin = browser.post("/labels", data={}, headers={"Origin": "https://evil.example", **HTML})
    for answer, why in ((scope, "has no scope label"), (origin, "a page of another site")):
        assert (answer.status_code, answer.headers["Content-Type"]) == (403, "text/html; charset=utf-8")
        assert why in answer.text
        assert "Nothing was stored." in answer.text
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("here", "back"),
    [
        ("http://127.0.0.1/runs?q=a&sort=b", "/runs%3Fq%3Da%26sort%3Db"),
        ("https://evil.example//evil.example/x", "/runs"), ("", "/runs"), ("javascript:x", "/runs"),
        ("http://[", "/runs"),
    ],
)  # fmt: skip
def test_a_part_of_a_page_without_a_login_leads_the_whole_page_to_it(browser, here, back):
    answer = browser.get(
        "/runs?q=ab", headers={"HX-Request": "true", "HX-Target": "rows", "HX-Current-URL": here}
    )
    assert answer.status_code == 401
    assert answer.headers["HX-Redirect"] == f"/login?next={back}"
    assert "<html" not in answer.text


def test_logins_and_their_ends_are_in_the_audit_log_without_secrets(browser, store, clock):
    made, secret = token(store, clock)
    log_in(browser, "trv_wrong")
    log_in(browser, secret)
    session = browser.cookies[SESSION]
    form = form_in(browser.get("/labels", headers=HTML).text)
    browser.post("/logout", data={"form": form})
    browser.post("/logout", data={"form": form})
    entries = audit_log(store)[::-1]
    person = f"token {made.id} ann"
    assert [(entry.actor, entry.action) for entry in entries[1:]] == [
        ("unknown", "login failed"), (person, "logged in"), (person, "logged out"),
    ]  # fmt: skip
    for entry in entries:
        assert not {secret, session, "trv_wrong"} & {entry.actor, *map(str, entry.body.values())}


def test_the_page_of_the_login_offers_no_logout_after_the_end(browser, store, clock):
    log_in(browser, token(store, clock)[1])
    assert "Log out" in browser.get("/labels", headers=HTML).text
    clock.now += SESSION_SECONDS
    assert "Log out" not in browser.get("/login", headers=HTML).text


def test_logging_out_after_the_end_works(browser, store, clock):
    log_in(browser, token(store, clock)[1])
    form = form_in(browser.get("/labels", headers=HTML).text)
    clock.now += SESSION_SECONDS
    answer = browser.post("/logout", data={"form": form}, headers=HTML)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    assert "logged out" not in {entry.action for entry in audit_log(store)}


@pytest.mark.parametrize("host", ["localhost:x", "[::1", "::1"])
def test_a_host_that_cannot_be_is_answered_to_a_browser_too(browser, host):
    assert browser.get("/login", headers={"Host": host, **HTML}).status_code in {200, 400, 403}


def test_logins_count_towards_the_quota_of_the_token(connect, store, clock):
    browser = connect(Access(tokens=True, requests_a_minute=2), clock=clock)
    browser.follow_redirects = False
    secret = token(store, clock)[1]
    assert [log_in(browser, secret).status_code for _ in range(3)] == [303, 303, 429]
