import json

from hypothesis import given
from hypothesis import strategies as st

from trivium.reports.html.judgement import CELL_CHARS, short
from trivium.safe_text import as_json

printable = st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=400)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | printable,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(printable, inner, max_size=4),
)


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


@given(values | st.floats())
def test_a_cell_is_short_and_on_one_line(value):
    assert len(short(value)) <= CELL_CHARS
    assert "\n" not in short(value)


def test_a_cell_shows_numbers_with_the_digits_that_are_read():
    assert short(0.123456789) == "0.1235"
    assert short([0.123456789, 1, "x"]) == '[0.1235, 1, "x"]'
