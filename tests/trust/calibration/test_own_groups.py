"""Confidences of groups that a calibrator was fitted on come from out-of-fold models."""

import json

import numpy as np
import pytest

from trivium.errors import TrustError
from trivium.trust.calibration.calibrator import Calibrator, calibrator_from_json, group_digest
from trivium.trust.calibration.fitting import fit_calibrator
from trivium.trust.certification import certify
from trivium.trust.confidence.functions import confidence

NAMES = [f"f{number}" for number in range(10)]


def noise(seed, n, error):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 10)), (rng.random(n) < error).astype(float)


def fitted(x, wrong, groups, **options):
    return fit_calibrator("logistic", x, 1 - wrong, features=NAMES, groups=groups, **options)


@pytest.mark.parametrize(("n", "error"), [(100, 0.15), (200, 0.13)])
def test_ten_features_that_say_nothing_certify_no_more_than_is_promised(n, error):
    worlds, ours, naive = 60, 0, 0
    for seed in range(worlds):
        x, wrong = noise(seed, n, error)
        made = fitted(x, wrong, range(n))
        ours += certify(wrong, made.apply_out_of_fold(x, range(n))[0], range(n)).threshold is not None
        naive += certify(wrong, made.apply(x), range(n)).threshold is not None
    # No threshold is fit to certify, so each certificate is a broken promise; at most 10 % are allowed.
    assert ours <= 0.1 * worlds
    assert naive > 0.1 * worlds + 3 * (0.09 * worlds) ** 0.5  # what it came to before


def test_each_group_gets_the_model_that_was_fitted_without_it():
    x, wrong = noise(1, 60, 0.4)
    groups = [f"g{row // 3}" for row in range(60)]
    made = fitted(x, wrong, groups)
    found, met = made.apply_out_of_fold(x, groups)
    assert met == 60
    fold = np.array([made.fitted_groups[group_digest(group)] for group in groups])
    for number in range(5):
        out = fold == number
        alone = fitted(
            x[~out], wrong[~out], [group for group, held in zip(groups, out, strict=True) if not held]
        )
        np.testing.assert_allclose(found[out], alone.apply(x[out]), atol=1e-9)


def test_other_groups_get_the_whole_model_and_both_may_occur():
    x, wrong = noise(2, 40, 0.4)
    made = fitted(x, wrong, range(40))
    others = [f"new {row}" for row in range(40)]
    found, met = made.apply_out_of_fold(x, others)
    assert met == 0
    np.testing.assert_array_equal(found, made.apply(x))
    mixed, met = made.apply_out_of_fold(x, [*range(20), *others[20:]])
    assert met == 20
    np.testing.assert_array_equal(mixed[20:], made.apply(x)[20:])
    assert not np.array_equal(mixed[:20], made.apply(x)[:20])


def test_the_artifact_keeps_groups_and_models_and_no_id_can_be_read_in_it():
    x, wrong = noise(3, 40, 0.4)
    groups = [f"patient {row}" for row in range(40)]
    made = fitted(x, wrong, groups, training={"judges": ["m"], "prompts": {"r": "1"}})
    text = json.dumps(made.to_json())
    assert "patient" not in text
    again = calibrator_from_json(json.loads(text))
    np.testing.assert_allclose(again.apply_out_of_fold(x, groups)[0], made.apply_out_of_fold(x, groups)[0])
    assert again.training_metadata["judges"] == ["m"]


def test_without_a_cross_fit_its_own_groups_are_refused():
    x, wrong = noise(4, 30, 0.4)
    made = fitted(x, wrong, ["one"] * 30)
    with pytest.raises(TrustError, match="fitted on the groups of 30 of these 30 items.*only one group"):
        made.apply_out_of_fold(x, ["one"] * 30)
    np.testing.assert_array_equal(made.apply_out_of_fold(x, ["other"] * 30)[0], made.apply(x))


def test_a_temperature_is_applied_whole_since_it_keeps_the_order():
    rng = np.random.default_rng(5)
    p = rng.random(50)
    made = fit_calibrator("temperature", p, rng.random(50) < p, features=("p",), groups=range(50))
    found, met = made.apply_out_of_fold(p, range(50))
    np.testing.assert_array_equal(found, made.apply(p))
    assert met == 50


def test_the_answer_says_which_models_were_used():
    x, wrong = noise(6, 40, 0.4)
    rows = [dict(zip(NAMES, row.tolist(), strict=True)) for row in x]
    made = fitted(x, wrong, range(40))

    def use(groups, calibrator=made):
        return confidence("calibrated", rows, calibrator=calibrator, groups=groups).calibrator

    assert (use(range(40)).models, use(range(40)).own_groups) == ("out of fold", 40)
    assert use(range(100, 140)).models == "whole"
    assert use([*range(20), *range(100, 120)]).models == "mixed"
    old = made.to_json()
    del old["fitted_groups"], old["fold_models"]
    assert not use(range(40), calibrator_from_json(old)).groups_known


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"fitted_groups": {"a": 7}}, "fold 7 with 5 fold_models"),
        ({"fitted_groups": {"a": -1}}, "fitted_groups"),
        ({"fold_models": [{"mean": [0]}]}, "fold_models"),
    ],
)
def test_an_artifact_whose_folds_do_not_fit_is_refused(change, says):
    x, wrong = noise(7, 40, 0.4)
    with pytest.raises(TrustError, match=says):
        calibrator_from_json(fitted(x, wrong, range(40)).to_json() | change)


def test_a_fold_model_of_another_width_is_refused():
    x, wrong = noise(8, 40, 0.4)
    artifact = fitted(x, wrong, range(40)).to_json()
    narrow = fit_calibrator("logistic", x[:, :2], wrong, features=NAMES[:2], groups=range(40)).to_json()
    with pytest.raises(TrustError, match="10 coefficients each"):
        calibrator_from_json(artifact | {"fold_models": narrow["fold_models"]})
    assert isinstance(calibrator_from_json(artifact), Calibrator)
