"""Which words of two texts are marked as different."""

import difflib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trivium.reports.moved_cases.word_diff import Piece, sequence_diff, word_diff

words = st.lists(
    st.sampled_from(["a", "b", "c", " ", "\n", "é", "e\u0301", "東", "👍🏽", "<b>", "\u202e", "."])
)
texts = st.one_of(words.map("".join), st.text(max_size=60))


@given(texts, texts, st.sampled_from([0, 3, 60_000]))
@example("", "", 0)
@example("a" * 200, "b" * 300, 10)
def test_kept_and_deleted_words_make_base_and_kept_and_inserted_ones_head(base, head, max_steps):
    pieces = word_diff(base, head, max_steps=max_steps)
    assert "".join(piece.text for piece in pieces if piece.kind != "inserted") == base
    assert "".join(piece.text for piece in pieces if piece.kind != "deleted") == head
    assert all(piece.text for piece in pieces)


@given(texts)
def test_equal_texts_have_no_marks(text):
    assert {piece.kind for piece in word_diff(text, text)} <= {"same"}


@given(st.lists(st.sampled_from("abcd"), max_size=30), st.lists(st.sampled_from("abcd"), max_size=30))
def test_as_many_items_are_kept_as_the_longest_common_subsequence_has(base, head):
    kept = sum(len(items) for kind, items in sequence_diff(base, head) if kind == "same")
    assert kept == longest_common_subsequence(base, head)
    matches = difflib.SequenceMatcher(None, base, head, autojunk=False).get_matching_blocks()
    assert kept >= sum(block.size for block in matches)


def longest_common_subsequence(base, head):
    """By the textbook's table (Wagner and Fischer)."""
    table = [[0] * (len(head) + 1) for _ in range(len(base) + 1)]
    for i, ours in enumerate(base):
        for j, theirs in enumerate(head):
            table[i + 1][j + 1] = table[i][j] + 1 if ours == theirs else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


def shown(base, head):
    """With the marks of ``git diff --word-diff``."""
    marks = {"same": "{}", "deleted": "[-{}-]", "inserted": "{{+{}+}}"}
    return "".join(marks[piece.kind].format(piece.text) for piece in word_diff(base, head))


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ("Lima is the capital", "Lima is a capital", "Lima is [-the-]{+a+} capital"),
        ("city 7", "no idea", "[-city 7-]{+no idea+}"),
        ("", "new", "{+new+}"),
        ("old", "", "[-old-]"),
        ("東京は首都", "京都は首都", "[-東-]京{+都+}は首都"),
        ("ok 👍🏽!", "ok 👍🏿!", "ok [-👍🏽-]{+👍🏿+}!"),
        ("cafe\u0301", "cafe", "[-cafe\u0301-]{+cafe+}"),
        ("שלום עולם", "שלום לכולם", "שלום [-עולם-]{+לכולם+}"),
        ("one, two", "one; two", "one[-,-]{+;+} two"),
    ],
)
def test_words_are_marked_as_people_would(base, head, expected):
    assert shown(base, head) == expected


def test_a_word_between_two_long_differences_is_marked_with_them():
    assert shown("remarkable to behold-always", "nothing to worry-about-it").count("[-") == 1


def test_texts_that_differ_too_much_keep_their_common_beginning_and_end():
    base = "Answer: " + "x y z " * 500 + "end"
    head = "Answer: " + "u v w " * 500 + "end"
    pieces = word_diff(base, head, max_steps=1_000)
    assert [piece.kind for piece in pieces] == ["same", "deleted", "inserted", "same"]
    assert pieces[0] == Piece("same", "Answer: ")


def test_the_work_is_bounded_for_texts_made_to_be_slow():
    compared = 0

    class Counted(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    base = [Counted("ab"[at % 2]) for at in range(5_000)]
    head = [Counted("ab"[at // 2 % 2]) for at in range(5_000)]
    list(sequence_diff(base, head, max_steps=2_000))
    assert compared < 10_000
