"""The pages as people have them: by keyboard, narrow and dark, with hostile texts, from alert to case."""

import re
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import select, update

import trivium as tv
from tests.browser import NARROW, WIDE, barriers, complaints, look
from tests.labels.labelled import judged
from tests.monitor.samples import open_alert, sample, store_samples
from tests.otlp_requests import agent_trace, body
from tests.store.conftest import url  # noqa: F401
from tests.web.pages.served import Served
from trivium.errors import InputError
from trivium.monitor.interaction import Recorded, encode_recorded
from trivium.monitor.monitored import monitored
from trivium.store import schema
from trivium.store.live_records import RecordedTrace
from trivium.store.live_samples import latest_samples
from trivium.store.live_traces import LiveTraces
from trivium.store.schema import live_scores
from trivium.store.store import Store
from trivium.suites.certificate import read_certificate
from trivium.web.pages import comparison

HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>\" onfocus=alert(3) autofocus x='&lt;b&gt;{{7*7}}"
)
GRAVE = {"critical", "serious"}
LABELS = 16
"""Of which all agree with the judge, so that it is certified to err in at most a fifth."""


class Site(Served):
    """A server on loopback, with two runs of hostile texts and a monitor whose alert has examples."""

    def __init__(self, store: Store) -> None:
        cases = [
            {"id": f"{HOSTILE} {n}", "input": f"{HOSTILE} {n}?", "references": [f"{HOSTILE} {n}"],
             "source": HOSTILE, "tags": [HOSTILE], "metadata": {HOSTILE: HOSTILE}}
            for n in range(12)
        ]  # fmt: skip
        suite = {"name": HOSTILE, "cases": cases, "metrics": ["success"], "success": {"contains": "any"}}
        with tv.trace.agent(HOSTILE):
            pass

        def agent(good: int):
            def answer(question: str) -> str:
                number = int(re.findall(r"(\d+)\?$", question)[0])
                with tv.trace.agent("writer"), tv.trace.tool(HOSTILE, input=question):
                    return f"{HOSTILE} {number}" if number < good else f"wrong {HOSTILE}"

            return answer

        self.runs = [tv.evaluate(suite, agent=agent(good), store=store).id for good in (2, 12)]
        super().__init__(
            store, [monitored({"name": "support", "monitor": {"sample_rate": 1.0, "quiet": 0.01}})]
        )
        for number in range(3):
            self.services.intake.receive(
                body(agent_trace(bytes(range(15)) + bytes([number]), start=time.time_ns())), "protobuf"
            )
        now = time.time() + 1
        self.services.completer.complete(now)
        self.services.scorers[0].score_all(now)
        self.trace = latest_samples(store, "support", 1)[0].trace
        example = {
            "trace": self.trace,
            "time": now,
            "figure": 0.0,
            "score": 0.0,
            "query": HOSTILE,
            "output": HOSTILE,
        }
        message = {"monitor": "support", "title": HOSTILE, "opened": now, "examples": [example]}
        self.alert = open_alert(store, now=now, body=message)


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("pages")
    with Store(f"sqlite:///{folder / 'store.db'}") as store, Site(store) as running:
        yield running


def paths(site: Site) -> dict[str, str]:
    base, head = site.runs
    from trivium.web.pages.site import case_address

    return {
        "runs": "/runs",
        "run": f"/runs/{head}?by=tag",
        "case": case_address(base, f"{HOSTILE} 5"),
        "trace": case_address(base, f"{HOSTILE} 5", part="trace"),
        "trust": f"/runs/{base}/trust",
        "compare": f"/compare/{base}/{head}",
        "labels": "/labels",
        "monitors": "/monitors",
        "monitor": "/monitors/support",
        "alert": f"/alerts/{site.alert}",
        "why": f"/traces/{site.trace}",
        "search": "/search?q=wrong",
        "login": "/login",
        "missing": "/nowhere",
    }


@pytest.mark.parametrize("name", [
    "runs", "run", "trust", "case", "trace", "compare", "labels", "monitors", "monitor", "alert", "why",
    "search", "login", "missing",
])  # fmt: skip
def test_a_page_works_for_everybody_and_runs_nothing_hostile(page, site, name):
    page.goto(site.address + paths(site)[name])
    for width, dark in ((WIDE, False), (NARROW, True)):
        look(page, width=width, dark=dark)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [each for each in barriers(page) if each[0] in GRAVE] == []
    assert page.locator("main img, main [onfocus], main [onerror]").count() == 0
    assert page.locator("main script").count() == 0
    wrong = [each for each in complaints(page) if "404" not in each or name != "missing"]
    assert wrong == []


def test_from_an_alert_to_the_case_by_links(page, site):
    page.goto(site.address + "/monitors")
    page.click("text=support")
    page.click("div[aria-label='Alerts'] a")
    page.click("main table a")
    page.wait_for_selector("h2:has-text('Trace'), h3:has-text('Trace')")
    assert f"/case?id={site.trace}" in page.url


def test_from_an_alert_to_labels_of_its_cases(page, site):
    with site.store.engine.connect() as connection:
        metric = connection.execute(
            select(live_scores.c.metric).where(live_scores.c.value.is_not(None)).limit(1)
        ).scalar_one()
    page.goto(f"{site.address}/alerts/{site.alert}")
    page.select_option("[name=dimension] >> nth=0", metric)
    page.click("text=Make a queue")
    page.fill("[name=name]", "Ann")
    page.click("text=Begin")
    page.wait_for_selector("text=0 of 3 items labelled")
    page.keyboard.press("c")
    page.wait_for_selector("text=1 of 3 items labelled")
    assert complaints(page) == []


def test_from_an_alert_over_labels_to_a_certificate(page, site, tmp_path):
    """By links and keys; the labels are of a random sample, as the worst samples would certify nothing."""
    run = judged(site.store, LABELS, low=0.2)
    with site.store.engine.begin() as connection:
        connection.execute(
            update(schema.runs).where(schema.runs.c.id == run.id).values(kind="live", suite_name="clear")
        )
    now = time.time()
    example = {"trace": "t0", "time": now, "figure": 0.0, "score": 0.0, "query": "q", "output": "o"}
    message = {"monitor": "clear", "title": "worse", "opened": now, "examples": [example]}
    alert = open_alert(site.store, "clear", now=now, body=message)
    store_samples(
        site.store,
        [sample(each, monitor="clear", run=run.number, time=now - 60, score=0.5) for each in range(LABELS)],
    )
    page.goto(f"{site.address}/alerts/{alert}")
    page.select_option("#labels [name=dimension]", "clarity")
    page.click("#labels button")
    page.wait_for_url("**/labels/labels-*")
    if page.locator("[name=name]").count():
        page.fill("[name=name]", "Ann")
        page.click("text=Begin")
    for number in range(LABELS):
        page.wait_for_selector(f"text={number} of {LABELS} items labelled")
        (place,) = re.findall(r"output of c([0-9]+)", page.locator("main").inner_text())
        page.keyboard.press("5" if int(place) % 2 else "1")  # as the judge says
    page.wait_for_selector(f"text={LABELS} of {LABELS} items labelled")
    page.keyboard.press("t")
    page.wait_for_selector("h2:has-text('Certificate')")
    page.fill("[name=wrong]", "20")
    page.click("button:has-text('Show')")
    page.wait_for_url("**wrong=20**")
    with page.expect_download() as downloaded:
        page.click("a:has-text('Download')")
    file = tmp_path / "certificate.json"
    downloaded.value.save_as(file)
    assert read_certificate(file).epsilon == 0.2
    assert complaints(page) == []


def test_from_a_change_to_the_worst_case_and_its_link(page, site):
    page.goto(f"{site.address}/runs/{site.runs[1]}")
    page.click("button:has-text('Compare')")
    page.wait_for_url("**/compare/**")
    page.click("details.moved > summary")
    page.click("text=whole attempt >> nth=0")
    page.wait_for_url("**/case?**")
    shared = page.url
    title = page.title()
    page.goto("about:blank")
    page.goto(shared)
    assert page.title() == title


def test_a_large_comparison_fills_the_page_that_asked_for_it(page, site, held):
    go, _ = held
    page.goto(f"{site.address}/compare/{site.runs[1]}/{site.runs[0]}?force=true")
    assert page.locator("[role=status]").inner_text().startswith("These runs are being compared")
    assert [each for each in barriers(page) if each[0] in GRAVE] == []
    go.set()
    page.wait_for_selector("details.moved")
    assert page.locator("main").count() == 1
    assert "Worse" in page.title()
    page.keyboard.press("j")
    page.wait_for_function("document.querySelector('details.moved').open")
    assert complaints(page) == []


def test_without_scripts_a_large_comparison_is_waited_for(browser, site, held):
    go, _ = held
    go.set()
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.address}/compare/{site.runs[0]}/{site.runs[1]}?force=true")
        page.wait_for_selector("details.moved")


@pytest.mark.parametrize(
    ("error", "shown"),
    [(InputError("", "no case in common"), "no case in common"), (OSError("torn"), "The server has failed")],
)
def test_why_a_large_comparison_failed_fills_the_page_that_asked_for_it(
    page, site, held, monkeypatch, error, shown
):
    def failing(*_, **__):
        raise error

    monkeypatch.setattr(comparison, "compare", failing)
    page.goto(f"{site.address}/compare/{site.runs[1]}/{site.runs[0]}")
    page.wait_for_selector(f"text={shown}")
    assert page.locator("[role=status]").count() == 0


def test_cases_that_changed_are_opened_one_at_a_time_by_keys_and_by_clicks(page, site):
    page.goto(f"{site.address}/compare/{site.runs[0]}/{site.runs[1]}")
    cases = page.locator("details.moved")

    def opened():
        return [place for place in range(cases.count()) if cases.nth(place).get_attribute("open") is not None]

    assert opened() == []
    assert cases.nth(0).locator("summary del").count() == 1  # the words that differ are in the line
    for key, place in (("j", 0), ("j", 1), ("j", 2), ("k", 1)):
        page.keyboard.press(key)
        page.wait_for_function(f"document.querySelectorAll('details.moved')[{place}].open")
        assert opened() == [place]
    cases.nth(4).locator("summary").click()
    assert opened() == [4]
    assert complaints(page) == []


def test_two_ticked_runs_are_compared_without_scripts(browser, site):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.address}/runs?kind=agent")
        for run in site.runs:
            page.check(f"input[name=run][value='{run}']")
        page.click("button:has-text('Compare the two ticked')")
        page.wait_for_url(f"**/compare/{site.runs[0]}/{site.runs[1]}")


def test_a_tick_outlasts_a_filter_and_another_page(page, site):
    page.goto(f"{site.address}/runs?kind=agent")
    page.check(f"input[name=run][value='{site.runs[0]}']")
    page.fill("#q", site.runs[1])
    page.wait_for_selector(f"tr input[value='{site.runs[0]}']", state="detached")
    assert page.is_checked(f"#picked input[value='{site.runs[0]}']")
    page.check(f"input[name=run][value='{site.runs[1]}']")
    page.goto(f"{site.address}/runs?q=nothing&kind=agent")
    page.goto(f"{site.address}/runs?kind=agent")
    page.click("button:has-text('Compare the two ticked')")
    page.wait_for_url(f"**/compare/{site.runs[0]}/{site.runs[1]}")
    page.goto(f"{site.address}/runs?kind=agent")
    assert page.locator("input:checked").count() == 0  # they are compared
    assert complaints(page) == []


def test_a_case_of_a_trace_is_copied_with_a_key(browser, site):
    body = encode_recorded(Recorded(time=1.0, input=HOSTILE, output="no"))
    LiveTraces(site.services.store).record([RecordedTrace(trace_id="told", body=body)], 1.0)
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(f"{site.address}/traces/told/case")
        page.keyboard.press("y")
        page.wait_for_selector("button:has-text('Copied')")
        assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#yaml")


def test_the_list_of_runs_fetches_the_answers_that_it_lacks(page, site):
    page.goto(f"{site.address}/runs?kind=agent")
    page.wait_for_selector("td a.pill.good:has-text('Better')")
    page.reload()
    assert page.locator("td [hx-get]").count() == 0
    assert complaints(page) == []


def test_labelling_by_keyboard_alone(page, site):
    page.goto(site.address + "/runs")
    page.keyboard.press("g")
    page.keyboard.press("l")
    page.wait_for_url("**/labels")
    page.select_option("[name=run]", site.runs[0])
    page.wait_for_selector(f"[type=hidden][name=run][value='{site.runs[0]}']", state="attached")
    page.select_option("[name=dimension]", "success")
    page.click("text=Make the queue")
    page.wait_for_selector("[name=name]")
    assert page.evaluate("document.activeElement.name") == "name"
    page.keyboard.type("Ann")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=0 of 12 items labelled")
    assert page.locator("main").inner_text().count("passed") == 0
    page.keyboard.press("c")
    page.wait_for_selector("text=1 of 12 items labelled")
    page.keyboard.press("u")
    page.wait_for_selector("text=0 of 12 items labelled")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert [each for each in barriers(page) if each[0] in GRAVE] == []
    page.keyboard.press("Escape")
    assert complaints(page) == []


def test_rows_are_chosen_and_opened_by_keys(page, site):
    page.goto(site.address + "/runs")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    chosen = page.evaluate("document.activeElement.getAttribute('href')")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{chosen}")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.matches('[data-search]')")


def test_a_filter_changes_the_list_and_the_address_without_leaving_the_page(page, site):
    page.goto(f"{site.address}/runs/{site.runs[0]}")
    page.evaluate("window.same = true")
    page.select_option("[name=verdict]", "passed")
    page.wait_for_url("**verdict=passed**")
    page.wait_for_function("document.querySelectorAll('#attempts [data-row]').length === 2")
    assert page.evaluate("window.same")
    page.reload()
    assert page.locator("#attempts [data-row]").count() == 2


def test_without_scripts_pages_are_read_and_filtered(browser, site):
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.address}/runs/{site.runs[0]}")
        page.select_option("[name=verdict]", "passed")
        page.click("#cases button:has-text('Show')")
        assert page.locator("#attempts [data-row]").count() == 2
