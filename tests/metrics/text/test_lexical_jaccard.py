import pytest
from hypothesis import given

from tests.goldens import golden
from tests.metrics.text.texts import texts
from trivium.metrics.text.lexical import Jaccard


def test_jaccard_equals_the_oracle():
    for line in golden("text_pairs.jsonl"):
        assert Jaccard().compare(line["a"], line["b"]) == pytest.approx(line["jaccard"], abs=1e-15), line[
            "id"
        ]


@given(texts, texts)
def test_jaccard_is_shared_words_over_all_words(a: str, b: str):
    ours, theirs = set(a.lower().split()), set(b.lower().split())
    expected = len(ours & theirs) / len(ours | theirs) if ours | theirs else 1.0
    assert Jaccard().compare(a, b) == Jaccard().compare(b, a) == expected
