"""Results of promptfoo: one column is one agent, equal tests are repeats, an error is no wrong answer."""

import json

import pytest

from trivium.agents.attempt import Usage
from trivium.agents.recorded import open_recorded
from trivium.cli.main import run_command
from trivium.errors import InputError
from trivium.suites.suite import Suite


def result(test=0, column=0, *, success=True, **fields):
    return {
        "testIdx": test,
        "promptIdx": column,
        "vars": {"word": "hello"},
        "testCase": {
            "assert": [{"type": "equals", "value": "Say hello"}, {"type": "icontains", "value": "{{word}}"}]
        },
        "prompt": {"raw": "Say hello", "label": "Say {{word}}"},
        "provider": {"id": "echo", "label": ""},
        "response": {"output": "Say hello", "cached": False},
        "gradingResult": {"pass": success, "score": 0.5, "reason": "because"},
        "namedScores": {"tone": 1, "length": 12},
        "success": success,
        "score": 0.5,
        "latencyMs": 1500,
        "cost": 0.25,
        "tokenUsage": {"prompt": 10, "completion": 4, "total": 14},
        "failureReason": 0 if success else 1,
        **fields,
    }


def written(folder, *results, version=3, name="results.json"):
    document = {"evalId": "e", "results": {"version": version, "results": list(results)}, "config": {}}
    (folder / name).write_text(json.dumps(document))
    return f"promptfoo:{folder / name}"


def attempts(source):
    suite = Suite.load(source)
    return suite, [attempt for _, attempt in open_recorded(source, suite)]


def test_a_result(tmp_path):
    suite, (attempt,) = attempts(written(tmp_path, result()))
    (case,) = suite
    assert (case.id, case.input, case.references) == ("0", "hello", ("Say hello", "hello"))
    assert (attempt.output, attempt.reward, attempt.seconds) == ("Say hello", 1.0, 1.5)
    assert attempt.usage == Usage(input_tokens=10, output_tokens=4, cost_usd=0.25)
    assert attempt.metadata["scores"] == {
        "promptfoo.score": {"value": 0.5, "raw": 0.5, "explanation": "because"},
        "promptfoo.tone": {"value": 1.0, "raw": 1},
        "promptfoo.length": {"raw": 12},
    }


def test_equal_tests_are_repeats(tmp_path):
    other = result(2, vars={"word": "bye", "tone": "kind"}, success=False)
    suite, found = attempts(written(tmp_path, result(0), result(1, success=False), other))
    assert [(attempt.case, attempt.repeat, attempt.reward) for attempt in found] == [
        ("0", 0, 1.0),
        ("0", 1, 0.0),
        ("2", 0, 0.0),
    ]
    assert suite.settings.repeats == 2
    assert suite.case("2").input == {"word": "bye", "tone": "kind"}


def test_one_of_several_columns_is_named(tmp_path):
    source = written(tmp_path, result(column=0), result(column=1, success=False))
    with pytest.raises(InputError, match=r'2 prompts and providers.*\?column=1: "Say {{word}}" with echo'):
        Suite.load(source)
    with pytest.raises(InputError, match='no column "7": there are 0, 1'):
        Suite.load(f"{source}?column=7")
    _, (attempt,) = attempts(f"{source}?column=1")
    assert attempt.reward == 0.0


def test_an_error_is_no_wrong_answer_and_a_cached_response_has_no_time(tmp_path):
    broken = result(success=False, failureReason=2, error="429", response={"error": "429"})
    cached = result(1, vars={}, response={"output": "x", "cached": True}, cost=0, tokenUsage={"prompt": 0})
    suite, (first, second) = attempts(written(tmp_path, broken, cached))
    assert (first.error, first.reward) == ("429", None)
    assert (second.seconds, second.usage) == (None, None)
    assert suite.case("1").input == "Say hello"


def test_lines_and_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = [result(0), result(1, vars={"word": "a"}, success=False)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run_command(["score", "promptfoo:results.jsonl"]) == 0
    printed = capsys.readouterr().out
    assert "2 attempts of 2 cases" in printed
    assert "1 of 2 passed" in printed


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"results": {"version": 2, "results": []}}, "of version 3 or later; its version is 2"),
        ({"results": []}, "its version is None"),
        ({"results": {"version": 3, "results": []}}, "holds no result of promptfoo"),
        ({"results": {"version": 3}}, "holds no result of promptfoo"),
        (
            {"results": {"version": 3, "results": [{"success": 1}]}},
            "results[0]: expected a result of promptfoo",
        ),
        ([1], "line 1: expected a result of promptfoo"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, document, said):
    (tmp_path / "x.json").write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        Suite.load(f"promptfoo:{tmp_path / 'x.json'}")
    assert said in str(error.value)
    assert str(tmp_path / "x.json") in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="none.json"):
        Suite.load(f"promptfoo:{tmp_path / 'none.json'}?column=1")
