"""The page of a run."""

import csv
import io
import re

import pytest

import trivium as tv
from trivium.store.records import Provenance
from trivium.suites.settings import Settings

HTML = {"Accept": "text/html"}
CASES = [
    {"id": f"c/{n} <b>", "input": f"<i>Question {n}?", "references": [f"answer {n}"],
     "tags": [f"tag {n % 2}"]}
    for n in range(40)
]  # fmt: skip


@pytest.fixture(scope="module")
def run(shared_store):
    return evaluated(shared_store)


def evaluated(store):
    """A run in which every fourth of 40 cases fails."""
    suite = {"name": "facts", "cases": CASES, "metrics": ["success"], "success": {"contains": "any"}}

    def agent(question: str) -> str:
        number = int(question.split()[1][:-1])
        return "no idea" if number % 4 == 0 else f"answer {number}"

    return tv.evaluate(suite, agent=agent, store=store)


def cases_of(page: str) -> list[str]:
    return re.findall(r'href="/runs/[^"]+/case\?id=([^"]+)"', page)


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def test_the_answer_comes_before_the_cases_and_these_before_the_scores(shared_client, run):
    page = shared_client.get(f"/runs/{run.id}", headers=HTML).text
    text = text_of(page)
    assert text.index("30 of 40 passed") < text.index("Cases, the worst first") < text.index("Scores")
    assert "<b>" not in page.replace("<b>30</b>", "")
    assert "<i>Question" not in page


def test_a_run_without_a_judge_leads_to_the_trust_in_its_scores(client, store):
    def link(of):
        return re.search(r'data-key="t">([^<]+)<', client.get(f"/runs/{of}", headers=HTML).text)[1]

    judged, plain = (
        store.new_run(id=id_, suite_name="s", suite="s", kind="agent", settings=Settings(), provenance=made)
        for id_, made in (("judged", Provenance(judges=["m"])), ("plain", Provenance()))
    )
    assert (link(judged.id), link(plain.id)) == ("Trust in its judge", "Trust in its scores")


def test_the_worst_cases_come_first_and_the_rest_on_further_pages(shared_client, run):
    page = shared_client.get(f"/runs/{run.id}", headers=HTML).text
    first = cases_of(page)
    assert len(first) == 25
    assert {int(name.split("%2F")[1].split("+")[0]) % 4 for name in first[:10]} == {0}
    following = re.search(r'rel="next" href="([^"]+)#cases"', page)[1].replace("&amp;", "&")
    second = cases_of(shared_client.get(f"/runs/{run.id}{following}", headers=HTML).text)
    assert len(second) == 15
    assert not set(first) & set(second)


@pytest.mark.parametrize(
    ("chosen", "number"),
    [({"verdict": "failed"}, 10), ({"verdict": "passed", "q": "/3"}, 9), ({"q": "nothing"}, 0)],
)
def test_filters_select_attempts_and_the_export_holds_them(shared_client, run, chosen, number):
    part = shared_client.get(
        f"/runs/{run.id}", params=chosen, headers=HTML | {"HX-Request": "true", "HX-Target": "attempts"}
    ).text
    assert part.strip().startswith('<div id="attempts"')
    assert len(cases_of(part)) == number
    rows = list(
        csv.DictReader(
            io.StringIO(shared_client.get(f"/runs/{run.id}", params={**chosen, "format": "csv"}).text)
        )
    )
    assert len(rows) == number


def test_slices_are_shown_on_wish(shared_client, run):
    assert "by tag" in text_of(shared_client.get(f"/runs/{run.id}", params={"by": "tag"}, headers=HTML).text)
    problem = shared_client.get(f"/runs/{run.id}", params={"by": "nothing"}, headers=HTML)
    assert problem.status_code == 200
    assert "nothing" in text_of(problem.text)


def test_a_run_without_a_summary_shows_what_is_there(client, store):
    run = evaluated(store)
    store.finish(run.record, "interrupted", summary=None)
    assert "30 of 40 passed" in text_of(client.get(f"/runs/{run.id}", headers=HTML).text)
    empty = store.new_run(id="empty", suite_name="s", suite="x", kind="agent", settings={})
    assert "no summary yet" in text_of(client.get(f"/runs/{empty.id}", headers=HTML).text)


def test_the_run_can_be_compared_with_another_one(client, store):
    run = evaluated(store)
    other = tv.evaluate({"name": "facts", "cases": CASES, "metrics": ["success"]}, agent=str, store=store)
    page = client.get(f"/runs/{run.id}", headers=HTML).text
    assert f'<option value="{other.id}">' in page


@pytest.mark.parametrize(
    ("address", "status"), [("/runs/none", 404), ("/runs/{}?after=x", 400), ("/runs/{}?sort=x", 400)]
)
def test_what_is_wrong_is_refused(shared_client, run, address, status):
    assert shared_client.get(address.format(run.id), headers=HTML).status_code == status


def test_the_beginning_of_an_id_leads_to_the_run(shared_client, run):
    assert shared_client.get(f"/runs/{run.id[:-1]}", headers=HTML).url.path == f"/runs/{run.id}"


def test_the_beginning_of_an_id_keeps_what_the_address_asks(shared_client, run):
    beginning = f"/runs/{run.id[:-1]}"
    failed = shared_client.get(beginning, params={"verdict": "failed", "format": "csv"})
    assert len(failed.text.splitlines()) == 1 + 10
    same = shared_client.get(f"/compare/{run.id[:-1]}/{run.id}", params={"format": "csv"})
    assert same.headers["content-type"] == "text/csv; charset=utf-8"


@pytest.mark.parametrize(
    "place", ["[1,0.5,99999999999999999999,0]", "[0,null,2147483648,0]", "[-1,0,0,0]", "[0,0,0,-1]", "1", "{"]
)
def test_a_place_in_the_list_that_cannot_be_is_refused(shared_client, run, place):
    assert shared_client.get(f"/runs/{run.id}", params={"after": place}, headers=HTML).status_code == 400
    assert shared_client.get(f"/api/v1/runs/{run.id}/attempts", params={"after": place}).status_code == 400
