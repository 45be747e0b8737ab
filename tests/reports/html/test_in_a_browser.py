"""The pages as a reader has them: offline, from a file, wide and narrow, light and dark, clicked through."""

import json

import pytest

from tests.browser import Tab, chromium
from tests.reports import comparison_samples as comparing
from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary, hostile_view
from tests.reports.judged_samples import judged_view
from tests.reports.trust.test_curve_pictures import artifact, table
from trivium.reports.comparison_page import write_html as write_comparison
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
    (folder / "trust.html").write_text(curve_page(artifact(table(abstain=0.2))), encoding="utf-8")
    return folder


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
