"""Several people in browsers of their own: who sees what, and what a link that is shared shows."""

import re
from collections.abc import Iterator

import pytest

import trivium as tv
from tests.browser import barriers, complaints
from tests.labels.labelled import judged, label_all
from tests.web.pages.served import Served
from trivium.labels.agreement import disagreements_of
from trivium.labels.queue import LabelQueues
from trivium.store.labels import QueueSettings, queue_transaction
from trivium.store.store import Store

ITEMS = 6


@pytest.fixture(scope="module")
def site(browser, tmp_path_factory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("people")
    with Store(f"sqlite:///{folder / 'store.db'}") as store, Served(store) as running:
        yield running


class Person:
    """Somebody with a browser of their own, and all that the server sent to it."""

    def __init__(self, browser, site, queue: str, name: str) -> None:
        self.context = browser.new_context()
        self.page = self.context.new_page()
        self.sent: list[str] = []
        self.page.on("response", lambda response: self.sent.append(response.text()) if response.ok else None)
        self.page.goto(f"{site.address}/labels/{queue}")
        self.page.fill("[name=name]", name)
        self.page.click("text=Begin")
        self.page.wait_for_selector("h2:has-text('Output')")

    @property
    def item(self) -> str:
        """The case that is asked about."""
        return re.findall(r"output of (c[0-9]+)", self.page.locator("main").inner_text())[0]

    def answer(self, key: str) -> None:
        """Press a key and wait for the next item."""
        place = self.page.locator("[name=place]").get_attribute("value")
        self.page.keyboard.press(key)
        self.page.wait_for_function(
            "place => document.querySelector('[name=place]')?.value !== place", arg=place
        )

    @property
    def is_done(self) -> bool:
        return self.page.locator("text=Nothing is left for you here").count() > 0


def test_two_people_label_blind_and_a_third_decides(browser, page, site):
    """They share the overlap, and no other item; nobody sees a verdict, a confidence or the other's label."""
    run = judged(site.store, ITEMS, prefix="c")
    queues = LabelQueues(site.store)
    queue = queues.create(run, "clarity", by="x", seed=4, settings=QueueSettings(overlap=0.5))
    people = [Person(browser, site, queue.id, name) for name in ("Ann Unlikely", "Ben Unlikely")]
    asked: dict[str, list[str]] = {"Ann": [], "Ben": []}
    first, second = people
    assert first.item != second.item or queue.settings.overlap
    turns = 0
    while not (first.is_done and second.is_done) and turns < 3 * ITEMS:
        for person, name, key in ((first, "Ann", "1"), (second, "Ben", "5")):
            if not person.is_done:
                asked[name].append(person.item)
                person.answer(key)
                person.page.reload()
        turns += 1
    both = set(asked["Ann"]) & set(asked["Ben"])
    assert set(asked["Ann"]) | set(asked["Ben"]) == {f"c{n}" for n in range(ITEMS)}
    assert 0 < len(both) < ITEMS
    assert len(asked["Ann"]) == len(set(asked["Ann"]))
    for person, other in ((first, "Ben Unlikely"), (second, "Ann Unlikely")):
        texts = "".join(person.sent)
        assert other not in texts
        assert "confidence" not in texts
        assert not re.search(r"0\\.(125|25|375|5|625|75|875)\\b", re.sub(r"value [0-9.]+", "", texts))
    page.goto(f"{site.address}/labels/{queue.id}")
    page.fill("[name=name]", "Cem")
    page.click("text=Begin")
    page.wait_for_selector("text=Nothing is left for you here")
    page.keyboard.press("p")
    page.wait_for_selector("h2:has-text('Where they disagree')")
    text = page.locator("main").inner_text()
    assert f"gave the same label in 0 % of the pairs on {len(both)} items" in text
    assert "Ann Unlikely and Ben Unlikely" in text
    assert page.locator("details.apart").count() == len(both)
    assert [each for each in barriers(page) if each[0] in {"critical", "serious"}] == []
    page.locator("details.apart").first.locator("[name=note]").fill("quotes the source")
    page.locator("details.apart").first.locator("button").nth(2).click()
    page.wait_for_selector("dd:has-text('by Cem')", state="attached")
    assert f"{len(both) - 1} item" in page.locator("main").inner_text()
    assert complaints(page) == []
    for person in people:
        assert complaints(person.page) == []
        person.context.close()


def test_a_lead_settles_ten_disagreements_by_keyboard(page, site):
    """With a reason for one, a decision taken back, and the judge unseen until an item is settled."""
    queues = LabelQueues(site.store)
    run = judged(site.store, 10, prefix="k")
    queue = queues.create(run, "clarity", by="x", seed=4, settings=QueueSettings(overlap=1.0))
    label_all(queues, queue, "ann", lambda case: 1.0)
    label_all(queues, queue, "ben", lambda case: 0.0)
    page.goto(f"{site.address}/labels/{queue.id}/people")
    page.focus("[name=name]")
    page.keyboard.type("Lea")
    page.keyboard.press("Enter")

    def open_ones(count: int) -> None:
        page.wait_for_function(
            "count => document.querySelectorAll('.apart .pill.warn').length === count", arg=count
        )
        assert page.locator("a:has-text('what the judge said')").count() == 10 - count

    open_ones(10)
    settled = {}
    for number in range(10):
        case = page.locator("details.apart[open] .id").inner_text()
        assert f"output of {case}" in page.locator("details.apart[open]").inner_text()
        if number == 3:
            page.keyboard.press("n")
            page.keyboard.type("1 is too low")
            page.keyboard.press("Escape")
        page.keyboard.press("4" if number % 2 else "2")
        open_ones(9 - number)
        if number == 5:
            page.keyboard.press("u")
            open_ones(10 - number)
            page.keyboard.press("4")
            open_ones(9 - number)
        settled[case] = 0.8 if number % 2 else 0.4
    found = disagreements_of(queues, queue.id)
    assert {each.case: each.decided for each in found} == settled
    assert {each.by for each in found} == {"Lea"}
    with queue_transaction(site.store, queue.id) as stored:
        notes = [label.note for label in stored.labels() if label.how == "adjudicated" and label.note]
    assert notes == ["1 is too low"]
    page.keyboard.press("3")  # nothing is open any more, and nothing chosen
    assert disagreements_of(queues, queue.id) == found
    assert [each for each in barriers(page) if each[0] in {"critical", "serious"}] == []
    assert complaints(page) == []


def test_a_label_that_was_cut_off_is_sent_again_and_stored_once(browser, site):
    run = judged(site.store, 3, prefix="d")
    queue = LabelQueues(site.store).create(run, "clarity", by="x", seed=1)
    person = Person(browser, site, queue.id, "Dora")
    dropped = []

    def drop_the_answer(route) -> None:
        """The server stores it; the browser never hears."""
        if route.request.method == "POST" and not dropped:
            dropped.append(route.fetch(max_redirects=0))
            route.abort()
        else:
            route.continue_()

    person.page.route("**/labels/**", drop_the_answer)
    form = {
        name: person.page.locator(f"[name={name}]").first.get_attribute("value")
        for name in ("form", "key", "place")
    }
    with person.page.expect_event("requestfailed"):
        person.page.keyboard.press("1")
    assert len(dropped) == 1
    again = person.context.request.post(
        f"{site.address}/labels/{queue.id}", form=form | {"answer": "value 0.2"}
    )
    assert again.ok
    labels = [each for each in _labels(site.store, queue.id) if each.by == "Dora"]
    assert len(labels) == 1
    person.context.close()


def _labels(store, queue: str):
    from trivium.store.labels import stored_labels

    return stored_labels(store, run=LabelQueues(store).get(queue).run, dimension="clarity")


def test_a_shared_link_shows_another_person_the_same(browser, page, site):
    """From a change to its worst case: filters, order and what is opened travel with the address."""
    cases = [
        {"id": f"q{n}", "input": f"{n}", "references": [f"yes {n}"], "tags": ["odd"] * (n % 2)}
        for n in range(20)
    ]
    suite = {"name": "shared", "cases": cases, "metrics": ["success"], "success": {"contains": "any"}}
    base, head = (
        tv.evaluate(
            suite,
            agent=lambda question, bad=bad: "no" if int(question) in bad else f"yes {question}",
            store=site.store,
        ).id
        for bad in ((1,), (1, 3, 5, 8))
    )
    page.goto(f"{site.address}/runs/{head}?by=tag&verdict=failed&sort=best&q=no")
    page.goto(f"{site.address}/compare/{base}/{head}")
    page.keyboard.press("j")
    page.locator("a:has-text('whole attempt'):visible").first.click()
    page.wait_for_url("**/case?**")
    for address in (
        page.url,
        f"{site.address}/runs/{head}?by=tag&verdict=failed",
        f"{site.address}/compare/{base}/{head}",
    ):
        page.goto(address)
        with browser.new_context() as context:
            other = context.new_page()
            other.goto(address)
            assert other.title() == page.title()
            assert other.locator("main").inner_text() == page.locator("main").inner_text()
            assert complaints(other) == []
