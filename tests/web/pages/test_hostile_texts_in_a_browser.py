"""What agents, judges, traces and labellers wrote never becomes markup, wherever it is shown."""

from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import pytest
from sqlalchemy import update

import trivium as tv
from tests.browser import complaints
from tests.labels.labelled import label_all
from tests.monitor.samples import open_alert, sample, store_samples
from tests.otlp_requests import body, span
from tests.runs.judged_runs import judged_run, judgement
from tests.web.pages.served import Served
from trivium.labels.queue import LabelQueues
from trivium.monitor.monitored import monitored
from trivium.store import schema
from trivium.store.labels import QueueSettings
from trivium.store.live_alerts import add_mark
from trivium.store.store import Store
from trivium.web.pages.site import case_address

VECTORS = (
    "<script>window.pwned=1;alert(1)</script>",
    "<img src=x onerror=window.pwned=2>",
    "<svg onload=window.pwned=3><a xlink:href='javascript:window.pwned=3'><text>x</text></a></svg>",
    '" onmouseover=window.pwned=4 autofocus onfocus=window.pwned=4 x="',
    "' onfocus='window.pwned=5' autofocus='",
    "javascript:window.pwned=6//",
    "[link](javascript:window.pwned=7) ![x](https://elsewhere.example/x.png)",
    "</textarea></title></style></script><script>window.pwned=8</script>",
    '<noscript><p title="</noscript><img src=x onerror=window.pwned=9>">',
    "<meta http-equiv=refresh content='0;url=javascript:window.pwned=10'><base href='https://else.example/'>",
    "<form action=javascript:window.pwned=11><button formaction=javascript:window.pwned=11>x</button></form>",
    "<a href='data:text/html,<script>window.pwned=12</script>'>x</a><iframe srcdoc='<b>x</b>'></iframe>",
    "&lt;img src=x onerror=window.pwned=13&gt;&amp;lt;script&amp;gt;&#60;script&#62;window.pwned=13",
    "{{7*7}}{% raw %}${7*7}<%= 7*7 %>#{7*7}{{constructor.constructor('window.pwned=14')()}}",
    "<div style='background:url(//else.example/)' hx-get='/x' hx-trigger=load hx-on:click='window.pwned=15'>",
    "\u202e<script>\u2066window.pwned=16</script>\ufeff\u0085\u2028",
)
MONITOR = '<img src=x onerror=window.pwned=20> & "monitor"'

FOUND = """() => {
    const wrong = [];
    const active = /^\\s*(javascript|data:text)/i;
    for (const each of document.querySelectorAll('*')) {
        for (const {name, value} of each.attributes) {
            const runs = name.startsWith('on') || name.startsWith('hx-on') || name === 'srcdoc';
            const leads = ['href', 'src', 'action', 'formaction', 'xlink:href'].includes(name);
            if (runs || leads && active.test(value)) wrong.push(each.outerHTML.slice(0, 200));
        }
        const script = each.tagName === 'SCRIPT' && !each.src.startsWith(location.origin + '/assets/');
        if (['IFRAME', 'OBJECT', 'EMBED', 'BASE', 'NOSCRIPT'].includes(each.tagName) ||
            each.tagName === 'IMG' && !each.src.startsWith('data:image/') ||
            script && !['application/json', 'text/plain'].includes(each.type)) {
            wrong.push(each.outerHTML.slice(0, 200));
        }
    }
    return wrong;
}"""
"""What the vectors would have made of a page, if any had become markup."""


def run_of(store: Store, good: int) -> str:
    """A run whose every text is hostile, also the tools' and spans'."""
    cases = [
        {"id": f"{each} {n}", "input": f"{each} {n}", "references": [f"{each} {n}"], "source": each,
         "tags": [each], "metadata": {each: each}}
        for n, each in enumerate(VECTORS)
    ]  # fmt: skip

    def agent(question: str) -> str:
        number = int(question.rpartition(" ")[2])
        vector = VECTORS[number]
        with tv.trace.agent(vector), tv.trace.tool(vector, input={vector: vector}):
            if number == 5:
                raise ValueError(vector)
            return question if number < good else vector

    suite = {"name": VECTORS[0], "cases": cases, "metrics": ["success"], "success": {"exact": True}}
    return tv.evaluate(suite, agent=agent, store=store).id


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("hostile")
    with Store(f"sqlite:///{folder / 'store.db'}") as store:
        base, head = (run_of(store, good) for good in (3, 12))
        scores = {
            f"{each} {n}": [
                judgement(
                    float(n % 2), reason=each,
    detail={"confidence": n / 20, "model": each, "prompt": each, "reason": each,
                            "evidence": [{"quote": each, "where": each}, {"quote": "pwned", "found": True}],
                            "criteria": [{"name": each, "reason": each}], "claims": [each],
                            "votes": [{"model": each, "value": 1, "reason": each}]},
                )
            ]
            for n, each in enumerate(VECTORS)
        }  # fmt: skip
        judged = judged_run(store, scores, outputs={case: case for case in scores}).id
        queues = LabelQueues(store)
        queue = queues.create(
            store.run(judged), "clarity", by=VECTORS[1], settings=QueueSettings(overlap=1.0)
        )
        for name, value in ((VECTORS[3][:100], 0.0), (VECTORS[1][:100], 1.0)):
            label_all(queues, queue, name, lambda _, value=value: value)
        queues.adjudicate(queue.id, 1, VECTORS[2][:100], 0.5, note=VECTORS[8])
        fresh = queues.create(store.run(base), "success", by="x")
        examples = [
            {"trace": "t0", "time": 1e9, "figure": 0.0, "score": 0.0, "query": each, "output": each}
            for each in VECTORS
        ]
        alert = open_alert(
            store, MONITOR, now=1e9,
            body={"monitor": MONITOR, "title": VECTORS[0], "opened": 1e9, "reason": VECTORS[1],
                  "facet": VECTORS[2], "examples": examples},
        )  # fmt: skip
        with store.engine.begin() as connection:
            connection.execute(update(schema.runs).where(schema.runs.c.id == judged).values(kind="agent"))
        store_samples(
            store,
            [
                sample(n, False, monitor=MONITOR, query=each, output=each, agent=each, tool=each, tag=each,
                       model=each, version=each, service=each, session=each)
                for n, each in enumerate(VECTORS)
            ],
        )  # fmt: skip
        add_mark(store, MONITOR, now=1.7e9, version=VECTORS[1], note=VECTORS[2])
        with Served(
            store, [monitored({"name": "support", "monitor": {"sample_rate": 1.0, "quiet": 0.01}})]
        ) as running:
            spans = [
                span(bytes(16)[:15] + b"\1", operation="execute_tool", tool=each, agent=each, **{each: each})
                for each in VECTORS
            ]
            running.services.intake.receive(body(spans, service=VECTORS[0], version=VECTORS[1]), "protobuf")
            places = [
                "/runs", f"/runs?q={quote(VECTORS[3])}&suite={quote(VECTORS[4])}", "/labels", "/monitors",
                f"/runs/{head}?by=tag", f"/runs/{head}?q={quote(VECTORS[3])}&verdict=x{quote(VECTORS[4])}",
                "/login", f"/runs/{judged}", f"/compare/{base}/{head}",
                f"/runs/{judged}/trust?dimension=clarity",
                f"/runs/{judged}/trust?dimension={quote(VECTORS[3])}", f"/labels/{queue.id}",
                f"/labels/{queue.id}/people", f"/labels/{queue.id}/trust", f"/labels/{fresh.id}",
                f"/monitors/{quote(MONITOR)}", f"/alerts/{alert}", "/traces/t0",
                f"/nowhere/{quote(VECTORS[1], safe='')}",
            ]  # fmt: skip
            for n, each in enumerate(VECTORS):
                places.append(case_address(base if n % 3 else judged, f"{each} {n}"))
                places.append(f"/search?q={quote(each)}")
            places.append(case_address(base, f"{VECTORS[0]} 0", part="trace"))
            running.places = places
            yield running


def test_nothing_hostile_runs_loads_or_becomes_markup(page, site):
    """Also with a name that was typed into the browser, on every page in one walk."""
    strangers: list[str] = []
    own = urlsplit(site.address).netloc

    def asked(request) -> None:
        if urlsplit(request.url).scheme != "data" and urlsplit(request.url).netloc != own:
            strangers.append(request.url)

    page.on("request", asked)
    shown = 0
    for place in site.places:
        page.goto(site.address + place)
        if place.startswith("/labels/") and page.locator("[name=name]").count():
            page.fill("[name=name]", VECTORS[3])
            page.click("text=Begin")
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true; 0")
        assert page.evaluate(FOUND) == [], place
        assert page.evaluate("window.pwned") is None, place
        shown += page.locator("main").text_content().count("pwned")
    assert shown > 10 * len(VECTORS)
    assert strangers == []
    assert [each for each in complaints(page) if "Content Security Policy" in each] == []


@pytest.mark.parametrize("number", [1, 2, 3, 9, 10, 11])
def test_markup_would_be_found(page, number):
    page.set_content(f'<main title="{VECTORS[number]}">{VECTORS[number]}</main>')
    assert page.evaluate(FOUND) != [] or page.evaluate("window.pwned") is not None
