import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from tests.metrics.text.texts import texts
from trivium.metrics.text.matching import contains, equals, fold, word_count

NOT_42 = [
    "It is 42.5 metres.",
    "The total is 42,000 euros.",
    "Es sind 42'000 Franken.",
    "42\u00a0000 habitants",
    "42\u202f000 habitants",
    "It fell to -42.",
    "It fell to \u221242 °C.",
    "(-42)",
    "-$42",
    "It grew by 1.42 per cent.",
    "1,42 %",
    ".42",
    "About 1/42 of it.",
    "42/100",
    "0.42",
    "42e6",
    "4.2e42",
    "42²",
    "142",
    "421",
    "42km",
    "COVID-42",
    "v1.42",
]
"""Texts in which 42 is a part of another number or word."""

IS_42 = [
    "42",
    "It is 42.",
    "It is 42, I think.",
    "(42)",
    "42!",
    "**42**",
    "$42",
    "€42",
    "42 €",
    "42 %",
    "42%",
    "+42",
    "= 42",
    "=42",
    "\\boxed{42}",
    "\uff14\uff12",
    "Die Antwort:42",
    "from 40–42",
    "答案是42。",
    "42km is not it, 42 is",
    "The list ends here.42",
]


@pytest.mark.parametrize("text", NOT_42)
def test_a_number_is_not_found_inside_another(text: str):
    assert not contains(text, "42")


@pytest.mark.parametrize("text", IS_42)
def test_a_number_is_found_with_whatever_stands_beside_numbers(text: str):
    assert contains(text, "42")


@pytest.mark.parametrize(
    ("text", "wanted", "found"),
    [
        ("It costs 4.50.", "4.50", True),
        ("It costs 14.50.", "4.50", False),
        ("It costs 4.505.", "4.50", False),
        ("It is \u221242 outside.", "-42", True),
        ("Pages 7-42", "-42", False),
        ("Take Route 42.", "Route 42", True),
        ("Take Route 42.5.", "Route 42", False),
        ("12\u202f345 people", "12'345", True),
        ("I write C++.", "C", False),
        ("I write C#, mostly", "C", False),
        ("I write C++.", "C++", True),
        ("A+B", "A", True),
        ("grade A+", "A", False),
        ("by e-mail", "mail", False),
        ("by mail", "mail", True),
        ("a Paris-based firm", "Paris", True),
        ("in Paris\u2014the capital", "Paris", True),
        ("the years 1990–1995", "1990-1995", True),
        ("It\u2019s \u201cyes\u201d", 'It\'s "yes"', True),
        ("Cafe\u0301 Zu\u0308rich", "café zürich", True),
        ("\uff21\uff22\uff23", "ABC", True),
        ("x\u00b2", "x2", False),
        ("我在巴黎工作", "巴黎", True),
        ("ฉันอยู่ในกรุงเทพ", "กรุงเทพ", True),
        ("أنا في باريس الآن", "باريس", True),
        ("मैं दिल्ली में हूँ", "दिल्ली", True),
        ("Я в Москве", "Москв", False),
        ("서울은 수도입니다", "서울", True),
    ],
)
def test_words_are_found_whole_in_any_script(text: str, wanted: str, found: bool):
    assert contains(text, wanted) is found


@given(texts, st.sampled_from(["NFC", "NFD"]), st.sampled_from(["NFC", "NFD"]))
def test_a_text_contains_and_equals_itself_in_any_normal_form(text: str, one: str, other: str):
    first, second = unicodedata.normalize(one, text), unicodedata.normalize(other, text)
    assert equals(first, second)
    assert fold(first) == fold(second)


VALUE = '{"city": "Suva", "zip": 1, "tags": ["a", null]}'


@pytest.mark.parametrize(
    ("output", "same"),
    [
        ('{"tags":["a",null],"zip":1,"city":"Suva"}', True),
        ('{\n  "zip": 1.0, "city": "Suva", "tags": ["a", null]\n}', True),
        ('Here it is:\n```json\n{"zip": 1, "city": "Suva", "tags": ["a", null]}\n```\nDone.', True),
        ('{"city": "Suva", "zip": true, "tags": ["a", null]}', False),
        ('{"city": "Suva", "zip": "1", "tags": ["a", null]}', False),
        ('{"city": "Suva", "zip": 1, "tags": [null, "a"]}', False),
        ('{"city": "Suva", "zip": 1}', False),
        ('{"city": "Suva", "zip": 1, "tags": ["a", null]', False),
    ],
)
@pytest.mark.parametrize("rule", [{"exact": True}, {"contains": "any"}])
def test_json_is_compared_as_a_value(rule: dict, output: str, same: bool):
    assert tv.score("success", output=output, references=[VALUE], success=rule).value == float(same)


def test_the_expected_output_may_be_any_json_value(tmp_path):
    case = {"id": "1", "input": "?", "expect": {"output": {"zip": 1, "city": "Suva"}}}
    (tmp_path / "cases.jsonl").write_text(json.dumps(case))
    [read] = tv.Suite.load(tmp_path / "cases.jsonl").cases
    assert read.expect.output == {"zip": 1, "city": "Suva"}
    for output, value in [({"city": "Suva", "zip": 1.0}, 1.0), ({"city": "Nadi", "zip": 1}, 0.0)]:
        score = tv.score("success", output=output, expect=read.expect, success={"exact": True})
        assert score.value == value


@pytest.mark.parametrize(
    ("output", "reference", "tolerance", "right"),
    [
        ("It is 42.0 m.", "42", 0, True),
        ("42,000 people", "42000", 0, True),
        ("42'000.5", "42000.5", 0, True),
        ("42\u00a0000", "42,000", 0, True),
        ("1.234.567", "1234567", 0, True),
        ("1.234,5", "1234.5", 0, True),
        ("42,5", "42.5", 0, True),
        ("0,500", "0.5", 0, True),
        ("1.234", "1234", 0, False),
        ("\u221242", "-42", 0, True),
        ("-$42", "42", 0, False),
        ("4.2e1", "42", 0, True),
        ("1/2", "0.5", 0, True),
        ("1/0", "0", 0, False),
        ("about 41.6", "42", 0.5, True),
        ("about 41.4", "42", 0.5, False),
        ("between 40 and 42", "42 km", 0, True),
        ("v1.42", "42", 0, False),
        ("forty-two", "42", 0, False),
        ("", "42", 0, False),
        ("9" * 5000, "42", 0, False),
        ("\uff14\uff12", "42", 0, True),
    ],
)
def test_numbers_may_be_compared_as_numbers(output: str, reference: str, tolerance: float, right: bool):
    score = tv.score("success", output=output, references=[reference], success={"number": tolerance})
    assert (score.value, score.method) == (float(right), f"number ± {tolerance:g}")


@pytest.mark.parametrize("reference", ["Paris", "1 or 2"])
def test_a_reference_that_is_not_one_number_is_no_number_to_compare_with(reference: str):
    score = tv.score("success", output="1", references=[reference], success={"number": 0})
    assert (score.status, score.reason) == ("skipped", f'the reference "{reference}" is not one number')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one two  three", 3),
        ("Привет, мир", 2),
        ("巴黎是法国的首都", 4),
        ("東京 tower は高い", 4),
        ("서울은 수도입니다", 2),
        ("", 0),
    ],
)
def test_words_are_counted_as_a_reader_would(text: str, words: int):
    assert word_count(text) == words


def test_a_paragraph_without_spaces_is_not_short(tmp_path):
    paragraph = "人工智能正在改变我们的生活方式，" * 10
    cases = [{"id": "1", "input": "?", "references": [paragraph]}]
    run = tv.evaluate(
        {"name": "s", "cases": cases, "metrics": ["success"], "similarity": {"cosine": 1}},
        outputs=[{"case": "1", "output": paragraph}],
        store=f"sqlite:///{tmp_path}/s.db",
    )
    assert next(iter(run.evaluations())).scores["success"].method == "similarity ≥ 0.8"
