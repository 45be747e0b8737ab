import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import names, suites
from trivium.errors import SuiteError
from trivium.suites.case import Case
from trivium.suites.settings import Limits, Settings, SuccessRule
from trivium.suites.suite import Suite


def case(id: str, **fields) -> Case:
    return Case(id=id, input="q", **fields)


@pytest.fixture
def suite() -> Suite:
    return Suite(
        name="papers",
        cases=[
            case("1", tags=("nlp",), complexity="simple", metadata={"year": 2016, "venue": {"name": "ACL"}}),
            case("2", tags=("nlp", "long"), metadata={"year": 2017}),
            case("3", tags=("long",), complexity="complex", metadata={"year": 2017}, group="g"),
            case("4", complexity="complex", metadata={"year": 2018}, group="g"),
        ],
    )


def ids(suite: Suite) -> list[str]:
    return [one.id for one in suite]


def test_a_case_is_found_by_its_id(suite):
    assert suite.case("3").group == "g"
    assert suite.position("3") == 2
    assert suite.position("5") is None
    with pytest.raises(KeyError):
        suite.case("5")


def test_tags_are_an_index(suite):
    assert suite.tags == {"long": (1, 2), "nlp": (0, 1)}


def test_complexity_distribution_counts_what_occurs(suite):
    assert suite.complexity_distribution() == {"simple": 1, "medium": 1, "complex": 2}


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ({"tag": "nlp"}, ["1", "2"]),
        ({"tag": ["nlp", "long"]}, ["1", "2", "3"]),
        ({"complexity": "complex"}, ["3", "4"]),
        ({"complexity": ["simple", "complex"]}, ["1", "3", "4"]),
        ({"tag": "long", "complexity": "complex"}, ["3"]),
        ({"where": lambda one: one.id > "2"}, ["3", "4"]),
        ({"group": "g"}, ["3", "4"]),
        ({"metadata": {"year": 2017}}, ["2", "3"]),
        ({"metadata__year": 2017}, ["2", "3"]),
        ({"metadata.venue.name": "ACL"}, ["1"]),
        ({"metadata": {"venue": {"name": "ACL"}}}, ["1"]),
        ({"metadata__year": {2016, 2018}}, ["1", "4"]),
        ({"tags": "nlp"}, ["1", "2"]),
        ({"tags": ["nlp", "long"]}, ["2"]),
    ],
)
def test_filter_keeps_the_cases_that_meet_every_condition(suite, conditions, left):
    assert ids(suite.filter(**conditions)) == left


def test_a_filtered_suite_knows_its_own_positions(suite):
    filtered = suite.filter(complexity="complex")
    assert (filtered.position("4"), filtered.position("1")) == (1, None)


def test_a_filter_that_nothing_meets_is_an_error(suite):
    with pytest.raises(SuiteError, match="no case meets the filter"):
        suite.filter(tag="nobody")


def test_a_filter_by_no_field_suggests_the_nearest(suite):
    with pytest.raises(SuiteError, match='Did you mean "complexity"'):
        suite.filter(complexty="simple")


@given(suites(), st.integers(0, 10), st.randoms())
def test_samples_and_splits_do_not_depend_on_the_order_of_the_file(suite, seed, random):
    shuffled = list(suite)
    random.shuffle(shuffled)
    other = Suite(name="other", cases=shuffled)
    n = (len(suite) + 1) // 2
    assert set(ids(suite.sample(n, seed=seed))) == set(ids(other.sample(n, seed=seed)))
    try:
        mine = suite.split([1, 1], seed=seed)
    except SuiteError:
        with pytest.raises(SuiteError):
            other.split([1, 1], seed=seed)
    else:
        theirs = other.split([1, 1], seed=seed)
        assert [set(ids(part)) for part in mine] == [set(ids(part)) for part in theirs]


def test_a_larger_sample_holds_the_smaller():
    suite = Suite(name="s", cases=[case(str(i)) for i in range(50)])
    samples = [set(ids(suite.sample(n, seed=7))) for n in (5, 20, 50)]
    assert [len(sample) for sample in samples] == [5, 20, 50]
    assert samples[0] < samples[1] < samples[2]
    assert set(ids(suite.sample(5, seed=8))) != samples[0]


@pytest.mark.parametrize("n", [0, 5])
def test_a_sample_is_never_quietly_smaller_than_asked(suite, n):
    with pytest.raises(SuiteError, match=f"cannot sample {n} of 4"):
        suite.sample(n, seed=1)


@given(st.lists(names, min_size=40, max_size=80), st.integers(0, 5))
def test_a_split_keeps_groups_together_and_loses_no_case(groups, seed):
    suite = Suite(name="s", cases=[case(str(i), group=group) for i, group in enumerate(groups)])
    largest = max(Counter(groups).values())
    if len(set(groups)) < 20:
        return
    parts = suite.split({"train": 0.8, "test": 0.2}, seed=seed)
    assert sorted(ids(parts["train"]) + ids(parts["test"])) == sorted(ids(suite))
    assert not {one.group for one in parts["train"]} & {one.group for one in parts["test"]}
    assert abs(len(parts["train"]) - 0.8 * len(groups)) <= largest


def test_a_split_that_leaves_a_part_empty_is_an_error():
    suite = Suite(name="s", cases=[case("1", group="g"), case("2", group="g")])
    with pytest.raises(SuiteError, match="too few groups"):
        suite.split([0.5, 0.5], seed=1)


@pytest.mark.parametrize("shares", [[], [1, 0], [1, -1]])
def test_shares_must_be_positive(suite, shares):
    with pytest.raises(SuiteError, match="above 0"):
        suite.split(shares, seed=1)


@pytest.mark.parametrize(
    ("key", "groups"),
    [
        (None, ["1", "2", "g", "g"]),
        ("group", ["1", "2", "g", "g"]),
        ("id", ["1", "2", "3", "4"]),
        ("year", ["2016", "2017", "2017", "2018"]),
        ("metadata.year", ["2016", "2017", "2017", "2018"]),
        ("complexity", ["simple", "medium", "complex", "complex"]),
    ],
)
def test_a_case_belongs_to_the_group_that_the_setting_names(suite, key, groups):
    grouped = suite.with_settings(group=key)
    assert [grouped.group_of(one) for one in grouped] == groups


def test_a_group_that_some_case_lacks_is_an_error(suite):
    with pytest.raises(SuiteError, match='case "2": has no "venue"'):
        suite.with_settings(group="venue")


def test_changed_settings_keep_the_cases(suite):
    changed = suite.with_settings(repeats=3, limits={"seconds": 5}, success={"exact": True})
    assert changed.settings.repeats == 3
    assert changed.settings.limits == Limits(seconds=5)
    assert changed.settings.success == SuccessRule(exact=True)
    assert changed.cases is suite.cases
    again = changed.with_settings(limits={"retries": 0}, passed={"metric": "cosine", "at_least": 0.5})
    assert again.settings.limits == Limits(seconds=5, retries=0)
    assert again.settings.passed.metric == "cosine"


def test_an_unknown_setting_is_an_error(suite):
    with pytest.raises(SuiteError, match='unknown key "repeat". Did you mean "repeats"'):
        suite.with_settings(repeat=3)


def test_settings_made_in_python_are_checked_too():
    with pytest.raises(SuiteError, match="repeats: found the number 0"):
        Suite(name="s", cases=[case("1")], settings=Settings(repeats=0))


def test_a_single_reference_in_python_is_one_reference():
    suite = Suite(name="s", cases=[case("1", references="one text"), {"id": 2, "input": "q"}])
    assert suite.case("1").references == ("one text",)
    assert suite.case("2").id == "2"


def test_texts_are_cleaned_at_the_door():
    suite = Suite(
        name="s", cases=[{"id": "1", "input": {"a\0": "\ud800"}, "references": ["b\0"], "source": "\0"}]
    )
    assert suite.case("1") == Case(id="1", input={"a␀": "�"}, references=("b␀",), source="␀")


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ([], "holds no case"),
        ([case("1"), case("1")], r'cases\[1\]: duplicate id "1" \(first in cases\[0\]\)'),
        ([case("")], r"cases\[0\].id: found the text \"\", expected a text that is not empty"),
        ([Case(id="1", input=object())], r"cases\[0\]: is no JSON value"),
        (["text"], r'cases\[0\]: found the text "text", expected a mapping with keys id, input'),
    ],
)
def test_a_suite_made_in_python_says_what_is_wrong(cases, said):
    with pytest.raises(SuiteError, match=said):
        Suite(name="s", cases=cases)


def test_a_suite_cannot_be_changed(suite):
    with pytest.raises(AttributeError):
        suite.name = "other"


def test_equal_suites_have_equal_digests_however_they_were_made(suite):
    raw = [
        {
            "id": one.id,
            "input": "q",
            "tags": list(one.tags),
            "complexity": one.complexity,
            "expect": {},
            "metadata": dict(reversed(one.metadata.items())),
            "group": one.group,
        }
        for one in suite
    ]
    other = Suite.from_dict(
        {
            "name": "papers",
            "cases": raw,
            "limits": {"seconds": 600},
            "success": {"metric": "output_similarity", "at_least": 0.8},
        }
    )
    suite = suite.with_settings(success={"metric": "similarity", "at_least": 0.8})
    assert other == suite
    assert hash(other) == hash(suite)
    assert other.settings_digest == suite.settings_digest
    assert suite.with_settings(repeats=2).settings_digest != suite.settings_digest
    assert suite.filter(tag="nlp").digest != suite.digest
    assert suite != "papers"


def test_digests_are_the_same_in_another_process(suite):
    code = (
        "from trivium import Suite, Case;"
        "s = Suite(name='s', cases=[Case(id='1', input={'b': 1, 'a': [2.5, 'ä']}, tags=('x',))]);"
        "print(s.digest, s.settings_digest, [c.id for c in s.sample(1, seed=1)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_suite_says_what_it_is(suite):
    assert repr(suite) == "Suite('papers', 4 cases)"
    assert repr(suite.filter(tag="nlp", complexity="simple")) == "Suite('papers', 1 case)"
