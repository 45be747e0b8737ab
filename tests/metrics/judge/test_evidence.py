"""Quotes and the passages they rest on."""

import pytest

from trivium.metrics.judge.evidence import EvidenceSimilarity, find_quotes, retrieval

SOURCE = "Birds fly south in winter.\n\nFish swim in warm water."


def test_an_encoder_may_compare_quotes_with_passages(tiny_onnx_folder):
    from trivium.metrics.text.bertscore import Semantic

    similar = EvidenceSimilarity("encoder", encoder=str(tiny_onnx_folder))
    found = retrieval(["fish swim", "birds fly"], SOURCE, similar=similar)
    semantic = Semantic(encoder=str(tiny_onnx_folder))
    each = [
        semantic.compare("fish swim", "Fish swim in warm water."),
        semantic.compare("birds fly", "Birds fly south in winter."),
    ]
    assert found["retrieval_similarity_mean"] == pytest.approx(sum(each) / 2)
    assert found["retrieval_similarity_max"] == pytest.approx(max(each))
    assert each != [EvidenceSimilarity("cosine")([("fish swim", "Fish swim in warm water.")])]


def test_without_the_encoder_there_is_no_similarity_rather_than_another(tmp_path, caplog):
    similar = EvidenceSimilarity("encoder", encoder=str(tmp_path / "nowhere"))
    for _ in range(2):
        found = retrieval(["fish swim"], SOURCE, similar=similar)
        assert found["retrieval_reference_count"] == 1
        assert found["retrieval_similarity_mean"] is found["retrieval_similarity_max"] is None
    messages = [each.message for each in caplog.records if each.name.startswith("trivium.metrics.judge")]
    assert len(messages) == 1
    assert "nowhere" in messages[0]


TEXT = "We show that “Birds fly” in winter, don't they? It improves accuracy by 3 points on the test set."


@pytest.mark.parametrize(
    "quote",
    [
        '"Birds fly" in winter',
        "‘Birds fly’ in winter.",
        "“birds   FLY in\nwinter”",
        "don’t they? It improves",
        "It improves accuracy by 3 points…",
        "We show ... improves accuracy",
        "We show […] by 3 points on the test set.",
        "...on the test set!",
    ],
)
def test_a_quote_is_found_however_models_write_quotes(quote):
    assert [(each.found, each.counts) for each in find_quotes([quote], [TEXT])] == [(True, True)]


@pytest.mark.parametrize(
    "quote",
    ["improves accuracy … We show that", "Birds swim in winter", "by -3 points on", "We show … never said"],
)
def test_a_quote_that_is_not_there_is_not_found(quote):
    assert [(each.found, each.counts) for each in find_quotes([quote], [TEXT])] == [(False, False)]


def test_each_distinct_quote_is_evidence_once_and_none_that_is_too_short():
    quotes = ["It improves accuracy", "“It improves accuracy.”", "a", "the test", "", "…", "by 3 points"]
    found = find_quotes(quotes, [TEXT])
    assert [each.text for each in found] == ["It improves accuracy", "a", "the test", "by 3 points"]
    assert [each.counts for each in found] == [True, False, False, True]
    assert [each.recorded().get("too_short") for each in found] == [None, True, True, None]


def test_of_a_text_of_two_words_a_quote_may_be_as_short():
    assert find_quotes(["So fine"], ["So fine."])[0].counts
    assert not find_quotes(["So fine"], ["So fine it is."])[0].counts


def test_a_script_without_spaces_counts_its_characters():
    text = "本文提出了一种新的方法。"
    assert find_quotes(["新的方法"], [text])[0].counts
    assert not find_quotes(["新的"], [text])[0].counts
