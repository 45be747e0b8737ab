"""Paired means against SciPy, small bootstraps enumerated, and what is decided about intervals."""

from itertools import product

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trivium.trust.distributions import Interval
from trivium.trust.intervals import mean_interval
from trivium.trust.paired import non_inferiority, overall, paired_means, settling_groups


def compared(left, right, groups=None, **options):
    left, right = np.asarray(left, float), np.asarray(right, float)
    codes = np.arange(left.size) if groups is None else np.asarray(groups)
    return paired_means(left[None], right[None], codes, **options)[0]


def difference(low, delta, p):
    found = Interval(low=low, high=0.5, level=0.95, method="m", n=30, groups=30, std_error=0.01)
    return msgspec.structs.replace(compared([0.2] * 3, [0.3] * 3), interval=found, delta=delta, p=p)


def test_the_interval_is_that_of_a_mean_in_the_range_of_differences():
    left, right = np.random.default_rng(3).uniform(size=(2, 60))
    groups = np.repeat(np.arange(12), 5)
    found, expected = compared(left, right, groups), mean_interval(right - left, groups, low=-1, high=1)
    assert found.delta == pytest.approx((right - left).mean())
    assert (found.interval.low, found.interval.high) == pytest.approx((expected.low, expected.high))


def test_the_share_with_a_gain_is_that_of_all_resamples_of_a_few_groups():
    left, right = np.zeros(4), np.array([0.4, 0.1, 0.0, 0.3])
    left[2] = 0.5
    deltas, resamples = right - left, 40_000
    means = np.array([np.mean([deltas[at] for at in drawn]) for drawn in product(range(4), repeat=4)])
    means[np.abs(means) < 1e-12] = 0
    found = compared(left, right, resamples=resamples)
    assert found.share_positive == pytest.approx((means > 0).mean(), abs=0.01)


@given(st.integers(0, 30), st.integers(0, 30))
def test_p_of_outcomes_is_that_of_the_sign_test(wins, losses):
    deltas = np.repeat([1.0, -1.0, 0.0], [wins, losses, 5])
    found = compared(np.clip(-deltas, 0, 1), np.clip(deltas, 0, 1), resamples=9)
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert found.p == pytest.approx(max(1e-6, expected), rel=1e-6)
    if wins + losses and abs(found.p - 0.05) > 1e-6:  # the interval of single outcomes agrees
        assert (found.p < 0.05) == (not found.interval.low <= 0 <= found.interval.high)


@pytest.mark.parametrize("mean", [0.0, 0.04, 0.08, 0.12])
def test_p_of_scores_is_that_of_all_flips_of_signs_or_a_little_larger(mean):
    deltas = np.random.default_rng(3).normal(mean, 0.12, (16, 13))
    for each in deltas:
        p = compared(0.5 - each / 2, 0.5 + each / 2, resamples=9).p
        exact = stats.permutation_test(
            (each,), np.mean, permutation_type="samples", n_resamples=np.inf, axis=-1, vectorized=True
        ).pvalue
        assert 0.8 * exact < p < 1.5 * exact + 0.02


@pytest.mark.parametrize("count", [5, 10, 20])
def test_no_difference_is_called_one_as_rarely_as_promised_with_few_groups(count):
    deltas = np.random.default_rng(11).normal(0, 0.1, (800, count))
    found = paired_means(0.5 - deltas / 2, 0.5 + deltas / 2, np.arange(count), resamples=1)
    assert np.mean([each.p < 0.05 for each in found]) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 800)


def test_the_minimum_detectable_effect_is_what_a_z_test_finds_8_times_in_10():
    rng = np.random.default_rng(5)
    left, right = rng.uniform(size=(2, 50))
    found = compared(left, right)
    error = stats.sem(right - left)
    power = stats.norm.sf(stats.norm.ppf(0.975) - found.mde / error)
    assert power == pytest.approx(0.8, abs=1e-6)


def test_with_many_groups_the_shares_are_those_of_the_normal_limit():
    rng = np.random.default_rng(8)
    left = rng.uniform(size=(3, 1_200))
    right = np.clip(left + rng.normal(0.004, 0.1, left.shape), 0, 1)
    right[1] = left[1]
    right[2] = np.nan
    found, same, nothing = paired_means(left, right, np.arange(1_200), resamples=100_000)
    deltas = right[0] - left[0]
    assert found.share_positive == pytest.approx(stats.norm.cdf(deltas.mean() / stats.sem(deltas)), abs=0.01)
    assert (same.p, same.share_positive) == (1.0, 0.0)
    assert (nothing.p, nothing.share_positive) == (None, None)


def test_a_pair_counts_where_both_sides_have_a_value():
    nan = np.nan
    found = compared([0.1, nan, 0.3, 0.2], [0.2, 0.9, nan, 0.1])
    assert found.delta == pytest.approx(0.0)
    assert (found.counts.wins, found.counts.losses, found.counts.ties) == (1, 1, 0)


def test_without_pairs_there_is_nothing_and_one_group_gives_no_interval():
    nothing = compared([np.nan], [0.5])
    assert (nothing.delta, nothing.interval, nothing.p, nothing.mde) == (None, None, None, None)
    alone = compared([0.1, 0.2], [0.3, 0.6], [0, 0])
    assert alone.delta == pytest.approx(0.3)
    assert (alone.interval, alone.p, alone.share_positive) == (None, None, None)


def test_equal_sides_differ_by_nothing_and_by_no_more_than_unseen_groups_could():
    found = compared([0.3] * 30, [0.3] * 30)
    unseen = 1 - 0.025 ** (1 / 30)
    assert (found.interval.low, found.interval.high) == pytest.approx((-unseen, unseen))
    assert (found.p, found.share_positive, found.mde) == (1.0, 0.0, None)
    assert found.counts.ties == 30


def test_rounding_is_no_difference():
    found = compared([0.1 + 0.2, 0.5], [0.3, 0.5])
    assert found.counts.ties == 2


def test_each_figure_is_the_same_alone_and_among_others():
    rng = np.random.default_rng(6)
    left, right = rng.uniform(size=(2, 3, 20))
    left[1, :5] = np.nan
    groups = np.arange(20) // 2
    together = paired_means(left, right, groups, resamples=500)
    for row in range(3):
        (alone,) = paired_means(left[row : row + 1], right[row : row + 1], groups, resamples=500)
        assert msgspec.structs.replace(alone, clustered=None) == msgspec.structs.replace(
            together[row], clustered=None
        )


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 2), min_size=3, max_size=12))
def test_swapping_the_sides_turns_the_difference_round(pairs):
    left, right = np.array(pairs).T
    there, back = compared(left, right, resamples=99), compared(right, left, resamples=99)
    assert there.delta == pytest.approx(-back.delta)
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert there.counts.wins == back.counts.losses
    assert there.p == pytest.approx(back.p)


def test_no_figure_at_all_is_no_answer():
    assert paired_means(np.empty((0, 3)), np.empty((0, 3)), np.arange(3)) == []


def test_unlike_shapes_are_refused():
    with pytest.raises(ValueError, match=r"expected \(figures, n\) twice"):
        paired_means(np.zeros((1, 3)), np.zeros((1, 2)), np.arange(3))


def test_the_promised_error_rate_holds_where_other_tests_err_or_see_nothing():
    rng = np.random.default_rng(7)
    rounds, count, size = 400, 20, 8
    groups = np.repeat(np.arange(count), size)

    def sure(loss):
        """Shares called sure: paired by group, paired without groups, unpaired."""
        left = rng.normal(0.5, 0.2, (rounds, groups.size))
        change = rng.normal(-loss, 0.05, (rounds, count))[:, groups]
        right = left + change + rng.normal(0, 0.08, left.shape)
        found = np.mean([each.p <= 0.05 for each in paired_means(left, right, groups, resamples=1)])
        alone = np.mean(stats.ttest_rel(right, left, axis=1).pvalue < 0.05)
        return found, alone, np.mean(stats.ttest_ind(right, left, axis=1, equal_var=False).pvalue < 0.05)

    error = np.sqrt(0.05 * 0.95 / rounds)
    ours, without_groups, _ = sure(0.0)
    assert ours <= 0.05 + 3 * error
    assert without_groups > 0.1
    ours, _, unpaired = sure(0.05)
    assert ours > 0.8 > 0.7 > unpaired


@pytest.mark.parametrize(
    ("low", "delta", "p", "answer"),
    [
        (-0.019, 0.1, 0.3, "pass"),
        (-0.015, -0.01, 0.001, "pass"),
        (-0.02, 0.1, 0.3, "inconclusive"),
        (-0.3, -0.1, 0.051, "inconclusive"),
        (-0.3, -0.1, 0.05, "fail"),
        (-0.3, 0.1, 0.001, "inconclusive"),
    ],
)
def test_a_difference_passes_above_the_margin_and_fails_as_a_significant_loss(low, delta, p, answer):
    assert non_inferiority(difference(low, delta, p), margin=0.02) == answer


def test_no_interval_decides_nothing():
    assert non_inferiority(compared([0.1, 0.2], [0.3, 0.6], [0, 0]), margin=0.02) == "inconclusive"
    assert settling_groups(None, margin=0.02, level=0.95) is None


def test_the_worst_answer_is_the_whole():
    assert overall(["pass", "fail", "inconclusive"]) == "fail"
    assert overall(["pass", "inconclusive"]) == "inconclusive"
    assert overall(["pass", "pass"]) == "pass"
    assert overall([]) == "inconclusive"


def test_a_pair_without_a_value_weighs_nothing_in_the_resamples():
    # Two groups of which the first has one pair of 0.5 and the second one of -0.25: of the resampled means
    # 0.5, 0.125 and -0.25 with 1/4, 1/2 and 1/4, three quarters lie above 0.
    found = compared([0.0, 0.1, 0.25, np.nan], [0.5, np.nan, 0.0, 0.9], [0, 0, 1, 1])
    assert found.share_positive == pytest.approx(3 / 4, abs=4 * 0.44 / 100)


def test_a_stricter_level_needs_a_larger_effect():
    left, right = np.random.default_rng(5).uniform(size=(2, 50))
    found = compared(left, right, level=0.99)
    power = stats.norm.sf(stats.norm.ppf(0.995) - found.mde / stats.sem(right - left))
    assert power == pytest.approx(0.8, abs=1e-6)


def test_figures_without_a_single_pair_have_no_answer_each():
    found = paired_means(np.empty((2, 0)), np.empty((2, 0)), np.empty(0, int), resamples=9)
    assert [(each.delta, each.interval, each.p) for each in found] == [(None, None, None)] * 2
