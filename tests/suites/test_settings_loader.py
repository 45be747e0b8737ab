import json

import msgspec
import pytest
from hypothesis import given

from tests.strategies import settings_of_suites
from trivium.errors import SuiteError
from trivium.suites.settings import DEFAULT_SIMILARITY, Settings, SuccessRule
from trivium.suites.settings_loader import parse_settings, read_config, with_changes
from trivium.suites.suite import Suite

ONE = [{"id": "1", "input": "q"}]
OLD = {
    "similarity_metrics": ["cosine", "jaccard"],
    "confidence_threshold": 0.6,
    "metrics_and_weights": {
        "time_taken": 0.2,
        "task_success": 0.3,
        "planning_rational": 0.1,
        "output_similarity": 0.4,
    },
}


def settings_from(**keys) -> Settings:
    return Suite.from_dict({"cases": ONE, **keys}).settings


def test_the_old_keys_say_what_they_said(tmp_path):
    path = tmp_path / "config_eval.json"
    path.write_text(json.dumps(OLD))
    settings = settings_from(**read_config(path))
    assert settings.similarity == {"cosine": 0.3, "jaccard": 0.2}
    assert settings.success == SuccessRule(metric="similarity", at_least=0.6)
    weights = {"time": 0.2, "success": 0.3, "planning_rationality": 0.1, "similarity": 0.4}
    assert settings.composite.weights == weights
    assert settings_from(**OLD) == settings


def test_a_suite_names_a_file_of_settings_and_lays_its_own_over_them(tmp_path):
    (tmp_path / "config_eval.json").write_text(json.dumps(OLD))
    (tmp_path / "s.yaml").write_text(
        "config: config_eval.json\ncases: [{id: a, input: x}]\nsuccess: {exact: true}\nrepeats: 2"
    )
    settings = Suite.load(tmp_path / "s.yaml").settings
    assert settings == msgspec.structs.replace(
        settings_from(**OLD), success=SuccessRule(exact=True), repeats=2
    )


def test_cases_alone_go_with_a_file_of_settings(tmp_path):
    config = tmp_path / "config_eval.json"
    config.write_text(json.dumps(OLD))
    (tmp_path / "cases.jsonl").write_text('{"id": "a", "input": "x"}')
    suite = Suite.load(tmp_path / "cases.jsonl", config=config, repeats=3)
    assert suite.settings == msgspec.structs.replace(settings_from(**OLD), repeats=3)
    assert suite.name == "cases"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            '{"confidence_treshold": 1}',
            'c.json: unknown key "confidence_treshold". Did you mean "confidence_threshold"?',
        ),
        (
            '{"confidence_threshold": 2}',
            "c.json: confidence_threshold: found the number 2, expected a number from 0 to 1",
        ),
        ("[]", "c.json: found an empty list, expected a mapping of settings"),
    ],
)
def test_a_wrong_file_of_settings_is_named_with_the_other_mistakes(tmp_path, config, expected):
    (tmp_path / "c.json").write_text(config)
    (tmp_path / "s.yaml").write_text("config: c.json\nrepeat: 2\ncases: [{id: a, input: x}]")
    with pytest.raises(SuiteError) as caught:
        Suite.load(tmp_path / "s.yaml")
    assert expected in str(caught.value)
    assert 'unknown key "repeat"' in str(caught.value)


def test_a_file_of_settings_alone_says_where_it_goes(tmp_path):
    path = tmp_path / "config_eval.json"
    path.write_text(json.dumps(OLD))
    with pytest.raises(SuiteError, match="trivium score CASES --config THIS_FILE"):
        Suite.load(path)


def test_old_weights_go_with_new_thresholds():
    settings = settings_from(
        metrics_and_weights={"time_taken": 1}, composite={"missing": "zero", "thresholds": {"accept": 0.9}}
    )
    assert settings.composite.weights == {"time": 1}
    assert settings.composite.missing == "zero"
    assert settings.composite.thresholds.accept == 0.9


def test_old_names_of_metrics_are_read_wherever_a_metric_is_named():
    settings = settings_from(
        metrics=["time_taken", "time", "task_success"],
        success={"metric": "output_similarity", "at_least": 0.5},
        gates={"planning_rational": {"at_least": 0.5}},
        composite={"weights": {"task_success": 1}},
        **{"pass": {"metric": "task_success"}},
    )
    assert settings.metrics == ("time", "success")
    assert settings.success.metric == "similarity"
    assert settings.passed.metric == "success"
    assert list(settings.gates) == ["planning_rationality"]
    assert settings.composite.weights == {"success": 1}


def test_one_metric_needs_no_list():
    assert settings_from(metrics="task_success").metrics == ("success",)


def test_unnamed_settings_are_the_default_ones():
    assert settings_from() == Settings()
    assert Settings().similarity == DEFAULT_SIMILARITY


def test_a_judge_is_read():
    judge = settings_from(
        judge={
            "models": "openai:one",
            "rubric": ["review", "agent"],
            "prices": {"openai:one": {"input": 1, "output": 2.5}},
            "models_by_complexity": {"simple": "openai:two"},
        }
    ).judge
    assert judge.models == ("openai:one",)
    assert judge.rubric == ("review", "agent")
    assert judge.models_by_complexity == {"simple": ("openai:two",)}
    assert (judge.excerpt_chars, judge.on_failure, judge.step, judge.cache) == (60_000, "tier1", 1, True)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (
            {"judge": {"models_by_complexity": {"easy": ["x"]}}},
            'judge.models_by_complexity: found the text "easy"',
        ),
        ({"metrics": [3]}, r"metrics[0]: found the number 3, expected text"),
        ({"composite": 3}, "composite: found the number 3, expected a mapping"),
        ({"composite": 3, "metrics_and_weights": {}}, "composite: found the number 3, expected a mapping"),
        ({"success": {"exact": False}}, "success: names no criterion"),
        ({"passed": {"metric": "x"}}, 'unknown key "passed". Did you mean "pass"?'),
    ],
)
def test_impossible_settings_are_reported(keys, expected):
    with pytest.raises(SuiteError) as caught:
        settings_from(**keys)
    assert expected in str(caught.value)


def test_a_settings_file_has_no_cases(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("cases: []")
    with pytest.raises(SuiteError, match='unknown key "cases"'):
        read_config(path)
    path.write_text("- 1")
    with pytest.raises(SuiteError, match="found a list of 1, expected a mapping of settings"):
        read_config(path)


@given(settings_of_suites)
def test_settings_that_change_in_nothing_stay_equal(settings):
    assert with_changes(settings, {}, source="s") == settings


def test_overrides_go_before_the_file(tmp_path):
    (tmp_path / "s.toml").write_text('repeats = 2\nlimits = {seconds = 5}\n[[cases]]\nid = 1\ninput = "q"')
    suite = Suite.load(
        tmp_path / "s.toml", name="other", repeats=3, limits={"retries": 0}, passed={"metric": "cosine"}
    )
    assert suite.name == "other"
    assert suite.settings.repeats == 3
    assert (suite.settings.limits.seconds, suite.settings.limits.retries) == (5, 0)
    assert suite.settings.passed.metric == "cosine"


def test_a_suite_file_names_its_cases_relative_to_its_folder(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "c.yaml").write_text("cases: [{id: 1, input: q}]")
    (tmp_path / "s.yaml").write_text("cases: data/c.yaml\ndescription: What it is for.")
    suite = Suite.load(tmp_path / "s.yaml")
    assert (suite.name, suite.description, len(suite)) == ("s", "What it is for.", 1)
    assert Suite.load(tmp_path / "data" / "c.yaml").name == "c"


def test_gates_that_are_a_list_are_answered_with_an_example():
    settings, problems = parse_settings({"gates": [{"pass_rate": {"at_least": 0.5}}], "repeats": 2})
    assert settings.repeats == 2
    assert [str(each) for each in problems] == [
        "gates: found a list of 1, expected a mapping such as {pass_rate: {at_least: 0.8}}"
    ]
