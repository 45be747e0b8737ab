"""Intervals of differences that are mostly 0: unseen changes count; oracles: rule of three, simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.trust.intervals import mean_interval
from trivium.trust.paired import non_inferiority, paired_means

DOCUMENTS = np.repeat(np.arange(20), 8)
TAIL = 0.025


def _interval(differences, codes):
    return mean_interval(differences, codes, low=-1.0, high=1.0)


def lost(places, by=1.0):
    differences = np.zeros(DOCUMENTS.size)
    differences[list(places)] = -by
    return _interval(differences, DOCUMENTS)


def answer(differences, codes):
    lost, won = np.clip(-differences, 0, 1)[None], np.clip(differences, 0, 1)[None]
    return non_inferiority(paired_means(lost, won, codes, resamples=1)[0], margin=0.02)


def test_losing_a_case_never_looks_surer_than_losing_none():
    none = lost([])
    assert (none.low, none.high) == pytest.approx((TAIL ** (1 / 20) - 1, 1 - TAIL ** (1 / 20)))
    for places in ([3], [3, 40], [3, 4, 5], range(8), range(0, 160, 8)):
        assert lost(places).low < none.low < -0.02


@pytest.mark.parametrize("by", [0.001, 0.09, 0.5])
def test_losing_a_part_of_a_case_neither(by):
    assert lost([3], by).low < lost([]).low


@given(st.sets(st.integers(0, 159), max_size=70), st.sampled_from([0.05, 1.0]))
def test_gains_mirror_losses(places, by):
    loss = lost(places, by)
    gain = _interval(np.isin(np.arange(160), list(places)) * by, DOCUMENTS)
    assert (gain.low, gain.high) == pytest.approx((-loss.high, -loss.low))


@pytest.mark.parametrize(("groups", "found"), [(5, "inconclusive"), (6, "fail")])
@pytest.mark.parametrize("by", [0.3, 1.0])
def test_a_loss_is_sure_where_chance_would_not_take_so_many_groups_one_way(groups, found, by):
    # The sign test of six groups of six: 2/2⁶ = 0.03; of five: 0.06.
    differences = np.where(np.isin(np.arange(160), 8 * np.arange(groups)), -by, 0.0)
    assert answer(differences, DOCUMENTS) == found


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
    found = [_interval(each, codes) for each in differences]
    assert np.mean([each.low > -0.02 for each in found]) <= 0.025
    assert np.mean([each.low <= -loss <= each.high for each in found]) > 0.93


@pytest.mark.parametrize(("loss", "correlation"), [(0.05, 0.1), (0.2, 0.5)])
def test_intervals_of_rare_losses_hold_the_truth(loss, correlation):
    rounds = 1_000
    differences, codes = bunched(np.random.default_rng(2), rounds, 50, 4, loss, correlation)
    found = [_interval(each, codes) for each in differences]
    assert np.mean([each.low <= -loss <= each.high for each in found]) > 0.93


def test_a_loss_that_is_common_is_found_as_by_the_t_test():
    rounds = 300
    differences, codes = bunched(np.random.default_rng(3), rounds, 50, 4, 0.1, 0.1)
    assert np.mean([answer(each, codes) == "fail" for each in differences]) > 0.95


@pytest.mark.parametrize(("count", "found"), [(183, "pass"), (182, "inconclusive")])
def test_so_many_equal_cases_pass_at_the_usual_margin(count, found):
    assert answer(np.zeros(count), np.arange(count)) == found
