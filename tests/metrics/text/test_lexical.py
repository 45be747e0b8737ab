import re

import pytest
from hypothesis import example, given

import trivium as tv
from tests.goldens import golden
from tests.metrics.text.texts import OTHER_REVIEW, RECIPE, REVIEW, texts
from trivium.metrics.metric import MetricInput
from trivium.metrics.registry import build_metrics
from trivium.metrics.text.lexical import STOP_WORDS, Cosine, words
from trivium.suites.settings import Settings


def scikit_learn(a: str, b: str) -> float | None:
    text = pytest.importorskip("sklearn.feature_extraction.text")
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    try:
        rows = text.TfidfVectorizer(stop_words="english", ngram_range=(1, 2)).fit_transform([a, b])
    except ValueError as error:
        if "empty vocabulary" not in str(error):
            raise
        return None
    return float(pairwise.cosine_similarity(rows[0], rows[1])[0, 0])


def test_cosine_equals_the_oracle():
    for line in golden("text_pairs.jsonl"):
        expected = line["cosine"]
        if expected is None:
            expected = float(line["a"].strip() == line["b"].strip())
        assert Cosine().compare(line["a"], line["b"]) == pytest.approx(expected, abs=1e-9), line["id"]


@given(texts, texts)
@example("the of", "of the")
@example("the", " the ")
@example("ΟΔΟΣ.α ΟΔΟΣ", "οδος οδοσ.α")
@example("it’s — naïve", "it naïve")
@example("\ud800ab cd", "ab cd")
def test_cosine_equals_scikit_learn(a: str, b: str):
    expected = scikit_learn(a, b)
    if expected is None:
        expected = float(a.strip() == b.strip())
    assert Cosine().compare(a, b) == pytest.approx(expected, abs=1e-12)


def test_cosine_of_prose_equals_scikit_learn():
    for a in (REVIEW, OTHER_REVIEW, RECIPE):
        for b in (REVIEW, OTHER_REVIEW, RECIPE):
            assert Cosine().compare(a, b) == pytest.approx(scikit_learn(a, b), abs=1e-12)


@given(texts)
def test_words_are_those_of_the_pattern(text: str):
    expected = [word for word in re.findall(r"\b\w\w+\b", text.lower()) if word not in STOP_WORDS]
    assert [word.decode("utf-8", "surrogatepass") for word in words(text)] == expected


def test_stop_words_are_scikit_learns():
    assert pytest.importorskip("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS == STOP_WORDS


@given(texts, texts)
def test_cosine_stays_in_range_and_is_symmetric(a: str, b: str):
    value = Cosine().compare(a, b)
    assert 0 <= value <= 1
    assert value == pytest.approx(Cosine().compare(b, a), abs=1e-15)


def test_cosine_of_a_text_with_itself_is_exactly_one():
    assert Cosine().compare(REVIEW, REVIEW) == 1.0


def test_a_reference_seen_before_gives_the_same_value():
    first = Cosine().compare(OTHER_REVIEW, REVIEW)
    assert [Cosine().compare(OTHER_REVIEW, REVIEW) for _ in range(3)] == [first] * 3


def test_one_line_takes_the_best_reference_and_keeps_every_value():
    score = tv.score("cosine", output=REVIEW, references=[RECIPE, OTHER_REVIEW])
    expected = [scikit_learn(REVIEW, RECIPE), scikit_learn(REVIEW, OTHER_REVIEW)]
    assert score.raw == pytest.approx(expected, abs=1e-12)
    assert score.value == max(score.raw)


def test_the_mean_over_references_is_taken_where_it_is_asked_for():
    (metric,) = build_metrics(["cosine"], Settings(references="mean"))
    case = tv.Case(id="1", input=None, references=(RECIPE, REVIEW))
    score = metric.score(MetricInput(case, tv.Attempt(case="1", output=REVIEW)))
    assert score.value == pytest.approx((scikit_learn(REVIEW, RECIPE) + 1) / 2, abs=1e-12)
