import sys
import unicodedata

import pytest
from hypothesis import assume, example, given

import trivium as tv
from tests.metrics.text.texts import OTHER_REVIEW, RECIPE, REVIEW, texts
from trivium.metrics.text import lexical as extras
from trivium.metrics.text.lexical import Bleu, Chrf, Edit, RougeL

PAIRS = [(REVIEW, OTHER_REVIEW), (REVIEW, RECIPE), (REVIEW, REVIEW), ("a cat", "the cat sat"), ("", "x")]
EXTRAS = ["rouge_l", "bleu", "chrf", "edit"]


@given(texts, texts)
@example("running cats", "run cat")
def test_rouge_l_of_texts_without_other_letters_equals_rouge_score(a: str, b: str):
    a, b = (text.encode("ascii", "ignore").decode() for text in (a, b))
    assume(a.split() != b.split())
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    assert RougeL().compare(a, b) == pytest.approx(scorer.score(b, a)["rougeL"].fmeasure, abs=1e-12)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_bleu_and_chrf_equal_sacrebleu(a: str, b: str):
    sacrebleu = pytest.importorskip("sacrebleu")
    assert Bleu().compare(a, b) == pytest.approx(sacrebleu.sentence_bleu(a, [b]).score / 100, abs=1e-12)
    assert Chrf().compare(a, b) == pytest.approx(sacrebleu.sentence_chrf(a, [b]).score / 100, abs=1e-12)


SENTENCES = {
    "ru": ("Столица Франции — Париж", "Столица Италии — Рим"),
    "ja": ("東京は日本の首都です", "京都は日本の古都です"),
    "zh": ("巴黎是法国的首都", "罗马是意大利的首都"),
    "ar": ("عاصمة فرنسا هي باريس", "عاصمة إيطاليا هي روما"),
    "hi": ("पेरिस फ्रांस की राजधानी है", "रोम इटली की राजधानी है"),
    "th": ("ปารีสเป็นเมืองหลวงของฝรั่งเศส", "โรมเป็นเมืองหลวงของอิตาลี"),
    "ko": ("파리는 프랑스의 수도입니다", "로마는 이탈리아의 수도입니다"),
    "pl": ("Łódź leży w środku Polski", "Gdańsk leży nad morzem w Polsce"),
}
"""Two sentences of a language that share some words and not others."""


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("language", SENTENCES)
def test_texts_of_any_script_are_compared_by_what_they_share(name: str, language: str):
    one, other = SENTENCES[language]
    same, alike, unlike = (tv.score(name, output=one, references=[each]).value for each in (one, other, "¿?"))
    assert same == 1.0
    assert 0 < alike < 1
    assert unlike <= 0.05


def test_letters_beyond_ascii_count_in_rouge_l():
    assert RougeL().compare("Straße", "Stra e") == 0.0
    assert RougeL().compare("Łódź", "d") == 0.0
    # Two of three words each, in order: F1 = 2 * 2 / (3 + 3).
    assert RougeL().compare("für alle Fälle", "für alle Räder") == pytest.approx(2 / 3)
    # One of two ideographs each, in order.
    assert RougeL().compare("東京", "京都") == pytest.approx(2 * 1 / 4)


@given(texts, texts)
@pytest.mark.parametrize("name", EXTRAS)
def test_the_normal_form_of_a_text_changes_no_score(name: str, a: str, b: str):
    composed, decomposed = (unicodedata.normalize(form, a) for form in ("NFC", "NFD"))
    one, other = (tv.score(name, output=each, references=[b]).value for each in (composed, decomposed))
    assert one == other


@pytest.mark.parametrize("name", EXTRAS)
@pytest.mark.parametrize("text", ["", " \n", "...", "😀", "?!", "²"])
def test_equal_texts_without_a_word_are_equal(name: str, text: str):
    assert tv.score(name, output=text, references=["..." if not text.strip() else text]).value == (
        1.0 if text.strip() else 0.0
    )


def test_edit_is_one_minus_distance_over_the_longer_length():
    assert Edit().compare("kitten", "sitting") == pytest.approx(1 - 3 / 7)
    assert Edit().compare("", "") == 1.0
    assert Edit().compare("", "abc") == 0.0


@pytest.mark.parametrize("name", EXTRAS)
def test_extras_stay_in_range_and_are_one_line(name: str):
    for a, b in PAIRS:
        value = tv.score(name, output=a, references=[b]).value
        assert value is not None
        assert 0 <= value <= 1


@pytest.mark.parametrize("name", EXTRAS)
def test_a_missing_library_is_skipped_with_the_extra_to_install(name: str, monkeypatch: pytest.MonkeyPatch):
    for module in ("rouge_score.tokenizers", "sacrebleu", "rapidfuzz.distance"):
        monkeypatch.setitem(sys.modules, module, None)
    extras._library.cache_clear()
    score = tv.score(name, output="a", references=["b"])
    extras._library.cache_clear()
    assert (score.status, score.value) == ("skipped", None)
    assert score.reason == f'{name} needs an extra: pip install "trivium[text]"'


@pytest.mark.parametrize("name", EXTRAS)
def test_a_text_too_long_to_compare_is_skipped_and_not_waited_for(name: str):
    score = tv.score(name, output="ab " * 100_000, references=["ab"])
    assert (score.status, score.value) == ("skipped", None)
    assert "300,000 characters" in str(score.reason)
