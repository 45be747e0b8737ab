"""Quotes are marked where they stand, in the text as it was written."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.reports import samples
from trivium.metrics.judge.evidence import find_quotes, fold_text, quote_parts
from trivium.reports.html.judgement import AROUND_CHARS, HEAD_CHARS, TEXT_CHARS, excerpts, marked, quotes_in

TEXT = st.text(st.sampled_from("abAB ßẞİıſ\n\t\u00a0ﬁΣς“'.…"), max_size=40)


@given(TEXT, st.lists(TEXT, max_size=4))
@example("a ß  b", ["ss B", "SS"])
@example("\n a", ["a"])
def test_a_quote_is_marked_exactly_where_the_evidence_check_finds_it(text, quotes):
    spans = quotes_in(text, quotes)
    numbers = {number for _, _, number in spans}
    found = {quote_parts(each.text) for each in find_quotes(quotes, [text]) if each.found}
    assert numbers == {at for at, quote in enumerate(quotes, 1) if quote_parts(quote) in found}
    for start, stop, number in spans:
        assert any(part in fold_text(text[start:stop]) for part in quote_parts(quotes[number - 1]))
        assert not text[start].isspace()
        assert not text[stop - 1].isspace()


@given(TEXT, st.lists(TEXT, max_size=4))
def test_a_marked_text_is_the_text(text, quotes):
    found = marked(text, quotes)
    assert "".join(piece.text for piece in (found.head + found.rest if found else ())) == text


def pieces(text):
    return [(piece.text, piece.quotes) for piece in text.head]


def test_quotes_may_overlap():
    assert pieces(marked("one two three", ["one two", "TWO  three"])) == [
        ("one ", (1,)),
        ("two", (1, 2)),
        (" three", (2,)),
    ]


def test_a_quote_is_never_cut_by_the_fold():
    text = "x " * (HEAD_CHARS // 2 - 5) + "here it stands " + "y " * 500
    found = marked(text, ["here it stands"])
    assert found.head[-1].quotes == (1,)
    assert not found.rest_open
    assert marked(text + "late", ["late"]).rest_open


def test_a_document_is_shown_around_what_is_quoted_of_it():
    text = "a" * 5000 + " first " + "b" * 300 + " second " + "c" * 5000 + " third " + "d" * 9
    found = excerpts(text, ["first", "second", "third", "fourth"])
    assert [(piece.text[:9], piece.gap) for piece in found.head if piece.gap] == [
        ("a" * 9, 5001 - AROUND_CHARS),
        ("c" * 9, 5000 - 2 * AROUND_CHARS + 2),
    ]
    assert (found.chars, found.left_out) == (len(text), 0)
    assert sum(len(piece.text) + piece.gap for piece in found.head) == len(text)
    assert excerpts(text, ["fourth", ""]) is None


def test_a_flood_of_places_and_characters_stays_bounded():
    text = "ab " * 200_000
    found = excerpts(text, ["ab ab"] * 20)
    assert sum(len(piece.text) for piece in found.head) < 2 * TEXT_CHARS
    assert len(found.head) < 1000
    assert found.left_out > 500_000


def test_a_value_that_is_no_text_is_marked_as_it_is_written_out():
    found = marked({"a": ["the quote"]}, ["the quote"])
    assert found.is_json
    assert [piece.text for piece in found.head if piece.quotes] == ["the quote"]
    assert marked(None, ["x"]) is marked("", ["x"]) is None
    assert marked(samples.HOSTILE, [samples.HOSTILE[0]])


def said(parts):
    return "".join(piece.text for piece in parts)


@settings(deadline=None)
@given(
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=400), st.integers(1, 200)
)
def test_head_and_rest_and_what_is_left_out_make_the_whole(text, times):
    whole = text * times
    parts = marked(whole)
    assert len(said(parts.head)) <= HEAD_CHARS
    assert said(parts.head + parts.rest) == whole[:TEXT_CHARS]
    assert parts.chars == len(whole) == len(said(parts.head + parts.rest)) + parts.left_out
    assert parts.rest_chars == len(said(parts.rest))


def test_a_long_text_is_folded_between_words():
    parts = marked("word " * 1000)
    assert said(parts.head).endswith("word")
    assert said(parts.rest).startswith(" word")


def test_a_text_of_ten_megabytes_is_cut_with_its_count():
    parts = marked("x" * 10_000_000)
    assert (parts.left_out, parts.chars) == (9_980_000, 10_000_000)
    assert marked("x" * 900, at_most=500).left_out == 400


def test_nothing_is_nothing_and_an_empty_value_is_shown():
    assert marked(None) is marked("") is None
    assert marked({}) is not None
