"""Intervals where little is known: hardly any spread, few groups, odd ranges; oracles: closed forms."""

import numpy as np
import pytest

from trivium.trust.intervals import mean_interval


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0), (0.0, 1e6)])
@pytest.mark.parametrize("size", [1e-13, 1e-20, 1e-157, 1e-300])
def test_a_spread_of_rounding_only_leaves_the_room_that_no_spread_leaves(low, high, size):
    value = -size if low < 0 else size
    found = mean_interval([0.0, value, 0.0], [0, 1, 2], low=low, high=high)
    unseen = 1 - 0.05 ** (1 / 3)
    assert (found.low, found.high) == pytest.approx((low * unseen, high * unseen), abs=1e-12 * (high - low))
    assert (found.method, found.std_error) == ("rule of three", 0.0)


def test_a_small_spread_is_one_where_the_range_has_no_end():
    found = mean_interval(np.array([1.0, 2.0, 3.0]) * 1e-157, [0, 1, 2], low=0.0, high=None)
    assert found.std_error == pytest.approx(1e-157 / np.sqrt(3))
