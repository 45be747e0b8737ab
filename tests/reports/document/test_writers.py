"""Every kind of block, written to every place with texts that say what they should not."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.reports.html.parsed import Page
from tests.reports.samples import HOSTILE
from tests.reports.test_markdown import html_tags
from trivium.display import as_text
from trivium.reports.document import blocks as b
from trivium.reports.document.html import fragment, html
from trivium.reports.document.markdown import markdown
from trivium.reports.document.terminal import Printed


def every_block(text):
    """One block of each kind, with a text wherever it holds one."""
    shown = b.ShownText(pieces=tuple(b.Piece(kind, text) for kind in get_args(b.Kind)), left_out=3)
    part = b.Part(label=text, texts=(shown, shown), more=text, side=True)
    case = b.Case(
        name=text,
        mark="↓",
        word=text,
        tone="bad",
        facts=(text, text),
        gist=text,
        change="changed",
        parts=(part, part, b.Part(label="", texts=(shown,), tone="quiet")),
        anchor="attempt-1",
    )
    columns = [
        b.Column(text, lambda row: row, kind) for kind in ("name", "number", "tally", "interval", "text")
    ]
    columns += [b.Column(text, lambda row: b.Toned(row, "strong"), "text")]
    columns += [b.Column(text, lambda row: b.Mark(row, row, brief=False), "mark")]
    columns += [b.Column(text, lambda row: b.Range(0.5, (0.25, 0.75)), "range")]
    columns += [b.Column(text, lambda row: b.Choice("form", "name", row, row), "text", where="page")]
    columns += [
        b.Column(text, lambda row: b.Lines((b.Toned(row), b.Mark(row, row), b.Toned(row, "quiet"))), kind)
        for kind in ("name", "text")
    ]
    leaves = [
        b.Title(text=text, beside=text, answer=text),
        b.Paragraph((text, text)),
        b.Paragraph((text,), "quiet"),
        b.Paragraph((text,), "strong"),
        b.Answer(answer=text, sentence=text, grounds=(text, text)),
        b.Remarks((text,), more=text),
        b.Facts(((text, text),)),
        b.table(columns, [text, text], label=text, notes=(text,)),
        b.KeyFigures(
            (
                b.KeyFigure(
                    name=text,
                    value=text,
                    interval=text,
                    range=b.Range(0.5, None),
                    sentence=b.Toned(text),
                    notes=(b.Toned(text, "quiet", "#x"),),
                ),
            )
        ),
        b.Drawing((b.Picture("<svg></svg>", text, text, text),), text),
        b.Links(text, ()),
    ]
    assert {type(leaf) for leaf in leaves} == set(get_args(b.Leaf))
    return [
        *leaves,
        b.Cases(cases=[case], total=2, further="not shown"),
        b.Section(title=text, beside=text, key="key", blocks=leaves[1:3]),
        b.Fold(text, leaves[1:3]),
    ]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_moves_the_cursor_or_turns_the_direction(text, width):
    shown = as_text(Printed(every_block(text)), width=width)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert max(map(cell_len, shown.splitlines())) <= width


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_is_markup_on_a_page_or_in_a_notebook(text):
    for write in (html, fragment):
        page, calm = Page(str(write(every_block(text)))), Page(str(write(every_block("calm"))))
        assert page.open == []
        assert page.tags == calm.tags


@given(st.sampled_from(HOSTILE) | st.text(min_size=1, max_size=30))
def test_no_text_is_markup_in_a_comment(text):
    ours = {"details", "summary", "sub", "code", "br", "del", "ins"}
    assert {tag.strip("/") for tag in html_tags(markdown(every_block(text)))} <= ours


def test_a_text_reads_the_same_everywhere():
    blocks = every_block("plain words")
    written = (as_text(Printed(blocks)), markdown(blocks), str(html(blocks)), fragment(blocks))
    for shown in written:
        assert shown.count("plain words") > 15


def test_columns_are_shown_where_there_is_room_and_dropped_where_they_say_nothing():
    columns = [
        b.Column("name", str, "name"),
        b.Column("wide", lambda _: "w1", where="wide"),
        b.Column("page", lambda _: "p1", where="page"),
        b.Column("empty", lambda _: "–", optional=True),
    ]
    blocks = [b.table(columns, ["row"])]
    narrow, wide = as_text(Printed(blocks), width=80), as_text(Printed(blocks), width=120)
    assert ("w1" in narrow, "w1" in wide, "p1" in wide) == (False, True, False)
    assert ("w1" in markdown(blocks), "p1" in markdown(blocks)) == (True, False)
    assert ("p1" in html(blocks), "p1" in fragment(blocks)) == (True, False)
    assert not any("empty" in shown for shown in (narrow, markdown(blocks), html(blocks)))
