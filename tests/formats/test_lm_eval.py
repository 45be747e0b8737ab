"""Samples of lm-evaluation-harness: answers, right answers and scores as the harness has them."""

import json

import pytest

from trivium.agents.recorded import open_recorded
from trivium.cli.main import run_command
from trivium.errors import InputError
from trivium.suites.suite import Suite

GENERATED = {
    "doc_id": 7,
    "doc": {"question": "1+1?"},
    "target": "2",
    "arguments": {"gen_args_0": {"arg_0": "Q: 1+1?\nA:", "arg_1": {"until": ["\n"]}}},
    "resps": [["It is 2."]],
    "filtered_resps": ["It is 2."],
    "filter": "none",
    "metrics": ["exact_match"],
    "doc_hash": "d",
    "prompt_hash": "p",
    "target_hash": "t",
    "exact_match": 0.0,
}
CHOSEN = GENERATED | {
    "doc_id": 0,
    "target": "1",
    "arguments": {
        "gen_args_0": {"arg_0": "Q: grass?\nA:", "arg_1": " red"},
        "gen_args_1": {"arg_0": "Q: grass?\nA:", "arg_1": " green"},
    },
    "resps": [[["-0.7", "False"]], [["-0.5", "False"]]],
    "filtered_resps": [["-0.7", "False"], ["-0.5", "False"]],
    "metrics": ["acc", "acc_norm"],
    "acc": 1.0,
    "acc_norm": 0.0,
}


def written(folder, *lines, name="samples_sums_2026-11-28T02-08-20.074257.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"lm-eval:{path}"


def attempts(source):
    suite = Suite.load(source)
    return suite, [attempt for _, attempt in open_recorded(source, suite)]


def test_generated_text(tmp_path):
    suite, (attempt,) = attempts(written(tmp_path, GENERATED))
    (case,) = suite
    assert (suite.name, case.id, case.input, case.references) == ("sums", "7", "Q: 1+1?\nA:", ("2",))
    assert case.metadata == {"question": "1+1?"}
    assert (attempt.output, attempt.reward) == ("It is 2.", 0.0)
    assert attempt.metadata["scores"]["lm-eval.exact_match"]["value"] == 0.0


def test_the_chosen_answer_is_the_most_likely_one(tmp_path):
    suite, (attempt,) = attempts(written(tmp_path, CHOSEN))
    assert (attempt.output, attempt.reward) == ("green", 1.0)
    assert [case.references for case in suite] == [("green",)]
    assert list(attempt.metadata["scores"]) == ["lm-eval.acc", "lm-eval.acc_norm"]


def test_filters_of_one_document_are_scores_of_one_output(tmp_path):
    strict = GENERATED | {"filter": "strict", "filtered_resps": ["[invalid]"]}
    flexible = GENERATED | {"filter": "flexible", "filtered_resps": ["2"], "exact_match": 1.0}
    suite, (attempt,) = attempts(written(tmp_path, strict, flexible))
    scores = attempt.metadata["scores"]
    assert {name: score["value"] for name, score in scores.items()} == {
        "lm-eval.exact_match.strict": 0.0,
        "lm-eval.exact_match.flexible": 1.0,
    }
    assert scores["lm-eval.exact_match.flexible"]["answer"] == "2"
    assert attempt.output == "It is 2."
    assert len(suite) == 1


def test_scores_that_are_no_share_are_only_raw_and_lower_ones_none(tmp_path):
    line = GENERATED | {"metrics": ["bleu", "ter", "f1"], "bleu": 41.5, "ter": 0.5, "f1": float("nan")}
    _, (attempt,) = attempts(written(tmp_path, line))
    assert attempt.metadata["scores"] == {
        "lm-eval.bleu": {"raw": 41.5, "answer": "It is 2."},
        "lm-eval.f1": {"answer": "It is 2."},
    }
    assert attempt.reward is None


def test_files_of_older_versions_have_lists_and_no_names_of_metrics(tmp_path):
    line = {key: value for key, value in GENERATED.items() if key not in {"metrics", "filter"}}
    line["arguments"] = [["Q: 1+1?\nA:", {"until": ["\n"]}]]
    suite, (attempt,) = attempts(written(tmp_path, line, name="samples.jsonl"))
    assert (suite.name, suite.case("7").input) == ("samples", "Q: 1+1?\nA:")
    assert list(attempt.metadata["scores"]) == ["lm-eval.exact_match"]


def test_a_run_of_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert (
        run_command(["score", written(tmp_path, GENERATED, GENERATED | {"doc_id": 8, "exact_match": 1.0})])
        == 0
    )
    printed = capsys.readouterr().out
    assert "2 attempts of 2 cases" in printed
    assert "1 of 2 passed" in printed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"a": 1}, "line 1: expected a sample of lm-evaluation-harness, an object with doc_id and resps"),
        ([1], "line 1: expected a sample"),
        (GENERATED | {"doc_id": None}, "line 1: expected a sample"),
        (CHOSEN | {"resps": [[["-0.7", "False"]]]}, "line 1: holds no answer"),
        (GENERATED | {"resps": [[["-9.5", "False"]]]}, "line 1: holds no answer"),
        (GENERATED | {"resps": []}, "line 1: holds no answer"),
        (GENERATED | {"arguments": 3}, "line 1: holds no answer"),
    ],
)
def test_what_is_no_sample_is_refused(tmp_path, line, said):
    source = written(tmp_path, line)
    with pytest.raises(InputError) as error:
        Suite.load(source)
    assert f"{source.removeprefix('lm-eval:')}: {said}" in str(error.value)


def test_outputs_of_other_cases_are_named(tmp_path):
    suite = Suite.load(written(tmp_path, GENERATED))
    with pytest.raises(InputError, match='line 1: the suite has no case "0"'):
        open_recorded(written(tmp_path, CHOSEN, name="other.jsonl"), suite)
