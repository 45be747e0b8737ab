"""The page of a comparison, taken apart as a browser would."""

import base64
import hashlib
import re

import pytest

from tests.reports import comparison_samples as samples
from tests.reports.html.parsed import Page
from trivium.errors import InputError
from trivium.reports.comparison import write_html
from trivium.runs.comparing.moved_cases import MovedCases


def written(path, comparison):
    write_html(path, comparison)
    return path.read_text("utf-8")


@pytest.fixture(params=["calm", "hostile"])
def text(request, tmp_path):
    made = samples.comparison() if request.param == "calm" else samples.hostile()
    return written(tmp_path / "page.html", made)


def test_it_is_well_formed_and_has_a_plot_and_tables(text):
    page = Page(text)
    assert page.open == []
    assert {"h1", "table", "svg", "circle"} <= set(page.tags)
    assert "script" not in page.tags


def test_it_asks_the_network_for_nothing_and_its_policy_allows_its_style_alone(text):
    page = Page(text)
    outward = [
        value for _, found in page.elements for name, value in found.items() if name in {"src", "href"}
    ]
    assert outward == []
    (policy,) = [each["content"] for each in page.all("meta", http_equiv="Content-Security-Policy")]
    digest = base64.b64encode(hashlib.sha256("".join(page.content["style"]).encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy
    assert "script-src 'none'" in policy
    assert "style=" not in re.sub(r"<style>.*</style>", "", text, flags=re.DOTALL)


def test_it_says_the_answer_every_figure_and_what_is_missing(tmp_path):
    text = Page(written(tmp_path / "page.html", samples.comparison())).text
    for words in (
        "? Likely not worse (75 %)",
        "coordination_quality",
        "−0.090",
        "[−0.120, −0.060]",
        "Cases only in head (2)",
        "q9",
    ):
        assert words in text


def test_what_did_not_happen_has_no_section(tmp_path):
    text = Page(
        written(
            tmp_path / "page.html",
            samples.comparison(moved_cases=MovedCases(), only_base=(), only_head=(), warnings=()),
        )
    ).text
    assert "What changed" not in text
    assert "Cases only in" not in text


def test_texts_of_strangers_are_escaped(tmp_path):
    assert "<script>alert" not in written(tmp_path / "page.html", samples.hostile())


def test_a_file_that_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write_html(tmp_path / "nowhere" / "page.html", samples.comparison())
