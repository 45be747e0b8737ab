"""Two runs compared."""

import csv
import io
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

import trivium as tv

HTML = {"Accept": "text/html"}
CASES = [
    {"id": f"case <i>{n}</i>/{n}", "input": f"Question {n}?", "references": [f"answer {n}"]}
    for n in range(14)
]


@pytest.fixture(scope="module")
def runs(shared_store):
    return two_runs(shared_store)


def two_runs(store):
    """Ids of two runs of one suite: the second passes in twelve more of fourteen cases."""
    ids = []
    for good in (2, 14):

        def agent(question: str, good: int = good) -> str:
            number = int(question.split()[1][:-1])
            return f"<script>answer {number}" if number < good else "no idea"

        suite = {"name": "facts", "cases": CASES, "metrics": ["success"], "success": {"contains": "any"}}
        ids.append(tv.evaluate(suite, agent=agent, store=store).id)
    return ids


def test_the_answer_comes_first_then_the_cases_with_both_outputs(shared_client, runs):
    page = shared_client.get(f"/compare/{runs[0]}/{runs[1]}", headers=HTML).text
    text = re.sub(r"<[^>]+>", " ", page)
    order = ("✓ Better", "Difference of each metric", "What changed", "p (Holm)")
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "Better: " in text
    assert "<script>answer" not in page
    assert page.count('<details class="attempt moved"') == 10
    case = re.search(r'href="(/runs/[^"]+)"[^>]*>whole attempt', page)[1]
    back = f"&amp;back=%2Fcompare%2F{runs[0]}%2F{runs[1]}"
    assert case == f"/runs/{runs[0]}/case?id=case+%3Ci%3E2%3C%2Fi%3E%2F2{back}"


def test_further_cases_are_on_the_next_page(shared_client, runs):
    def listed(**query):
        page = shared_client.get(f"/compare/{runs[0]}/{runs[1]}", params=query, headers=HTML).text
        return re.findall(
            r'<details class="attempt moved" name="moved" id="([^"]+)"', page
        ), 'rel="next"' in page

    (first, more), (second, end) = listed(), listed(start=10)
    assert (len(first), more, len(second), end) == (10, True, 2, False)
    assert not set(first) & set(second)


def test_swapped_runs_have_opposite_differences(shared_client, runs):
    def deltas(base, head):
        text = shared_client.get(f"/compare/{base}/{head}", params={"format": "csv"}).text
        return {row["metric"]: float(row["delta"]) for row in csv.DictReader(io.StringIO(text))}

    there, back = deltas(*runs), deltas(*reversed(runs))
    assert there["success"] == pytest.approx(12 / 14)
    assert back == pytest.approx({name: -value for name, value in there.items()})


def test_an_interrupted_run_is_compared_anew(client, store):
    runs = two_runs(store)
    address = f"/compare/{runs[0]}/{runs[1]}"
    store.finish(store.run(runs[1]), "interrupted", summary=None)
    client.get(address, headers=HTML)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM evaluations WHERE run = 2 AND position > 9")
    assert "10 cases" in re.sub(r"<[^>]+>", " ", client.get(address, headers=HTML).text)


def test_a_large_comparison_comes_to_the_page_when_it_is_there_made_once_for_all_who_ask(client, store, held):
    (go, began), runs = held, two_runs(store)
    address = f"/compare/{runs[0]}/{runs[1]}"
    for _ in range(2):
        page = client.get(address, headers=HTML)
        assert page.status_code == 200
        assert "being compared" in page.text
        assert re.search(r'hx-get="[^"]*" hx-trigger="load" hx-target="body"', page.text)
        assert "14 of 14 passed" in page.text  # what is known of each run meanwhile
        assert '<meta http-equiv="refresh" content="0; url=?wait=true">' in page.text
    asked = [HTML | {"HX-Request": "true"}, HTML, {}]
    ways = [{}, {"wait": "true"}, {"format": "csv"}]
    with ThreadPoolExecutor(3) as pool:
        answers = [
            pool.submit(client.get, address, headers=each, params=way)
            for each, way in zip(asked, ways, strict=True)
        ]
        go.set()
        asked_by_htmx, without_scripts, file = (each.result() for each in answers)
    assert "✓ Better" in asked_by_htmx.text
    assert "✓ Better" in without_scripts.text
    assert file.text.startswith("metric,")
    assert "✓ Better" in client.get(address, headers=HTML).text  # and from now on at once
    assert len(began) == 1


def test_the_beginning_of_an_id_leads_to_the_whole(shared_client, runs):
    answer = shared_client.get("/compare", params={"base": runs[0], "head": runs[1]}, headers=HTML)
    assert answer.url.path == f"/compare/{runs[0]}/{runs[1]}"


@pytest.mark.parametrize("address", ["/compare/none/{}", "/compare/{}/none", "/compare?base={}"])
def test_without_two_runs_nothing_is_compared(shared_client, runs, address):
    assert shared_client.get(address.format(runs[0]), headers=HTML).status_code in {400, 404}


def test_unlike_runs_are_compared_only_on_wish(client, store):
    runs = two_runs(store)
    suite = {"name": "facts", "cases": CASES, "metrics": ["success"], "success": {"exact": True}}
    other = tv.evaluate(suite, agent=str, store=store).id
    refused = client.get(f"/compare/{runs[0]}/{other}", headers=HTML)
    assert refused.status_code == 400
    assert "cannot be compared" in refused.text
    assert (
        client.get(f"/compare/{runs[0]}/{other}", params={"force": "true"}, headers=HTML).status_code == 200
    )
