"""The list of runs."""

import csv
import io
import json
import re
from html import unescape

import pytest

import trivium as tv
from trivium.store.records import Provenance
from trivium.suites.case import Case

HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def client_of_three(shared_client, shared_store):
    """A client of a server with three runs: of an agent, of recorded outputs, and of a hostile name."""
    shared_store.save_cases("s1", [Case(id="a", input="?", tags=("<i>hard",))])
    for number, (suite, kind, rate) in enumerate(
        [("reviews", "agent", 0.9), ("answers", "recorded", None), ("<b>=1+1</b>", "agent", 0.2)]
    ):
        run = shared_store.new_run(
            id=f"run-{number}",
            suite_name=suite,
            suite=f"s{number}",
            kind=kind,
            settings={},
            provenance=Provenance(agent="qa:answer", version=f"<i>1.{number}"),
            due=4,
        )
        summary = (
            None
            if rate is None
            else {"attempts": 4, "pass_rate": {"value": rate}, "composite": {"mean": 1 - rate}}
        )
        shared_store.finish(run, "done" if summary else "interrupted", summary=summary)
    return shared_client


def listed(client, **chosen):
    body = client.get("/runs", params=chosen, headers=HTML).text
    return re.findall(r'href="/runs/(run-\d)"', body)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, [2, 1, 0]),
        ({"sort": "oldest"}, [0, 1, 2]),
        ({"sort": "pass_rate"}, [2, 0, 1]),
        ({"sort": "composite"}, [0, 2, 1]),
        ({"sort": "suite"}, [2, 1, 0]),
        ({"kind": "recorded"}, [1]),
        ({"state": "done"}, [2, 0]),
        ({"suite": "reviews"}, [0]),
        ({"version": "<i>1.2"}, [2]),
        ({"tag": "<i>hard"}, [1]),
        ({"tag": "<i>hard", "version": "<i>1.2"}, []),
        ({"q": "RUN-1"}, [1]),
        ({"q": "view"}, [0]),
        ({"q": "%"}, []),
        ({"start": "1"}, [1, 0]),
    ],
)
def test_filters_and_orders(client_of_three, chosen, expected):
    assert listed(client_of_three, **chosen) == [f"run-{number}" for number in expected]


def test_a_filter_replaces_only_the_table(client_of_three):
    answer = client_of_three.get(
        "/runs", params={"q": "run-1"}, headers=HTML | {"HX-Request": "true", "HX-Target": "found"}
    )
    assert answer.text.strip().startswith('<div id="found"')


def test_names_never_become_markup(client_of_three):
    body = client_of_three.get("/runs", headers=HTML).text
    assert "<b>=1" not in body
    assert "<i>" not in body
    assert "&lt;b&gt;=1+1&lt;/b&gt; · &lt;i&gt;1.2 · answer" in body


def test_links_and_exports_keep_the_filters(client_of_three):
    body = client_of_three.get("/runs", params={"version": "<i>1.2", "kind": "agent"}, headers=HTML).text
    (export,) = re.findall(r'href="([^"]+format=csv[^"]*)"', body)
    rows = list(csv.DictReader(io.StringIO(client_of_three.get("/runs" + unescape(export)).text)))
    assert [(row["run"], row["version"], row["agent"]) for row in rows] == [("run-2", "<i>1.2", "qa:answer")]
    assert re.search(r"<option selected[^>]*>&lt;i&gt;1.2<", body)


@pytest.mark.parametrize("ticked", [["run-0"], ["run-0", "run-1", "run-2"]])
def test_two_runs_are_compared_and_no_other_number(client_of_three, ticked):
    answer = client_of_three.get("/compare", params={"run": ticked}, headers=HTML)
    assert answer.status_code == 400
    assert f"Tick two runs to compare them; {len(ticked)} run" in answer.text


def test_of_two_ticked_runs_the_newer_one_is_compared_with_the_older_one(client_of_three):
    for ticked in (["run-0", "run-2"], ["run-2", "run-0"]):
        answer = client_of_three.get("/compare", params={"run": ticked}, headers=HTML, follow_redirects=False)
        assert answer.headers["location"] == "/compare/run-0/run-2"


def test_the_export_holds_all_that_the_filters_select(client_of_three):
    lines = [
        json.loads(line)
        for line in client_of_three.get("/runs", params={"format": "json", "kind": "agent"}).text.splitlines()
    ]
    assert [(line["run"], line["pass_rate"]) for line in lines] == [("run-2", 0.2), ("run-0", 0.9)]
    rows = list(csv.DictReader(io.StringIO(client_of_three.get("/runs", params={"format": "csv"}).text)))
    assert [row["run"] for row in rows] == ["run-2", "run-1", "run-0"]


def test_an_export_holds_no_formula(client, store):
    store.new_run(id="x", suite_name='=HYPERLINK("x")', suite="s", kind="agent", settings={})
    (row,) = csv.DictReader(io.StringIO(client.get("/runs", params={"format": "csv"}).text))
    assert row["suite"].startswith("'=")


@pytest.mark.parametrize("chosen", [{"sort": "x"}, {"start": "-1"}, {"q": "x" * 10_001}, {"format": "pdf"}])
def test_a_wrong_query_is_refused(shared_client, chosen):
    assert shared_client.get("/runs", params=chosen, headers=HTML).status_code == 400


def test_an_empty_store_says_how_to_make_a_run(client):
    assert "trivium run SUITE" in client.get("/runs", headers=HTML).text


def test_the_list_has_the_answer_against_the_run_before_once_it_was_asked_for(client, store):
    cases = [{"id": str(n), "input": str(n), "references": [str(n)]} for n in range(12)]
    suite = {"name": "sums", "cases": cases, "metrics": ["success"], "success": {"exact": True}}
    base, head = (tv.evaluate(suite, agent=agent, store=store).id for agent in (lambda _: "no", str))

    def cells():
        body = client.get("/runs", headers=HTML).text
        rows = re.findall(r"<tr data-row.*?</tr>", body, re.DOTALL)
        found = [re.findall(r"<td.*?</td>", row)[1] for row in rows]
        return [re.sub(r"<[^>]+>", " ", each).split() for each in found]

    assert cells() == [["compare"], ["no", "run", "before"]]
    part = client.get(f"/runs/{head}/before", headers=HTML | {"HX-Request": "true", "HX-Target": ""})
    assert f'href="/compare/{base}/{head}"' in part.text
    assert "<html" not in part.text
    assert cells()[0][:4] == ["✓", "Better", "pass_rate", "+1.000"]
    drawing = 'aria-label="Pass rates of the last runs"'
    assert drawing in client.get("/runs", headers=HTML).text
    assert drawing not in client.get("/runs", params={"start": 2}, headers=HTML).text
    whole = client.get(f"/runs/{head}/before", headers=HTML, follow_redirects=False)
    assert whole.headers["location"] == f"/compare/{base}/{head}"
