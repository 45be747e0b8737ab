"""Pages of agreement and certificates, held against the answers that they show."""

import re

import numpy as np
import pytest

from tests.reports.html.parsed import Page
from tests.reports.trust.test_curve_pictures import artifact, table
from trivium.reports.drawings.svg import COLOURS
from trivium.reports.trust.page import agreement_page, certificate_page, curve_page
from trivium.runs.artifacts.judge import agreement_answer, certificate
from trivium.runs.items.records import Item
from trivium.runs.items.table import ItemTable, Origin, TableBuilder


def judged(*, groups: int = 300, path: str = "sqlite:///home/someone/.trivium/store.db") -> ItemTable:
    """One verdict a group: always right where the confidence is 0.9, right by chance where it is 0.4."""
    draw = np.random.default_rng(7)
    builder = TableBuilder(
        Origin(path=path, run_id="2026-run", mode="clarity", judge="test:model"),
        word="line",
        scale=(0.0, 1.0),
    )
    for group in range(groups):
        sure, truth = group % 3 != 0, float(group % 2)
        right = sure or draw.random() < 0.5
        item = Item(
            group=str(group),
            item="i",
            pred=truth if right else 1 - truth,
            gt=truth,
            confidence=0.9 if sure else 0.4,
        )
        builder.add(item, group)
    return builder.table()


@pytest.fixture(scope="module")
def answer():
    return agreement_answer(judged(), resamples=200)


@pytest.fixture(scope="module")
def certified():
    return certificate(judged(), None)


def plain(page: str) -> str:
    return " ".join(Page(page).text.partition("Trivium trust")[2].split())


def test_the_page_of_agreement_begins_with_how_often_and_when_the_judge_may_decide(answer, certified):
    page = plain(agreement_page(answer, certified))
    exact, (low, high) = answer.exact.value, answer.exact.ci95
    first = f"agrees with people in {100 * exact:.0f} % [{100 * low:.0f}, {100 * high:.0f}] of 300 items"
    assert certified.threshold == 0.9
    decides = "may decide without a person where confidence ≥ 0.9, in 67 % of the items (at most 10 % wrong"
    assert page.index(first) < page.index(decides) < page.index("Numbers") < page.index("same label")


def test_no_promise_is_made_where_none_is_certified(answer):
    refused = certificate(judged(groups=6), None)
    page = plain(agreement_page(answer, refused))
    assert "No confidence is certified from which it may decide without a person" in page
    assert refused.reason in page
    assert "It may decide" not in page
    assert "unknown: the confidence is missing." in plain(agreement_page(answer, "the confidence is missing"))
    assert "decide" not in plain(agreement_page(answer, None))


def test_the_header_names_judge_dimension_run_and_labels_and_not_the_store(answer, certified):
    for page in (agreement_page(answer, certified), certificate_page(certified)):
        header = page.partition("<main>")[0]
        assert "test:model · clarity · run 2026-run" in header
        assert re.search(r"300 labelled (items|verdicts)", header)
        assert "sqlite" not in page


def test_the_figures_are_in_a_table_with_heads(answer):
    page = agreement_page(answer, None)
    rows = dict(
        re.findall(r'<th class="nowrap" scope="row"><bdi>(.+?)</bdi></th><td class="num">(.+?)</td>', page)
    )
    assert rows["same label"] == f"{answer.exact.value:.3f}"
    assert rows["Cohen&#x27;s κ"] == f"{answer.kappa.value:.3f}"
    assert "<pre" not in page


def test_the_page_of_a_certificate_begins_with_the_threshold(certified):
    page = plain(certificate_page(certified))
    assert page.index("Accept confidence ≥ 0.9 (at most 10 % wrong") < page.index("Numbers")


def test_every_page_is_well_formed_and_runs_nothing(answer, certified):
    one, two = artifact(table(abstain=0.2)), artifact(table(abstain=0.5), table(abstain=0.1, name="b.jsonl"))
    for text in (
        curve_page(one),
        curve_page(two),
        agreement_page(answer, certified),
        certificate_page(certified),
    ):
        page = Page(text)
        assert not {"script", "img", "link", "iframe"} & set(page.tags)
        assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
        assert all("style" not in attributes for _, attributes in page.elements)


def test_pictures_take_the_colours_of_the_page():
    page = curve_page(artifact(table(abstain=0.2)))
    drawn = "".join(re.findall(r"<svg.*?</svg>", page, re.DOTALL))
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn)) - {"none"}
    assert colours
    assert colours <= {*COLOURS.values()}


def test_the_conclusion_of_two_inputs_comes_first():
    two = artifact(table(abstain=0.5), table(abstain=0.1, name="b.jsonl"))
    page = plain(curve_page(two))
    (words,) = {each.in_words for each in two.comparison.deltas.values()}
    assert page.index(words) < page.index("Numbers")
