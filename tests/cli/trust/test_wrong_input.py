"""What the trust commands refuse, and what they say then."""

import json
from pathlib import Path

import pytest

from tests.cli.trust.trust_commands import answer, items, run_trust
from trivium.cli.main import run_command


@pytest.mark.parametrize(
    ("column", "misspelt"), [("ground_truth", "ground_thruth"), ("prediction", "predicton")]
)
def test_a_misspelt_name_of_another_tool_is_told(capsys, column, misspelt):
    header = "paper_id,prediction,ground_truth,confidence".replace(column, misspelt)
    Path("verdicts.csv").write_text(f"{header}\np1,1,1,0.9\n")
    code, _, err = run_trust(capsys, "curve", "verdicts.csv")
    assert (code, f'unknown column "{misspelt}". Did you mean "{column}"?' in err) == (2, True)


@pytest.mark.parametrize("command", ["curve", "agree", "calibrate"])
def test_no_command_takes_a_value_off_the_scale(capsys, command):
    code, _, err = run_trust(capsys, command, items(5, pred=7), "--range", "0:1")
    assert code == 2
    assert 'line 1, group "g0", item "x": pred is 7, outside the scale 0:1' in err


def test_a_certificate_takes_no_value_off_the_scale_that_an_artifact_declares(capsys):
    result = {
        "participant_id": 1,
        "success": True,
        "predicted_items": {"Sleep": 7},
        "ground_truth_items": {"Sleep": 1},
        "item_signals": {"Sleep": {"llm_evidence_count": 2}},
    }
    Path("run.json").write_text(json.dumps({"experiments": [{"results": {"results": [result]}}]}))
    code, _, err = run_trust(capsys, "certify", "run.json", "--confidence", "llm")
    assert code == 2
    assert 'group "1", item "Sleep": pred is 7, outside the scale 0:3' in err


def test_two_inputs_must_have_the_same_groups_unless_an_option_allows_it(capsys):
    first, second = items(20), items(25, "more.jsonl")
    code, _, err = run_trust(capsys, "curve", "--input", first, "--input", second)
    assert code == 2
    assert "5 only in the second (g20, g21, g22, g23, g24)" in err
    found = answer(
        capsys, "curve", "--input", first, "--input", second, "--intersection-only", "--range", "0:1"
    )
    assert found["comparison"]["participants_right_only"] == 5
    assert found["population"]["participants_included"] == 20
    assert found["comparison"]["deltas"]["confidence"]["aurc_full"]["delta"] == 0.0


def test_two_inputs_without_a_common_group_are_refused(capsys):
    items(3)
    Path("other.jsonl").write_text(Path("items.jsonl").read_text().replace('": "g', '": "h'))
    code, _, err = run_trust(
        capsys, "curve", "--input", "items.jsonl", "--input", "other.jsonl", "--intersection-only"
    )
    assert (code, "no group in common" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("curve",), "name a file of items"),
        (("curve", "items.jsonl", "--input", "items.jsonl"), "name the items either"),
        (("curve", *["--input", "items.jsonl"] * 3), "expected one or two"),
        (("curve", "items.jsonl", "--mode", "a"), "only a run artifact (.json) has modes"),
        (
            ("curve", "--input", "items.jsonl", "--input", "items.jsonl", "--mode", "a"),
            "1 --mode for 2 inputs",
        ),
        (("curve", "items.jsonl", "--labels", "l.jsonl"), "add --dimension"),
        (("curve", "--dimension", "tone"), "there is no store yet"),
        (("curve", "--dimension", "tone", "--mode", "a"), "give one of them"),
        (("curve", "items.jsonl", "--range", "3:0"), "the first below the second"),
        (("curve", "items.jsonl", "--range", "low"), "two numbers such as 0:3"),
        (("curve", "items.jsonl", "--range", "0:0.5"), "outside the scale 0:0.5"),
        (("curve", "items.jsonl", "--coverage-grid", "0.5,1.5"), "above 0 and at most 1"),
        (("curve", "items.jsonl", "--coverage-grid", "half"), "separated by commas"),
        (("curve", "items.jsonl", "--confidence", "verbalised"), 'Did you mean "verbalized"?'),
        (
            ("curve", "items.jsonl", "--confidence", "calibrated:confidence", "--calibration", "no.json"),
            "no such file",
        ),
        (("curve", "items.jsonl", "--chart", "curve.gif"), "a chart is written as .svg or .png"),
        (("curve", "items.jsonl", "--output", "items.jsonl/x.json"), "cannot be written"),
        (("calibrate", "items.jsonl", "--method", "platt"), "name --features"),
        (
            ("calibrate", "items.jsonl", "--features", "token_msp", "--confidence", "llm"),
            "--features or --confidence",
        ),
        (("certify", "items.jsonl", "--group-size", "0"), "--group-size"),
        (("agree", "nothing.jsonl"), "no such file"),
    ],
)
def test_what_is_wrong_is_reported_on_standard_error(capsys, arguments, message):
    items()
    code, out, err = run_trust(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    ("artifact", "expected"),
    [
        (
            {"method": "temperature_scaling", "temperature": 0},
            "temperature must be a number above 0; found 0",
        ),
        ({"method": "temperature_scaling", "temperature": "hot"}, "calibrator.model"),
        ({"method": "isotonic", "features": [], "target": "correctness"}, "calibrator."),
        (
            {
                "method": "logistic",
                "features": ["token_mps"],
                "target": "correctness",
                "model": {
                    "coefficients": [1.0],
                    "intercept": 0.0,
                    "link": "sigmoid",
                    "scaler": {"mean": [0.0], "std": [1.0]},
                },
            },
            'no item has a signal "token_mps". Did you mean "token_msp"?',
        ),
    ],
)
def test_a_calibrator_that_cannot_be_used_is_refused(capsys, artifact, expected):
    items(20, confidence=None, signals={"token_msp": 0.5})
    Path("c.json").write_text(json.dumps(artifact))
    code, _, err = run_trust(
        capsys, "curve", "items.jsonl", "--confidence", "calibrated", "--calibration", "c.json"
    )
    assert code == 2
    assert expected in err


def test_names_of_strangers_do_not_move_the_cursor(capsys):
    Path("items.jsonl").write_text('{"group": "\\u001b[2J", "item": "x", "pred": 1}\n')
    code, _, err = run_trust(capsys, "curve", "items.jsonl")
    assert code == 2
    assert "\x1b" not in err
    assert "␛[2J" in err


@pytest.mark.parametrize(
    ("what", "line", "wrong"),
    [
        ("item", {"group": 3, "item": "x", "pred": None, "gt": 1}, {"group": "a", "pred": "high"}),
        ("label", {"case": "c", "dimension": "d", "value": 0.5}, {"case": "c", "dimension": "d", "value": 3}),
        ("judgement", {"case": "c", "dimension": "d", "value": None}, {"case": "c", "dimension": "d"}),
    ],
)
def test_schemas_take_what_the_files_take(capsys, what, line, wrong):
    import jsonschema

    assert run_command(["schema", what]) == 0
    schema = jsonschema.Draft202012Validator(json.loads(capsys.readouterr().out))
    assert schema.is_valid(line)
    assert not schema.is_valid(wrong)


@pytest.mark.parametrize("command", ["curve", "agree", "calibrate", "certify"])
@pytest.mark.parametrize("name", ["empty.jsonl", "empty.csv"])
def test_a_file_without_items_is_refused(capsys, command, name):
    Path(name).write_text("group,item,pred,gt\n" if name.endswith("csv") else "\n")
    code, _, err = run_trust(capsys, command, name)
    assert code == 2
    assert f"{name}: holds no items" in err
