"""Intervals of differences that are mostly 0: unseen changes count; oracles: rule of three, simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.trust.intervals import difference_interval
from trivium.trust.paired import non_inferiority

DOCUMENTS = np.repeat(np.arange(20), 8)
LEVEL = 0.05


def lost(places, by=1.0):
    differences = np.zeros(DOCUMENTS.size)
    differences[list(places)] = -by
    return difference_interval(differences, DOCUMENTS)


def test_losing_a_case_never_looks_surer_than_losing_none():
    none = lost([])
    assert (none.low, none.high) == pytest.approx((LEVEL ** (1 / 20) - 1, 1 - LEVEL ** (1 / 20)))
    for places in ([3], [3, 40], [3, 4, 5], range(8), range(0, 160, 8)):
        assert lost(places).low < none.low
        assert non_inferiority(lost(places), margin=0.02) != "pass"


@pytest.mark.parametrize("by", [0.001, 0.09, 0.5])
def test_losing_a_part_of_a_case_neither(by):
    assert lost([3], by).low < lost([]).low


@given(st.sets(st.integers(0, 159), max_size=70), st.sampled_from([0.05, 1.0]))
def test_gains_mirror_losses(places, by):
    loss = lost(places, by)
    gain = difference_interval(np.isin(np.arange(160), list(places)) * by, DOCUMENTS)
    assert (gain.low, gain.high) == pytest.approx((-loss.high, -loss.low))


def test_a_loss_is_sure_where_chance_would_not_take_so_many_groups_one_way():
    # The sign test of six groups of six: 2/2⁶ = 0.03; of five: 0.06.
    assert lost(range(0, 48, 8)).high < 0
    assert lost(range(0, 40, 8)).high >= 0


def bunched(rng, rounds, groups, size, loss, correlation):
    """Losses of whole cases, in bunches: shape (rounds, cases), and the group of each case."""
    room = (1 - correlation) / correlation
    rates = rng.beta(loss * room, (1 - loss) * room, (rounds, groups))
    codes = np.repeat(np.arange(groups), size)
    return -(rng.uniform(size=(rounds, codes.size)) < rates[:, codes]).astype(float), codes


@pytest.mark.parametrize(("groups", "size"), [(20, 8), (25, 20), (40, 4)])
@pytest.mark.parametrize("loss", [0.03, 0.05])
def test_a_true_loss_in_bunches_seldom_passes(groups, size, loss):
    rounds = 400
    differences, codes = bunched(np.random.default_rng(1), rounds, groups, size, loss, 0.5)
    found = [difference_interval(each, codes) for each in differences]
    passes = np.mean([non_inferiority(each, margin=0.02) == "pass" for each in found])
    assert passes <= 0.025
    assert np.mean([each.low <= -loss <= each.high for each in found]) > 0.93


@pytest.mark.parametrize(("loss", "correlation"), [(0.05, 0.1), (0.2, 0.5)])
def test_intervals_of_rare_losses_hold_the_truth(loss, correlation):
    rounds = 1_000
    differences, codes = bunched(np.random.default_rng(2), rounds, 50, 4, loss, correlation)
    found = [difference_interval(each, codes) for each in differences]
    assert np.mean([each.low <= -loss <= each.high for each in found]) > 0.93


def test_a_loss_that_is_common_is_found_as_by_the_t_test():
    rounds = 300
    differences, codes = bunched(np.random.default_rng(3), rounds, 50, 4, 0.1, 0.1)
    found = [difference_interval(each, codes) for each in differences]
    assert np.mean([non_inferiority(each, margin=0.02) == "fail" for each in found]) > 0.95


@pytest.mark.parametrize("count", [149, 148])
def test_so_many_equal_cases_pass_at_the_usual_margin(count):
    found = difference_interval(np.zeros(count), np.arange(count))
    assert (non_inferiority(found, margin=0.02) == "pass") == (count == 149)
