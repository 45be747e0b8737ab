import sys

import pytest
from hypothesis import example, given

import trivium as tv
from tests.metrics.text.texts import OTHER_REVIEW, RECIPE, REVIEW, texts
from trivium.metrics.text import lexical as extras
from trivium.metrics.text.lexical import Bleu, Chrf, Edit, RougeL

PAIRS = [(REVIEW, OTHER_REVIEW), (REVIEW, RECIPE), (REVIEW, REVIEW), ("a cat", "the cat sat"), ("", "x")]
EXTRAS = ["rouge_l", "bleu", "chrf", "edit"]


@given(texts, texts)
@example("running cats", "run cat")
def test_rouge_l_equals_rouge_score(a: str, b: str):
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"])
    assert RougeL().compare(a, b) == pytest.approx(scorer.score(b, a)["rougeL"].fmeasure, abs=1e-12)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_bleu_and_chrf_equal_sacrebleu(a: str, b: str):
    sacrebleu = pytest.importorskip("sacrebleu")
    assert Bleu().compare(a, b) == pytest.approx(sacrebleu.sentence_bleu(a, [b]).score / 100, abs=1e-12)
    assert Chrf().compare(a, b) == pytest.approx(sacrebleu.sentence_chrf(a, [b]).score / 100, abs=1e-12)


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
