"""The artifacts of the original tool, made again key by key."""

import json
import shutil
from pathlib import Path

import pytest

from tests.goldens import SHARED, data
from trivium.cli.main import run_command

LEGACY = ("--confidence", "all", "--rng", "legacy", "--bootstrap-resamples", "1000", "--seed", "42", "--json")


@pytest.fixture(autouse=True)
def _beside_the_run(tmp_path):
    shutil.copy(data("phq8_run.json"), tmp_path)


def artifact(capsys, *arguments: str) -> dict:
    assert run_command(["trust", "curve", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def differences(expected, found, path: str = "") -> list[str]:
    """Where what was found lacks something, or says something else; more keys may be there."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [path]
        return [
            each
            for key, value in expected.items()
            for each in (
                differences(value, found[key], f"{path}/{key}") if key in found else [f"{path}/{key} missing"]
            )
        ]
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return [path]
        pairs = enumerate(zip(expected, found, strict=True))
        return [each for place, pair in pairs for each in differences(*pair, f"{path}[{place}]")]
    if isinstance(expected, float):
        return [] if found == pytest.approx(expected, rel=1e-9, abs=1e-12) else [f"{path}: {found}"]
    return [] if found == expected else [f"{path}: {found!r}"]


def golden(name: str) -> dict:
    return json.loads((SHARED / "golden" / name).read_text(encoding="utf-8"))


def test_one_predictor_gives_the_numbers_of_the_original_tool(capsys):
    found = artifact(capsys, "phq8_run.json", "--mode", "few_shot", "--created-at", "STRIPPED", *LEGACY)
    assert differences(golden("phq8_metrics_single.json"), found) == []


def test_two_predictors_give_the_numbers_of_the_original_tool(capsys):
    inputs = (
        "--input",
        "phq8_run.json",
        "--mode",
        "zero_shot",
        "--input",
        "phq8_run.json",
        "--mode",
        "few_shot",
    )
    found = artifact(capsys, *inputs, "--created-at", "STRIPPED", *LEGACY)
    assert differences(golden("phq8_metrics_paired.json"), found) == []


def test_the_effect_of_abstaining_alone_is_described(capsys):
    modes = ("--mode", "zero_shot", "--mode", "few_shot")
    found = artifact(capsys, "phq8_run.json", *modes, "--confidence", "verbalized", "--json")
    deltas = found["comparison"]["deltas"]["verbalized"]
    assert deltas["aurc_full"]["ci95"][0] > 0
    assert deltas["aurc_common"]["ci95"][0] < 0 < deltas["aurc_common"]["ci95"][1]
    assert "worse over all it predicts, but not shown to differ" in deltas["in_words"]


def test_the_table_fits_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run_command(["trust", "curve", "phq8_run.json", "--mode", "few_shot", "--confidence", "all"]) == 0
    out = capsys.readouterr().out
    assert "verbalized " in out
    assert max(map(len, out.splitlines())) <= 80


def test_the_answer_is_written_as_it_is_printed(capsys):
    code = run_command(
        ["trust", "curve", "phq8_run.json", "--mode", "few_shot", "--json", "--output", "a/answer.json"]
    )
    captured = capsys.readouterr()
    assert code == 0
    assert Path("a/answer.json").read_text(encoding="utf-8") == captured.out
    assert captured.err == "wrote a/answer.json\n"


def test_confidences_that_only_rounding_tells_apart_are_one_working_point(capsys, tmp_path):
    def curve(low: float, *options: str) -> dict:
        rows = [(1, 1, 0.3), (0, 1, low), (0, 0, 0.3), (1, 0, 0.2)]
        lines = [
            json.dumps({"group": str(place), "item": "x", "pred": pred, "gt": gt, "confidence": sure})
            for place, (pred, gt, sure) in enumerate(rows)
        ]
        (tmp_path / "items.jsonl").write_text("\n".join(lines))
        found = artifact(
            capsys, str(tmp_path / "items.jsonl"), "--bootstrap-resamples", "100", "--json", *options
        )
        return next(iter(found["confidence_variants"].values()))["curve"]

    assert curve(0.1 + 0.2) == curve(0.3)
    assert len(curve(0.1 + 0.2)["threshold"]) == 2
    assert len(curve(0.1 + 0.2, "--rng", "legacy")["threshold"]) == 3
