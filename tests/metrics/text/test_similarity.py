from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from tests.goldens import golden
from tests.metrics.text.texts import OTHER_REVIEW, RECIPE, REVIEW
from trivium.errors import SuiteError
from trivium.metrics.metric import MetricInput, Score
from trivium.metrics.registry import build_metrics
from trivium.metrics.scoring import score_attempts
from trivium.metrics.text.similarity import Similarity
from trivium.suites.settings import Settings

WITHOUT_ENCODER = {"encoder": "/no/such/folder"}


def parts(**values: list[float] | str) -> dict[str, Score]:
    """Scores of parts: a list of values by reference, or the reason of a skip."""
    return {
        name: Score(name=name, tier="text", status="skipped", reason=given)
        if isinstance(given, str)
        else Score(name=name, tier="text", value=max(given), raw=given)
        for name, given in values.items()
    }


def folded(scores: dict[str, Score], *, references: int = 2, **fields: object) -> Score:
    case = tv.Case(id="1", input=None, references=("r",) * references)
    subject = MetricInput(case, tv.Attempt(case="1", output="o"), scores)
    return Similarity(**fields).score_or_skip(subject)  # type: ignore[arg-type]


def test_similarity_is_the_weighted_mean_of_its_parts():
    score = folded(parts(semantic=[0.6], cosine=[0.4], jaccard=[0.1]), references=1)
    assert score.value == pytest.approx(0.5 * 0.6 + 0.3 * 0.4 + 0.2 * 0.1)
    assert (score.status, score.method) == ("ok", "0.5·semantic + 0.3·cosine + 0.2·jaccard")


def test_the_best_reference_is_best_as_a_whole():
    score = folded(parts(semantic=[0.9, 0.1], cosine=[0.0, 1.0], jaccard=[0.0, 1.0]))
    assert score.raw == pytest.approx([0.45, 0.55])
    assert score.value == pytest.approx(0.55)


def test_the_mean_over_references_is_taken_where_it_is_asked_for():
    settings = Settings(references="mean")
    (*_, similarity) = build_metrics(["similarity"], settings)
    subject = MetricInput(
        tv.Case(id="1", input=None, references=("r", "r")),
        tv.Attempt(case="1"),
        parts(semantic=[0.9, 0.1], cosine=[0.0, 1.0], jaccard=[0.0, 1.0]),
    )
    assert similarity.score(subject).value == pytest.approx(0.5)


def test_a_missing_part_leaves_and_the_others_are_rescaled():
    score = folded(parts(semantic="no encoder", cosine=[0.5], jaccard=[0.25]), references=1)
    assert score.value == pytest.approx(0.6 * 0.5 + 0.4 * 0.25)
    assert (score.status, score.method) == ("fallback", "0.6·cosine + 0.4·jaccard")
    assert score.reason == "without semantic: no encoder"


def test_no_part_at_all_is_skipped_with_every_reason():
    score = folded(parts(semantic="no encoder", cosine="broken", jaccard="broken too"), references=1)
    assert (score.status, score.value) == ("skipped", None)
    assert score.reason == "semantic: no encoder; cosine: broken; jaccard: broken too"


def test_no_reference_is_skipped():
    score = tv.score("similarity", output="x")
    assert (score.status, score.reason) == ("skipped", "the case has no reference")


def test_parts_without_weight_are_not_asked_for():
    settings = Settings(similarity={"cosine": 3.0, "jaccard": 1.0, "semantic": 0.0})
    assert [each.name for each in build_metrics(["similarity"], settings)] == [
        "cosine",
        "jaccard",
        "similarity",
    ]
    score = tv.score("similarity", output="a b", references=["a b"], similarity=settings.similarity)
    assert (score.value, score.status, score.method) == (1.0, "ok", "0.75·cosine + 0.25·jaccard")


def test_any_text_metric_may_be_a_part():
    score = tv.score("similarity", output="kitten", references=["sitting"], similarity={"edit": 1.0})
    assert score.value == pytest.approx(1 - 3 / 7)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({"cosin": 1.0}, 'Did you mean "cosine"?'),
        ({"time": 1.0}, "similarity.time"),
        ({"cosine": 0.0}, "no part has a weight"),
        ({}, "no part has a weight"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights: dict[str, float], expected: str):
    with pytest.raises(SuiteError) as caught:
        build_metrics(["similarity"], Settings(similarity=weights))
    assert expected in str(caught.value)


@given(
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.lists(st.floats(0.001, 10), min_size=3, max_size=3),
)
def test_similarity_lies_between_its_lowest_and_highest_part(values: list[float], weights: list[float]):
    names = ("semantic", "cosine", "jaccard")
    score = folded(
        parts(**{name: [value] for name, value in zip(names, values, strict=True)}),
        references=1,
        weights=dict(zip(names, weights, strict=True)),
    )
    assert score.value is not None
    assert min(values) - 1e-12 <= score.value <= max(values) + 1e-12


def test_a_user_reads_why_the_semantic_part_is_missing():
    score = tv.score("similarity", output=REVIEW, references=[OTHER_REVIEW], **WITHOUT_ENCODER)
    assert score.status == "fallback"
    assert "/no/such/folder is not a folder here" in str(score.reason)


@pytest.mark.parametrize("name", ["cosine", "jaccard", "similarity"])
def test_worse_outputs_score_less(name: str):
    def value(output: str) -> float:
        found = tv.score(name, output=output, references=[OTHER_REVIEW], **WITHOUT_ENCODER).value
        assert found is not None
        return found

    half = " ".join(OTHER_REVIEW.split()[: len(OTHER_REVIEW.split()) // 2])
    assert value(OTHER_REVIEW) == pytest.approx(1.0)
    assert value(OTHER_REVIEW) > value(half) > value(RECIPE)
    assert value(REVIEW) > value(RECIPE)
    assert value(OTHER_REVIEW + " " + RECIPE) < value(OTHER_REVIEW)


def test_shuffled_words_keep_jaccard_and_lower_cosine():
    shuffled = " ".join(sorted(REVIEW.split()))
    assert tv.score("jaccard", output=shuffled, references=[REVIEW]).value == 1.0
    cosine = tv.score("cosine", output=shuffled, references=[REVIEW]).value
    assert cosine is not None
    assert cosine < 0.95


def scored(pairs: Sequence[tuple[str, Sequence[str]]], encoder: Path) -> list[float]:
    """Similarity of (output, references), all in one batch."""
    metrics = build_metrics(["similarity"], Settings(encoder=str(encoder)))
    attempts = [
        (tv.Case(id=str(i), input=None, references=tuple(texts)), tv.Attempt(case=str(i), output=output))
        for i, (output, texts) in enumerate(pairs)
    ]
    return [scores["similarity"].value for scores in score_attempts(metrics, attempts)]


def test_similarity_equals_the_oracle(minilm_folder: Path):
    lines = [line for line in golden("text_pairs.jsonl") if line.get("overall") is not None]
    lines.sort(key=lambda line: len(line["a"]) + len(line["b"]))
    chosen = lines[::3]
    values = scored([(line["a"], [line["b"]]) for line in chosen], minilm_folder)
    assert values == pytest.approx([min(1.0, line["overall"]) for line in chosen], abs=1e-5)
