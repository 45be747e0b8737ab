import json

from hypothesis import given, settings
from hypothesis import strategies as st

from trivium.reports.html.fragments import CELL_CHARS, HEAD_CHARS, TEXT_CHARS, as_json, folded, short

printable = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=400)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | printable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(printable, inner, max_size=4),
)


@settings(deadline=None)
@given(printable, st.integers(1, 200))
def test_head_and_rest_and_what_is_left_out_make_the_whole(text, times):
    whole = text * times
    parts = folded(whole)
    assert len(parts.head) <= HEAD_CHARS
    assert parts.head + parts.rest == whole[:TEXT_CHARS]
    assert parts.chars == len(whole) == len(parts.head) + len(parts.rest) + parts.left_out


def test_a_long_text_is_folded_between_words():
    parts = folded("word " * 1000)
    assert parts.head.endswith("word")
    assert parts.rest.startswith(" word")


def test_a_text_of_ten_megabytes_is_cut_with_its_count():
    parts = folded("x" * 10_000_000)
    assert (parts.left_out, parts.chars) == (9_980_000, 10_000_000)


def test_nothing_is_nothing():
    assert folded(None) is None
    assert folded("") is None
    assert folded({}) is not None


@given(values)
def test_a_value_is_shown_as_json_that_says_the_same(value):
    assert json.loads(as_json(value)) == value


def test_depth_does_no_harm():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert as_json(deep) == "(nested too deeply to show)"
    while deep:  # taken apart level by level, as freeing it at once would recurse
        deep = deep[0]


def test_lone_surrogates_do_no_harm():
    folded({"\ud800": "\ud800"}).head.encode()


@given(values | st.floats())
def test_a_cell_is_short_and_on_one_line(value):
    assert len(short(value)) <= CELL_CHARS
    assert "\n" not in short(value)


def test_a_cell_shows_numbers_with_the_digits_that_are_read():
    assert short(0.123456789) == "0.1235"
    assert short([0.123456789, 1, "x"]) == '[0.1235, 1, "x"]'
