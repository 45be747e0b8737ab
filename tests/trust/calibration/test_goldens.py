"""Every figure of a calibrator equals the original tool's, except where that tool is known to be wrong."""

import json
import math

import numpy as np
import pytest

from tests.goldens import SHARED, data, golden
from tests.trust.phq8 import predicted
from trivium.errors import TrustError
from trivium.trust.calibration.calibrator import calibrator_from_json
from trivium.trust.calibration.fitting import feature_matrix, fit_calibrator
from trivium.trust.calibration.methods import (
    Temperature,
    fit_isotonic,
    fit_linear,
    fit_logistic,
    fit_temperature,
    target_values,
)
from trivium.trust.calibration.quality import (
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
)
from trivium.trust.confidence.functions import confidence

NEAR = {"rel": 1e-9, "abs": 1e-12}


def thaw(value):
    return [float(v) if isinstance(v, str) else v for v in value]


def lines(kind):
    return [line for line in golden("calibration.jsonl") if line["kind"] == kind]


def test_temperatures_reach_the_reference_likelihood_or_are_refused():
    for line in lines("temperature_fit"):
        p, y, want = line["input"]["p"], line["input"]["y"], line["reference"]
        p = thaw(p) if p and not isinstance(p[0], list) else p
        if line["tool_should"]["outcome"] == "error":
            with pytest.raises(TrustError):
                fit_temperature(p, y)
            continue
        found = fit_temperature(p, y)
        after = found.apply(p)
        assert negative_log_likelihood(after, y) == pytest.approx(want["nll_after"], abs=1e-4), line["id"]
        assert negative_log_likelihood(p, y) == pytest.approx(want["nll_before"], **NEAR)
        assert expected_calibration_error(p, y) == pytest.approx(want["ece_before"], **NEAR)
        if line["id"] != "all_half":
            assert found.temperature == pytest.approx(want["temperature"], rel=0.01), line["id"]
            assert found.temperature == pytest.approx(want["true_minimiser"], rel=1e-6), line["id"]
        assert bool(found.warnings()) == (found.temperature in {0.05, 10.0})


def test_a_given_temperature_maps_probabilities_as_the_reference_does():
    for line in lines("temperature_apply"):
        if line["tool_should"]["outcome"] == "error":
            with pytest.raises(ValueError, match="above 0"):
                Temperature(temperature=line["input"]["T"])
        else:
            out = Temperature(temperature=line["input"]["T"]).apply(line["input"]["p"])
            np.testing.assert_allclose(out, line["reference"]["out"], rtol=1e-9, atol=0)


def test_quality_equals_the_reference_or_is_refused():
    for line in lines("ece_nll"):
        p, y, bins = thaw(line["input"]["p"]), thaw(line["input"]["y"]), line["input"]["n_bins"]
        want, outcome = line["reference"], line["tool_should"]["outcome"]
        if outcome == "error":
            with pytest.raises(TrustError):
                expected_calibration_error(p, y, bins=bins)
            continue
        if outcome == "error_or_null":
            assert expected_calibration_error(p, y, bins=bins) is None
            assert negative_log_likelihood(p, y) is None
            continue
        assert expected_calibration_error(p, y, bins=bins) == pytest.approx(want["ece"], **NEAR), line["id"]
        assert negative_log_likelihood(p, y) == pytest.approx(want["nll"], **NEAR)
        if want.get("brier") is not None:
            assert brier_score(p, y) == pytest.approx(want["brier"], **NEAR)


def test_logistic_fits_reach_the_exact_optimum():
    for line in lines("logistic_fit"):
        x, y, want = np.array(line["input"]["x"]), line["input"]["y"], line["reference"]
        if line["tool_should"]["outcome"] == "error":
            with pytest.raises(TrustError, match="all 3 are right"):
                fit_logistic(x, y)
            continue
        found = fit_logistic(x, y)
        np.testing.assert_allclose(found.coefficients, want["exact_optimum"]["coefficients"], atol=1e-6)
        assert found.intercept == pytest.approx(want["exact_optimum"]["intercept"], abs=1e-6)
        if line["id"] == "constant_feature":
            # The reference divides by the rounding error of the feature's mean, and its answer away from the
            # constant is noise (0.0); a constant feature has deviation 1 here, and no say.
            assert found.scaler.std[1] == 1.0
            assert found.apply([[1.0, 0.6]])[0] == pytest.approx(want["predictions"][0], abs=2e-3)
        else:
            np.testing.assert_allclose(found.apply(line["input"]["query"]), want["predictions"], atol=2e-3)
            np.testing.assert_allclose(found.scaler.mean, want["scaler"]["mean"], rtol=1e-12)
            np.testing.assert_allclose(found.scaler.std, want["scaler"]["std"], rtol=1e-9)


def test_linear_fits_equal_the_closed_form():
    for line in lines("linear_fit"):
        want = line["reference"]
        found = fit_linear(np.array(line["input"]["x"]), line["input"]["y"])
        np.testing.assert_allclose(found.coefficients, want["closed_form"]["coefficients"], atol=1e-12)
        assert found.intercept == pytest.approx(want["closed_form"]["intercept"], abs=1e-12)
        np.testing.assert_allclose(found.apply(line["input"]["query"]), want["predictions"], atol=1e-12)


def test_isotonic_fits_have_the_reference_thresholds():
    for line in lines("isotonic_fit"):
        want = line["reference"]
        found = fit_isotonic(np.ravel(line["input"]["x"]), line["input"]["y"])
        np.testing.assert_allclose(found.x_thresholds, want["x_thresholds"], rtol=1e-12)
        np.testing.assert_allclose(found.y_thresholds, want["y_thresholds"], atol=1e-12)
        query = np.ravel(line["input"]["query"])
        np.testing.assert_allclose(found.apply(query), want["predictions"], atol=1e-12)


def test_features_are_extracted_as_the_reference_does_or_refused():
    for line in lines("feature_extract"):
        row, names = line["input"]["item_signals"], line["input"]["features"]
        if line["tool_should"]["outcome"] == "match_reference":
            assert feature_matrix([row], names)[0].tolist() == [line["reference"]["x"]]
        else:
            with pytest.raises(TrustError, match=names[0]):
                feature_matrix([row], names)


def fit_like_the_script(line):
    """What the reference's two scripts do with their arguments, done with our functions."""
    arguments = dict(zip(line["input"]["args"][::2], line["input"]["args"][1::2], strict=True))
    rows, pred, truth, groups = predicted(arguments["--mode"])
    if line["input"]["script"].startswith("calibrate_verbalized"):
        x = confidence("verbalized", rows).values
        y = target_values(pred, truth, "correctness")
        return fit_calibrator(
            "temperature", x, y, features=["verbalized"], groups=groups, confidence="verbalized"
        )
    features = [name.strip() for name in arguments["--features"].split(",") if name.strip()]
    target = arguments.get("--target", "correctness")
    x, notes = feature_matrix(rows, features)
    y = target_values(pred, truth, target, span=3)
    return fit_calibrator(
        arguments["--method"], x, y, features=features, groups=groups, target=target, warnings=notes
    )


def near(found, want, where):
    if isinstance(want, dict):
        for key in want:
            near(found[key], want[key], f"{where}.{key}")
    elif isinstance(want, list) and want and not isinstance(want[0], str):
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=5e-3, err_msg=where)
    elif isinstance(want, float):
        # A temperature may lie 1 % off the reference's grid, a coefficient 4e-3 off its early stop.
        tolerance = {"rel": 0.01} if where.endswith("temperature") else {"abs": 5e-3}
        assert found == pytest.approx(want, **tolerance), where
    else:
        assert found == want, where


def test_artifacts_equal_those_of_the_reference_scripts():
    for line in lines("script_artifact"):
        if line["id"] == "bad_unknown_mode":
            continue  # which modes a file has is not for arrays to say
        if line["tool_should"]["outcome"] == "error":
            with pytest.raises(TrustError):
                fit_like_the_script(line)
            continue
        want, found = line["reference"], fit_like_the_script(line).to_json()
        where_from = "fitted_on" if "fitted_on" in want else "training_metadata"
        for key in ("n_samples", "positive_rate"):
            if key in want[where_from]:
                near(found["training_metadata"][key], want[where_from][key], key)
        for key in want.keys() - {where_from, "version"}:
            near(found[key], want[key], f"{line['id']}.{key}")


def test_artifacts_of_the_reference_load_and_predict_as_ours_do():
    for line in lines("script_artifact"):
        if line["tool_should"]["outcome"] == "error":
            continue
        theirs, ours = calibrator_from_json(line["reference"]), fit_like_the_script(line)
        x = np.linspace(0.01, 0.99, 9)[:, None] * np.ones(max(1, len(theirs.features)))
        np.testing.assert_allclose(theirs.apply(x), ours.apply(x), atol=2e-3)
        assert calibrator_from_json(ours.to_json()) == ours
        assert not any(math.isnan(v) for v in theirs.apply(x))


def test_real_judges_are_as_badly_calibrated_as_the_reference_says():
    verdicts = [json.loads(line) for line in data("paper_verdicts.jsonl").read_text().splitlines()]
    metrics = SHARED / "golden" / "paper_verdicts_metrics.json"
    judged = [run for run in json.loads(metrics.read_text())["runs"] if "ece10" in run]
    assert len(judged) > 30
    for run in judged:
        mine = [v for v in verdicts if (v["model"], v["prompt"]) == (run["model"], run["prompt"])]
        p = [v["confidence"] for v in mine]
        y = [v["prediction"] == v["ground_truth"] for v in mine]
        assert expected_calibration_error(p, y) == pytest.approx(run["ece10"], **NEAR)
        assert negative_log_likelihood(p, y) == pytest.approx(run["nll"], **NEAR)
        assert fit_temperature(p, y).temperature == pytest.approx(run["temperature"], rel=0.01)
