import html
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.reports import samples
from tests.reports.hostile_samples import hostile_summary
from trivium.reports.document.markdown import code, prose
from trivium.reports.summary import render_markdown
from trivium.runs.summary import AgentTotals

texts = st.text(max_size=80) | st.text("`|\\<>&@#*_[]()!~: \n$wx.h/", max_size=40)
OURS = {"details", "/details", "summary", "/summary", "sub", "/sub", "code", "/code"}


def tokens(text):
    parsed = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])
    for block in parsed.parse(text):
        yield block
        yield from block.children or []


def html_tags(text):
    for token in tokens(text):
        if token.type.startswith("html"):
            yield from re.findall(r"<([^\s>]+)", token.content)


def harmless(text):
    kinds = {token.type for token in tokens(text)}
    return not kinds & {"link_open", "image", "s_open", "em_open"} and set(html_tags(text)) <= OURS


def shown(text):
    """What a reader sees of one paragraph."""

    return "".join(
        html.unescape(token.content) if token.type in {"text", "code_inline", "text_special"} else ""
        for token in tokens(text)
        if not re.match(r"inline|paragraph", token.type)
    )


@settings(deadline=None)
@given(texts)
def test_code_is_shown_as_it_is_and_is_never_markup(text):
    span = code(text)
    assert harmless(span)
    assert "|" not in span.replace("\\|", "")


@settings(deadline=None)
@given(texts)
def test_prose_is_never_markup_never_a_mention_never_a_link(text):
    written = prose(text)
    assert harmless("x " + written)
    assert not any(token.type == "code_inline" for token in tokens("x " + written))
    assert not re.search("://[^\\s\u200b]", written)
    seen = "".join(token.content for token in tokens("x " + written) if token.type.startswith("text"))
    assert not re.search(r"@\w", seen)


@pytest.mark.parametrize(
    "text",
    ["http://evil.example/x", "see HTTPS://evil.example", "ftp://evil.example", "www.evil.example",
     "WWW.evil.example", "@everyone", "#12", "GH-12", "gh-12"],
)  # fmt: skip
def test_no_address_mention_or_number_becomes_a_link(text):
    # What GitHub makes links of by itself: a scheme, "www.", a mention, the number of an issue.
    becomes_a_link = re.compile(r"\w+://[^\s\u200b]|www\.|@\w|#\d|GH-\d", re.IGNORECASE)
    assert becomes_a_link.search(text)
    assert not becomes_a_link.search(prose(text))
    assert shown("x " + prose(text)).replace("\u200b", "") == "x " + text


@pytest.mark.parametrize("text", ["paper-101 #1", "a_b", "x | y", "tick ` tick", "back\\slash", "<b>"])
def test_code_reads_as_the_text(text):
    assert shown(code(text)) == text


@pytest.mark.parametrize("text", ["it's 3 < 4 & 5", "pip install x[y]", "a_b_c *d*", "1. one"])
def test_prose_reads_as_the_text(text):
    assert shown("x " + prose(text)) == "x " + text


def test_every_row_of_a_table_has_the_cells_of_its_head():
    for summary in (samples.summary(), hostile_summary()):
        width = 0
        cells = 0
        for token in tokens(render_markdown(summary)):
            if token.type == "thead_open":
                width = 0
            if token.type == "th_open":
                width += 1
            if token.type == "tr_open":
                cells = 0
            if token.type == "td_open":
                cells += 1
            if token.type == "tr_close" and cells:
                assert cells == width
        assert width == 6


def test_a_hostile_summary_adds_no_markup():
    assert harmless(render_markdown(hostile_summary()))


def test_the_answer_comes_first_and_failures_and_reservations_are_folded():
    text = render_markdown(samples.summary())
    order = [
        "❌ fail",
        "| **pass rate** | **",
        "<details><summary>did not pass (15 of 15",
        "| metric |",
        "<details><summary>2 reservations",
        "<sub>seed 42",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert text.index("similarity is a fallback") > text.index("2 reservations</summary>")


def test_the_agents_own_latency_tokens_and_cost_are_there():
    totals = AgentTotals(
        attempts=4, timed=4, latency_p50=1.25, latency_p95=3.0, input_tokens=1200, output_tokens=80,
        with_tokens=3, cost_usd=0.5, with_cost=4,
    )  # fmt: skip
    assert (
        "**agent** latency p50 1.2 s, p95 3.0 s · 1,200 input tokens, 80 output tokens (3 of 4 attempts) · "
    ) in render_markdown(samples.summary(agent=totals))


def test_only_metrics_of_which_there_is_anything_have_a_row():
    none = msgspec.structs.replace(
        samples.summary().metrics["cosine"], mean=None, ci95=None, n=0, coverage=0.0, status={"skipped": 24}
    )
    text = render_markdown(samples.summary(metrics={"chrf": none}))
    assert "chrf" not in text
    assert "1 more metric had nothing to measure here" in text


def test_failures_that_are_not_listed_are_counted():
    failures = samples.summary().failures * 3
    text = render_markdown(samples.summary(failures=failures, failures_left_out=100))
    assert "did not pass (20 of 145, worst first)" in text
    assert text.partition("</details>")[0].count("\n| `") == 20


def test_a_comment_stays_far_under_what_a_forge_takes():
    one = samples.summary()
    long = msgspec.structs.replace(one.failures[0], why="w" * 100_000, case="c" * 100_000)
    metrics = {f"m{number}": one.metrics["cosine"] for number in range(1000)}
    summary = samples.summary(failures=(long,) * 100, warnings=("w" * 10**5,) * 50, metrics=metrics)
    assert len(render_markdown(summary)) < 65_536


def test_a_summary_of_nothing_has_its_pass_rate_as_only_table():
    text = render_markdown(
        samples.summary(
            [], metrics={}, composite=None, gates=(), failures=(), warnings=(), human_ceiling=None
        )
    )
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2
    assert rows[1].startswith("| **pass rate** |")
