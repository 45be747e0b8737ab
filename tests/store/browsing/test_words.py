"""Words of any script."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.store.browsing.words import (
    CHUNKS,
    INDEXED_BYTES,
    PHRASE_WORDS,
    STACKED_MARKS,
    folded,
    folded_with_places,
    index_words,
    wanted,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World_2!", {"hello", "world", "2"}),
        ("Straße ÜBER", {"strasse", "über"}),
        ("数据库", {"数", "据", "库", "数据", "据库"}),
        ("用Python写", {"用", "python", "写"}),
        ("مُحَمَّد أحمد", {"محمد", "احمد"}),
        ("Привет МИР", {"привет", "мир"}),
        ("👩🏽\u200d💻 ok❤️🇩🇪", {"👩", "💻", "ok", "❤", "🇩🇪"}),
        ("ﬁnal Ｆｕｌｌ ｶﾞ", {"final", "full", "ガ"}),
        ("हिन्दी में", {"हिन्दी", "में"}),
        ("…!?-_ \0", set()),
        ("x" * 100, {"x" * 64}),
    ],
)
def test_a_text_is_cut_into_words(text, words):
    assert set(index_words([text])) == words


@given(st.text(max_size=50))
def test_the_words_of_a_text_are_wanted_from_its_index(text):
    looked_for = wanted(text + " ")
    assert looked_for.left_out or set(looked_for.words) <= set(index_words([text.replace('"', " ")]))


@given(st.text(max_size=80))
def test_places_are_those_of_the_original(text):
    compared, places = folded_with_places(text)
    assert len(places) == len(compared) + 1
    assert places[-1] == len(text)
    assert list(places) == sorted(places)


@given(st.text(alphabet=st.sampled_from("aÄß\u0308اأ\u064e\u0651数ｶﾞ\u0301한👍🏽\ufe0f \u00ad"), max_size=30))
def test_a_text_folds_with_places_as_it_does_without(text):
    assert unicodedata.normalize("NFC", folded_with_places(text)[0]) == unicodedata.normalize(
        "NFC", folded(text)
    )


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("order_id", "the Order-ID is", True),
        ("order_id", "id order", False),
        ('"not found"', "NOT  found.", True),
        ('"not found"', "not yet found", False),
        ("data", "database", True),
        ("data ", "database", False),
        ('"data"', "database", False),
        ("base", "database", False),
        ("数据", "我的数据库", True),
        ("محمد", "مُحَمَّد", True),
        ("👍", "ok👍🏽!", True),
        ("a*", "ab", False),
        (".*", "anything", None),
    ],
)
def test_a_chunk_is_found_in_a_text(query, text, found):
    chunks = wanted(query).chunks
    assert (all(re.search(each.pattern, folded(text)) for each in chunks) if chunks else None) is found


def test_a_query_of_many_words_says_how_many_are_left_out():
    assert wanted("word " * (CHUNKS + 7)).left_out == 7


def test_a_document_of_very_many_words_is_cut():
    words = index_words([" ".join(f"w{n}" for n in range(100_000))])
    assert sum(len(word) for word in words) <= INDEXED_BYTES


@pytest.mark.parametrize("sign", ["😀", "ั", "→"])
def test_words_that_are_no_letters_match_in_one_way_only(sign):
    pattern = wanted('"' + f"{sign}." * 20 + 'x"').chunks[0].pattern
    # With many ways to share the signs among words and what is between them, this would not end.
    assert re.search(pattern, f"x {sign * 5_000}") is None
    assert re.search(wanted(f'"{sign} {sign}x"').chunks[0].pattern, f"{sign}, {sign} x")


def test_of_a_long_phrase_the_first_words_have_to_be_next_to_one_another():
    words = [f"w{number}" for number in range(PHRASE_WORDS + 2)]
    (chunk,) = wanted(f'"{" ".join(words)}"').chunks
    assert chunk.words == tuple(words)
    assert re.search(chunk.pattern, " ".join(words))
    assert not re.search(chunk.pattern, " ".join(["w0", *words[2:]]))
    assert chunk.pattern == wanted(f'"{" ".join(words * 100)}"').chunks[0].pattern


def test_marks_that_are_stacked_without_end_are_cut():
    text = "a" + "\u0323\u0301" * 20_000 + "b"
    assert len(folded(text)) < 2 * STACKED_MARKS
    assert folded_with_places(text)[0] == folded(text)
    assert index_words([text]) == [folded(text)]
