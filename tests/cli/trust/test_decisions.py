"""Calibrators, certificates and agreement by the trust commands."""

import json
import random
from pathlib import Path

import pytest

from tests.cli.trust.trust_commands import answer, items, run_trust
from trivium.trust.calibration.calibrator import calibrator_from_json


def test_a_calibrator_is_fitted_written_and_used(capsys):
    name = items(60)
    code, out, err = run_trust(capsys, "calibrate", name, "--output", "t.json")
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


@pytest.mark.parametrize(
    ("method", "target", "stored"),
    [("linear", "loss", "logistic"), ("logistic", "loss", "logistic"), ("platt", "correctness", "platt"),
     ("temperature", "correctness", "temperature_scaling")],
)  # fmt: skip
def test_a_calibrator_is_called_as_it_was_asked_for(capsys, method, target, stored):
    lines = [json.loads(line) for line in Path(items(60)).read_text().splitlines()]
    for line in lines:
        line["signals"] = {"token_msp": line.pop("confidence")}
    Path("s.jsonl").write_text("\n".join(map(json.dumps, lines)))
    fit = ("--features", "token_msp", "--method", method, "--target", target, "--output", "c.json")
    code, out, _ = run_trust(capsys, "calibrate", "s.jsonl", *fit)
    artifact = json.loads(Path("c.json").read_text())
    assert (code, artifact["method"], artifact["training_metadata"]["method"]) == (0, stored, method)
    assert f"{method} on token_msp" in out
    made = calibrator_from_json(artifact)
    assert f"{method} on token_msp" in made._repr_html_()


def test_a_calibrator_on_signals_is_used_by_its_own_name(capsys):
    lines = [json.loads(line) for line in Path(items(60)).read_text().splitlines()]
    for line in lines:
        line["signals"] = {"token_msp": line.pop("confidence")}
    Path("s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("--features", "token_msp", "--method", "logistic", "--output", "c.json", "--json")
    assert run_trust(capsys, "calibrate", "s.jsonl", *arguments)[0] == 0
    found = answer(
        capsys, "curve", "s.jsonl", "--confidence", "calibrated", "--calibration", "c.json", "--range", "0:1"
    )
    assert found["confidence_variants"]["calibrated"]["reliability"]["ece"] < 0.2
    assert run_trust(capsys, "calibrate", "s.jsonl", "--features", "token_mps")[0] == 2
    Path("c.json").write_text('{"method": "magic"}')
    code, _, err = run_trust(
        capsys, "curve", "s.jsonl", "--confidence", "calibrated", "--calibration", "c.json"
    )
    assert (code, err.startswith("Error: c.json: calibrator.method: must be one of")) == (2, True)
    Path("c.json").write_text("{")
    assert run_trust(capsys, "curve", "s.jsonl", "--calibration", "c.json")[0] == 2


def test_one_group_has_no_figures_of_unseen_groups(capsys):
    lines = [{"group": "a", "item": str(i), "pred": i % 2, "gt": 1, "confidence": i / 10} for i in range(10)]
    Path("one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert "no numbers of unseen groups: only one group" in " ".join(
        run_trust(capsys, "calibrate", "one.jsonl")[1].split()
    )


def test_a_certificate_says_its_threshold_or_why_there_is_none(capsys):
    found = answer(capsys, "certify", items(200), "--epsilon", "0.3")
    assert found["threshold"] is not None
    assert found["errors"] <= 0.3 * found["n_accepted"]
    assert found["method"] == "exact binomial"
    assert (
        "Accept confidence ≥"
        in run_trust(capsys, "certify", "items.jsonl", "--epsilon", "0.3", "--output", "c.json")[1]
    )
    assert json.loads(Path("c.json").read_text()) == found
    assert (found["group_size"], found["group_size_from"]) == (1, "labels")


def test_nothing_certified_is_exit_code_1_and_leaves_an_older_certificate_alone(capsys):
    for older in (False, True):
        code, out, err = run_trust(capsys, "certify", items(5), "--output", "c.json", "--html", "c.html")
        said = "c.json stays as it was" if older else "c.json is not written"
        assert (code, f"{said}: nothing is certified" in err) == (1, True)
        assert "Nothing can be certified" in out
        assert "labels cannot show that this is under 10 %; about " in " ".join(out.split())
        assert "cannot show" in " ".join(Path("c.html").read_text().split())
        assert Path("c.json").exists() == older
        Path("c.json").write_text("older")
    code, out, _ = run_trust(capsys, "certify", "items.jsonl", "--json")
    found = json.loads(out)
    assert (code, found["threshold"], found["shortfall"]) == (1, None, "too few labels")
    assert found["labels_needed"] > 5


def test_agreement_counts_what_anyone_can_count(capsys):
    found = answer(capsys, "agree", items(40), "--bootstrap-resamples", "500")
    rows = [json.loads(line) for line in Path("items.jsonl").read_text().splitlines()]
    same = sum(row["pred"] == row["gt"] for row in rows) / len(rows)
    assert found["exact"]["value"] == pytest.approx(same)
    assert found["exact"]["ci95"][0] < same < found["exact"]["ci95"][1]
    assert found["corrected"] is None
    assert "Cohen's κ" in run_trust(capsys, "agree", "items.jsonl", "--output", "a.json")[1]
    assert "5 groups" in " ".join(answer(capsys, "agree", items(5))["warnings"])
    assert "12 groups" in " ".join(answer(capsys, "agree", items(12))["warnings"])
    assert answer(capsys, "agree", items(5, pred=None))["judge_mean"] is None
    assert run_trust(capsys, "agree", "items.jsonl")[0] == 0


def test_steps_are_those_of_the_labels(capsys):
    assert answer(capsys, "agree", items(20), "--range", "0:3")["step"] == 1.0
    halves = [{"group": str(i), "item": "x", "pred": i % 3 / 2, "gt": i % 2 / 2} for i in range(12)]
    Path("h.jsonl").write_text("".join(json.dumps(line) + "\n" for line in halves))
    assert answer(capsys, "agree", "h.jsonl")["step"] == 0.5
    assert answer(capsys, "agree", "h.jsonl", "--step", "1")["within_one"]["value"] == 1.0


FEATURES = ",".join(f"f{number}" for number in range(10))


def noise(groups: int, seed: int, name: str) -> str:
    """Items of which 15 % are wrong whatever their ten signals say."""
    draw = random.Random(seed)
    lines = []
    for group in range(groups):
        truth, right = draw.choice([0, 1]), draw.random() > 0.15
        signals = {feature: draw.gauss(0, 1) for feature in FEATURES.split(",")}
        line = {"group": f"g{group}", "item": "x", "pred": truth if right else 1 - truth, "gt": truth}
        lines.append(json.dumps(line | {"signals": signals}))
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def calibrated(*arguments: str) -> tuple[str, ...]:
    return (*arguments, "--confidence", "calibrated", "--calibration", "cal.json")


def test_a_calibrator_gives_its_own_labels_no_certificate_that_is_not_true(capsys):
    fit = ("--method", "logistic", "--features", FEATURES, "--output", "cal.json")
    assert run_trust(capsys, "calibrate", noise(200, 1, "a.jsonl"), *fit)[0] == 0
    code, out, _ = run_trust(capsys, *calibrated("certify", "a.jsonl"), "--json")
    found = json.loads(out)
    assert (code, found["threshold"]) == (1, None)
    assert found["calibration"]["models"] == "out of fold"
    assert any("fitted on the groups of 200 of these 200 predictions" in line for line in found["warnings"])
    curve = answer(capsys, *calibrated("curve", "a.jsonl", "--bootstrap-resamples", "50"))
    ours = curve["confidence_variants"]["calibrated"]
    assert ours["calibration"]["own_groups"] == 200
    # The whole model on other data is as good as this confidence is said to be, and no better.
    noise(200, 2, "b.jsonl")
    renamed = (
        Path("b.jsonl").read_text().replace('"g', '"h').replace('"hroup"', '"group"').replace('"ht"', '"gt"')
    )
    Path("b.jsonl").write_text(renamed)
    fresh = answer(capsys, *calibrated("curve", "b.jsonl", "--bootstrap-resamples", "50"))
    whole = fresh["confidence_variants"]["calibrated"]
    assert whole["calibration"]["models"] == "whole"
    assert ours["aurc_full"] > 0.7 * whole["aurc_full"]


def test_a_calibrator_that_lists_no_groups_certifies_nothing_and_the_curve_says_so(capsys):
    fit = ("--method", "logistic", "--features", FEATURES, "--output", "cal.json")
    assert run_trust(capsys, "calibrate", noise(60, 1, "a.jsonl"), *fit)[0] == 0
    artifact = json.loads(Path("cal.json").read_text())
    del artifact["fitted_groups"], artifact["fold_models"]
    Path("cal.json").write_text(json.dumps(artifact))
    code, _, err = run_trust(capsys, *calibrated("certify", "a.jsonl"))
    assert (code, "does not list the groups that it was fitted on" in err) == (2, True)
    curve = answer(capsys, *calibrated("curve", "a.jsonl", "--bootstrap-resamples", "50"))
    assert any("if these are among them, the figures flatter it" in line for line in curve["warnings"])


def test_a_calibrator_without_a_cross_fit_is_refused_on_its_own_group(capsys):
    lines = [json.loads(line) for line in Path(noise(40, 1, "a.jsonl")).read_text().splitlines()]
    for place, line in enumerate(lines):
        line |= {"group": "one", "item": str(place)}
    Path("one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    fit = ("--method", "logistic", "--features", FEATURES, "--output", "cal.json")
    assert run_trust(capsys, "calibrate", "one.jsonl", *fit)[0] == 0
    for command in ("certify", "curve"):
        code, _, err = run_trust(capsys, *calibrated(command, "one.jsonl"))
        assert code == 2
        assert "has no cross-fitted models to use for them" in err


def test_one_wrong_verdict_is_wrong(capsys):
    Path("i.jsonl").write_text(
        "".join(
            json.dumps({"group": f"g{n}", "item": "x", "pred": 0, "gt": int(n == 1), "confidence": n / 100})
            + "\n"
            for n in range(100)
        )
    )
    assert "of which 1 is wrong;" in " ".join(run_trust(capsys, "certify", "i.jsonl")[1].split())


def test_agreement_begins_with_its_conclusion(capsys):
    draw = random.Random(3)

    def lines(right):
        for group in range(80):
            truth = draw.choice([0, 1])
            yield {
                "group": f"g{group}",
                "item": "x",
                "pred": truth if draw.random() < right else 1 - truth,
                "gt": truth,
            }

    def first(right):
        Path("i.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines(right)))
        return " ".join(
            run_trust(capsys, "agree", "i.jsonl", "--bootstrap-resamples", "500")[1].split("items:")[:2]
        )

    good, guessing = first(0.9), first(0.5)
    assert good.startswith("The judge agrees with people in 89 % [80, 95] of 80 ")
    assert "more than by chance" in good
    assert "not shown" not in good
    assert "not shown to be more than by chance" in " ".join(guessing.split())
    assert "at most one step apart" not in good


def test_the_curve_begins_with_its_conclusion(capsys):
    items(120)
    text = " ".join(
        run_trust(capsys, "curve", "items.jsonl", "--range", "0:1", "--bootstrap-resamples", "500")[1].split()
    )
    assert "over all predictions: it ranks them better than chance." in text
    lines = [json.loads(line) for line in Path("items.jsonl").read_text().splitlines()]
    draw = random.Random(9)
    Path("flat.jsonl").write_text(
        "".join(json.dumps(line | {"confidence": draw.random()}) + "\n" for line in lines)
    )
    text = " ".join(
        run_trust(capsys, "curve", "flat.jsonl", "--range", "0:1", "--bootstrap-resamples", "500")[1].split()
    )
    assert "not shown to rank them better than chance" in text


def signals_only(groups: int) -> str:
    """Items of a judged run, whose stated words tell right from wrong and whose quotes tell nothing."""
    draw = random.Random(4)
    lines = []
    for group in range(groups):
        words = draw.randint(1, 5)
        wrong = draw.random() < (5 - words) / 6
        signals = {"verbalized_confidence": words, "llm_evidence_count": draw.randint(0, 3)}
        lines.append({"group": f"g{group}", "item": "x", "pred": int(not wrong), "gt": 1, "signals": signals})
    Path("s.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return "s.jsonl"


def test_without_a_stated_confidence_the_best_signal_is_named_and_paid_for(capsys):
    found = answer(capsys, "certify", signals_only(300), "--epsilon", "0.15")
    assert (found["confidence"], found["delta"]) == ("verbalized", 0.1)
    assert found["confidence_choice"]["why"] == "best"
    assert found["confidence_choice"]["among"] == 2
    assert found["threshold"] is not None
    # The same as if it had been named, with half of delta.
    named = answer(
        capsys, "certify", "s.jsonl", "--epsilon", "0.15", "--confidence", "verbalized", "--delta", "0.05"
    )
    for key in ("threshold", "n_accepted", "error_bound"):
        assert found[key] == named[key]
    _, out, _ = run_trust(capsys, "certify", "s.jsonl", "--epsilon", "0.15")
    text = " ".join(out.split())
    assert "Confidence: verbalized, the signal with the best AUROC on these labels (verbalized 0." in text
    assert "Delta is divided by 2 for choosing" in text
    curve = answer(capsys, "curve", "s.jsonl", "--bootstrap-resamples", "50")
    assert list(curve["confidence_variants"]) == ["verbalized"]
    assert "Chosen on these labels, its figures are too good" in " ".join(
        run_trust(capsys, "curve", "s.jsonl")[1].split()
    )
