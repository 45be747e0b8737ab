import sys
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from trivium.reports.escape import cut, one_line, visible

anything = st.text(st.characters(exclude_categories=()))


EVERY_CHARACTER = "".join(map(chr, range(sys.maxunicode + 1)))


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
