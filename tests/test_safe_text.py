import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.strategies import json_values
from trivium.safe_text import cut, one_line, sanitise, visible

anything = st.text(st.characters(exclude_categories=()))


EVERY_CHARACTER = "".join(map(chr, range(sys.maxunicode + 1)))


@given(json_values)
def test_a_clean_value_passes_as_it_is(value):
    cleaned, flags = sanitise(value)
    assert cleaned is value
    assert flags == ()


@pytest.mark.parametrize(
    ("value", "cleaned", "flags"),
    [
        ("a\0b", "a␀b", ("nul",)),
        ("a\ud800b", "a�b", ("lone_surrogates",)),
        ("\udfff\0", "�␀", ("lone_surrogates", "nul")),
        (["ok", {"k\0": ("x\ud83d", 1, None)}], ["ok", {"k␀": ["x�", 1, None]}], ("lone_surrogates", "nul")),
        ({"a": 1, "b": "\0", "c": [True]}, {"a": 1, "b": "␀", "c": [True]}, ("nul",)),
    ],
)
def test_what_cannot_be_stored_is_replaced_and_flagged(value, cleaned, flags):
    assert sanitise(value) == (cleaned, flags)


def test_keys_keep_their_order():
    assert list(sanitise({"b": "\0", "a": 1, "c": {}})[0]) == ["b", "a", "c"]


def test_an_emoji_is_no_lone_surrogate():
    assert sanitise("😀") == ("😀", ())


def test_a_value_of_any_depth_is_cleaned():
    value = "\0"
    for _ in range(20_000):
        value = [value]
    cleaned, flags = sanitise(value)
    assert flags == ("nul",)
    while isinstance(cleaned, list):
        (cleaned,) = cleaned
    assert cleaned == "␀"


def test_a_value_that_holds_itself_is_walked_once():
    value = ["\0", {1: 2}]
    value.append(value)
    cleaned, flags = sanitise(value)
    assert flags == ("nul",)
    assert cleaned[:2] == ["␀", {1: 2}]
    assert cleaned[2] is cleaned


@given(anything)
@example(EVERY_CHARACTER)
def test_what_is_visible_moves_no_cursor_and_turns_no_direction(text):
    for character in visible(text):
        assert character in "\t\n" or unicodedata.category(character) not in {"Cc", "Cs"}
        assert unicodedata.bidirectional(character) not in {
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
        }  # fmt: skip


@given(anything)
def test_what_is_visible_can_be_written_as_utf8(text):
    visible(text).encode()


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_stays_as_it_is(text):
    assert visible(text) == text


def test_an_escape_sequence_is_shown_not_obeyed():
    assert visible("\x1b[31mred\x07") == "␛[31mred␇"


def test_a_windows_line_end_is_one_line_end():
    assert visible("a\r\nb\rc") == "a\nb␍c"


@given(anything, st.integers(5, 50))
def test_one_line_is_one_line_of_at_most_so_many_characters(text, at_most):
    line = one_line(text, at_most=at_most)
    assert len(line) <= at_most
    assert "\n" not in line
    assert "\t" not in line


def test_one_line_says_when_there_is_more():
    assert one_line("word " * 1000, at_most=12) == "word word w…"
    assert one_line(" " * 1000 + "x", at_most=12) == "…"


def test_a_cut_text_says_how_much_is_left_out():
    assert cut("abcdef", at_most=4) == ("abcd", 2)
    assert cut("abcd", at_most=4) == ("abcd", 0)
