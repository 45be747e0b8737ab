"""Calibrators against scikit-learn, and what their metrics promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.errors import TrustError
from trivium.trust.calibration.calibrator import Calibrator, calibrator_from_json
from trivium.trust.calibration.fitting import assign_folds, fit_calibrator
from trivium.trust.calibration.methods import (
    Temperature,
    fit_isotonic,
    fit_linear,
    fit_logistic,
    fit_temperature,
)
from trivium.trust.calibration.quality import negative_log_likelihood
from trivium.trust.cluster_bootstrap import Groups


def draw(seed, n=200, d=2, sharpness=1.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * [1, 30][:d] + [5, -2][:d]
    y = (rng.random(n) < 1 / (1 + np.exp(-sharpness * (x[:, 0] - 5)))).astype(float)
    return x, y, np.arange(n) // 4


@pytest.mark.parametrize("seed", range(5))
def test_logistic_is_scikit_learns_at_its_optimum(seed):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y, _ = draw(seed)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    peer = linear_model.LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(scaled, y)
    found = fit_logistic(x, y)
    np.testing.assert_allclose(found.coefficients, peer.coef_[0], atol=1e-5)
    np.testing.assert_allclose(found.apply(x), peer.predict_proba(scaled)[:, 1], atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_linear_is_scikit_learns_ridge(seed):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, _, _ = draw(seed)
    y = np.clip(np.random.default_rng(seed).normal(0.6, 0.2, len(x)), 0, 1)
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    peer = linear_model.Ridge(alpha=1.0).fit(scaled, y)
    np.testing.assert_allclose(fit_linear(x, y).coefficients, peer.coef_, atol=1e-12)
    np.testing.assert_allclose(fit_linear(x, y).apply(x), np.clip(peer.predict(scaled), 0, 1), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_isotonic_is_scikit_learns(seed):
    isotonic = pytest.importorskip("sklearn.isotonic")
    x, y, _ = draw(seed, d=1)
    x = x[:, 0].round(1)
    peer = isotonic.IsotonicRegression(out_of_bounds="clip").fit(x, y)
    found = fit_isotonic(x, y)
    np.testing.assert_allclose(found.x_thresholds, peer.X_thresholds_, atol=1e-12)
    np.testing.assert_allclose(found.y_thresholds, peer.y_thresholds_, atol=1e-12)
    query = np.linspace(-5, 15, 41)
    np.testing.assert_allclose(found.apply(query), peer.predict(query), atol=1e-12)


@given(st.lists(st.tuples(st.floats(0.001, 0.999), st.booleans()), min_size=1, max_size=30))
def test_no_temperature_is_likelier_than_the_fitted_one(data):
    p, y = np.array([d[0] for d in data]), np.array([d[1] for d in data], dtype=float)
    best = negative_log_likelihood(fit_temperature(p, y).apply(p), y)
    for t in np.geomspace(0.05, 10, 23):
        # Beyond the clip at 1e-6 the figure is flat, so a tie within it is no defeat.
        assert best <= negative_log_likelihood(Temperature(temperature=t).apply(p), y) + 2e-6


def test_a_temperature_keeps_the_order():
    p = np.linspace(0.01, 0.99, 50)
    assert (np.diff(Temperature(temperature=7.0).apply(p)) > 0).all()


def test_folds_hold_out_whole_groups_and_do_not_depend_on_the_order_of_rows():
    ids = [f"g{i // 3}" for i in range(60)]
    fold = assign_folds(Groups.of(ids), folds=5, seed=1)
    assert all(len({f for f, g in zip(fold, ids, strict=True) if g == group}) == 1 for group in set(ids))
    assert np.bincount(fold).tolist() == [12] * 5
    shuffled = np.random.default_rng(0).permutation(60)
    again = assign_folds(Groups.of([ids[i] for i in shuffled]), folds=5, seed=1)
    assert again.tolist() == fold[shuffled].tolist()
    assert assign_folds(Groups.of(["a", "b", "a"]), folds=5, seed=1).max() == 1
    with pytest.raises(ValueError, match="at least 2"):
        assign_folds(Groups.of(["a"]), folds=1, seed=1)


def test_cross_fitted_figures_do_not_flatter_a_memoriser():
    rng = np.random.default_rng(3)
    x, y = rng.random(400), rng.integers(0, 2, 400).astype(float)  # confidence says nothing
    found = fit_calibrator("isotonic", x, y, features=["token_msp"], groups=range(400))
    metrics = found.metrics
    assert metrics["in_sample"]["ece"] < 1e-12
    assert metrics["cross_fitted"]["ece"] > 0.02
    assert metrics["cross_fitted"]["brier_score"] > 0.25 > metrics["in_sample"]["brier_score"]
    assert metrics["folds"] == 5


def test_cross_fitting_helps_where_there_is_something_to_learn():
    rng = np.random.default_rng(4)
    p = rng.random(2_000)
    y = (rng.random(2_000) < 1 / (1 + np.exp(-np.log(p / (1 - p)) / 3))).astype(float)
    found = fit_calibrator("temperature", p, y, features=["token_msp"], groups=range(2_000))
    assert found.model.temperature == pytest.approx(3, rel=0.15)
    assert found.metrics["cross_fitted"]["ece"] < found.metrics["uncalibrated"]["ece"] / 3
    assert found.keeps_ranking
    assert found.scalar
    assert found.metrics["cross_fitted"]["auc_roc"] == pytest.approx(
        found.metrics["uncalibrated"]["auc_roc"], abs=0.01
    )


@pytest.mark.parametrize("method", ["temperature", "logistic", "platt", "isotonic", "linear"])
def test_every_method_survives_json(method):
    x, y, groups = draw(5, d=1)
    x = 1 / (1 + np.exp(5 - x))
    target = "loss" if method == "linear" else "correctness"
    found = fit_calibrator(
        method, x, y, features=["token_msp"], groups=groups, target=target, training={"judges": ["m"]}
    )
    again = calibrator_from_json(found.to_json())
    assert again == found
    assert again.apply(x).tolist() == found.apply(x[:, 0]).tolist()
    assert again.provenance_warnings({"judges": ["m"], "prompts": "p"}) == []
    assert "other judges" in again.provenance_warnings({"judges": ["n"]})[0]


def test_a_group_alone_has_no_cross_fitted_figures():
    x, y, _ = draw(6)
    found = fit_calibrator("logistic", x, y, features=["a", "b"], groups=["one"] * len(y))
    assert found.metrics["cross_fitted"] is None
    assert "one group" in found.metrics["cross_fitted_reason"]


def test_a_fold_that_cannot_be_fitted_says_so():
    found = fit_calibrator("platt", [1, 2, 3, 4], [0, 0, 0, 1], features=["x"], groups=["a", "a", "b", "b"])
    assert found.metrics["cross_fitted"] is None
    reason = found.metrics["cross_fitted_reason"]
    assert reason.startswith(("without fold 1: ", "without fold 2: "))
    assert "all 2 are wrong" in reason


def test_caveats_are_warnings():
    always = fit_calibrator(
        "temperature",
        [0.9, 0.8, 1.0],
        [0, 0, 0],
        features=["verbalized"],
        groups=[1, 2, 3],
        warnings=["before"],
    )
    assert always.warnings[0] == "before"
    assert "bound, 10" in always.warnings[1]
    assert "exactly 0 or 1" in always.warnings[2]
    flat = fit_calibrator("temperature", [0.5, 0.5], [0, 1], features=["v"], groups=[1, 2])
    assert flat.model.temperature == 1
    assert any("cannot be determined" in warning for warning in flat.warnings)
    assert any("same in every item" in warning for warning in flat.warnings)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"method": "plat"}, 'Did you mean "platt"'),
        ({"method": "linear"}, 'use "logistic"'),
        ({"target": "right"}, "no target"),
        ({"features": []}, "at least one feature"),
        ({"x": [0.1, 0.2]}, "shape"),
        ({"groups": ["a"]}, "equal length"),
        ({"x": [], "y": [], "groups": []}, "no items"),
        ({"x": [0.1, np.nan, 0.2]}, r"\[1\]: must be a finite number"),
        ({"y": [0, 0.5, 1]}, r"targets\[1\]: must be 0 or 1"),
        ({"y": [0, 2, 1], "target": "loss", "method": "linear"}, "between 0 and 1"),
        ({"x": [0.1, 0.2, 3], "method": "temperature"}, "needs probabilities"),
        ({"features": ["a", "b"], "method": "isotonic"}, "exactly one feature"),
    ],
)
def test_what_cannot_be_fitted_is_refused(changes, says):
    plan = {"method": "platt", "x": [0.1, 0.2, 0.3], "y": [0, 1, 1], "features": ["a"], "groups": [1, 2, 3]}
    plan |= changes
    with pytest.raises(TrustError, match=says):
        fit_calibrator(plan.pop("method"), plan.pop("x"), plan.pop("y"), **plan)


MODEL = {"coefficients": [1.0], "intercept": 0.0, "scaler": {"mean": [0.5], "std": [0.1]}}
GOOD = {"schema_version": "1", "method": "platt", "features": ["a"], "target": "correctness", "model": MODEL}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"schema_version": "2"}, "schema_version"),
        ({"method": "isotonc"}, 'Did you mean "isotonic"'),
        ({"method": ["platt"]}, "method"),
        ({"model": None}, "model"),
        ({"model": MODEL | {"coefficients": [True]}}, "model"),
        ({"model": MODEL | {"intercept": float("nan")}}, "finite"),
        ({"model": MODEL | {"scaler": {"mean": [float("inf")], "std": [1.0]}}}, "scaler.mean"),
        ({"model": MODEL | {"scaler": {"mean": [1.0, 2.0], "std": [1.0]}}}, "2 means"),
        ({"features": ["a", "b"]}, "must be 1"),
        ({"features": None}, "must be 1"),
        ({"target": "accuracy"}, "no target"),
        ({"target": 3}, "target"),
        ({"warnings": "none"}, "warnings"),
        ({"training_metadata": []}, "training_metadata"),
        ({"method": "isotonic", "model": {"x_thresholds": [], "y_thresholds": []}}, "thresholds"),
        ({"method": "isotonic", "model": {"x_thresholds": [1, 2], "y_thresholds": [1, 0]}}, "must not fall"),
        ({"method": "isotonic", "model": {"x_thresholds": [1], "y_thresholds": [float("nan")]}}, "finite"),
    ],
)
def test_broken_artifacts_are_refused_with_the_part_at_fault(changes, says):
    with pytest.raises(TrustError, match=says):
        calibrator_from_json(GOOD | changes)


def test_what_is_no_artifact_is_refused():
    with pytest.raises(TrustError, match="JSON object"):
        calibrator_from_json([GOOD])
    platt_of_two = MODEL | {"coefficients": [1.0, 1.0], "scaler": {"mean": [0, 0], "std": [1, 1]}}
    with pytest.raises(TrustError, match="exactly one"):
        calibrator_from_json(GOOD | {"features": ["a", "b"], "model": platt_of_two})
    with pytest.raises(TrustError, match="reads 1 features"):
        calibrator_from_json(GOOD).apply([[0.1, 0.2]])


def test_an_artifact_of_other_keys_still_loads():
    made = calibrator_from_json(GOOD | {"novelty": 1, "training_metadata": {"mode": "zero_shot"}})
    assert made.training_metadata == {"mode": "zero_shot"}
    assert made.mismatch_warnings("b") == ['the calibrator was fitted on "a" and is applied to "b"']
    assert (
        Calibrator(method="platt", model=made.model, features=("token_msp",)).mismatch_warnings("token_msp")
        == []
    )
