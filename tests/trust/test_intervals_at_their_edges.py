"""Intervals where little is known: hardly any spread, few groups, odd ranges; oracles: closed forms."""

import numpy as np
import pytest
from scipy.stats import binomtest, t

from trivium.trust.clustered import ClusteredMean
from trivium.trust.distributions import Interval
from trivium.trust.intervals import gate_answer, mean_interval


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0), (0.0, 1e6)])
@pytest.mark.parametrize("size", [1e-13, 1e-20, 1e-157, 1e-300])
def test_a_spread_of_rounding_only_leaves_the_room_that_no_spread_leaves(low, high, size):
    value = -size if low < 0 else size
    found = mean_interval([0.0, value, 0.0], [0, 1, 2], low=low, high=high)
    unseen = 1 - 0.025 ** (1 / 3)
    assert (found.low, found.high) == pytest.approx((low * unseen, high * unseen), abs=1e-12 * (high - low))
    assert found.std_error == 0.0


def test_a_small_spread_is_one_where_the_range_has_no_end():
    found = mean_interval(np.array([1.0, 2.0, 3.0]) * 1e-157, [0, 1, 2], low=0.0, high=None)
    assert found.std_error == pytest.approx(1e-157 / np.sqrt(3))


def test_a_range_whose_width_is_no_number_counts_as_one_without_ends():
    values = np.array([1.0, 2.0, 4.0])
    found = mean_interval(values, [0, 1, 2], low=-1.7e308, high=1.7e308)
    expected = t.interval(0.95, 2, values.mean(), values.std(ddof=1) / 3**0.5)
    assert (found.low, found.high) == pytest.approx(expected)


@pytest.mark.parametrize("size", [1.0, 1e-60, 1e-120, 1e-150])
def test_gains_and_losses_of_one_size_are_a_sign_test_whatever_the_size(size):
    signs = [1.0] * 9 + [-1.0]
    found = ClusteredMean.of(np.array(signs) * size, np.arange(10), kind="difference")
    assert found.sign_flip_tail() == pytest.approx(binomtest(9, 10, alternative="greater").pvalue)


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_value_on_either_side_of_the_range_is_refused(value):
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        mean_interval([0.5, value, 0.5], [0, 1, 2])


ONE_SIDE = Interval(low=0.5, high=0.7, level=0.95, method="", n=20, groups=20, std_error=0.05)


@pytest.mark.parametrize("gate", [{"at_least": 0.7}, {"at_most": 0.5}])
def test_an_interval_that_ends_at_the_limit_might_still_be_good(gate):
    assert gate_answer(ONE_SIDE, 0.6, **gate) == "inconclusive"
