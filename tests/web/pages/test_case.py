"""The page of a case."""

import re

import msgspec
import pytest

import trivium as tv
from tests.monitor.samples import sample, store_samples
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
    run = store.new_run(id="r", suite_name="s", suite="s", kind="agent", settings={})
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
    assert part.text.strip().startswith('<div id="level"')
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


@pytest.mark.parametrize(
    ("back", "crumbs"),
    [
        ("", [("Runs", "/runs"), ("facts R", "/runs/R")]),
        ("/runs/R?verdict=failed", [("Runs", "/runs"), ("R", "/runs/R?verdict=failed")]),
        ("/compare/a/b", [("Runs", "/runs"), ("a and b", "/compare/a/b")]),
        ("/monitors/team%2Fdesk", [("Production", "/monitors"), ("team/desk", "/monitors/team%2Fdesk")]),
        ("/alerts/3", [("Production", "/monitors"), ("Alert 3", "/alerts/3")]),
        (
            "/labels/q/people?start=10",
            [("Labels", "/labels"), ("q: how far people agree", "/labels/q/people?start=10")],
        ),
        ("/search?q=a%20b", [("Search", "/search?q=a%20b")]),
        ("https://elsewhere.example/runs/x", None),
        ("//elsewhere.example/runs/x", None),
        ("/\\elsewhere.example/runs/x", None),
        ("javascript:alert(1)", None),
        ("/runs//elsewhere.example", None),
        ("/logout", None),
        ("/runs/x\ty", None),
        ("/runs/" + "x" * 3_000, None),
    ],
)
def test_the_way_back_is_to_where_one_came_from_and_never_elsewhere(client, run, back, crumbs):
    page = client.get(f"/runs/{run.id}/case", params={"id": "a/b ?#<b>", "back": back}, headers=HTML)
    shown = re.search(r'<ol class="crumbs">(.*?)</ol>', page.text)[1]
    found = [
        (text_of(words), address) for address, words in re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', shown)
    ]
    belongs = [("Runs", "/runs"), (f"facts {run.id}", f"/runs/{run.id}")]
    wanted = belongs if crumbs is None or not back else crumbs
    assert found == wanted
    if wanted is not belongs:  # and the next page knows it too
        assert "back=" in re.search(r'href="([^"]*repeat=1[^"]*)"', page.text)[1]


def test_a_link_back_holds_no_markup(client, run):
    page = client.get(
        f"/runs/{run.id}/case", params={"id": "a/b ?#<b>", "back": '/search?q="><script>x'}, headers=HTML
    )
    assert "<script>x" not in page.text
    assert 'href="/search?q=%22%3E%3Cscript%3Ex"' in page.text


def test_a_chat_is_shown_by_its_messages_and_a_trace_as_a_tree_with_times(client, store):
    chat = [{"role": "user", "content": "Hi <b>"}, {"role": "assistant", "content": "Which order?"}]
    store.save_cases("s", [Case(id="chat", input=[*chat, {"role": "user", "content": "1004"}])])
    run = store.new_run(id="r", suite_name="desk", suite="s", kind="live", settings={})
    spans = [
        Span(id="c", parent="b", kind="tool", name="refund", start=1.5, end=1.50002, ok=False,
             attributes={"error": "TimeoutError: <i>late"}),
        Span(id="a", kind="agent", name="desk", start=1.0, end=3.0),
        Span(id="b", parent="a", kind="agent", name="refunds", start=1.25, end=2.0),
        Span(id="d", parent="a", kind="llm", name="gpt", start=1.125, end=1.2),
    ]  # fmt: skip
    attempt = Attempt(case="chat", repeat=0, output="done", trace=Trace(spans=tuple(spans)))
    evaluation = Evaluation(case="chat", repeat=0, scores={}, composite=Composite(value=None), passed=None)
    store.save(
        run,
        attempts=[StoredAttempt(position=0, attempt=attempt)],
        evaluations=[StoredEvaluation(position=0, evaluation=evaluation)],
    )
    store_samples(store, [sample(1, monitor="desk", trace="chat", run=run.number, position=0)])
    page = client.get("/runs/r/case?id=chat", headers=HTML)
    said = re.findall(r'<span class="quiet">(user|assistant)</span>', page.text)
    assert said == ["user", "assistant", "user"]
    tree = re.search(r'<table class="small tree">(.*?)</table>', page.text, re.DOTALL)[1]
    rows = [
        (int(depth), text_of(name), text_of(times))
        for depth, name, times in re.findall(r'<th scope="row" class="d(\d)">(.*?)</th>(.*?)</tr>', tree)
    ]
    assert rows == [
        (0, "agent desk", "0 ms 2.0 s"),
        (1, "llm gpt", "125 ms 75 ms"),
        (1, "agent refunds", "250 ms 750 ms"),
        (2, "tool refund ✕ failed: TimeoutError: &lt;i&gt;late", "500 ms 20 µs"),
    ]
    assert (
        client.get(re.search(r'href="([^"]*span=c[^"]*)"', tree)[1].replace("&amp;", "&")).status_code == 200
    )
    crumbs = re.search(r'<ol class="crumbs">(.*?)</ol>', page.text)[1]
    assert text_of(crumbs) == "Production desk"
    assert re.search(r"<h1>.*user: Hi &lt;b&gt;.*</h1>", page.text)
    assert 'href="/traces/chat/case"' in page.text
