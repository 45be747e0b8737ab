"""The pages of production."""

import asyncio
import html
import re
import time
from concurrent.futures import ThreadPoolExecutor
from html import escape
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml

from tests.monitor.samples import open_alert
from tests.otlp_requests import agent_trace, body
from trivium.errors import InputError, StoreError
from trivium.monitor.interaction import Recorded, encode_recorded
from trivium.monitor.monitored import monitored
from trivium.monitor.status import status_of
from trivium.reports.drawings.over_time import over_time_svg
from trivium.store import schema as tables
from trivium.store.live_alerts import add_mark, resolve_alert
from trivium.store.live_counts import add_counts
from trivium.store.live_records import Choice, RecordedTrace
from trivium.store.live_traces import LiveTraces
from trivium.store.tokens import Sessions, Tokens
from trivium.traces.trace import Trace
from trivium.web import security
from trivium.web.pages import monitors
from trivium.web.pages.monitors import routes
from trivium.web.pages.new_case import case_command
from trivium.web.pages.site import Site
from trivium.web.security import Access

HTML = {"Accept": "text/html"}


@pytest.fixture
def scored(client):
    return after_three(client)


@pytest.fixture(scope="module")
def read(shared_client):
    """A client of a server that has scored three interactions, for tests that only read."""
    return after_three(shared_client)


def after_three(client):
    """The client, after its server has scored three interactions."""
    for number in range(3):
        spans = agent_trace(bytes(range(15)) + bytes([number]), start=time.time_ns())
        client.services.intake.receive(body(spans), "protobuf")
    now = time.time() + 1
    client.services.completer.complete(now)
    client.services.scorers[0].score_all(now)
    return client


def text_of(answer) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


def test_every_monitor_is_listed_with_its_answer(read):
    page = text_of(read.get("/monitors", headers=HTML))
    assert "support ✓ healthy 100 % of the traffic passes" in page


def test_the_page_of_a_monitor_leads_to_the_case_of_each_sample(read):
    page = read.get("/monitors/support", headers=HTML)
    traces = re.findall(r'href="(/traces/\w+)"', page.text)
    assert len(traces) == 3
    why = read.get(traces[0], headers=HTML)
    assert "sampled with probability 1" in text_of(why)
    assert re.search(r'href="/runs/live-[^"/]+/case\?id=\w+&amp;back=[^"]*"', why.text)


def test_a_trace_that_was_scored_again_leads_to_its_newest_case_and_back(client, store):
    choice = Choice(monitor="support", sampled=True, probability=1.0)
    recorded = Recorded(time=1.0, input="Where is it?", output="There", trace=Trace())
    received = RecordedTrace(trace_id="told", body=encode_recorded(recorded), choices=[choice])
    for now in (1.0, 2.0):
        LiveTraces(store).record([received], now)
        client.services.scorers[0].score_all(now)
    case = re.search(r'href="(/runs/live-[^"]*)" data-row', client.get("/traces/told", headers=HTML).text)[1]
    assert "?id=told%232&" in html.unescape(case)
    page = client.get(html.unescape(case), headers=HTML).text
    assert 'href="/traces/told"' in page
    assert 'href="/traces/told/case"' in page


def test_a_case_is_made_of_a_trace_with_secrets_masked(client, store):
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
    recorded = Recorded(time=1.0, input=f"<b>My key is {secret}", output="Thanks")
    LiveTraces(store).record([RecordedTrace(trace_id="told", body=encode_recorded(recorded))], 1.0)
    page = client.get("/traces/told/case", headers=HTML)
    assert "<b>My" not in page.text
    assert "Secrets in 1 text are masked" in text_of(page)
    assert "trivium case from told --suite SUITE" in text_of(page)
    file = client.get("/traces/told/case?format=yaml")
    assert "attachment" in file.headers["content-disposition"]
    assert secret not in page.text + file.text
    (made,) = yaml.safe_load(file.text)
    assert made["id"] == "told"
    assert made["input"].startswith("<b>My key is ")
    assert '# references: ["Thanks"]' in file.text


def test_what_cannot_be_a_case_says_why(read):
    trace = re.findall(r'href="(/traces/\w+)"', read.get("/monitors/support", headers=HTML).text)[0]
    assert f'href="{trace}/case"' in read.get(trace, headers=HTML).text
    unasked = read.get(f"{trace}/case", headers=HTML)
    assert unasked.status_code == 400
    assert "its input was not recorded" in text_of(unasked)
    assert read.get("/traces/unknown/case", headers=HTML).status_code == 404
    assert "/case" not in read.get("/traces/unknown", headers=HTML).text
    assert case_command("a'; rm b") == "trivium case from 'a'\"'\"'; rm b' --suite SUITE"
    assert case_command("--yes") == ""


def test_deployments_alerts_and_refused_spans_are_on_the_page(scored, store):
    add_mark(store, "support", now=time.time(), version="<b>2", note="new prompt")
    message = {"monitor": "support", "title": "support: fewer answers <b>pass", "opened": 1.0}
    number = open_alert(store, now=time.time(), body=message)
    with store.engine.begin() as connection:
        add_counts(connection, {("", "refused", "no trace id"): 7}, time.time())
    page = scored.get("/monitors/support", headers=HTML)
    assert "<b>" not in page.text
    assert "fewer answers <b>pass" in text_of(page).replace("&lt;", "<").replace("&gt;", ">")
    assert "7 no trace id" in text_of(page)
    assert "new prompt" in text_of(page)
    assert f"◆ alert {number}" in text_of(page)
    resolve_alert(store, number, actor="ann", now=time.time())
    assert f"◇ alert {number}" in over_time_svg(status_of(store, "support", now=time.time()))
    alert = scored.get(f"/alerts/{number}", headers=HTML)
    assert alert.status_code == 200
    assert f"Alert {number}" in text_of(alert)


@pytest.mark.parametrize(
    "path", ["/monitors/suport", "/monitors/suport/events", "/alerts/9", f"/alerts/{2**70}"]
)
def test_what_is_unknown_is_not_found(read, path):
    answer = read.get(path, headers=HTML)
    assert answer.status_code == 404
    assert "suport" not in path or 'Did you mean "support"?' in text_of(answer).replace("&#34;", '"')


def test_samples_are_exported(read):
    lines = read.get("/monitors/support", params={"format": "csv"}).text.splitlines()
    assert lines[0].startswith("trace,version,time")
    assert len(lines) == 4


def test_the_live_part_is_sent_again_when_it_changes_and_ends_with_the_server(scored, store):
    events = next(
        handler
        for handler in routes(Site(scored.services))
        if "/monitors/{monitor:str}/events" in handler.paths
    )
    request = SimpleNamespace(scope={"state": {}})

    async def stream():
        answer = await events.fn(request=request, monitor="support")
        messages = aiter(answer.iterator)
        first = await anext(messages)
        add_mark(store, "support", now=time.time())
        scored.services.stopping.set()
        return first, [message async for message in messages]

    first, rest = asyncio.run(stream())
    assert b"event: status" in first
    assert b"of the traffic passes" in first
    assert rest == []


def test_a_live_part_ends_after_a_time_so_that_the_page_asks_anew(scored, monkeypatch):
    monkeypatch.setattr(monitors, "STREAM_SECONDS", 0.0)  # the answer would never end
    answer = scored.get("/monitors/support/events")
    assert answer.status_code == 200
    assert answer.text.count("event: status") <= 1


@pytest.fixture
def watching(connect, store, monkeypatch):
    """Opens live pages of a token, with a login or without; yields the server, its clock and the opener."""
    clock = SimpleNamespace(now=1_800_000_000.0)
    monkeypatch.setattr(security, "CHECKED_SECONDS", 0.02)
    monkeypatch.setattr(monitors, "LIVE_SECONDS", 0.02)
    live, streaming = [], monitors._Live._stream

    async def counted(page, monitor, viewer):
        begun = False
        async for message in streaming(page, monitor, viewer):
            live.extend([viewer] * (not begun))
            begun = True
            yield message

    monkeypatch.setattr(monitors._Live, "_stream", counted)
    server = connect(Access(tokens=True), clock=lambda: clock.now)
    made = {
        name: Tokens(store).create(name, ["read"], now=clock.now, actor="test") for name in ("ann", "ben")
    }
    with ThreadPoolExecutor(8) as pool:

        def opened(name="ann", *, cookie=None):
            headers = {"Authorization": f"Bearer {made[name][1]}"} if cookie is None else {"Cookie": cookie}
            return pool.submit(server.get, "/monitors/support/events", headers=headers)

        yield SimpleNamespace(server=server, clock=clock, opened=opened, made=made, live=live)
        server.services.stopping.set()


def wait_for(pages, watching):
    """Wait until so many pages are live."""
    end = time.monotonic() + 30
    while len(watching.live) < pages:
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("ends", ["revoked", "expired", "rotated", "logout", "store"])
def test_a_live_page_ends_when_its_token_or_login_does(watching, store, monkeypatch, ends):
    tokens, token = Tokens(store), watching.made["ann"][0]
    session = Sessions(store).open(token.id, now=watching.clock.now)
    page = watching.opened(cookie=f"trivium_session={session}" if ends == "logout" else None)
    other = watching.opened("ben")
    wait_for(2, watching)
    if ends == "logout":
        Sessions(store).close(session, now=watching.clock.now)
    elif ends == "revoked":
        tokens.revoke(token.id, now=watching.clock.now, actor="test")
    elif ends == "rotated":
        tokens.rotate(token.id, now=watching.clock.now, actor="test")
    elif ends == "expired":
        with store.engine.begin() as connection:
            ended = tables.tokens.update().where(tables.tokens.c.id == token.id)
            connection.execute(ended.values(expires=watching.clock.now + 1))
    else:
        monkeypatch.setattr(Tokens, "active", Mock(side_effect=StoreError("away")))
    watching.clock.now += security.TOKENS_KNOWN_SECONDS
    answer = page.result(timeout=30)
    assert (answer.status_code, "event: status" in answer.text) == (200, True)
    if ends == "store":
        assert other.result(timeout=30).status_code == 200
    else:
        assert not other.done()


def test_one_token_cannot_take_all_live_pages(watching, monkeypatch):
    monkeypatch.setattr(monitors, "MOST_STREAMS_OF_ONE", 2)
    monkeypatch.setattr(monitors, "MOST_STREAMS", 3)
    pages = [watching.opened(), watching.opened()]
    wait_for(2, watching)
    assert watching.opened().result(timeout=30).status_code == 429
    pages.append(watching.opened("ben"))
    wait_for(3, watching)
    assert watching.opened("ben").result(timeout=30).status_code == 503
    watching.server.services.stopping.set()
    assert [page.result(timeout=30).status_code for page in pages] == [200] * 3


@pytest.mark.parametrize(
    "name", ["team/support", "/", "a//b/", "50 %2F?x#y&z;\\", "<b>/é\t", "...", "x" * 200]
)
def test_any_name_of_a_monitor_has_its_pages_and_its_interface(client, store, name):
    add_mark(store, name, now=time.time(), version="1")
    with store.engine.begin() as connection:
        add_counts(connection, {(name, "sampled", ""): 1}, time.time())
    client.services.monitors[name] = monitored({"name": name})
    client.services.stopping.set()
    (address,) = {
        html.unescape(each)
        for each in re.findall(r'href="(/monitors/[^"]+)"', client.get("/monitors", headers=HTML).text)
        if each != "/monitors/support"
    }
    page = client.get(address, headers=HTML)
    assert (page.status_code, f"<h1><bdi>{escape(name)}</bdi>" in page.text) == (200, True)
    live = html.unescape(re.search(r'sse-connect="([^"]+)"', page.text)[1])
    assert client.get(live).headers["content-type"].startswith("text/event-stream")
    interface = f"/api/v1{address}"
    assert client.get(f"{interface}/status").json()["monitor"] == name
    assert client.post(f"{interface}/marks", json={"version": "2"}).status_code == 201
    assert [mark["version"] for mark in client.get(f"{interface}/marks").json()["marks"]] == ["2", "1"]
    for what in ("samples", "alerts"):
        assert client.get(f"{interface}/{what}").status_code == 200


@pytest.mark.parametrize("name", [".", "..", "x" * 201, "a\x00b", "a\ud800"])
def test_a_name_that_no_address_or_store_holds_is_refused(name):
    with pytest.raises(InputError, match="cannot be the name of a monitor"):
        monitored({"name": name})


def test_a_trace_whose_id_has_a_slash_has_its_page(read):
    for path in ("/traces/a%2Fb", "/api/v1/traces/a%2Fb"):
        answer = read.get(path, headers=HTML)
        assert (answer.status_code, "a/b" in answer.text or "unknown" in answer.text) == (200, True)
