"""Corrected means and rates worked out by hand from their definitions."""

import numpy as np
import pytest
from scipy import stats

from trivium.trust.bias_correction import corrected_mean, corrected_rate


def spread_of_mean(values):
    return np.var(values, ddof=1) / len(values)


def test_verdicts_get_one_disagreement_of_either_kind_and_scores_do_not():
    people, judge = np.array([1, 1, 1, 0, 1, 0, 1, 1.0]), np.array([1, 1, 0, 0, 1, 0, 1, 1.0])
    rest = np.array([1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1.0])
    found = corrected_mean(people, judge, rest, groups=range(8), groups_only=range(8, 20))
    w = np.cov(people, judge, ddof=0)[0, 1] / (1 + 8 / 12) / np.var([*judge, *rest], ddof=1)
    assert found.weight == pytest.approx(w)
    # People right and the judge wrong, and the other way round: two items, each a group of its own.
    residuals = np.append(people, [1, 0]) - w * np.append(judge, [0, 1])
    error = np.sqrt(spread_of_mean(residuals) + w**2 * spread_of_mean(rest))
    centre, t = residuals.mean() + w * rest.mean(), stats.t.ppf(0.975, 9)
    assert found.interval.std_error == pytest.approx(error)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (centre - t * error, min(1.0, centre + t * error))
    )
    assert (found.interval.n, found.interval.groups) == (20, 8)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (2.0, 4.0)])
def test_verdicts_on_another_scale_are_corrected_alike(low, high):
    rng = np.random.default_rng(3)
    people, judge, rest = rng.integers(0, 2, 12), rng.integers(0, 2, 12), rng.integers(0, 2, 30)
    groups = {"groups": range(12), "groups_only": range(12, 42)}
    unit = corrected_mean(people, judge, rest, **groups)
    scaled = [low + (high - low) * each for each in (people, judge, rest)]
    found = corrected_mean(*scaled, **groups, low=low, high=high)
    assert found.value == pytest.approx(low + (high - low) * unit.value)
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (low + (high - low) * unit.interval.low, low + (high - low) * unit.interval.high)
    )


@pytest.mark.parametrize(
    ("people", "judge"),
    [
        ([0.2, 0.4, 0.6, 0.3, 0.5], [0.3, 0.5, 0.7, 0.4, 0.6]),  # the judge is as much too kind everywhere
        ([0.5] * 5, [0.2, 0.4, 0.9, 0.3, 0.5]),  # people always say the same, and the judge weighs nothing
    ],
)
def test_labels_that_leave_nothing_to_vary_add_what_equal_groups_leave_open(people, judge):
    rest = [0.1, 0.8, 0.4, 0.6, 0.3, 0.9]
    found = corrected_mean(
        people, judge, rest, groups=range(5), groups_only=range(5, 11), low=-50.0, high=50.0
    )
    residuals = np.subtract(people, np.multiply(found.weight, judge))
    error = np.sqrt(spread_of_mean(residuals) + found.weight**2 * spread_of_mean(rest))
    reach = stats.t.ppf(0.975, 4) * error + (1 - 0.05 ** (1 / 5)) * 100
    assert "rule of three" in found.interval.method
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (found.value - reach, found.value + reach)
    )


@pytest.mark.parametrize(("rate", "value"), [(20, 1.0), (1, 0.0), (12, 5 / 7)])
def test_a_rate_stays_a_rate_where_the_judge_says_more_than_its_errors_allow(rate, value):
    people, judge = [1] * 10 + [0] * 10, [1] * 8 + [0] * 2 + [1] + [0] * 9  # sensitivity 0.8, specificity 0.9
    rest = [1] * rate + [0] * (20 - rate)
    found = corrected_rate(people, judge, rest, groups=range(20), groups_only=range(20, 40))
    assert found.value == pytest.approx(value)
    assert 0 <= found.interval.low <= found.value <= found.interval.high <= 1
