"""Disagreements in the terminal, as Markdown and on the page."""

import re

import pytest

from tests.reports import samples
from tests.reports.html.parsed import Page
from trivium.display import as_text
from trivium.reports.disagreements import render_markdown
from trivium.reports.html.page import write_html
from trivium.runs.disagreements import Disagreement, Disagreements, Opinion, Tally


def found(case="paper-101", text="openai:gpt-4o", *, left_out=0):
    opinions = (Opinion(by=text, value=0.8, reason=text), Opinion(by="people", value=None))
    return Disagreements(
        run=f"run {text}",
        suite=text,
        against=text,
        labels=text,
        tallies=(
            Tally(
                kind="people",
                dimension=text,
                compared=12,
                agreed=7,
                abstained=1,
                mean_apart=0.25,
                largest=0.5,
                leaning=-0.125,
            ),
        ),
        found=(
            Disagreement(case=case, repeat=1, dimension=text, kind="people", apart=0.5, opinions=opinions),
            Disagreement(
                case=case, repeat=0, dimension=text, kind="judges", apart=None, opinions=opinions[::-1]
            ),
        ),
        left_out=left_out,
        notes=(text,),
    )


def test_the_terminal_lists_the_farthest_apart_first():
    text = as_text(found(left_out=40), width=120)
    assert "42 disagreements, the 2 largest are shown" in text
    assert re.search(r"openai:gpt-4o +judge against people +7 of 12 +1 +0\.250 +0\.500 +−0\.125", text)
    assert re.search(r"0\.500 +paper-101 #1 +openai:gpt-4o +openai:gpt-4o 0\.800, people abstained", text)


def test_markdown_says_the_same():
    text = render_markdown(found())
    assert "| `openai:gpt-4o` | judge against people | 7 of 12 | 1 | 0.250 | 0.500 | −0.125 |" in text
    assert "| **0.500** | `paper-101 #1` | `openai:gpt-4o` | openai:gpt-4o 0.800, people abstained |" in text


def test_no_disagreement_is_reported():
    empty = Disagreements(
        run="r", suite="s", against=None, labels=None, tallies=(), found=(), left_out=0, notes=()
    )
    assert "no disagreement" in as_text(empty)
    assert "no disagreement" in render_markdown(empty)


@pytest.mark.parametrize("attack", samples.HOSTILE)
def test_hostile_texts_are_shown_and_never_obeyed(attack):
    text = as_text(found(attack, attack), width=100)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    marked = re.sub(r"`[^`]*`", "", render_markdown(found(attack, attack)))
    assert set(re.findall(r"<(\w+)", marked)) <= {"sub", "code", "br"}
    assert " @someone" not in marked


def page(tmp_path, views, row, **options):
    path = tmp_path / "report.html"
    write_html(path, samples.summary(), views, disagreements=row, **options)
    return Page(path.read_text("utf-8"))


def test_the_page_links_each_disagreement_to_its_attempt(tmp_path):
    views = samples.views(24)
    best = max(views, key=lambda view: view.composite.value or 0)
    row = found(best.case.id)
    shown = page(tmp_path, views, row, cases_shown=1)
    ids = {attributes.get("id") for _, attributes in shown.elements}
    links = [found["href"] for found in shown.all("a") if found["href"].startswith("#attempt-")]
    assert len(links) == 2
    assert {link[1:] for link in links} <= ids
    assert "#disagreements" in [found["href"] for found in shown.all("a")]
    assert len(shown.all("details", class_="attempt")) == 3  # the worst one, and those with a disagreement


def test_the_section_holds_hostile_texts_as_text(tmp_path):
    calm = page(tmp_path, samples.views(1), found())  # of one attempt no chart is drawn
    for attack in samples.HOSTILE:
        hostile = page(tmp_path, samples.views(1), found(attack, attack))
        assert hostile.tags == calm.tags
        assert hostile.open == []


def test_a_run_without_disagreements_has_no_such_section(tmp_path):
    assert "Where judges disagree" not in page(tmp_path, samples.views(2), None).text
