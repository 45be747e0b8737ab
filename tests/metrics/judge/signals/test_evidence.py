"""Quotes and the passages they rest on."""

import pytest

from trivium.metrics.judge.signals.evidence import retrieval
from trivium.metrics.judge.signals.similarity import EvidenceSimilarity

SOURCE = "Birds fly south in winter.\n\nFish swim in warm water."


def test_an_encoder_may_compare_quotes_with_passages(tiny_onnx_folder):
    from trivium.metrics.text.semantic import Semantic

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
    said = [each.message for each in caplog.records if each.name.startswith("trivium.metrics.judge")]
    assert len(said) == 1
    assert "nowhere" in said[0]
