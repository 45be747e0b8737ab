"""Moved cases in a terminal, on the page, in a comment and in a notebook."""

import re

import pytest
from rich.cells import cell_len

from tests.reports import comparison_samples
from tests.reports import moved_case_samples as samples
from tests.reports.html.parsed import Page
from trivium.display import as_text
from trivium.errors import InputError
from trivium.reports.comparison import describe, render_markdown, write_html
from trivium.reports.document.markdown import COMMENT_CHARS
from trivium.reports.document.terminal import Printed
from trivium.reports.html.case import anchor
from trivium.runs.comparing.moved_cases import MovedCases


def comparison(moved):
    return comparison_samples.comparison(moved_cases=moved)


def many(count, output="Lima", **fields):
    return samples.moved_cases(
        *(
            samples.moved_case(f"q{at}", samples.scored(output), samples.scored(f"{output} {at}"), **fields)
            for at in range(count)
        )
    )


def terminal(moved, cases=3, **options):
    return as_text(Printed(describe(comparison(moved), "terminal", cases=cases)), **options)


def page(tmp_path, moved, **options):
    write_html(tmp_path / "page.html", comparison(moved), **options)
    return (tmp_path / "page.html").read_text("utf-8")


# Everywhere


def test_every_surface_says_whether_a_case_broke_or_is_flaky(tmp_path):
    counts = {"base_passes": 6, "base_attempts": 6, "base_earlier": 3, "head_attempts": 3}
    cases = [
        samples.moved_case(
            name, samples.scored("a"), samples.scored("b"), tried=counts | {"state": state} | some
        )
        for name, state, some in (
            ("q1", "broke", {}),
            ("q2", "flaky", {"head_passes": 2}),
            ("q3", "unclear", {"base_attempts": 1, "base_earlier": 0, "head_attempts": 1}),
        )
    ]
    moved = samples.moved_cases(*cases)
    surfaces = {
        "terminal": terminal(moved, width=120),
        "markdown": render_markdown(comparison(moved)),
        "page": page(tmp_path, moved),
        "notebook": comparison(moved)._repr_mimebundle_()["text/html"],
    }
    marks = {"terminal": "↓~↓", "markdown": "🔴🟡🟡", "page": "↓~↓", "notebook": "↓~↓"}
    for name, shown in surfaces.items():
        for mark, words in zip(
            marks[name],
            (
                "broke: passed 6 of 6 (3 in other runs), then 0 of 3",
                "flaky: passed 6 of 6 (3 in other runs), then 2 of 3",
                "unclear: one attempt a side",
            ),
            strict=True,
        ):
            for part in (
                [words] if name != "page" else [f"{mark} {words.split(':')[0]}", words.split(": ")[1]]
            ):
                assert part in shown, (name, part)
            assert mark in shown


# Terminal


def test_the_terminal_shows_question_reference_outputs_reasons_and_calls():
    lines = [line.strip() for line in terminal(samples.calm()).splitlines()]
    start = lines.index("↓ q3  passed → not passed")
    assert [re.sub(r"\s{2,}", "  ", line) for line in lines[start + 1 : start + 10]] == [
        "input  What is the capital of Peru?",
        "reference  Lima",
        "base  The capital of Peru is [-Lima-].",
        "head  The capital of Peru is {+Cusco+}.",
        "clarity  base 1.000: It is right.",
        "head 0.000: Cusco is not the capital.",
        'tool calls  search(q: "search peru")',
        '− read(q: "read lima")',
        '+ search(q: "search peru")',
    ]
    assert "failed: TimeoutError" in lines[lines.index("↑ q4  error → passed") + 3]


def test_outputs_that_differ_wholly_need_no_brackets():
    text = terminal(
        samples.moved_cases(samples.moved_case("q", samples.scored("Lima"), samples.scored("no idea")))
    )
    assert "[-" not in text
    assert "{+" not in text


def test_the_terminal_shows_so_many_cases_and_counts_the_others():
    assert terminal(many(5), cases=2).count("↓ q") == 2
    assert "3 further cases not shown (--cases 5, --html)" in terminal(many(5), cases=2)
    assert "not shown" not in terminal(many(5), cases=5)
    assert "5 of 60 cases moved" in terminal(many(5), cases=0)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("moved", [samples.calm(), samples.hostile(), many(2, output="長" * 900)])
def test_it_fits_the_terminal(moved, width):
    assert max(cell_len(line) for line in terminal(moved, width=width).splitlines()) <= width


def test_no_text_moves_the_cursor():
    text = terminal(samples.hostile())
    assert "\x1b" not in text
    assert "\u202e" not in text


# Page


def test_the_page_marks_differences_by_elements_and_not_by_colour_alone(tmp_path):
    text = page(tmp_path, samples.calm())
    assert "The capital of Peru is <del>Lima</del>." in text
    assert "The capital of Peru is <ins>Cusco</ins>." in text
    assert "<del>− read(q: &quot;read lima&quot;)</del>" in text
    style = "".join(Page(text).content["style"])
    assert "line-through" in style
    assert "[removed: " in style


def test_the_page_holds_all_cases_in_folded_pages(tmp_path):
    text = page(tmp_path, many(73))
    assert text.count('<details class="attempt moved"') == 73
    assert re.findall(r"<summary>(Cases [^<]*)<", text) == ["Cases 11 to 60 of 73", "Cases 61 to 73 of 73"]
    assert Page(text).open == []


def test_the_page_links_every_case_to_the_pages_of_both_runs(tmp_path):
    text = page(tmp_path, samples.calm(), links={"base": "a b.html", "head": "b.html", "Judge": "j.html"})
    at = anchor("q3", 0)
    for link in ("a%20b.html", "b.html", "j.html", f"a%20b.html#{at}", f"b.html#{at}"):
        assert f'href="{link}"' in text
    assert "href" not in page(tmp_path, samples.calm())


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "data:text/html,x", "//else.where/x", "file:///etc/x"]
)
def test_a_link_that_could_run_or_read_something_is_refused(tmp_path, link):
    with pytest.raises(InputError, match="expected a relative path"):
        page(tmp_path, samples.calm(), links={"base": link})


def test_texts_of_strangers_are_shown_and_never_obeyed(tmp_path):
    text = page(tmp_path, samples.hostile())
    assert "<script>alert" not in text
    assert "\u202e" not in text
    assert "[U+202E]" in text
    assert Page(text).open == []


# Markdown


def test_a_comment_folds_the_first_cases():
    text = render_markdown(comparison(many(9)))
    assert text.count("<details>") == text.count("</details>") == 5
    assert "4 further cases not shown" in text
    assert render_markdown(comparison(many(9)), cases=2).count("<details>") == 2
    assert "| **head** | Lima<ins> 0</ins> |" in text


def test_a_comment_is_never_longer_than_a_comment_may_be():
    moved = many(40, output="*[`|<&" * 400, case={"input": "<" * 2_000, "references": ("|" * 2_000,) * 3})
    text = render_markdown(comparison(moved), cases=40)
    assert 0.8 * COMMENT_CHARS < len(text) <= COMMENT_CHARS
    shown = text.count("<details>")
    assert 0 < shown < 40
    assert f"{40 - shown} further cases not shown" in text


def test_no_text_leaves_its_cell_or_its_fold():
    text = render_markdown(comparison(samples.hostile()))
    assert text.count("</details>") == 2
    assert not [line for line in text.splitlines() if line.startswith(("# head", "</details> "))]
    assert "@all" not in text
    assert "\u202e" not in text


# Notebook


def test_a_notebook_folds_the_first_cases():
    html = comparison(many(9))._repr_mimebundle_()["text/html"]
    assert html.count("<details>") == 5
    assert "4 further cases not shown; comparison.moved_cases has all" in html
    assert "<del" in comparison(samples.calm())._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("surface", ["terminal", "markdown", "notebook"])
def test_texts_that_cannot_be_read_are_said_not_to_be(surface):
    moved = MovedCases(by=("pass_rate",), compared=60, worse=1, changes=samples.calm().changes[:1])
    made = comparison(moved)
    text = {
        "terminal": str,
        "markdown": render_markdown,
        "notebook": lambda each: each._repr_mimebundle_()["text/html"],
    }[surface](made)
    assert "outputs cannot be read" in text
