"""The page of a case."""

import re

import msgspec
import pytest

import trivium as tv
from trivium.agents.attempt import Attempt
from trivium.metrics.evaluation import Composite, Evaluation
from trivium.store.records import StoredAttempt, StoredEvaluation
from trivium.suites.case import Case
from trivium.traces.trace import Span, Trace
from trivium.web.pages.case import _Tree

HTML = {"Accept": "text/html"}
SPANS = 20_000


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


@pytest.fixture
def run(store):
    suite = {
        "name": "facts",
        "cases": [{"id": "a/b ?#<b>", "input": "Where?", "references": ["in the blue house"]}],
        "metrics": ["success"],
        "repeats": 2,
    }
    return tv.evaluate(suite, agent=lambda _: "in the <script>red</script> house", store=store)


@pytest.fixture
def large(store):
    """A run whose trace has 200 agents with 99 tool calls each."""
    spans = []
    for agent in range(SPANS // 100):
        spans.append(
            Span(id=f"a{agent}", kind="agent", name=f"agent {agent}", start=agent, end=agent + 1, ok=True)
        )
        spans += [
            Span(
                id=f"t{agent}.{n}", parent=f"a{agent}", kind="tool", name="search <b>", input="x" * 300,
                start=agent, end=agent + 1, ok=n != 5,
            )
            for n in range(99)
        ]  # fmt: skip
    return stored(store, spans)


def stored(store, spans):
    """A run of one attempt with this trace."""
    store.save_cases("s", [Case(id="big", input="?")])
    run = store.new_run(id="r", suite_name="s", suite="s", kind="agent", settings={}, provenance={})
    attempt = Attempt(case="big", repeat=0, output="done", trace=Trace(spans=spans))
    evaluation = Evaluation(case="big", repeat=0, scores={}, composite=Composite(value=None), passed=None)
    store.save(
        run,
        attempts=[StoredAttempt(position=0, attempt=attempt)],
        evaluations=[StoredEvaluation(position=0, evaluation=evaluation)],
    )
    return run


def test_output_and_references_are_beside_each_other_with_their_differences(client, run):
    page = client.get(f"/runs/{run.id}/case?id=a%2Fb+%3F%23%3Cb%3E", headers=HTML)
    assert page.status_code == 200
    assert "<script>red" not in page.text
    assert "<b>" not in page.text.replace("<b>0</b>", "")
    text = text_of(page.text)
    assert "Output" in text
    assert "Reference" in text
    assert re.search(r"<del>[^<]*blue", page.text)
    assert re.search(r"<ins>[^<]*red", page.text)


def test_each_repeat_has_its_page(client, run):
    address = f"/runs/{run.id}/case?id=a%2Fb+%3F%23%3Cb%3E"
    assert f'{address}&amp;repeat=1"' in client.get(address, headers=HTML).text
    assert f'href="{address}"' in client.get(f"{address}&repeat=1", headers=HTML).text
    missing = client.get(f"{address}&repeat=2", headers=HTML)
    assert missing.status_code == 404
    assert "no repeat 2" in text_of(missing.text)


def test_an_unknown_case_is_not_found(client, run):
    assert client.get(f"/runs/{run.id}/case?id=none", headers=HTML).status_code == 404


def test_a_large_trace_opens_by_level(client, large):
    page = client.get("/runs/r/case?id=big", headers=HTML)
    assert len(page.content) < 150_000
    assert "20,000 spans, by level" in text_of(page.text)
    assert "1–50 of 200 spans" in text_of(page.text)
    assert "no trace" not in page.text
    first = re.search(r'href="(/runs/r/trace\?id=big&amp;span=a0)"', page.text)[1].replace("&amp;", "&")
    part = client.get(first, headers=HTML | {"HX-Request": "true", "HX-Target": "level"})
    assert part.text.strip().startswith('<div id="level">')
    assert len(part.content) < 150_000
    assert "1–50 of 99 spans" in text_of(part.text)
    assert "failed" in part.text
    leaf = client.get("/runs/r/trace", params={"id": "big", "span": "t0.5"}, headers=HTML)
    assert "x" * 300 in leaf.text
    assert "<b>" not in leaf.text
    assert client.get("/runs/r/trace", params={"id": "big", "span": "none"}, headers=HTML).status_code == 404


def test_a_cycle_of_parents_ends(client, store):
    stored(store, [])
    loop = [
        Span(id="a", parent="b", kind="other", name="a"),
        Span(id="b", parent="a", kind="other", name="b"),
    ]
    body = msgspec.json.encode(Attempt(case="big", repeat=0, output="", trace=Trace(spans=loop))).decode()
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE attempts SET body = ?", (body,))
    page = client.get("/runs/r/trace", params={"id": "big", "span": "a"}, headers=HTML)
    assert page.status_code == 200
    assert page.text.count('span=a"') <= 2  # shown once in the way to it, not again and again


def test_every_span_can_be_reached_and_is_in_one_place_whatever_its_parents():
    parents = {"a": "b", "b": "a", "c": "b", "d": "d", "e": "gone", "f": None, "g": "f"}
    level = _Tree(Trace(spans=[Span(id=i, parent=p, kind="tool", name=i) for i, p in parents.items()])).level
    assert [row.id for row in level(None, 0).rows] == ["a", "d", "e", "f"]
    seen, waiting = [], [row.id for row in level(None, 0).rows]
    while waiting:
        seen.append(at := waiting.pop())
        assert len(level(at, 0).above) <= len(parents)
        waiting += [row.id for row in level(at, 0).rows]
    assert sorted(seen) == sorted(parents)
