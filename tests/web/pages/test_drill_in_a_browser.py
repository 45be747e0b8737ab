"""An operator's drill: from an alert's message to the case that shows its cause, in two clicks."""

import random
import time
from contextlib import suppress

import msgspec
import pytest

import trivium as tv
from tests.browser import complaints
from tests.web.pages.served import Served
from trivium.monitor.alerting.messages import Message, text_of
from trivium.monitor.monitored import monitored
from trivium.store.live_alerts import add_mark, alerts_of
from trivium.store.store import Store
from trivium.web.pages.monitors import ROWS

VERSIONS = ("1.3", "1.4", "1.5")
SUITE = {"name": "support", "monitor": {"sample_rate": 1.0}}


@pytest.fixture(scope="module")
def drill(browser, tmp_path_factory):
    """A server whose store holds 300 interactions of three versions and two tools; version 1.5 breaks."""
    place = f"sqlite:///{tmp_path_factory.mktemp('drill') / 'store.db'}"
    draw = random.Random(4)
    with Store(place) as store:
        monitors = [
            tv.Monitor(SUITE, sample_rate=1, version=each, store=place, score=False) for each in VERSIONS
        ]
        agents = [
            each.watch(tags=["chat"])(agent(version))
            for each, version in zip(monitors, VERSIONS, strict=True)
        ]
        for number in range(300):
            with suppress(LookupError):
                agents[draw.randrange(3)](f"Where is order {number}?", draw)
        for each in monitors:
            each.flush()
            each.close()
        add_mark(store, "support", now=time.time() - 3600, version="1.5")
        with Served(store, [monitored(SUITE)]) as served:
            served.services.scorers[0].score_all(time.time())
            served.services.watcher.look(time.time())
            yield served


def agent(version):
    """An agent of two tools, which fails in 4 of 100 interactions, in version 1.5 in 60."""

    def answer(question, draw):
        with tv.trace.agent("helper"), tv.trace.tool(draw.choice(["track", "price"]), input=question):
            if draw.random() < (0.6 if version == "1.5" else 0.04):
                raise LookupError("no such order")
        return "It comes tomorrow."

    return answer


def test_from_the_message_to_the_case_in_two_clicks(page, drill):
    (alert,) = alerts_of(drill.store, firing=True)
    message = msgspec.convert(alert.body, Message)
    assert "critical in version 1.5" in message.title
    assert "track" not in text_of(message)
    assert "price" not in text_of(message)
    page.goto(f"{drill.address}/monitors/support")
    assert page.locator("svg.over-time").count() == 1
    tools = page.locator("[aria-label='By tool, worst first']").inner_text()
    assert "its own calls failed in" in tools
    assert tools.count(" of ") == 2
    page.click("text=in version 1.5")
    assert "error: LookupError: no such order" in page.locator("main tbody tr >> nth=0").inner_text()
    page.click("main table a >> nth=0")
    assert "Where is order" in page.locator("h1").inner_text()
    page.goto(page.url.partition("&back=")[0])
    assert page.locator(".crumbs").inner_text().split("\n")[-1].endswith("Alert 1")
    assert page.locator("a[href^='/traces/'] >> nth=0").count() == 1
    assert complaints(page) == []


def test_the_cause_leads_to_its_samples_and_what_to_label_is_a_list(page, drill):
    (alert,) = alerts_of(drill.store, firing=True)
    page.goto(f"{drill.address}/alerts/{alert.number}")
    listed = page.locator("select[name=dimension] >> nth=0").inner_text()
    assert "success" in listed
    page.click("text=those that did not pass")
    assert page.locator("select[name=part]").input_value() == "version 1.5"
    assert page.locator("input[name=failed]").is_checked()
    assert page.locator("#samples tbody tr").count() == ROWS
    assert complaints(page) == []


def test_samples_are_chosen_by_part_and_verdict(page, drill):
    page.goto(f"{drill.address}/monitors/support")
    page.select_option("select[name=part]", "version 1.5")
    page.check("input[name=failed]")
    page.click("text=Show")
    assert page.locator("#samples tbody tr").count() == ROWS
    shown = page.locator("#samples tbody").inner_text()
    assert shown.count("It comes tomorrow.") == 0
    assert shown.count("error: LookupError: no such order") == ROWS
