"""The page of the search, and its JSON."""

import csv
import io
import json
import re

import pytest

from tests.store.samples import attempt, new_run
from trivium.store.browsing.search_index import IDLE_SECONDS, SearchIndex

HTML = {"Accept": "text/html"}
HOSTILE = "<script>alert(1)</script> =1+1 needle"


@pytest.fixture(scope="module")
def searching(shared_client, shared_store):
    """A client: a run of many attempts with a needle each, one of them hostile, and a run without."""
    store = shared_store
    run = new_run(store, id="run-a", count=30)
    store.save(run, attempts=[attempt(n, output="one needle" if n else HOSTILE) for n in range(30)])
    store.finish(run, "done", summary={"attempts": 30})
    run = new_run(store, id="run-b", count=1)
    store.save(run, attempts=[attempt(0, output="只有针")])
    store.finish(run, "done", summary={"attempts": 1})
    index = SearchIndex(store)
    while index.step() != IDLE_SECONDS:
        pass
    return shared_client


def shown(body):
    return re.findall(r'href="(/runs/run-[ab]/case\?id=c\d+)&amp;back=[^"]*"', body)


def test_every_attempt_is_on_one_of_the_pages(searching):
    first = searching.get("/search", params={"q": "needle"}, headers=HTML).text
    assert "30 attempts have all these words" in first
    (address,) = re.findall(r'rel="next" href="([^"]*)"', first)
    second = searching.get("/search" + address.replace("&amp;", "&"), headers=HTML).text
    assert shown(first) + shown(second) == [f"/runs/run-a/case?id=c{n}" for n in range(30)]
    assert 'rel="next"' not in second


def test_outputs_never_become_markup(searching):
    body = searching.get("/search", params={"q": "alert"}, headers=HTML).text
    assert "<script>alert" not in body
    assert "&lt;script&gt;<mark>alert</mark>(1)" in body


def test_a_run_can_be_chosen(searching):
    assert shown(searching.get("/search", params={"q": "针", "run": "run-b"}, headers=HTML).text)
    assert "Nothing found." in searching.get("/search", params={"q": "针", "run": "run-a"}, headers=HTML).text
    assert searching.get("/search", params={"q": "针", "run": "nope"}, headers=HTML).status_code == 404


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ({"q": "!?"}, "Type a word"),
        ({"q": ""}, "Finds inputs"),
        ({"q": "w " * 100}, "60 words were not looked for"),
        ({"q": '"needle one"'}, "None of the attempts read so far"),
        ({"q": '"one needle"'}, "next to one another"),
    ],
)
def test_the_page_says_what_was_not_looked_for(searching, monkeypatch, chosen, words):
    monkeypatch.setattr("trivium.store.browsing.search.MOST_READ", 20)
    assert words in searching.get("/search", params=chosen, headers=HTML).text


def test_counts_above_the_bound_are_said_as_such(searching, monkeypatch):
    monkeypatch.setattr("trivium.store.browsing.search.COUNTED", 10)
    assert "More than 10 attempts" in searching.get("/search", params={"q": "needle"}, headers=HTML).text


def test_what_is_not_indexed_yet_is_said(client, store):
    store.finish(new_run(store, id="run-c", count=3), "done", summary={"attempts": 3})
    body = client.get("/search", params={"q": "needle"}, headers=HTML).text
    assert "0 of 3 attempts are indexed so far" in body


def test_the_export_holds_every_attempt_and_no_formula(searching, monkeypatch):
    chosen = {"q": "needle", "format": "json"}
    lines = [json.loads(line) for line in searching.get("/search", params=chosen).text.splitlines()]
    assert [line["case"] for line in lines] == [f"c{n}" for n in range(30)]
    rows = list(
        csv.DictReader(io.StringIO(searching.get("/search", params={**chosen, "format": "csv"}).text))
    )
    assert (rows[1]["field"], rows[1]["excerpt"]) == ("output", "one needle")
    monkeypatch.setattr("trivium.web.pages.search.EXPORTED", 7)
    assert len(searching.get("/search", params=chosen).text.splitlines()) == 7


@pytest.mark.parametrize(
    "chosen",
    [{"q": "x" * 10_001}, {"q": "x", "before": "-1"}, {"q": "x", "before": "1" * 20}, {"format": "a"}],
)
def test_a_wrong_query_is_refused(shared_client, chosen):
    assert shared_client.get("/search", params=chosen, headers=HTML).status_code == 400


def test_every_page_has_a_box_for_it(shared_client):
    assert 'action="/search"' in shared_client.get("/runs", headers=HTML).text


def test_the_json_has_the_same_attempts(searching):
    first = searching.get("/api/v1/search", params={"q": "needle", "limit": 20}).json()
    again = {"q": "needle", "limit": 20, "before": first["next"]}
    second = searching.get("/api/v1/search", params=again).json()
    assert [hit["case"] for hit in first["hits"] + second["hits"]] == [f"c{n}" for n in range(30)]
    assert first["hits"][1]["excerpts"][0] == {
        "field": "output",
        "pieces": [{"text": "one ", "marked": False}, {"text": "needle", "marked": True}],
    }
    assert second["next"] is None
    past = {"q": "needle", "before": "9" * 19}
    assert searching.get("/api/v1/search", params=past).json()["total"] == 30


def test_a_case_is_found_by_its_id(searching):
    body = searching.get("/search", params={"q": '"c17"'}, headers=HTML).text
    assert shown(body) == ["/runs/run-a/case?id=c17"]
    assert "<mark>c17</mark>" in body
