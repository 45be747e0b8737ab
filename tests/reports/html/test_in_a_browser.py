"""The pages as a reader has them: offline, from a file, wide and narrow, light and dark, clicked through."""

import json
import re

import msgspec
import pytest

from tests.browser import NARROW, WIDE, barriers, complaints, look, show, until_ready
from tests.reports import comparison_samples as comparing
from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary, hostile_view
from tests.reports.judged_samples import judged_view
from tests.reports.trust.test_curve_pictures import artifact, table
from trivium.reports.comparison import write_html as write_comparison
from trivium.reports.html.case import anchor as attempt_anchor
from trivium.reports.html.page import write_html
from trivium.reports.trust.page import curve_page

pytest.importorskip("jinja2")

MANY = 1_200
"""Cases of a page that has more of them than it shows."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of a run, of a comparison, of the same with attacks for texts, and of a risk-coverage curve."""
    folder = tmp_path_factory.mktemp("pages & <b>")
    views = samples.worst_first([*samples.views(8), judged_view()])
    write_html(folder / "run.html", samples.summary(views), views, provenance=samples.PROVENANCE)
    attacks = [hostile_view(number) for number in range(len(samples.HOSTILE))]
    write_html(folder / "hostile.html", hostile_summary(), attacks)
    write_comparison(folder / "comparison.html", comparing.comparison())
    write_comparison(folder / "hostile-comparison.html", comparing.hostile())
    light = [with_one_score(samples.view(number, with_trace=False)) for number in range(8)]
    many = (renamed(light[number % 8], f"case-{number:05d}", number / MANY) for number in range(MANY, 0, -1))
    write_html(folder / "many.html", samples.summary(views), many)
    write_html(folder / "few.html", samples.summary(views), [samples.view(1), judged_view()])
    (folder / "trust.html").write_text(curve_page(artifact(table(abstain=0.2))), encoding="utf-8")
    return folder


def with_one_score(view):
    """So that many of them are soon written."""
    return msgspec.structs.replace(view, scores={"jaccard": view.scores["jaccard"]})


def renamed(view, name, composite):
    case = msgspec.structs.replace(view.case, id=name)
    attempt = msgspec.structs.replace(view.attempt, case=name, repeat=0)
    value = msgspec.structs.replace(view.composite, value=composite)
    return msgspec.structs.replace(view, case=case, attempt=attempt, composite=value)


ATTEMPTS = "Array.from(document.querySelectorAll('#list > details.attempt'))"
PAPER = 740
"""Pixels of a sheet."""
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
CUT_OFF = """
Array.from(document.querySelectorAll('.text, pre, .scroll')).filter(one =>
  one.checkVisibility() &&
  (one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1)
).map(one => one.outerHTML.slice(0, 80))
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
def test_a_page_is_laid_out_within_the_window_and_asks_nobody_for_anything(page, pages, name):
    show(page, pages / name)
    for unfolded in (False, True):
        if unfolded:
            page.evaluate(UNFOLD_EVERYTHING)
        for width, dark in ((WIDE, False), (NARROW, True)):
            look(page, width=width, dark=dark)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(STICKING_OUT) == []
            assert page.evaluate(EMPTY_PARTS) == []
            background, ink = brightness(page, "backgroundColor"), brightness(page, "color")
            assert background < 100 < 500 < ink if dark else ink < 200 < 600 < background
    first, *others = (each.url for each in page.requests())
    assert first.startswith("file://")
    assert all(address.startswith("data:image/") for address in others)
    assert complaints(page) == []


def brightness(page, of):
    """Of the body's paper or ink: red, green and blue, from 0 to 765."""
    parts = page.evaluate(f"getComputedStyle(document.body).{of}").strip("rgb()").split(",")
    return sum(int(part) for part in parts)


def test_attempts_are_found_chosen_ordered_and_unfolded(page, pages):
    show(page, pages / "run.html")
    everyone = page.evaluate(f"{ATTEMPTS}.map(one => one.dataset.case)")
    assert len(everyone) == 9
    assert page.evaluate(SHOWN) == everyone
    verdicts = page.evaluate(f"{ATTEMPTS}.map(one => one.dataset.verdict)")
    for verdict in ("failed", "passed", ""):
        page.evaluate(f"verdict.value = {json.dumps(verdict)}, verdict.dispatchEvent(new Event('change'))")
        wanted = [
            case for case, said in zip(everyone, verdicts, strict=True) if not verdict or said == verdict
        ]
        assert page.evaluate(SHOWN) == wanted
        told = f"1–{len(wanted)} of {len(wanted)}" + ("" if len(wanted) == 9 else " found, 9 in all")
        assert page.evaluate("document.getElementById('count').textContent") == told
    page.type("#find", everyone[3].upper())
    assert page.evaluate(SHOWN) == [case for case in everyone if everyone[3].lower() in case.lower()]
    field = "document.getElementById('find')"
    page.evaluate(f"{field}.value = '', {field}.dispatchEvent(new Event('input'))")
    page.evaluate("order.value = 'best', order.dispatchEvent(new Event('change'))")
    assert page.evaluate(SHOWN) == everyone[::-1]
    page.click("#unfold")
    assert page.evaluate(f"{ATTEMPTS}.every(one => one.open)") is True
    page.click("#unfold")
    assert page.evaluate(f"{ATTEMPTS}.some(one => one.open)") is False
    page.click("#list > details.attempt > summary")
    assert page.evaluate(f"{ATTEMPTS}.map(one => one.open)") == [True, *[False] * 8]
    assert complaints(page) == []


def test_every_link_leads_to_a_part_of_the_page(page, pages):
    show(page, pages / "run.html")
    links = page.evaluate("Array.from(document.querySelectorAll('a'), one => one.getAttribute('href'))")
    assert links
    assert page.evaluate(
        "Array.from(document.querySelectorAll('a')).every(one => document.querySelector(one.hash))"
    )
    page.click(f'nav a[href="{links[-1]}"]')
    assert page.evaluate("location.hash") == links[-1]
    assert 0 <= page.evaluate(f"document.querySelector('{links[-1]}').getBoundingClientRect().top") < 900


def test_a_link_to_an_attempt_opens_it(page, pages):
    show(page, pages / "run.html")
    anchor = page.evaluate("document.querySelectorAll('#list .inside')[4].id")
    page.evaluate(
        f"new Promise(heard => {{ addEventListener('hashchange', heard); location.hash = '{anchor}' }}) && 0"
    )
    page.evaluate("new Promise(requestAnimationFrame)")
    assert page.evaluate(f"{ATTEMPTS}.map(one => one.open)") == [False] * 4 + [True] + [False] * 4


def test_attacks_are_texts_in_a_browser(page, pages):
    show(page, pages / "hostile.html")
    page.evaluate(UNFOLD_EVERYTHING)
    assert page.evaluate("Array.from(document.scripts).filter(one => !one.type).length") == 1
    assert (
        page.evaluate("document.querySelectorAll('img, iframe, object, embed, link, form, base').length") == 0
    )
    found = page.evaluate(
        "Array.from(document.querySelectorAll('*')).flatMap(one => one.getAttributeNames())"
    )
    assert not [name for name in found if name.startswith("on")]
    assert complaints(page) == []


COUNT = "document.getElementById('count').textContent"


def change(page, field, value):
    event = "input" if field == "find" else "change"
    element = f"document.getElementById('{field}')"
    page.evaluate(f"{element}.value = {json.dumps(value)}, {element}.dispatchEvent(new Event('{event}'))")
    until_ready(page)


def test_of_many_cases_every_one_is_found_ordered_and_paged_through(page, pages):
    show(page, pages / "many.html")
    assert page.evaluate(COUNT) == f"1–10 of {MANY:,}"
    for name in ("case-00001", f"case-{MANY // 2:05d}", f"case-{MANY:05d}"):
        change(page, "find", name)
        assert page.evaluate(SHOWN) == [name]
        assert page.evaluate(COUNT) == f"1–1 of 1 found, {MANY:,} in all"
    change(page, "find", "")
    change(page, "order", "case")
    assert page.evaluate(SHOWN) == [f"case-{number:05d}" for number in range(1, 11)]
    change(page, "order", "best")
    verdicts = [samples.view(number, with_trace=False).verdict for number in range(8)]
    best = max(number for number in range(1, MANY + 1) if verdicts[number % 8] == "passed")
    assert page.evaluate(SHOWN)[0] == f"case-{best:05d}"
    change(page, "order", "worst")
    errors = [number for number in range(1, MANY + 1) if verdicts[number % 8] == "error"]
    assert page.evaluate(SHOWN) == [f"case-{number:05d}" for number in errors[:10]]
    change(page, "order", "by jaccard")
    lowest = {number: samples.view(number, with_trace=False).scores["jaccard"].value for number in range(8)}
    least = min((value, number) for number, value in lowest.items() if value is not None)[1]
    assert all(int(name[5:]) % 8 == least for name in page.evaluate(SHOWN))
    change(page, "order", "case")
    change(page, "verdict", "passed")
    passed = [number for number in range(1, MANY + 1) if verdicts[number % 8] == "passed"]
    assert page.evaluate(COUNT) == f"1–10 of {len(passed):,} found, {MANY:,} in all"
    change(page, "size", "25")
    page.click("#next")
    until_ready(page)
    assert page.evaluate(SHOWN) == [f"case-{number:05d}" for number in passed[25:50]]
    page.click("#list > details.attempt:nth-child(3) > summary")
    assert samples.PAPER[:40] in page.evaluate("document.querySelector('#list > details[open]').innerText")
    assert complaints(page) == []
    assert len(page.requests()) == 1


def test_the_verdicts_to_choose_from_say_how_many_of_all_cases_there_are(page, pages):
    show(page, pages / "many.html")
    found = page.evaluate("Array.from(document.getElementById('verdict').options, one => one.textContent)")
    counts = {
        label: int(count.replace(",", ""))
        for label, count in re.findall(r"(\D+) \(([\d,]+)\)", "\n".join(found))
    }
    assert counts.pop("all") == MANY == sum(counts.values())


def test_a_link_to_a_case_that_is_not_on_the_page_unpacks_and_opens_it(page, pages):
    show(page, pages / "many.html")
    name = attempt_anchor("case-00345", 0)
    page.evaluate(f"location.hash = '{name}'")
    page.evaluate(
        "new Promise(done => { const look = () => document.querySelector('#list > details[open]')"
        " ? done(1) : requestAnimationFrame(look); look(); })"
    )
    assert page.evaluate("document.querySelector('#list > details[open] > .inside').id") == name
    assert page.evaluate("document.querySelector('#list > details[open]').dataset.case") == "case-00345"


def test_paper_shows_what_is_folded_on_the_screen(page, pages):
    show(page, pages / "few.html")
    hidden = (
        "Array.from(document.querySelectorAll('.inside, .provenance'))"
        ".filter(one => !one.checkVisibility()).length"
    )
    assert page.evaluate(hidden)
    assert page.pdf(print_background=True).startswith(b"%PDF")
    assert page.evaluate("document.querySelectorAll('#list > details[open]').length") == 0, (
        "folded again afterwards"
    )
    page.evaluate("dispatchEvent(new Event('beforeprint')), 0")
    look(page, width=PAPER)
    page.emulate_media(media="print")
    assert page.evaluate(hidden) == 0
    assert page.evaluate(CUT_OFF) == []
    assert page.evaluate("getComputedStyle(document.querySelector('.controls')).display") == "none"
    assert complaints(page) == []


@pytest.mark.parametrize("name", ["few.html", "many.html", "comparison.html", "trust.html"])
def test_axe_finds_nothing_that_bars_anyone(page, pages, name):
    show(page, pages / name)
    if name != "many.html":  # unfolded, its cases are those of the other page
        page.evaluate(UNFOLD_EVERYTHING)
    for width, dark in ((WIDE, False), (NARROW, True)):
        look(page, width=width, dark=dark)
        assert barriers(page) == []
