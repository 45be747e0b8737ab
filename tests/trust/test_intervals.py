"""Intervals of means and rates; oracles: SciPy on singletons, closed forms, properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trivium.trust.clustered import ClusteredMean
from trivium.trust.intervals import (
    gate_answer,
    mean_interval,
    probability_of_change,
    rate_interval,
)

UNIT = st.floats(0, 1, allow_subnormal=False)


def test_a_mean_of_single_values_without_a_range_has_students_interval():
    values = np.random.default_rng(1).uniform(0.3, 0.7, 12)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    found = mean_interval(values, np.arange(12), level=0.9, low=None, high=None)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.std_error == pytest.approx(stats.sem(values), abs=1e-15)


def test_equal_sized_groups_have_the_interval_of_their_means():
    values = np.random.default_rng(2).uniform(0.3, 0.7, (9, 4))
    expected = stats.ttest_1samp(values.mean(axis=1), 0).confidence_interval(0.95)
    found = mean_interval(values.ravel(), np.repeat(np.arange(9), 4), low=None, high=None)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (found.n, found.groups) == (36, 9)


def share_of_weighted_means_beyond(end, sums, sizes, far):
    """Of means of groups with exponential weights and one unseen group at ``far``, those beyond ``end``."""
    draws = np.random.default_rng(3).exponential(size=(200_000, sums.size + 1))
    unseen = (sizes @ sizes) / sizes.sum()
    means = draws @ np.append(sums, unseen * far) / (draws @ np.append(sizes, unseen))
    return np.mean(means <= end if far < end else means >= end)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (-3.0, 2.0)])
@pytest.mark.parametrize("sizes", [[1] * 30, [3] * 12, [1, 2, 9, 4, 1, 3, 20, 5, 1, 1, 6, 2]])
def test_in_a_range_an_end_is_a_quantile_of_means_of_weighted_groups_and_an_unseen_one(low, high, sizes):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(4).beta(2, 1, codes.size)
    found, sums = mean_interval(values, codes, low=low, high=high), np.bincount(codes, weights=values)
    for end, far in ((found.low, low), (found.high, high)):
        share = share_of_weighted_means_beyond(end, sums, np.array(sizes, float), far)
        assert share == pytest.approx(0.028, abs=0.006)  # three moments of it


def test_unequal_groups_have_the_cluster_robust_error_of_a_regression():
    # The sandwich of an intercept-only regression, written with matrices.
    values, groups = np.array([0.1, 0.2, 0.6, 0.9, 0.4, 0.5]), np.array([7, 7, 7, 3, 3, 5])
    residual = values - values.mean()
    meat = sum(residual[groups == g].sum() ** 2 for g in (3, 5, 7))
    assert mean_interval(values, groups).std_error == pytest.approx(np.sqrt(3 / 2 * meat) / 6, abs=1e-15)


@pytest.mark.parametrize(
    ("values", "sizes", "parts"),
    [
        # Values differ between groups only: a group weighs by the square of its size.
        ([0.4, 0.5, 0.6, 0.9, 0.5], [1, 1, 2, 3, 1], [1, 1, 4, 9, 1]),
        # They differ within groups only, in pairs that balance, but for one: each value weighs alike.
        (None, [2, 4, 6, 2, 4], [2, 4, 6, 2, 4]),
    ],
)
def test_groups_of_unequal_size_have_satterthwaites_degrees_of_freedom(values, sizes, parts):
    groups = np.repeat(np.arange(5), sizes)
    if values is None:
        values = np.tile([0.3, 0.7], groups.size // 2) + 0.01 * (groups == 2)
    else:
        values = np.repeat(values, sizes)
    found = mean_interval(values, groups, low=None, high=None)
    freedom = 4 / 5 * sum(parts) ** 2 / sum(part**2 for part in parts)
    t = stats.t.ppf(0.975, np.floor(freedom))  # rounded down, on the safe side
    assert (found.high - found.low) / 2 == pytest.approx(t * found.std_error)


def test_degrees_of_freedom_depend_on_how_far_the_values_of_a_group_are_alike():
    rng, between = np.random.default_rng(1), 0
    for _ in range(40):
        sizes = rng.integers(1, 6, 6)
        n, groups = sizes.sum(), np.repeat(np.arange(6), sizes)
        values = rng.normal(size=6)[groups] + rng.normal(size=n)
        found = ClusteredMean.of(values, groups, low=None, high=None)
        effect = found.variance / (values.var(ddof=1) / n)  # the design effect of Kish
        correlation = np.clip((effect - 1) / ((sizes**2).sum() / n - 1), 0, 1)
        weights = (1 - correlation) * sizes + correlation * sizes**2
        freedom = weights.sum() ** 2 / (weights**2).sum() * 5 / 6
        assert found.freedom == max(1, np.floor(freedom + 1e-9))
        between += 0 < correlation < 1
    assert between > 10


def drawn(rng, mean, correlation, groups):
    """A share for each group, with this mean and intra-group correlation, and groups of 1 to 8."""
    room = (1 - correlation) / correlation
    codes = np.repeat(np.arange(groups), rng.integers(1, 9, groups))
    return rng.beta(mean * room, (1 - mean) * room, groups)[codes], codes


@pytest.mark.parametrize(("mean", "groups"), [(0.02, 200), (0.9, 20), (0.9, 50), (0.98, 20)])
def test_intervals_of_rates_hold_the_truth_with_few_groups_that_differ_much(mean, groups):
    rng, missed, sets = np.random.default_rng(8), np.zeros(2), 1000
    for _ in range(sets):
        shares, codes = drawn(rng, mean, 0.5, groups)
        found = rate_interval(rng.uniform(size=codes.size) < shares, codes)
        missed += found.low > mean, found.high < mean
    assert (missed / sets <= 0.025 + 3 * np.sqrt(0.025 / sets)).all()


@pytest.mark.parametrize(("mean", "groups"), [(0.97, 20), (0.97, 50), (0.03, 50), (0.7, 20)])
def test_intervals_of_means_hold_the_truth_where_scores_crowd_at_an_end(mean, groups):
    rng, missed, sets = np.random.default_rng(9), np.zeros(2), 700
    for _ in range(sets):
        shares, codes = drawn(rng, mean, 0.5, groups)
        found = mean_interval(rng.binomial(20, shares) / 20, codes)
        missed += found.low > mean, found.high < mean
    assert (missed / sets <= 0.025 + 3 * np.sqrt(0.025 / sets)).all()


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (1.0, 0, 1, (0.025**0.1, 1)),
        (0.0, 0, 1, (0, 1 - 0.025**0.1)),
        (0.0, -1, 1, (0.025**0.1 - 1, 1 - 0.025**0.1)),
        (0.3, 0, 1, (0.3 * 0.025**0.1, 1 - 0.7 * 0.025**0.1)),
    ],
)
def test_equal_values_leave_room_for_unseen_groups(value, low, high, expected):
    found = mean_interval(np.full(10, value), np.arange(10), low=low, high=high)
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.std_error == 0.0


def test_groups_with_equal_means_have_no_interval_of_zero_width():
    found = mean_interval([0.1, 0.7, 0.4, 0.4, 0.7, 0.1], [0, 0, 1, 1, 2, 2])
    assert (found.low, found.high) == pytest.approx((0.4 * 0.025 ** (1 / 3), 1 - 0.6 * 0.025 ** (1 / 3)))


def test_equal_values_without_a_range_have_no_interval():
    assert mean_interval([2.0, 2.0, 2.0], [0, 1, 2], low=0, high=None) is None


def test_a_mean_without_a_range_is_not_clipped():
    assert mean_interval([0.0, 1.0, 9.0], [0, 1, 2], low=None, high=None).low < 0


@pytest.mark.parametrize("interval", [mean_interval, rate_interval])
@pytest.mark.parametrize(("values", "groups"), [([], []), ([1.0, 0.0], [4, 4])])
def test_one_group_or_none_has_no_interval(interval, values, groups):
    assert interval(values, groups) is None


@given(st.lists(UNIT, min_size=2, max_size=30), st.integers(1, 6))
def test_an_interval_holds_its_mean_and_keeps_inside_the_range(values, size):
    groups = np.arange(len(values)) // size
    found = mean_interval(values, groups)
    if found is not None:
        assert 0 <= found.low <= np.mean(values) + 1e-12
        assert np.mean(values) - 1e-12 <= found.high <= 1
        assert found.low < found.high


@given(st.lists(st.tuples(UNIT, st.integers(0, 5)), min_size=3, max_size=30), st.permutations(range(6)))
def test_relabelling_groups_changes_no_interval(items, names):
    values, groups = [value for value, _ in items], [group for _, group in items]
    there, here = mean_interval(values, [names[g] for g in groups]), mean_interval(values, groups)
    if here is None:
        assert there is None
    else:
        assert (there.low, there.high) == pytest.approx((here.low, here.high), abs=1e-9)


@given(
    st.lists(st.tuples(UNIT | st.sampled_from([0.0, 1.0]), st.integers(0, 12)), min_size=3, max_size=30),
    st.sampled_from(
        [lambda codes: 10**12 + 7 * codes, lambda codes: codes - 5, lambda codes: codes.astype("u8")]
    ),
)
def test_codes_with_gaps_are_as_good_as_any(items, other):
    values, codes = map(np.array, zip(*items, strict=True))
    assert mean_interval(values, codes) == mean_interval(values, other(codes))
    assert rate_interval(values > 0.5, codes) == rate_interval(values > 0.5, other(codes))


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (9, 10), (50, 50), (16, 17), (34, 35), (99, 1000)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_a_rate_of_single_outcomes_has_the_exact_interval(hits, n, level):
    expected = stats.binomtest(hits, n).proportion_ci(level, method="exact")
    found = rate_interval(np.arange(n) < hits, np.arange(n), level=level)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(("n", "limit"), [(3, 0.8), (5, 0.9), (8, 0.98), (17, 0.99), (35, 0.995)])
def test_one_failure_does_not_fail_a_gate_that_an_agent_at_the_limit_meets_often_enough(n, limit):
    found = rate_interval(np.arange(n) > 0, np.arange(n))
    assert stats.binom.cdf(n - 1, n, limit) > 0.025
    assert gate_answer(found, 1 - 1 / n, at_least=limit) == "inconclusive"


@pytest.mark.parametrize("hits", [0, 3, 8])
def test_outcomes_that_only_repeat_their_group_count_once(hits):
    found = rate_interval(np.repeat(np.arange(8) < hits, 4), np.repeat(np.arange(8), 4))
    expected = stats.binomtest(hits, 8).proportion_ci(0.95, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("size", [50, 1000])
def test_two_groups_that_agree_by_chance_say_no_more_than_two_values(size):
    found = rate_interval(np.tile([1] * 9 + [0], 2 * size // 10), np.repeat([0, 1], size))
    unseen = 1 - 0.025**0.5
    assert (found.low, found.high) == pytest.approx((0.9 * (1 - unseen), 0.9 + 0.1 * unseen))
    assert gate_answer(found, 0.9, at_least=0.8) == "inconclusive"


def test_a_group_of_many_beside_a_group_of_one_says_little():
    outcomes = np.arange(10_000) % 2
    found = rate_interval(outcomes, np.append(np.zeros(9_999, int), 1))
    # All but one value are one group, and the unseen one is as large: half of a uniform share of them.
    assert (found.low, 1 - found.high) == pytest.approx((0.5 * 0.025, 0.5 * 0.025), rel=0.05)


def sides_missed(draw, truth, groups, sets, **options):
    """How often the low end exceeds the truth, and the high end falls short of it."""
    rng, missed = np.random.default_rng(12), np.zeros(2)
    for _ in range(sets):
        found = mean_interval(*draw(rng, groups), **options)
        missed += found.low > truth, found.high < truth
    return missed / sets


def skewed(rng, groups):
    """A small gain mostly, a large loss rarely, and no ties; the mean is -0.02."""
    lost = rng.uniform(size=groups) < 0.07
    return np.where(lost, -0.95, 0.05) + rng.uniform(-0.02, 0.02, groups), np.arange(groups)


def zipf(rng, groups):
    """Group codes of Zipf sizes from 1 to 60."""
    weights = np.arange(1, 61) ** -1.8
    return np.repeat(np.arange(groups), rng.choice(np.arange(1, 61), p=weights / weights.sum(), size=groups))


def lost_groups(rng, groups):
    codes = zipf(rng, groups)
    return -(rng.uniform(size=groups) < 0.02).astype(float)[codes], codes


def crowded(rng, groups):
    codes = zipf(rng, groups)
    return 1 - rng.beta(0.1, 0.9, groups)[codes], codes


@pytest.mark.parametrize(
    ("draw", "truth", "groups", "low"),
    [(skewed, -0.02, 30, -1), (skewed, -0.02, 100, -1), (lost_groups, -0.02, 200, -1), (crowded, 0.9, 30, 0)],
)
def test_rare_values_that_few_samples_hold_are_allowed_for(draw, truth, groups, low):
    sets = 1_000
    missed = sides_missed(draw, truth, groups, sets, low=low, high=1)
    assert (missed <= 0.025 + 3 * np.sqrt(0.025 / sets)).all()


@given(st.lists(st.tuples(UNIT, st.integers(0, 12)), min_size=3, max_size=40), UNIT, UNIT)
def test_a_value_farther_from_the_mean_is_less_likely(items, one, other):
    values, groups = map(np.array, zip(*items, strict=True))
    found = ClusteredMean.of(values, groups)
    if found is not None:
        near, far = sorted((one, other), key=lambda value: abs(value - found.mean))
        if (near - found.mean) * (far - found.mean) > 0:
            assert found.tail(far) <= found.tail(near) + 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean_interval([0.1, np.nan], [0, 1]), r"values\[1\]: must be a finite number; found nan"),
        (lambda: mean_interval([0.1, 1.5], [0, 1]), r"\[0, 1\]; found 0.1 to 1.5"),
        (lambda: mean_interval([0.1], [0, 1]), r"equal length; found \(1,\), \(2,\)"),
        (lambda: mean_interval([0.1, 0.2], [0, 1], level=95), "level must lie between 0 and 1; found 95"),
        (lambda: rate_interval([0, 0.5], [0, 1]), "0 or 1; found 0.5"),
        (lambda: gate_answer(None, 0.5), "either"),
        (lambda: gate_answer(None, 0.5, at_least=0.1, at_most=0.2), "either"),
    ],
)
def test_bad_input_is_refused_with_what_was_found(call, message):
    with pytest.raises(ValueError, match=message):
        call()


VALUES = np.random.default_rng(5).uniform(0.4, 0.8, 25)
INTERVAL = mean_interval(VALUES, np.arange(25))


@pytest.mark.parametrize(
    ("limit", "answer"),
    [({"at_least": 0.2}, "pass"), ({"at_least": 0.6}, "inconclusive"), ({"at_least": 0.9}, "fail"),
     ({"at_most": 0.2}, "fail"), ({"at_most": 0.6}, "inconclusive"), ({"at_most": 0.9}, "pass"),
     ({"at_least": INTERVAL.low}, "pass"), ({"at_most": INTERVAL.high}, "pass")],
)  # fmt: skip
def test_a_gate_decides_only_where_the_interval_lies_on_one_side(limit, answer):
    assert gate_answer(INTERVAL, float(VALUES.mean()), **limit) == answer


def test_no_interval_decides_nothing():
    assert gate_answer(None, 1.0, at_least=0.5) == "inconclusive"


def chance_of_another(values, edges, **kind):
    return probability_of_change(ClusteredMean.of(values, np.arange(len(values)), **kind), edges)


UNBOUNDED = {"low": None, "high": None}


@pytest.mark.parametrize("edge", [0.5, 0.58, 0.65])
def test_the_chance_of_another_class_is_the_tail_beyond_the_threshold(edge):
    expected = stats.ttest_1samp(VALUES, edge).pvalue / 2
    assert chance_of_another(VALUES, [edge], **UNBOUNDED) == pytest.approx(expected, rel=1e-6)


def test_the_chances_of_the_classes_on_both_sides_add_up():
    tails = [stats.ttest_1samp(VALUES, edge).pvalue / 2 for edge in (0.55, 0.65)]
    found = chance_of_another(VALUES, [0.1, 0.55, 0.65, 0.95], **UNBOUNDED)
    assert found == pytest.approx(sum(tails), rel=1e-6)


def test_a_mean_at_a_threshold_is_as_likely_below_it():
    assert chance_of_another([0.25, 0.75], [0.5]) == 0.5


@pytest.mark.parametrize("kind", ["mean", "rate"])
def test_a_handful_of_equal_values_do_not_rule_out_another_class(kind):
    # Three equal scores: groups unlike them may be a fifth of all with 0.8³.
    found = chance_of_another([1.0] * 3, [0.4, 0.6, 0.8], kind=kind)
    assert found == pytest.approx(min(0.5, 0.8**3))


def test_the_chance_needs_two_groups():
    assert probability_of_change(None, [0.4]) is None
