"""Items that count other than once each: those of labels that were asked for actively."""

import numpy as np
import pytest

from tests.trust.selective.read import lower_hull_aurc
from tests.trust.selective.test_inference import NAMES, near
from trivium.errors import TrustError
from trivium.trust.active_inference import labelled_items
from trivium.trust.active_sampling import Sampling, next_draw
from trivium.trust.cluster_bootstrap import BootstrapOptions
from trivium.trust.selective.curve import augrc, aurc, optimal_curve, risk_at, risk_coverage
from trivium.trust.selective.inference import (
    bootstrap_deltas,
    bootstrap_selective_metrics,
    selective_metrics,
)
from trivium.trust.selective.items import Items


def drawn(seed, *, n=90, levels=None, whole=True):
    """Groups, losses, confidences, whether predicted, and weights."""
    rng = np.random.default_rng(seed)
    confidence = rng.random(n) if levels is None else rng.integers(0, levels, n) / levels
    weights = rng.integers(1, 5, n).astype(float) if whole else rng.uniform(0.2, 3, n)
    return rng.integers(0, 12, n), rng.integers(0, 4, n) / 3, confidence, rng.random(n) < 0.8, weights


def items(groups, loss, confidence, predicted, weights=None):
    return Items.of(groups, loss, confidence, predicted=predicted, weights=weights)


def copied(groups, loss, confidence, predicted, weights):
    rows = np.repeat(np.arange(groups.size), weights.astype(int))
    return items(groups[rows], loss[rows], confidence[rows], predicted[rows])


@pytest.mark.parametrize("levels", [None, 5])
@pytest.mark.parametrize("seed", range(3))
def test_whole_weights_count_like_copies(seed, levels):
    data = drawn(seed, levels=levels)
    weighted, copies = selective_metrics(items(*data), NAMES), selective_metrics(copied(*data), NAMES)
    assert weighted == {name: near(value) for name, value in copies.items()}


@pytest.mark.parametrize("levels", [None, 5])
def test_their_resamples_are_those_of_copies(levels):
    data = drawn(7, n=600, levels=levels)
    plan = BootstrapOptions(resamples=60)
    weighted, copies = (
        bootstrap_selective_metrics(each, NAMES, plan) for each in (items(*data), copied(*data))
    )
    for name in NAMES:
        np.testing.assert_allclose(
            weighted[name].replicates, copies[name].replicates, rtol=1e-9, err_msg=name
        )


def test_differences_are_those_of_copies():
    left, right = drawn(1), drawn(1)
    right = (right[0], right[1] / 2, *right[2:])
    plan, names = BootstrapOptions(resamples=40), ["aurc", "augrc_common", "cmax"]
    weighted = bootstrap_deltas(items(*left), items(*right), names, plan)
    copies = bootstrap_deltas(copied(*left), copied(*right), names, plan)
    for name in names:
        np.testing.assert_allclose(
            weighted[name].estimate.replicates, copies[name].estimate.replicates, rtol=1e-9
        )


@pytest.mark.parametrize("levels", [None, 5])
def test_fractions_give_the_areas_of_the_curve(levels):
    data = drawn(3, levels=levels, whole=False)
    every = items(*data)
    _, loss, confidence, predicted, weights = data
    arguments = (loss[predicted], confidence[predicted])
    curve = risk_coverage(*arguments, n_items=weights.sum(), weights=weights[predicted])
    accepted = confidence[predicted] >= np.median(confidence)
    place = np.flatnonzero(curve.threshold >= np.median(confidence))[-1]
    risk = np.average(loss[predicted][accepted], weights=weights[predicted][accepted])
    assert curve.selective_risk[place] == pytest.approx(risk)
    assert curve.coverage[place] == pytest.approx(weights[predicted][accepted].sum() / weights.sum())
    names = ["aurc", "augrc", "aurc_at_0.4", "aurc_achievable", "cmax", "mae_at_0.3", "augrc_at_1"]
    found = selective_metrics(every, names)
    assert found == {
        "aurc": pytest.approx(aurc(curve)),
        "augrc": pytest.approx(augrc(curve)),
        "aurc_at_0.4": pytest.approx(aurc(curve, max_coverage=0.4)),
        "aurc_achievable": pytest.approx(lower_hull_aurc(curve)),
        "cmax": pytest.approx(curve.cmax),
        "mae_at_0.3": pytest.approx(risk_at(curve, 0.3).value),
        "augrc_at_1": pytest.approx(augrc(curve)),
    }


def test_the_whole_coverage_is_reached_whatever_is_rounded():
    rng = np.random.default_rng(0)
    for _ in range(50):
        weights = rng.uniform(0.1, 3, 30)
        every = Items.of(range(30), rng.random(30), rng.random(30), weights=weights)
        mean = np.average(every.loss, weights=weights)
        assert selective_metrics(every, ["mae_at_1"])["mae_at_1"] == pytest.approx(mean)
        curve = risk_coverage(every.loss, every.confidence, n_items=every.total, weights=weights)
        assert risk_at(curve, 1.0).value == pytest.approx(mean)
        assert curve.cmax <= 1


def test_the_best_ranking_of_fractions_lies_between_those_of_whole_weights():
    loss = np.array([0.0, 0.5, 1.0])
    found = [
        selective_metrics(Items.of("abc", loss, -loss, weights=np.full(3, w)), ["aurc_optimal"])[
            "aurc_optimal"
        ]
        for w in (1.0, 1.5, 2.0)
    ]
    assert found[0] < found[1] < found[2]
    assert optimal_curve(loss, n_items=4.5, weights=np.full(3, 1.5)).selective_risk[-1] == pytest.approx(0.5)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [1.0, 0.0, 1.0], [1.0, np.nan, 1.0]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(TrustError, match=r"weights(\[\d\]: must be above 0 and finite| must have shape)"):
        Items.of("abc", [0, 1, 0], [0.1, 0.2, 0.3], weights=weights)


def test_weights_take_the_bias_out_of_the_areas():
    """Labels of unsure items alone make a judge look worse than it is; the intervals cover what is true."""
    worlds, covered, weighted, plain = 20, 0, [], []
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        unsure = rng.random(500)
        wrong = (rng.random(500) < np.minimum(0.5, 0.02 * np.exp(3.5 * unsure))).astype(float)
        sampling, answers = Sampling(seed=seed, population=500), {}
        for _ in range(100):
            draw = next_draw(sampling, unsure, np.zeros(500), answers)
            sampling = sampling.after(draw)
            answers[draw.item] = wrong[draw.item]
        found = labelled_items(sampling, answers)
        at = found.items
        asked = Items.of(at, wrong[at], -unsure[at], weights=found.weights)
        area = bootstrap_selective_metrics(asked, ["augrc"], BootstrapOptions(resamples=300))["augrc"]
        truth = selective_metrics(Items.of(range(500), wrong, -unsure), ["augrc"])["augrc"]
        covered += area.interval.low <= truth <= area.interval.high
        weighted.append(area.point - truth)
        plain.append(selective_metrics(Items.of(at, wrong[at], -unsure[at]), ["augrc"])["augrc"] - truth)
    error = np.std(weighted) / np.sqrt(worlds)
    assert abs(np.mean(weighted)) < 3 * error
    assert np.mean(plain) > 3 * error
    assert covered >= 0.95 * worlds - 2.6 * np.sqrt(0.05 * 0.95 * worlds)
