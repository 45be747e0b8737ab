"""What a difference amounts to; oracles: statsmodels' textbook example by hand, closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from trivium.trust.paired import holm, minimum_detectable_effect, sign_counts, sign_test, win_counts


def test_holm_by_hand():
    # Smallest times 4, next times 3, …, never falling.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_test_rejects(p, alpha):
    rejected = set()
    for step, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[place] * (len(p) - step) > alpha:
            break
        rejected.add(place)
    assert {place for place, value in enumerate(holm(p)) if value <= alpha} == rejected


def test_signs_count_one_more_on_each_side():
    found = sign_counts(np.array([1.0, 2.0, 3.0, -1.0, 0.0, np.nan]))
    assert found.share_positive == pytest.approx(3 / 5)
    assert found.p == pytest.approx(2 * (2 + 1) / 6)
    assert sign_counts(np.full(99, 1.0)).p == pytest.approx(2 / 100)
    assert sign_counts(np.zeros(99)).p == 1.0
    assert sign_counts(np.array([np.nan])) is None


def test_a_tally_counts_the_right_sides_wins():
    found = win_counts([1, 0, 0.5, 0.5], [0, 1, 0.5, 0.75])
    assert (found.wins, found.losses, found.ties) == (2, 1, 1)


def test_the_minimum_detectable_effect_is_two_point_eight_errors():
    assert minimum_detectable_effect(0.1) == pytest.approx(0.28, abs=0.0005)


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_the_binomial_test(wins, losses):
    if wins + losses:
        assert sign_test(wins, losses) == pytest.approx(binomtest(wins, wins + losses).pvalue)
    else:
        assert sign_test(0, 0) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: holm([float("nan"), 0.5]), "found nan"),
        (lambda: holm([-1, 2]), "found -1"),
        (lambda: holm([0.5, 2]), "found 2"),
        (lambda: sign_test(-1, 3), "found -1 and 3"),
        (lambda: minimum_detectable_effect(-1), "std_error .* found -1"),
        (lambda: minimum_detectable_effect(float("nan")), "std_error .* found nan"),
        (lambda: minimum_detectable_effect(1, level=95), "level .* found 95"),
        (lambda: minimum_detectable_effect(1, power=1), "power .* found 1"),
    ],
)
def test_what_is_out_of_range_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
