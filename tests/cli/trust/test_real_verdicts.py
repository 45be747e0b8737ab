"""Real verdicts of language models on papers, from a file of items to the numbers of the original tool."""

import json
from pathlib import Path

import pytest

from tests.goldens import SHARED, data
from trivium.cli.main import run_command

LEGACY = ("--rng", "legacy", "--bootstrap-resamples", "1000", "--seed", "42", "--range", "0:1", "--json")


def items(model: str, prompt: str, name: str = "items.jsonl") -> str:
    lines = []
    for line in data("paper_verdicts.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (row["model"], row["prompt"]) == (model, prompt):
            item = {"group": row["paper_id"], "item": "accept", "confidence": row["confidence"]}
            item |= {"pred": int(row["prediction"] == "ACCEPT"), "gt": int(row["ground_truth"] == "ACCEPT")}
            lines.append(json.dumps(item))
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def golden() -> dict:
    return json.loads((SHARED / "golden" / "paper_verdicts_metrics.json").read_text(encoding="utf-8"))


def answer(capsys, *arguments: str) -> dict:
    assert run_command(["trust", "curve", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_every_run_has_the_areas_and_the_calibration_of_the_oracle(capsys):
    data("paper_verdicts.jsonl")
    ranked = [run for run in golden()["runs"] if "aurc" in run]
    assert len(ranked) > 30
    for run in ranked:
        found = answer(capsys, items(run["model"], run["prompt"]), *LEGACY[4:], "--bootstrap-resamples", "0")
        entry = found["confidence_variants"]["confidence"]
        for ours, theirs in (
            ("aurc_full", "aurc"),
            ("augrc_full", "augrc"),
            ("eaurc", "eaurc"),
            ("cmax", "cmax"),
        ):
            assert entry[ours] == pytest.approx(run[theirs], abs=1e-12)
        assert entry["reliability"]["ece"] == pytest.approx(run["ece10"], abs=1e-12)
        assert entry["aurc_at_c"]["value"] == pytest.approx(run["aurc_at"]["0.5"], abs=1e-12)


def test_two_prompts_differ_as_much_as_the_oracle_says(capsys):
    data("paper_verdicts.jsonl")
    for pair in golden()["paired"]:
        left, right = (
            items(pair["model"], pair["left"], "l.jsonl"),
            items(pair["model"], pair["right"], "r.jsonl"),
        )
        found = answer(capsys, "--input", left, "--input", right, *LEGACY)
        deltas = found["comparison"]["deltas"]["confidence"]
        for ours, theirs in (("aurc_full", "aurc"), ("augrc_full", "augrc")):
            assert deltas[ours]["delta"] == pytest.approx(pair[theirs]["delta"], abs=1e-12)
            assert deltas[ours]["ci95"] == pytest.approx(pair[theirs]["ci95"], abs=1e-12)


def test_a_predictor_without_confidence_is_not_ranked(capsys):
    name = items("reviewer-score-threshold", "baseline/with_reviews/set46")
    assert run_command(["trust", "curve", name, "--confidence", "confidence"]) == 2
    assert "a prediction without confidence" in capsys.readouterr().err
    assert run_command(["trust", "curve", name]) == 2
    assert "nothing to rank them by" in capsys.readouterr().err
    assert run_command(["trust", "agree", name]) == 0


def test_the_file_as_it_was_published_is_read_as_the_converted_one(capsys):
    model, prompt = "llama-3.3-70b-instruct", "zero_shot/neutral/no_reviews/set226"
    lines = data("paper_verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if (row := json.loads(line))["model"] == model and row["prompt"] == prompt]
    Path("published.jsonl").write_text("\n".join(rows) + "\n")
    found = answer(capsys, "published.jsonl", *LEGACY[4:])
    made = answer(capsys, items(model, prompt), *LEGACY[4:])
    assert found["confidence_variants"] == made["confidence_variants"]
    assert run_command(["trust", "agree", "published.jsonl"]) == 0
    note = " ".join(capsys.readouterr().out.split())
    assert "read paper_id as group, prediction as pred, ground_truth as gt; accept is 1, reject is 0" in note
    assert "not read: model, prompt" in note


def test_a_judge_that_is_sure_and_wrong_is_certified_nowhere(capsys):
    name = items("llama-3.3-70b-instruct", "zero_shot/neutral/no_reviews/set226")
    assert run_command(["trust", "certify", name, "--epsilon", "0.3", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["threshold"] is None
    assert run_command(["trust", "calibrate", name, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["temperature"] == 10
    assert any("its bound" in warning for warning in made["warnings"])
    assert made["metrics"]["cross_fitted"]["ece"] < 0.2 < made["metrics"]["uncalibrated"]["ece"]
