"""ECE, NLL, Brier, AUROC and the reliability curve against scikit-learn and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.errors import TrustError
from trivium.trust.calibration.fitting import feature_matrix
from trivium.trust.calibration.methods import target_values
from trivium.trust.calibration.quality import (
    auroc,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    probability_quality,
    reliability,
)

pairs = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=40)


@given(pairs)
def test_quality_equals_scikit_learns(data):
    metrics = pytest.importorskip("sklearn.metrics")
    p, y = np.array([d[0] for d in data]), np.array([d[1] for d in data])
    inside = np.clip(p, 1e-6, 1 - 1e-6)
    assert negative_log_likelihood(p, y) == pytest.approx(
        metrics.log_loss(y, inside, labels=[0, 1]), abs=1e-12
    )
    assert brier_score(p, y) == pytest.approx(np.mean((p - y) ** 2), abs=1e-12)
    if 0 < y.sum() < y.size:
        assert auroc(p, y) == pytest.approx(metrics.roc_auc_score(y, p), abs=1e-12)
    else:
        assert auroc(p, y) is None


@given(pairs, st.integers(1, 20))
def test_the_reliability_curve_adds_up_to_the_calibration_error(data, bins):
    p, y = [d[0] for d in data], [d[1] for d in data]
    curve = reliability(p, y, bins=bins)
    assert sum(curve.count) == len(p)
    assert len(curve.edges) == bins + 1
    gaps = [
        n * abs(a - c)
        for n, a, c in zip(curve.count, curve.accuracy, curve.confidence, strict=True)
        if a is not None and c is not None
    ]
    assert sum(gaps) / len(p) == pytest.approx(expected_calibration_error(p, y, bins=bins), abs=1e-9)


def test_a_reliability_curve_by_hand():
    curve = reliability([0.05, 0.95, 1.0, 0.1], [0, 1, 0, 1], bins=10)
    assert curve.count == (1, 1, 0, 0, 0, 0, 0, 0, 0, 2)
    assert curve.accuracy[:3] == (0.0, 1.0, None)
    assert curve.confidence[9] == pytest.approx(0.975)
    assert curve.accuracy[9] == 0.5


def test_without_data_nothing_is_known():
    assert probability_quality([], []) == {"auc_roc": None, "brier_score": None, "ece": None, "nll": None}


@pytest.mark.parametrize(
    ("p", "y", "says"),
    [
        ([0.1, 1.1], [0, 1], r"probabilities\[1\]: must be between 0 and 1; found 1.1"),
        ([0.1, np.nan], [0, 1], r"probabilities\[1\]"),
        ([0.1, 0.2], [0, 0.5], r"outcomes\[1\]: must be 0 or 1"),
        ([0.1], [0, 1], "equal length"),
    ],
)
def test_bad_data_is_refused_by_place(p, y, says):
    with pytest.raises(TrustError, match=says):
        brier_score(p, y)


def test_scores_need_only_be_finite():
    assert auroc([-3, 7], [0, 1]) == 1.0
    with pytest.raises(TrustError, match="a finite number"):
        auroc([np.inf, 7], [0, 1])


@pytest.mark.parametrize("bins", [0, 10**9])
def test_absurd_numbers_of_bins_are_refused(bins):
    with pytest.raises(TrustError, match="bins"):
        reliability([0.5], [1], bins=bins)


def test_targets_by_hand():
    pred, truth = [0, 1, 3, 2], [0, 2, 0, 2]
    assert target_values(pred, truth, "correctness").tolist() == [1, 0, 0, 1]
    assert target_values(pred, truth, "near_correct").tolist() == [1, 1, 0, 1]
    np.testing.assert_allclose(target_values(pred, truth, "loss", span=3), [1, 2 / 3, 0, 1])
    assert target_values([0.1 + 0.2], [0.3], "correctness").tolist() == [1]


@pytest.mark.parametrize(
    ("pred", "target", "span", "says"),
    [
        ([1], "corect", None, "Did you mean"),
        ([np.nan], "loss", 3, "finite"),
        ([1], "loss", None, "width"),
        ([9], "loss", 3, "wider than the scale"),
    ],
)
def test_targets_that_make_no_sense_are_refused(pred, target, span, says):
    with pytest.raises(TrustError, match=says):
        target_values(pred, [0], target, span=span)


def test_gaps_in_features_are_filled_and_counted():
    rows = [{"verbalized_confidence": None, "my_similarity": 0.5}, {"verbalized_confidence": 5}, {}]
    matrix, notes = feature_matrix(rows, ["verbalized_confidence", "my_similarity"])
    assert matrix.tolist() == [[3, 0.5], [5, 0], [3, 0]]
    assert [note[:45] for note in notes] == [
        'signal "verbalized_confidence" is null or mis',
        'signal "my_similarity" is null or missing in ',
    ]


def test_a_misspelt_feature_is_refused():
    with pytest.raises(TrustError, match='Did you mean "token_msp"'):
        feature_matrix([{"token_msp": 0.5}], ["token_mps"])
