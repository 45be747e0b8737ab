"""pydantic-evals: its data sets are suites, and Trivium's metrics its evaluators."""

import asyncio

import pytest
from pydantic import BaseModel
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected, IsInstance

import trivium as tv
from trivium.errors import MissingExtra, SuiteError
from trivium.integrations.pydantic_evals import TriviumMetric


class Question(BaseModel):
    text: str


def dataset(*evaluators):
    return Dataset[str, str, dict](
        name="capitals",
        cases=[
            Case(name="uk", inputs="Capital of the UK?", expected_output="London", metadata={"n": 1}),
            Case(name="fr", inputs="Capital of France?", expected_output="It is Paris"),
            Case(inputs="Hello?"),
        ],
        evaluators=list(evaluators),
    )


def answer(question):
    return "London" if "UK" in question else "Paris it is not"


def evaluated(dataset):
    return asyncio.run(dataset.evaluate(answer, progress=False))  # evaluate_sync leaves a loop open


def test_a_data_set_object_is_a_suite():
    suite = tv.Suite.from_dataset(dataset(EqualsExpected()), repeats=2)
    assert (suite.name, suite.settings.repeats, suite.settings.success.exact) == ("capitals", 2, True)
    assert [(c.id, c.input, c.references, c.metadata) for c in suite] == [
        ("uk", "Capital of the UK?", ("London",), {"n": 1}),
        ("fr", "Capital of France?", ("It is Paris",), {}),
        ("2", "Hello?", (), {}),
    ]


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_file_is_the_same_suite_as_its_object(tmp_path, ending):
    path = tmp_path / f"capitals.{ending}"
    whole = dataset(EqualsExpected(), IsInstance(type_name="str"))
    whole.to_file(path)
    read = tv.Suite.load(f"pydantic-evals:{path}")
    assert read == tv.Suite.from_dataset(whole)


def test_inputs_that_are_objects_become_json():
    made = Dataset[Question, dict, dict](
        name="q", cases=[Case(name="a", inputs=Question(text="?"), expected_output={"b": 1, "a": 2})]
    )
    (case,) = tv.Suite.from_dataset(made)
    assert (case.input, case.references) == ({"text": "?"}, ('{"a":2,"b":1}',))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("cases: 3", 'a list "cases"'),
        ("[]", 'a list "cases"'),
        ("cases: [{name: a}]", r'cases\[0\].*"inputs"'),
        ("cases: []", "no case"),
        ("cases: [{name: a, inputs: 1}, {name: a, inputs: 2}]", "duplicate id"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, text, what):
    path = tmp_path / "x.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError, match=what):
        tv.Suite.load(f"pydantic-evals:{path}")


def test_columns_mean_nothing_to_its_data_sets():
    with pytest.raises(SuiteError, match="no columns"):
        tv.Suite.from_dataset(dataset(), columns={"input": "x"})


def test_a_metric_is_an_evaluator():
    report = evaluated(dataset(TriviumMetric("jaccard"), TriviumMetric("cosine")))
    found = {case.name: {name: result.value for name, result in case.scores.items()} for case in report.cases}
    assert found["uk"] == {"jaccard": 1.0, "cosine": 1.0}
    # {paris, it, is, not} and {it, is, paris}: three of four
    assert found["fr"]["jaccard"] == 0.75
    assert found["Case 3"] == {}  # nothing to compare with is no 0


def test_a_metric_of_time_sees_how_long_it_took():
    report = evaluated(dataset(TriviumMetric("time")))
    assert all(case.scores["time"].value == 1.0 for case in report.cases)


def test_settings_of_a_suite_reach_the_metric():
    rule = tv.Suite(name="s", cases=[{"id": "1", "input": 1}]).with_settings(success={"exact": True})
    strict = TriviumMetric("success", settings={"success": rule.settings.success})
    report = evaluated(dataset(strict))
    assert [case.scores["success"].value for case in report.cases[:2]] == [1.0, 0.0]


def test_a_metric_that_there_is_not_is_refused_at_once():
    with pytest.raises(SuiteError, match='Did you mean "jaccard"'):
        TriviumMetric("jacard")


def test_a_metric_that_fails_is_a_failure_in_the_report():
    from trivium.metrics.registry import REGISTERED

    @tv.metric("failing")
    class Failing(tv.Metric):
        def score(self, subject):
            raise ValueError("broken")

    try:
        report = evaluated(dataset(TriviumMetric("failing")))
    finally:
        del REGISTERED["failing"]
    assert [failure.error_message for failure in report.cases[0].evaluator_failures] == [
        "RuntimeError: ValueError: broken"
    ]


def test_an_evaluator_can_be_named_in_a_file(tmp_path):
    path = tmp_path / "capitals.yaml"
    dataset(TriviumMetric("jaccard")).to_file(path, custom_evaluator_types=[TriviumMetric])
    read = Dataset[str, str, dict].from_file(path, custom_evaluator_types=[TriviumMetric])
    assert read.evaluators == [TriviumMetric("jaccard")]


def test_without_the_package_one_line_says_what_to_install(monkeypatch):
    import sys
    from importlib import reload

    import trivium.integrations.pydantic_evals as module

    monkeypatch.setitem(sys.modules, "pydantic_evals.evaluators", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[pydantic-evals\]"'):
        reload(module)
