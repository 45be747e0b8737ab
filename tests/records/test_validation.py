from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from tests.strategies import json_values
from trivium.records.validation import convert
from trivium.suites.case import Case


class Inner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    flag: bool = False


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    share: Annotated[float, Meta(ge=0, le=1)] = 0
    count: Annotated[int, Meta(gt=0)] = 1
    word: Literal["best", "mean"] = "best"
    inner: Inner | None = None
    many: list[Inner] = []
    by_name: dict[str, float] = {}
    either: int | str = 0
    anything: object = None


class Foreign(msgspec.Struct, frozen=True, kw_only=True):
    id: str


KEYS = "id, share, count, word, inner, many, by_name, either, anything"
A_SHARE = "expected a number of at least 0 and at most 1"
A_COUNT = "expected a whole number of more than 0"


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (3, f": found the number 3, expected a mapping with keys {KEYS}"),
        ({}, ': "id" is missing'),
        ({"id": 3}, '.id: found the number 3, expected text: write it as a text, "3"'),
        ({"id": None}, ".id: found nothing (null), expected text"),
        ({"id": "x", "shar": 1}, ': unknown key "shar". Did you mean "share"?'),
        ({"id": "x", "zzz": 1}, f': unknown key "zzz". Known: {KEYS}'),
        ({"id": "x", 3: 1}, ": found the number 3 as a key, expected text"),
        ({"id": "x", "share": 2}, f".share: found the number 2, {A_SHARE}"),
        ({"id": "x", "share": float("nan")}, f".share: found the number nan, {A_SHARE}"),
        ({"id": "x", "share": True}, f".share: found true, {A_SHARE}"),
        ({"id": "x", "count": 0}, f".count: found the number 0, {A_COUNT}"),
        ({"id": "x", "count": 1.5}, f".count: found the number 1.5, {A_COUNT}"),
        ({"id": "x", "word": "bset"},
         '.word: found the text "bset", expected "best" or "mean". Did you mean "best"?'),
        ({"id": "x", "word": []}, '.word: found an empty list, expected "best" or "mean"'),
        ({"id": "x", "inner": [1, 2]}, ".inner: found a list of 2, expected a mapping with keys name, flag"),
        ({"id": "x", "inner": {"name": "n", "flag": "yes"}},
         '.inner.flag: found the text "yes", expected true or false'),
        ({"id": "x", "many": {"a": 1}}, ".many: found a mapping (a), expected a list"),
        ({"id": "x", "many": [{"name": "n"}, {}]}, '.many[1]: "name" is missing'),
        ({"id": "x", "by_name": []}, ".by_name: found an empty list, expected a mapping"),
        ({"id": "x", "by_name": {"a b": "1"}}, '.by_name["a b"]: found the text "1", expected a number'),
        ({"id": "x", "by_name": {1: 1}}, ".by_name: found the number 1 as a key, expected text"),
        ({"id": "x", "either": []}, ".either: found an empty list, expected a whole number or text"),
        ({"id": "x", "either": {}}, ".either: found an empty mapping, expected a whole number or text"),
        ({"id": "x", "inner": b"raw"}, ".inner: found a bytes, expected a mapping with keys name, flag"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_place_finding_and_expectation(raw, said):
    record, problems = convert(raw, Record, "here")
    assert record is None
    assert [str(problem) for problem in problems] == [f"here{said}"]


def test_all_mistakes_are_found_at_once():
    _, problems = convert({"count": 0, "many": [{}, {"name": 1}], "wrd": 1}, Record)
    assert {problem.where for problem in problems} == {"count", "many[0]", "many[1].name", ""}
    assert len(problems) == 5


def test_a_place_that_ends_in_a_colon_precedes_the_path():
    _, problems = convert({"id": 1, "zzzz": 1}, Record, "line 7:")
    assert [problem.where for problem in problems] == ["line 7: id", "line 7"]


def test_a_long_or_odd_text_is_quoted_short_and_plain():
    _, (problem,) = convert({"id": "x", "count": "a\n\x1b[31m" + "b" * 1000}, Record)
    assert len(problem.what) < 150
    assert "\x1b" not in problem.what


def test_unknown_keys_of_foreign_records_are_passed_over():
    assert convert({"id": "x", "other": 1}, Foreign) == (Foreign(id="x"), [])


def test_a_number_is_accepted_as_an_id_and_one_text_as_a_list():
    raw = {"id": 1105.1072, "input": None, "references": "one", "group": 7, "tags": "t"}
    case, problems = convert(raw, Case)
    assert not problems
    assert case == Case(id="1105.1072", input=None, references=("one",), group="7", tags=("t",))


@pytest.mark.parametrize("raw", [True, [], ""])
def test_what_is_neither_text_nor_number_is_no_id(raw):
    case, (problem,) = convert({"id": raw, "input": 1}, Case)
    assert case is None
    assert problem.where == "id"


def test_a_number_of_very_many_digits_is_quoted_short():
    _, (problem,) = convert({"id": "x", "word": 10**5000}, Record)
    assert "of very many digits" in problem.what


@given(st.dictionaries(st.sampled_from(Case.__struct_fields__), json_values))
def test_every_input_gives_a_record_or_a_problem(raw):
    case, problems = convert(raw, Case)
    assert (case is None) == bool(problems)
