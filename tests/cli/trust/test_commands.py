"""The trust commands as a user types them."""

import csv
import json
import random
import re
from pathlib import Path

import click
import pytest

from trivium.cli.main import run_command
from trivium.cli.trust.group import COMMANDS, trust


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def say(capsys, *arguments: str) -> tuple[int, str, str]:
    code = run_command(["trust", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def answer(capsys, *arguments: str) -> dict:
    code, out, err = say(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def items(groups: int = 40, name: str = "items.jsonl", **keys) -> str:
    draw = random.Random(1)
    lines = []
    for group in range(groups):
        sure = draw.random()
        right = draw.random() < 0.5 + min(0.5, sure)
        truth = draw.choice([0, 1])
        line = {"group": f"g{group}", "item": "x", "pred": truth if right else 1 - truth, "gt": truth}
        lines.append(json.dumps(line | {"confidence": round(sure, 3)} | keys))
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def test_every_trust_command_says_in_the_overview_what_it_does():
    context = click.Context(trust)
    for name, (_, line) in COMMANDS.items():
        command = trust.get_command(context, name)
        assert command is not None
        assert command.help
        assert line.endswith(".")
    assert trust.get_command(context, "nothing") is None


def test_every_option_of_theirs_has_an_environment_variable():
    context = click.Context(trust)
    for name in COMMANDS:
        for parameter in trust.get_command(context, name).params:
            if isinstance(parameter, click.Option):
                assert str(parameter.envvar).startswith("TRIVIUM_"), (name, parameter.name)


def test_equal_inputs_give_equal_bytes(capsys):
    made = [say(capsys, "curve", items(), "--created-at", "now", "--json")[1] for _ in range(2)]
    assert made[0] == made[1]


def test_no_number_in_json_is_not_finite(capsys):
    text = say(capsys, "curve", items(3), "--json")[1]
    assert not re.search(r"\b(NaN|Infinity)\b", text)


def test_tables_say_what_a_reader_must_know(capsys):
    _, out, _ = say(capsys, "curve", items(8))
    assert "8 groups: an interval of so few does not hold" in out
    assert "95 % interval" not in out
    assert "the range 0 to 1 was seen" in out
    _, out, _ = say(capsys, "curve", items(1), "--range", "0:1")
    assert "one group" in out
    assert "none" in out
    _, out, _ = say(capsys, "curve", items(15), "--range", "0:1")
    assert "15 groups: intervals of fewer than 20" in out


def test_one_confidence_for_all_ranks_nothing(capsys):
    found = answer(capsys, "curve", items(30, confidence=0.5), "--range", "0:1")
    assert any("every prediction has the same confidence" in warning for warning in found["warnings"])
    entry = found["confidence_variants"]["confidence"]
    assert entry["aurc_full"] == pytest.approx(
        entry["curve"]["selective_risk"][0]
    )  # a flat curve over [0, 1]


def test_nothing_predicted_is_null_with_a_reason(capsys):
    found = answer(capsys, "curve", items(5, pred=None), "--range", "0:1", "--confidence", "llm")
    entry = found["confidence_variants"]["llm"]
    assert (entry["aurc_full"], entry["augrc_full"], entry["cmax"]) == (None, None, 0.0)
    assert entry["bootstrap"]["ci95"]["aurc_full"] is None
    assert entry["reason"] == "no item has a prediction"
    assert any("no item has a prediction" in warning for warning in found["warnings"])
    _, out, _ = say(capsys, "curve", "items.jsonl", "--confidence", "llm")
    assert "–" in out


def test_an_empty_file_is_an_answer_without_figures(capsys):
    Path("items.jsonl").write_text("")
    found = answer(capsys, "curve", "items.jsonl")
    assert found["population"]["items_total"] == 0
    assert found["confidence_variants"]["llm"]["aurc_full"] is None
    assert say(capsys, "curve", "items.jsonl")[0] == 0


def test_no_error_at_all_has_no_gap_to_speak_of(capsys):
    found = answer(capsys, "curve", items(30, pred=1, gt=1), "--range", "0:1")
    assert found["confidence_variants"]["confidence"]["interpretation"]["aurc_gap_pct"] is None


def test_a_coverage_far_beyond_the_one_asked_for_is_told(capsys):
    lines = [
        {"group": f"g{i}", "item": "x", "pred": 1, "gt": i % 2, "confidence": i // 13} for i in range(30)
    ]
    Path("ties.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = answer(capsys, "curve", "ties.jsonl", "--range", "0:1", "--coverage-grid", "0.1,0.2,0.9")
    # 4 of 30 are surest, then 17, then all: 20 % asked for is 56.7 % answered.
    assert any("of the surest 20 % is that of the surest 56.7 %" in line for line in found["warnings"])
    assert "ties make" not in say(capsys, "curve", items(), "--range", "0:1")[1]


def test_coverages_that_round_alike_are_kept_apart(capsys):
    found = answer(capsys, "curve", items(), "--range", "0:1", "--coverage-grid", "0.12,0.125,0.5")
    assert list(found["confidence_variants"]["confidence"]["mae_at_coverage"]) == ["0.12", "0.125", "0.50"]


@pytest.mark.parametrize("method", ["percentile", "bca", "expanded"])
def test_intervals_are_made_as_asked(capsys, method):
    found = answer(
        capsys, "curve", items(), "--range", "0:1", "--interval", method, "--bootstrap-resamples", "400"
    )
    entry = found["confidence_variants"]["confidence"]
    assert method in entry["bootstrap"]["method"]
    low, high = entry["bootstrap"]["ci95"]["aurc_full"]
    assert low < entry["aurc_full"] < high


@pytest.mark.parametrize("loss", ["abs", "abs_norm", "zero_one"])
def test_losses_are_named_with_their_unit(capsys, loss):
    lines = [
        {"group": str(i), "item": "x", "pred": 3 - i % 4, "gt": i % 4, "confidence": i / 40}
        for i in range(40)
    ]
    Path("wide.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = answer(capsys, "curve", "wide.jsonl", "--range", "0:3", "--loss", loss)
    assert found["loss"]["name"] == loss
    mean = found["confidence_variants"]["confidence"]["curve"]["selective_risk"][-1]
    assert mean == pytest.approx({"abs": 2.0, "abs_norm": 2 / 3, "zero_one": 1.0}[loss])


def test_groups_that_failed_are_told_with_the_coverage_they_would_leave(capsys):
    name = items(30, pred=1)
    with Path(name).open("a") as file:
        file.writelines(json.dumps({"group": f"f{i}", "success": False}) + "\n" for i in range(10))
    found = answer(capsys, "curve", name, "--range", "0:1")
    assert found["population"]["cmax"] == 1.0
    assert found["population"]["cmax_failed_abstained"] == 30 / 40
    assert any("10 of 40 groups failed" in line and "75.0 %" in line for line in found["warnings"])
    found = answer(capsys, "curve", "--input", name, "--input", name, "--range", "0:1")
    assert found["population"]["cmax_failed_abstained"] == [30 / 40] * 2


@pytest.mark.parametrize("command", ["curve", "agree", "calibrate"])
def test_no_command_takes_a_value_off_the_scale(capsys, command):
    code, _, err = say(capsys, command, items(5, pred=7), "--range", "0:1")
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
    code, _, err = say(capsys, "certify", "run.json", "--confidence", "llm")
    assert code == 2
    assert 'group "1", item "Sleep": pred is 7, outside the scale 0:3' in err


def test_two_inputs_must_have_the_same_groups_unless_told(capsys):
    first, second = items(20), items(25, "more.jsonl")
    code, _, err = say(capsys, "curve", "--input", first, "--input", second)
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
    code, _, err = say(
        capsys, "curve", "--input", "items.jsonl", "--input", "other.jsonl", "--intersection-only"
    )
    assert (code, "no group in common" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("curve",), "name a file of items"),
        (("curve", "items.jsonl", "--input", "items.jsonl"), "name the items once"),
        (("curve", *["--input", "items.jsonl"] * 3), "one or two inputs"),
        (("curve", "items.jsonl", "--mode", "a"), "only a run artifact (.json) has modes"),
        (
            ("curve", "--input", "items.jsonl", "--input", "items.jsonl", "--mode", "a"),
            "1 --mode for 2 inputs",
        ),
        (("curve", "items.jsonl", "--labels", "l.jsonl"), "say which --dimension"),
        (("curve", "--dimension", "tone"), "--labels FILE"),
        (("curve", "--dimension", "tone", "--mode", "a"), "not both"),
        (("curve", "items.jsonl", "--range", "3:0"), "two finite numbers that rise"),
        (("curve", "items.jsonl", "--range", "low"), "two numbers such as 0:3"),
        (("curve", "items.jsonl", "--range", "0:0.5"), "outside the scale 0:0.5"),
        (("curve", "items.jsonl", "--coverage-grid", "0.5,1.5"), "above 0 and at most 1"),
        (("curve", "items.jsonl", "--coverage-grid", "half"), "numbers with commas"),
        (("curve", "items.jsonl", "--confidence", "verbalised"), 'Did you mean "verbalized"?'),
        (
            ("curve", "items.jsonl", "--confidence", "calibrated:confidence", "--calibration", "no.json"),
            "no such file",
        ),
        (("curve", "items.jsonl", "--chart", "curve.gif"), "ends in .png or .svg"),
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
def test_what_is_wrong_is_said_on_standard_error(capsys, arguments, said):
    items()
    code, out, err = say(capsys, *arguments)
    assert (code, out) == (2, "")
    assert said in " ".join(err.split())


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


def test_json_answers_have_the_keys_of_the_specification(capsys):
    name = items(40)
    certified = {"threshold", "n_accepted", "coverage", "error_bound", "epsilon", "delta", "method"}
    assert answer(capsys, "certify", name).keys() >= certified
    found = answer(capsys, "agree", name)
    assert found["n"] == 40
    for figure in ("exact", "within_one", "kappa", "kappa_quadratic", "alpha_ordinal", "spearman", "kendall"):
        assert found[figure].keys() >= {"value", "ci95"}
    fitted = {"schema_version", "method", "features", "target", "training_metadata", "model", "metrics"}
    assert answer(capsys, "calibrate", name).keys() >= fitted


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


def test_from_a_run_to_a_certificate(capsys):
    draw = random.Random(2)
    numbers = range(80)
    Path("cases.jsonl").write_text(
        "".join(json.dumps({"id": f"c{i}", "input": "q", "references": ["a"]}) + "\n" for i in numbers)
    )
    Path("outputs.jsonl").write_text(
        "".join(json.dumps({"case": f"c{i}", "output": "a"}) + "\n" for i in numbers)
    )
    truths = [float(draw.random() < 0.5) for _ in numbers]
    judgements = [
        {
            "case": f"c{i}",
            "dimension": "ok",
            "value": truths[i] if i % 10 else 1 - truths[i],
            "confidence": i % 10 / 10,
        }
        for i in numbers
    ]
    Path("j.jsonl").write_text("".join(json.dumps(line) + "\n" for line in judgements))
    labels = [{"case": f"c{i}", "dimension": "ok", "value": truths[i]} for i in numbers if i < 60]
    with Path("l.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["case", "dimension", "value"])
        writer.writeheader()
        writer.writerows(labels)
    assert (
        run_command(["score", "cases.jsonl", "--outputs", "outputs.jsonl", "--metrics", "jaccard", "--json"])
        == 0
    )
    run = json.loads(capsys.readouterr().out)["run"]
    code, out, _ = say(capsys, "import", run, "j.jsonl", "--json")
    assert (code, json.loads(out)["metrics"]["ok"]["n"]) == (0, 80)
    joined = ("--dimension", "ok", "--labels", "l.csv")
    assert answer(capsys, "certify", *joined)["threshold"] == pytest.approx(0.1)
    agreed = answer(capsys, "agree", *joined)
    assert agreed["corrected"]["labelled"] == 60
    assert agreed["corrected"]["unlabelled"] == 20
    assert agreed["corrected_rate"]["sensitivity"] is not None
    assert "Over all 80 judged" in say(capsys, "agree", *joined)[1]
    assert "Rogan–Gladen" in say(capsys, "agree", *joined)[1]
    assert (
        run_command(
            ["export", "--what", "items", "--labels", "l.csv", "--output", "i.csv", "--format", "csv"]
        )
        == 0
    )
    assert answer(capsys, "curve", "i.csv", "--range", "0:1")["population"]["items_total"] == 60


def test_pictures_and_a_page_are_written(capsys):
    name = items(30)
    files = ("--chart", "c.svg", "--html", "p.html")
    code, _, err = say(capsys, "curve", name, *files)
    assert (code, err) == (0, "wrote c.svg\nwrote p.html\n")
    assert say(capsys, "curve", name, "--chart", "c.png")[0] == 0
    assert Path("c.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("artifact", "said"),
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
def test_a_calibrator_that_cannot_be_used_is_refused(capsys, artifact, said):
    items(20, confidence=None, signals={"token_msp": 0.5})
    Path("c.json").write_text(json.dumps(artifact))
    code, _, err = say(
        capsys, "curve", "items.jsonl", "--confidence", "calibrated", "--calibration", "c.json"
    )
    assert code == 2
    assert said in err


def test_names_of_strangers_do_not_move_the_cursor(capsys):
    Path("items.jsonl").write_text('{"group": "\\u001b[2J", "item": "x", "pred": 1}\n')
    code, _, err = say(capsys, "curve", "items.jsonl")
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
