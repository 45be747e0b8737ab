import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reports import samples
from tests.reports.html.parsed import Page
from trivium.reports.html.markdown import rendered

ELEMENTS = {
    *("p", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "hr", "br", "div"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}

MARKDOWN = st.lists(
    st.sampled_from(
        [
            *samples.HOSTILE,
            *(
                "# ",
                "\n\n",
                "\n",
                "* ",
                "1. ",
                "> ",
                "```",
                "`",
                "**",
                "_",
                "~~",
                "|",
                "---|---\n",
                "    ",
                "\\",
            ),
            *(
                "[a](",
                "![b](",
                ")",
                "<http://a.example>",
                "javascript:x",
                "&lt;",
                "&#60;script&#62;",
                "data:text/html,x",
            ),
            *("word", '"title"', "{.class onclick=x}", "[r]: http://x.example\n\n[r]"),
        ]
    ),
    max_size=25,
).map("".join)


@settings(max_examples=200)
@given(MARKDOWN)
def test_whatever_is_written_only_harmless_elements_without_attributes_come_out(text):
    html = rendered(f"# Title\n\n{text}")
    page = Page(str(html))
    assert set(page.tags) <= ELEMENTS
    assert all(attributes == {} for _, attributes in page.elements)
    assert page.open == []
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f\x7f-\x9f]", html)


def test_the_common_parts_of_markdown_are_rendered():
    html = rendered(
        "# Head\n\nsome **bold** text\n\n- one\n- two\n\n"
        "| a | b |\n|--:|---|\n| 1 | 2 |\n\n```py\nx < y\n```\n"
    )
    page = Page(html)
    text, table = "div p strong ul li li", "table thead tr th th tbody tr td td"
    assert page.tags == f"{text} {table} pre code".split()
    assert "x < y" in page.text


def test_links_are_text_with_their_address_and_pictures_are_not_loaded():
    text = Page(rendered("**see** [here](http://a.example/x) and ![a cat](http://b.example/cat.png)")).text
    assert text.strip() == "see here (http://a.example/x) and [picture: a cat http://b.example/cat.png]"


def test_html_stays_text():
    assert "<b onclick=x>hi</b>" in Page(rendered("**a** <b onclick=x>hi</b>")).text


@pytest.mark.parametrize(
    "text", ["Lima", "a sentence. Another, with 3 * 4 and snake_case_names.", "", None, {"a": 1}, 4]
)
def test_what_is_not_markdown_is_not_rendered(text):
    assert rendered(text) is None


def test_a_long_text_is_cut():
    assert len(rendered("**bold** " + "x" * 1_000_000)) < 25_000
