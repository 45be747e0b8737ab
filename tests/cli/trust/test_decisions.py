"""Calibrators, certificates and agreement by the trust commands."""

import json
from pathlib import Path

import pytest

from tests.cli.trust.said import answer, items, say


def test_a_calibrator_is_fitted_written_and_used(capsys):
    name = items(60)
    code, out, err = say(capsys, "calibrate", name, "--output", "t.json")
    assert (code, err) == (0, "wrote t.json\n")
    assert "after, unseen groups" in out
    artifact = json.loads(Path("t.json").read_text())
    assert artifact["method"] == "temperature_scaling"
    assert artifact["training_metadata"]["path"] == name
    found = answer(
        capsys, "curve", name, "--confidence", "confidence,calibrated:confidence", "--calibration", "t.json"
    )
    plain, calibrated = found["confidence_variants"].values()
    assert calibrated["aurc_full"] == plain["aurc_full"]
    assert any("no area changes by it" in warning for warning in found["warnings"])
    certified = answer(
        capsys, "certify", name, "--confidence", "calibrated:confidence", "--calibration", "t.json"
    )
    assert certified["confidence"] == "calibrated:confidence"


def test_a_calibrator_on_signals_is_used_by_its_own_name(capsys):
    lines = [json.loads(line) for line in Path(items(60)).read_text().splitlines()]
    for line in lines:
        line["signals"] = {"token_msp": line.pop("confidence")}
    Path("s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("--features", "token_msp", "--method", "logistic", "--output", "c.json", "--json")
    assert say(capsys, "calibrate", "s.jsonl", *arguments)[0] == 0
    found = answer(
        capsys, "curve", "s.jsonl", "--confidence", "calibrated", "--calibration", "c.json", "--range", "0:1"
    )
    assert found["confidence_variants"]["calibrated"]["reliability"]["ece"] < 0.2
    assert say(capsys, "calibrate", "s.jsonl", "--features", "token_mps")[0] == 2
    Path("c.json").write_text('{"method": "magic"}')
    code, _, err = say(capsys, "curve", "s.jsonl", "--confidence", "calibrated", "--calibration", "c.json")
    assert (code, err.startswith("Error: c.json: calibrator.method: must be one of")) == (2, True)
    Path("c.json").write_text("{")
    assert say(capsys, "curve", "s.jsonl", "--calibration", "c.json")[0] == 2


def test_one_group_has_no_figures_of_unseen_groups(capsys):
    lines = [{"group": "a", "item": str(i), "pred": i % 2, "gt": 1, "confidence": i / 10} for i in range(10)]
    Path("one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "no figures of unseen groups: one group only" in " ".join(
        say(capsys, "calibrate", "one.jsonl")[1].split()
    )


def test_a_certificate_says_its_threshold_or_why_there_is_none(capsys):
    found = answer(capsys, "certify", items(200), "--epsilon", "0.3")
    assert found["threshold"] is not None
    assert found["errors"] <= 0.3 * found["n_accepted"]
    assert found["method"] == "exact binomial"
    assert (
        "Accept from confidence"
        in say(capsys, "certify", "items.jsonl", "--epsilon", "0.3", "--output", "c.json")[1]
    )
    assert json.loads(Path("c.json").read_text()) == found
    _, out, _ = say(capsys, "certify", items(5))
    assert "Nothing can be certified" in out
    assert "too few: it takes 22" in " ".join(out.split())


def test_agreement_counts_what_anyone_can_count(capsys):
    found = answer(capsys, "agree", items(40), "--bootstrap-resamples", "500")
    rows = [json.loads(line) for line in Path("items.jsonl").read_text().splitlines()]
    same = sum(row["pred"] == row["gt"] for row in rows) / len(rows)
    assert found["exact"]["value"] == pytest.approx(same)
    assert found["exact"]["ci95"][0] < same < found["exact"]["ci95"][1]
    assert found["corrected"] is None
    assert "Cohen's κ" in say(capsys, "agree", "items.jsonl", "--output", "a.json")[1]
    assert "5 groups" in " ".join(answer(capsys, "agree", items(5))["warnings"])
    assert "12 groups" in " ".join(answer(capsys, "agree", items(12))["warnings"])
    assert answer(capsys, "agree", items(5, pred=None))["judge_mean"] is None
    assert say(capsys, "agree", "items.jsonl")[0] == 0


def test_steps_are_those_of_the_labels(capsys):
    assert answer(capsys, "agree", items(20), "--range", "0:3")["step"] == 1.0
    halves = [{"group": str(i), "item": "x", "pred": i % 3 / 2, "gt": i % 2 / 2} for i in range(12)]
    Path("h.jsonl").write_text("".join(json.dumps(line) + "\n" for line in halves))
    assert answer(capsys, "agree", "h.jsonl")["step"] == 0.5
    assert answer(capsys, "agree", "h.jsonl", "--step", "1")["within_one"]["value"] == 1.0
