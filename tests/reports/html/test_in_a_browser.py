"""The pages as a reader has them: offline, from a file, wide and narrow, light and dark, clicked through."""

import importlib.util
import json
import re
from pathlib import Path

import msgspec
import pytest

from tests.browser import Tab, chromium
from tests.reports import comparison_samples as comparing
from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary, hostile_view
from tests.reports.judged_samples import judged_view
from tests.reports.trust.test_curve_pictures import artifact, table
from trivium.reports.comparison_page import write_html as write_comparison
from trivium.reports.html.case import anchor as attempt_anchor
from trivium.reports.html.page import write_html
from trivium.reports.trust.page import curve_page

pytest.importorskip("altair")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a run, of a comparison, of the same with attacks for texts, and of a risk-coverage curve."""
    folder = tmp_path_factory.mktemp("pages & <b>")
    views = [*samples.views(8), judged_view()]
    write_html(folder / "run.html", samples.summary(views), views, provenance=samples.PROVENANCE)
    attacks = [hostile_view(number) for number in range(len(samples.HOSTILE))]
    write_html(folder / "hostile.html", hostile_summary(), attacks)
    write_comparison(folder / "comparison.html", comparing.comparison())
    write_comparison(folder / "hostile-comparison.html", comparing.hostile())
    light = [samples.view(number, with_trace=False) for number in range(8)]
    many = (renamed(light[number % 8], f"case-{number:05d}", number / 5000) for number in range(5000, 0, -1))
    write_html(folder / "many.html", samples.summary(views), many)
    write_html(folder / "few.html", samples.summary(views), [samples.view(1), judged_view()])
    (folder / "trust.html").write_text(curve_page(artifact(table(abstain=0.2))), encoding="utf-8")
    return folder


def renamed(view, name, composite):
    case = msgspec.structs.replace(view.case, id=name)
    attempt = msgspec.structs.replace(view.attempt, case=name, repeat=0)
    value = msgspec.structs.replace(view.composite, value=composite)
    return msgspec.structs.replace(view, case=case, attempt=attempt, composite=value)


@pytest.fixture
def opened(browser, pages):
    tabs = []

    def open_(name):
        tabs.append(Tab(browser, pages / name))
        tabs[-1].run(UNTIL_READY)
        return tabs[-1]

    yield open_
    for tab in tabs:
        tab.close()


UNTIL_READY = """
new Promise((done) => {
  const list = document.getElementById("list");
  const look = () => {
    if (!list || (list.hasAttribute("data-ready") && !list.hasAttribute("aria-busy"))) done(true);
    else requestAnimationFrame(look);
  };
  look();
})
"""
ATTEMPTS = "Array.from(document.querySelectorAll('#list > details.attempt'))"
SHOWN = f"{ATTEMPTS}.filter(one => one.checkVisibility()).map(one => one.dataset.case)"
UNFOLD_EVERYTHING = "document.querySelectorAll('details').forEach(one => { one.open = true })"
STICKING_OUT = """
Array.from(document.querySelectorAll('body, body *')).filter(one => {
  const box = one.getBoundingClientRect();
  const held = one.closest('.scroll') && one.closest('.scroll') !== one;
  const out = box.left < -1 || box.right > innerWidth + 1;
  return box.width && out && !held && !one.closest('svg *');
}).map(one => `${one.tagName}.${one.getAttribute('class')}: ${one.getBoundingClientRect().right}`)
"""
EMPTY_PARTS = """
Array.from(document.querySelectorAll('header.top, h1, main > section, table, figure, svg')).filter(one => {
  const box = one.getBoundingClientRect();
  return one.checkVisibility() && !(box.width > 0 && box.height > 0);
}).map(one => one.outerHTML.slice(0, 80))
"""


@pytest.mark.parametrize(
    "name", ["run.html", "hostile.html", "comparison.html", "hostile-comparison.html", "trust.html"]
)
def test_a_page_is_laid_out_within_the_window_and_asks_nobody_for_anything(opened, name):
    tab = opened(name)
    for unfolded in (False, True):
        if unfolded:
            tab.run(UNFOLD_EVERYTHING)
        for width, dark in ((1280, False), (1280, True), (380, True), (380, False)):
            tab.look(width=width, dark=dark)
            assert tab.run("document.documentElement.scrollWidth") <= width
            assert tab.run(STICKING_OUT) == []
            assert tab.run(EMPTY_PARTS) == []
            background, ink = brightness(tab, "backgroundColor"), brightness(tab, "color")
            assert background < 100 < 500 < ink if dark else ink < 200 < 600 < background
    assert tab.requests[0].startswith("file://")
    assert all(address.startswith("data:image/") for address in tab.requests[1:])
    assert tab.complaints == []


def brightness(tab, of):
    """Of the body's paper or ink: red, green and blue, from 0 to 765."""
    parts = tab.run(f"getComputedStyle(document.body).{of}").strip("rgb()").split(",")
    return sum(int(part) for part in parts)


def test_attempts_are_found_chosen_ordered_and_unfolded(opened):
    tab = opened("run.html")
    everyone = tab.run(f"{ATTEMPTS}.map(one => one.dataset.case)")
    assert len(everyone) == 9
    assert tab.run(SHOWN) == everyone
    verdicts = tab.run(f"{ATTEMPTS}.map(one => one.dataset.verdict)")
    for verdict in ("failed", "passed", ""):
        tab.run(f"verdict.value = {json.dumps(verdict)}, verdict.dispatchEvent(new Event('change'))")
        wanted = [
            case for case, said in zip(everyone, verdicts, strict=True) if not verdict or said == verdict
        ]
        assert tab.run(SHOWN) == wanted
        told = f"1–{len(wanted)} of {len(wanted)}" + ("" if len(wanted) == 9 else " found, 9 in all")
        assert tab.run("document.getElementById('count').textContent") == told
    tab.type("#find", everyone[3].upper())
    assert tab.run(SHOWN) == [case for case in everyone if everyone[3].lower() in case.lower()]
    field = "document.getElementById('find')"
    tab.run(f"{field}.value = '', {field}.dispatchEvent(new Event('input'))")
    tab.run("order.value = 'best', order.dispatchEvent(new Event('change'))")
    assert tab.run(SHOWN) == everyone[::-1]
    tab.click("#unfold")
    assert tab.run(f"{ATTEMPTS}.every(one => one.open)") is True
    tab.click("#unfold")
    assert tab.run(f"{ATTEMPTS}.some(one => one.open)") is False
    tab.click("#list > details.attempt > summary")
    assert tab.run(f"{ATTEMPTS}.map(one => one.open)") == [True, *[False] * 8]
    assert tab.complaints == []


def test_every_link_leads_to_a_part_of_the_page(opened):
    tab = opened("run.html")
    links = tab.run("Array.from(document.querySelectorAll('a'), one => one.getAttribute('href'))")
    assert links
    assert tab.run(
        "Array.from(document.querySelectorAll('a')).every(one => document.querySelector(one.hash))"
    )
    tab.click(f'nav a[href="{links[-1]}"]')
    assert tab.run("location.hash") == links[-1]
    assert 0 <= tab.run(f"document.querySelector('{links[-1]}').getBoundingClientRect().top") < 900


def test_a_link_to_an_attempt_opens_it(opened):
    tab = opened("run.html")
    anchor = tab.run("document.querySelectorAll('#list .inside')[4].id")
    tab.run(
        f"new Promise(heard => {{ addEventListener('hashchange', heard); location.hash = '{anchor}' }}) && 0"
    )
    tab.run("new Promise(requestAnimationFrame)")
    assert tab.run(f"{ATTEMPTS}.map(one => one.open)") == [False] * 4 + [True] + [False] * 4


def test_attacks_are_texts_in_a_browser(opened):
    tab = opened("hostile.html")
    tab.run(UNFOLD_EVERYTHING)
    assert tab.run("Array.from(document.scripts).filter(one => !one.type).length") == 1
    assert tab.run("document.querySelectorAll('img, iframe, object, embed, link, form, base').length") == 0
    found = tab.run("Array.from(document.querySelectorAll('*')).flatMap(one => one.getAttributeNames())")
    assert not [name for name in found if name.startswith("on")]
    assert tab.complaints == []


COUNT = "document.getElementById('count').textContent"


def change(tab, field, value):
    event = "input" if field == "find" else "change"
    element = f"document.getElementById('{field}')"
    tab.run(f"{element}.value = {json.dumps(value)}, {element}.dispatchEvent(new Event('{event}'))")
    tab.run(UNTIL_READY)


def test_of_5000_cases_every_one_is_found_ordered_and_paged_through(opened):
    tab = opened("many.html")
    assert tab.run(COUNT) == "1–10 of 5,000"
    for name in ("case-00001", "case-02500", "case-05000"):
        change(tab, "find", name)
        assert tab.run(SHOWN) == [name]
        assert tab.run(COUNT) == "1–1 of 1 found, 5,000 in all"
    change(tab, "find", "")
    change(tab, "order", "case")
    assert tab.run(SHOWN) == [f"case-{number:05d}" for number in range(1, 11)]
    change(tab, "order", "best")
    verdicts = [samples.view(number, with_trace=False).verdict for number in range(8)]
    best = max(number for number in range(1, 5001) if verdicts[number % 8] == "passed")
    assert tab.run(SHOWN)[0] == f"case-{best:05d}"
    change(tab, "order", "worst")
    errors = [number for number in range(1, 5001) if verdicts[number % 8] == "error"]
    assert tab.run(SHOWN) == [f"case-{number:05d}" for number in errors[:10]]
    change(tab, "order", "by jaccard")
    lowest = {number: samples.view(number, with_trace=False).scores["jaccard"].value for number in range(8)}
    least = min((value, number) for number, value in lowest.items() if value is not None)[1]
    assert all(int(name[5:]) % 8 == least for name in tab.run(SHOWN))
    change(tab, "order", "case")
    change(tab, "verdict", "passed")
    passed = [number for number in range(1, 5001) if verdicts[number % 8] == "passed"]
    assert tab.run(COUNT) == f"1–10 of {len(passed):,} found, 5,000 in all"
    change(tab, "size", "25")
    tab.click("#next")
    tab.run(UNTIL_READY)
    assert tab.run(SHOWN) == [f"case-{number:05d}" for number in passed[25:50]]
    tab.click("#list > details.attempt:nth-child(3) > summary")
    assert samples.PAPER[:40] in tab.run("document.querySelector('#list > details[open]').innerText")
    assert tab.complaints == []
    assert len(tab.requests) == 1


def test_the_verdicts_to_choose_from_say_how_many_of_all_cases_there_are(opened):
    tab = opened("many.html")
    found = tab.run("Array.from(document.getElementById('verdict').options, one => one.textContent)")
    counts = {
        label: int(count.replace(",", ""))
        for label, count in re.findall(r"(\D+) \(([\d,]+)\)", "\n".join(found))
    }
    assert counts.pop("all") == 5000 == sum(counts.values())


def test_a_link_to_a_case_that_is_not_on_the_page_unpacks_and_opens_it(opened):
    tab = opened("many.html")
    name = attempt_anchor("case-02345", 0)
    tab.run(f"location.hash = '{name}'")
    tab.run(
        "new Promise(done => { const look = () => document.querySelector('#list > details[open]')"
        " ? done(1) : requestAnimationFrame(look); look(); })"
    )
    assert tab.run("document.querySelector('#list > details[open] > .inside').id") == name
    assert tab.run("document.querySelector('#list > details[open]').dataset.case") == "case-02345"


def test_paper_shows_what_is_folded_on_the_screen(opened):
    tab = opened("few.html")
    hidden = (
        "Array.from(document.querySelectorAll('.inside, .provenance'))"
        ".filter(one => !one.checkVisibility()).length"
    )
    assert tab.run(hidden)
    assert tab.print().startswith(b"%PDF")
    assert tab.run("document.querySelectorAll('#list > details[open]').length") == 0, (
        "folded again afterwards"
    )
    tab.run("dispatchEvent(new Event('beforeprint')), 0")
    tab.as_printed()
    assert tab.run(hidden) == 0
    assert tab.run("getComputedStyle(document.querySelector('.controls')).display") == "none"
    assert tab.complaints == []


@pytest.mark.parametrize("name", ["few.html", "many.html", "comparison.html", "trust.html"])
def test_axe_finds_nothing_serious(opened, name):
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None:
        pytest.skip("axe-playwright-python, which holds axe-core, is not installed")
    tab = opened(name)
    tab.run((Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8") + "; 0")
    for dark in (False, True):
        tab.look(width=1280, dark=dark)
        violations = tab.run(
            "axe.run().then(found => found.violations.map(one => "
            "[one.impact, one.id, one.nodes.map(node => node.html.slice(0, 120))]))"
        )
        assert [one for one in violations if one[0] in {"serious", "critical"}] == []
