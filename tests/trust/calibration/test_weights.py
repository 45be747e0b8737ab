"""Calibrators and probabilities where items count other than once each; oracle: scikit-learn."""

import numpy as np
import pytest

from trivium.errors import TrustError
from trivium.trust.calibration.fitting import fit_calibrator
from trivium.trust.calibration.methods import fit_isotonic, fit_linear, fit_logistic, fit_temperature
from trivium.trust.calibration.quality import (
    auroc,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    probability_quality,
    reliability,
)


@pytest.fixture(params=range(4))
def data(request):
    rng = np.random.default_rng(request.param)
    p = rng.integers(1, 20, 150) / 20
    return p, (rng.random(150) < p**2).astype(float), rng.uniform(0.2, 4, 150)


def test_quality_is_scikit_learns(data):
    metrics = pytest.importorskip("sklearn.metrics")
    p, y, weights = data
    assert brier_score(p, y, weights=weights) == pytest.approx(
        metrics.brier_score_loss(y, p, sample_weight=weights)
    )
    assert negative_log_likelihood(p, y, weights=weights) == pytest.approx(
        metrics.log_loss(y, p, sample_weight=weights)
    )
    assert auroc(p, y, weights=weights) == pytest.approx(metrics.roc_auc_score(y, p, sample_weight=weights))


def test_whole_weights_count_like_copies(data):
    p, y, _ = data
    weights = np.random.default_rng(9).integers(1, 5, p.size)
    rows = np.repeat(np.arange(p.size), weights)
    copies = probability_quality(p[rows], y[rows])
    assert probability_quality(p, y, weights=weights) == {
        name: pytest.approx(value) for name, value in copies.items()
    }
    weighted, other = reliability(p, y, weights=weights), reliability(p[rows], y[rows])
    assert weighted.accuracy == pytest.approx(other.accuracy)
    assert weighted.confidence == pytest.approx(other.confidence)
    assert sum(weighted.count) == p.size
    fits = (fit_temperature, fit_isotonic, lambda *d: fit_linear(d[0][:, None], *d[1:]))
    for fit in (*fits, lambda *d: fit_logistic(d[0][:, None], *d[1:])):
        one, two = fit(p, y, weights), fit(p[rows], y[rows])
        at = p if fit in fits[:2] else p[:, None]
        np.testing.assert_allclose(one.apply(at), two.apply(at), atol=1e-7)


def test_fits_are_scikit_learns(data):
    linear_model = pytest.importorskip("sklearn.linear_model")
    isotonic = pytest.importorskip("sklearn.isotonic")
    p, y, weights = data
    peer = isotonic.IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(
        p, y, sample_weight=weights
    )
    np.testing.assert_allclose(fit_isotonic(p, y, weights).apply(p), peer.predict(p), atol=1e-9)
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    x = scaler.fit_transform(p[:, None], sample_weight=weights)
    logistic = linear_model.LogisticRegression(C=1.0, tol=1e-12, max_iter=10_000).fit(
        x, y, sample_weight=weights
    )
    found = fit_logistic(p[:, None], y, weights)
    np.testing.assert_allclose(found.apply(p[:, None]), logistic.predict_proba(x)[:, 1], atol=1e-5)
    ridge = linear_model.Ridge(alpha=1.0).fit(x, y, sample_weight=weights)
    np.testing.assert_allclose(
        fit_linear(p[:, None], y, weights).apply(p[:, None]), np.clip(ridge.predict(x), 0, 1), atol=1e-9
    )


def test_scaled_weights_change_no_quality(data):
    p, y, weights = data
    assert probability_quality(p, y, weights=weights) == {
        name: pytest.approx(value) for name, value in probability_quality(p, y, weights=7 * weights).items()
    }


@pytest.mark.parametrize("method", ["temperature", "isotonic", "platt", "logistic"])
def test_a_calibrator_weights_its_fit_its_folds_and_its_figures(data, method):
    p, y, weights = data
    groups = np.arange(p.size) // 3
    whole = np.ceil(weights)
    rows = np.repeat(np.arange(p.size), whole.astype(int))
    plain = fit_calibrator(method, p, y, features=["c"], groups=groups)
    weighted = fit_calibrator(method, p, y, features=["c"], groups=groups, weights=whole)
    copies = fit_calibrator(method, p[rows], y[rows], features=["c"], groups=groups[rows])
    for when in ("cross_fitted", "in_sample", "uncalibrated"):
        expected = {name: pytest.approx(value, abs=1e-6) for name, value in copies.metrics[when].items()}
        assert weighted.metrics[when] == expected
    assert weighted.metrics["cross_fitted"] != plain.metrics["cross_fitted"]
    assert weighted.training_metadata["n_samples"] == p.size
    rate = np.average(y, weights=whole)
    assert weighted.training_metadata["positive_rate"] == pytest.approx(rate)


def test_bad_weights_are_refused():
    for measure in (brier_score, negative_log_likelihood, expected_calibration_error, auroc):
        with pytest.raises(TrustError, match=r"weights(\[\d\]: must be above 0 and finite| must have shape)"):
            measure([0.5, 0.5], [0, 1], weights=[1, -1])
