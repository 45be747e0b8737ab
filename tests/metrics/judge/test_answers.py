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
from trivium.metrics.judge.prompts import answer as answers
from trivium.metrics.judge.prompts.answer import MalformedAnswer, schema
from trivium.metrics.judge.signals import score_spans
from trivium.suites.rubrics.built_in import built_in_rubrics
from trivium.suites.rubrics.rubric import Dimension

AGENT = built_in_rubrics()["agent"]
REVIEW = built_in_rubrics()["review"]

WHOLE = likert_scale(1)
COSINE = EvidenceSimilarity("cosine")


def parse(text, dimensions, scores, **how):
    form = schema(dimensions, scores, alone=how.get("alone", False))
    found, wrong = answers.parse(text, dimensions, form, **how)
    for mistake in wrong.values():
        raise mistake
    return found


FORMS = {rubric.name: schema(rubric.dimensions, WHOLE) for rubric in (REVIEW, AGENT)}
VALIDATORS = {name: jsonschema.Draft202012Validator(form) for name, form in FORMS.items()}


@pytest.mark.parametrize("rubric", [REVIEW, AGENT], ids=lambda each: each.name)
@given(seed=st.integers())
def test_every_answer_that_the_schema_allows_is_parsed_and_in_bounds(rubric, seed):
    raw = fill(FORMS[rubric.name], seed=seed)
    VALIDATORS[rubric.name].validate(raw)
    found = parse(json.dumps(raw), rubric.dimensions, WHOLE)
    for dimension in rubric.dimensions:
        value = value_of(found[dimension.name], dimension, scale="minmax")
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
        (("criteria", "structure", "score"), True, "clarity.criteria.structure.score is true"),
        (("criteria", "structure", "score"), "4 of 5", 'clarity.criteria.structure.score is "4 of 5"'),
        (("criteria", "structure"), None, "clarity.criteria.structure is null, expected an object"),
        (("criteria",), "{", 'clarity.criteria is "{", expected an object'),
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
    answer = _scored(4, confidence=text)
    assert (answer.confidence, answer.not_given) == (None, ("confidence",))


REASONED = {"reason": "It is so.", "evidence": ["a quote"], "confidence": 4}
LEVELLED = Dimension(name="tone", asks="?", levels={"good": 1, "not so good": 0.5, "bad": 0})


def told(**fields):
    """The answer about a level, with some fields put in place of the usual ones; ... leaves one out."""
    given = {"level": "good", **REASONED, **fields}
    raw = {"tone": {name: value for name, value in given.items() if value is not ...}}
    return parse(json.dumps(raw), [LEVELLED], WHOLE)["tone"]


@pytest.mark.parametrize("name", REASONED)
@pytest.mark.parametrize("value", [..., None, 0.83, True, {}, {"a": [[[]]]}], ids=str)
def test_what_no_score_needs_may_be_missing_and_is_named(name, value):
    answer = told(**{name: value})
    assert (answer.level, answer.not_given) == ("good", (name,))
    assert (answer.reason, answer.evidence, answer.confidence) == tuple(
        missing if each == name else usual
        for each, usual, missing in (
            ("reason", "It is so.", ""),
            ("evidence", ("a quote",), ()),
            ("confidence", 4, None),
        )
    )


@pytest.mark.parametrize(
    ("given", "quotes"),
    [
        ("a quote", ("a quote",)),
        ('{"a": 1, "a": 2}', ('{"a": 1, "a": 2}',)),
        ('["one", "two"]', ("one", "two")),
        ([], ()),
        (["one", 2, None], ("one",)),
    ],
)
def test_quotes_may_be_one_text_or_a_list_in_a_text(given, quotes):
    answer = told(evidence=given)
    assert (answer.evidence, answer.not_given) == (quotes, ())


def test_explanations_of_criteria_may_be_missing_as_reasons_may():
    (dimension,) = (each for each in REVIEW.dimensions if each.name == "clarity")
    raw = fill(schema([dimension], WHOLE))
    del raw["clarity"]["criteria"]["structure"]["explanation"]
    answer = parse(json.dumps(raw), [dimension], WHOLE)["clarity"]
    assert answer.explanations["structure"] == ""
    assert answer.not_given == ("explanation",)


@pytest.mark.parametrize(
    ("written", "level"),
    [("GOOD", "good"), (" Good\n", "good"), ("Not-So_GOOD", "not so good"), ("bad", "bad"), (None, None)],
)
def test_a_level_may_be_written_in_another_case(written, level):
    assert told(level=written).level == level


@pytest.mark.parametrize("written", ["go od", "good.", "good or bad", "", 1, True, ["good"], "ɢood"])
def test_what_only_resembles_a_level_is_none(written):
    with pytest.raises(MalformedAnswer):
        told(level=written)


def test_levels_that_differ_only_by_case_are_read_as_written():
    graded = Dimension(name="tone", asks="?", levels={"A": 1, "a": 0.5, "b": 0})
    for written, level in (("A", "A"), ("a", "a"), ("B", "b")):
        (answer,) = parse(json.dumps({"tone": REASONED | {"level": written}}), [graded], WHOLE).values()
        assert answer.level == level


@given(seed=st.integers(), data=st.data())
def test_objects_and_lists_that_are_written_as_texts_are_read_as_they_are(seed, data):
    raw = fill(FORMS["agent"], seed=seed)
    plain = parse(json.dumps(raw), AGENT.dimensions, WHOLE)

    def texts(value):
        if isinstance(value, dict):
            value = {name: texts(each) for name, each in value.items()}
        elif isinstance(value, list):
            value = [texts(each) for each in value]
        as_text = isinstance(value, dict | list) and data.draw(st.booleans())
        return json.dumps(value) if as_text else value

    assert parse(json.dumps(texts(raw)), AGENT.dimensions, WHOLE) == plain


@pytest.mark.parametrize(
    "call",
    [
        '<tool_call>\n{"name": "judgement", "arguments": %s}\n</tool_call>',
        '[TOOL_CALLS][{"name": "judgement", "arguments": %s}]',
        "[TOOL_CALLS]judgement[ARGS]%s",
        "<function=judgement>%s</function>",
        '<|python_tag|>{"type": "function", "name": "judgement", "parameters": %s}',
        '[{"type": "function", "function": {"name": "judgement", "arguments": %s}}]',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>judgement\n```json\n%s\n```<｜tool▁call▁end｜>",
    ],
    ids=lambda call: call[:20],
)
@pytest.mark.parametrize("escaped", [False, True])
def test_a_call_that_is_left_in_the_text_is_read(call, escaped):
    raw = fill(FORMS["review"], seed=3)
    written = json.dumps(raw)
    if escaped and '"' in call:
        written = json.dumps(written)
    found = parse(call % written, REVIEW.dimensions, WHOLE)
    assert found == parse(json.dumps(raw), REVIEW.dimensions, WHOLE)


@pytest.mark.parametrize(
    ("before", "after"),
    [("<parameter={}>\n", "\n</parameter>"), ("<arg_key>{}</arg_key>\n<arg_value>", "</arg_value>")],
)
def test_a_call_whose_parameters_are_marked_one_by_one_is_read(before, after):
    raw = fill(FORMS["review"], seed=4)
    marked = "\n".join(before.format(name) + json.dumps(value) + after for name, value in raw.items())
    text = f"<think>Hm.</think><tool_call>judgement\n{marked}\n</tool_call>"
    assert parse(text, REVIEW.dimensions, WHOLE) == parse(json.dumps(raw), REVIEW.dimensions, WHOLE)
    with pytest.raises(MalformedAnswer):
        parse(f"It says {text[20:]}", REVIEW.dimensions, WHOLE, shown=[f"Call this: {text}"])


@pytest.mark.parametrize(
    "value",
    ["[" * 900 + "]" * 900, "NaN", "1e400", "1" + "0" * 400, '"\\ud800"', '"' + "x" * 1_000_000 + '"'],
)
@pytest.mark.parametrize("field", ["level", "confidence", "evidence", "reason"])
def test_no_value_ends_the_reading(field, value):
    text = json.dumps({"tone": {"level": "good", **REASONED} | {field: "HERE"}}).replace('"HERE"', value)
    if field == "level":
        with pytest.raises(MalformedAnswer):
            parse(text, [LEVELLED], WHOLE)
    else:
        (answer,) = parse(text, [LEVELLED], WHOLE).values()
        assert answer.level == "good"
        assert json.dumps([answer.reason, answer.evidence], ensure_ascii=False).encode()


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
