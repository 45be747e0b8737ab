"""An answer is what was asked for, or is refused with its place."""

import json
from itertools import pairwise

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.judge_server import fill
from trivium.metrics.judge.evidence import (
    PASSAGE_CHARS,
    EvidenceSimilarity,
    find_quotes,
    passages,
    retrieval,
)
from trivium.metrics.judge.judgement import likert_scale, nearest_level, value_of
from trivium.metrics.judge.prompts.answer import MalformedAnswer, parse, schema
from trivium.metrics.judge.signals import score_spans
from trivium.suites.rubrics.built_in import AGENT, REVIEW
from trivium.suites.rubrics.rubric import Dimension

WHOLE = likert_scale(1)
COSINE = EvidenceSimilarity("cosine")


FORMS = {rubric.name: schema(rubric.dimensions, WHOLE) for rubric in (REVIEW, AGENT)}
VALIDATORS = {name: jsonschema.Draft202012Validator(form) for name, form in FORMS.items()}


@pytest.mark.parametrize("rubric", [REVIEW, AGENT], ids=lambda each: each.name)
@given(seed=st.integers())
def test_every_answer_that_the_schema_allows_is_parsed_and_in_bounds(rubric, seed):
    raw = fill(FORMS[rubric.name], seed=seed)
    VALIDATORS[rubric.name].validate(raw)
    answers = parse(json.dumps(raw), rubric.dimensions, WHOLE)
    for dimension in rubric.dimensions:
        value = value_of(answers[dimension.name], dimension, scale="minmax")
        assert value is None or 0 <= value <= 1


@given(st.text())
def test_any_other_text_is_malformed(text):
    with pytest.raises(MalformedAnswer):
        parse(text, REVIEW.dimensions, WHOLE)


@pytest.mark.parametrize("step", [1, 0.5, 0.25])
def test_likert_values_run_from_one_to_five(step):
    values = likert_scale(step)
    assert (values[0], values[-1], len(values)) == (1, 5, 4 / step + 1)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("evidence",), "quote", 'clarity.evidence is "quote", expected a list'),
        (("criteria", "structure", "score"), True, "clarity.criteria.structure.score is true"),
        (("criteria", "structure", "score"), "4 of 5", 'clarity.criteria.structure.score is "4 of 5"'),
        (("criteria", "structure"), None, "clarity.criteria.structure is null, expected an object"),
        (("confidence",), None, "clarity.confidence is null"),
        (("reason",), 3, "clarity.reason is 3, expected a text"),
    ],
)
def test_a_mistake_is_reported_with_its_place(path, value, message):
    (dimension,) = (each for each in REVIEW.dimensions if each.name == "clarity")
    raw = fill(schema([dimension], WHOLE))
    at = raw["clarity"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(MalformedAnswer) as refused:
        parse(json.dumps(raw), [dimension], WHOLE)
    assert message in str(refused.value)


def _scored(score, confidence=3):
    (dimension,) = (each for each in REVIEW.dimensions if each.name == "clarity")
    raw = fill(schema([dimension], WHOLE))
    raw["clarity"]["criteria"]["structure"]["score"] = score
    raw["clarity"]["confidence"] = confidence
    return parse(json.dumps(raw), [dimension], likert_scale(0.5))["clarity"]


@pytest.mark.parametrize(
    ("text", "number"), [("4", 4), ("4.0", 4), (" 4 ", 4), ("1.5", 1.5), ("4.50", 4.5), ("05", 5)]
)
def test_a_number_that_is_written_as_a_text_is_that_number(text, number):
    assert _scored(text).criteria["structure"] == number


def test_a_confidence_may_be_written_as_a_text_too():
    assert _scored(4, confidence="5").confidence == 5


@pytest.mark.parametrize(
    "text",
    [
        *(
            "4 of 5",
            "4/5",
            "4; ignore the rest",
            "4,5",
            "4\n",
            "4\n5",
            "4 5",
            "four",
            "",
            " ",
            ".",
            "4.",
            ".5",
        ),
        *("6", "0", "-4", "4.2", "1e0", "0x4", "4_0", "nan", "inf", "NaN", "Infinity", "null", "true"),
        *("+4", "\u0664", "\uff14", "9" * 5000, "4." + "0" * 5000, ["4"], {"score": "4"}),
    ],
)
def test_any_other_text_is_no_score(text):
    with pytest.raises(MalformedAnswer):
        _scored(text)
    with pytest.raises(MalformedAnswer):
        _scored(4, confidence=text)


@pytest.mark.parametrize(
    ("value", "level"), [(0.9, "good"), (0.95, "excellent"), (0.15, "failed"), (0.7, "acceptable")]
)
def test_the_nearest_level_is_shown_and_ties_go_down(value, level):
    assert nearest_level(value, Dimension(name="d", asks="?").level_values) == level


def test_a_quote_counts_when_it_is_there_but_for_case_and_spaces():
    found = find_quotes(["A  b c", "x y z", " "], ["a\nB c d"])
    assert [(each.text, each.found, each.counts) for each in found] == [
        ("A  b c", True, True),
        ("x y z", False, False),
    ]


def test_quotes_are_backed_by_passages_of_the_source():
    source = "Birds fly south.\n\nFish swim in water."
    found = retrieval(["nowhere", "fish swim in water.", "fish swim"], source, similar=COSINE)
    assert found["retrieval_reference_count"] == 1
    assert found["retrieval_similarity_max"] == pytest.approx(1.0)
    assert 0 < found["retrieval_similarity_mean"] < 1
    assert retrieval(["x"], None, similar=COSINE)["retrieval_reference_count"] is None
    assert retrieval([], source, similar=COSINE)["retrieval_similarity_mean"] is None


@given(st.text())
def test_passages_hold_every_word_of_the_source(source):
    assert " ".join(passages(source)).split() == source.split()


@given(st.lists(st.integers(1, 260), min_size=1, max_size=40))
def test_passages_are_as_long_as_they_may_be_and_no_longer(lengths):
    words = ["x" * length for length in lengths]
    found = passages(" ".join(words))
    assert all(len(passage) <= PASSAGE_CHARS for passage in found)
    for passage, after in pairwise(found):
        assert len(f"{passage} {after.split()[0]}") > PASSAGE_CHARS


def test_a_passage_ends_where_one_word_more_would_be_too_much():
    half = PASSAGE_CHARS // 2
    assert len(passages(f"{'x' * half} {'y' * (PASSAGE_CHARS - half - 1)}")) == 1
    assert len(passages(f"{'x' * half} {'y' * (PASSAGE_CHARS - half)}")) == 2


def test_a_word_that_is_longer_than_a_passage_is_one():
    assert passages(f"a {'x' * 600} b") == ["a", "x" * 600, "b"]


def test_spans_of_scores_are_those_of_the_dimension():
    criteria = {"x": {"explanation": "score: 5", "score": 4}}
    text = json.dumps({"a": {"criteria": criteria, "level": "good"}, "b": {"score": 1}})
    assert [text[start:end] for start, end in score_spans(text, "a")] == ["4", "good"]
    assert [text[start:end] for start, end in score_spans(text, "b")] == ["1"]
