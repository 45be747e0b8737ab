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


def test_a_mean_of_single_values_has_students_interval():
    values = np.random.default_rng(1).uniform(0.3, 0.7, 12)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    found = mean_interval(values, np.arange(12), level=0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.std_error == pytest.approx(stats.sem(values), abs=1e-15)


def test_equal_sized_groups_have_the_interval_of_their_means():
    values = np.random.default_rng(2).uniform(0.3, 0.7, (9, 4))
    expected = stats.ttest_1samp(values.mean(axis=1), 0).confidence_interval(0.95)
    found = mean_interval(values.ravel(), np.repeat(np.arange(9), 4), low=None, high=None)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert (found.n, found.groups) == (36, 9)


def ends_of_the_scaled_error(found, values, low, high, error):
    mean, t = np.mean(values), stats.t.ppf(0.975, found.groups - 1)
    for end in (found.low, found.high):
        shrunk = (end - low) * (high - end) / ((mean - low) * (high - mean))
        assert (end - mean) ** 2 == pytest.approx(t**2 * error**2 * shrunk)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (-3.0, 2.0)])
def test_clustered_values_in_a_range_have_an_error_that_shrinks_towards_its_ends(low, high):
    values = np.random.default_rng(4).uniform(0.3, 0.99, (12, 3))
    found = mean_interval(values.ravel(), np.repeat(np.arange(12), 3), low=low, high=high)
    ends_of_the_scaled_error(found, values, low, high, stats.sem(values.mean(axis=1)))


def test_independent_values_near_the_end_of_a_range_do_too():
    values = np.array([0.999, 0.6, 0.999, 0.6])
    found = mean_interval(values, np.arange(4))
    assert values.mean() + stats.t.ppf(0.975, 3) * stats.sem(values) > 1 > found.high
    ends_of_the_scaled_error(found, values, 0, 1, stats.sem(values))


def test_far_from_the_ends_of_a_range_it_does_not_matter():
    values, groups = np.random.default_rng(4).uniform(0.3, 0.9, 24), np.arange(24) // 2
    wide = mean_interval(values, groups, low=-1000.0, high=1000.0)
    none = mean_interval(values, groups, low=None, high=None)
    assert (wide.low, wide.high) == pytest.approx((none.low, none.high), abs=1e-4)


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


def drawn(rng, mean, correlation, groups):
    """A share for each group, with this mean and intra-group correlation, and groups of 1 to 8."""
    room = (1 - correlation) / correlation
    codes = np.repeat(np.arange(groups), rng.integers(1, 9, groups))
    return rng.beta(mean * room, (1 - mean) * room, groups)[codes], codes


@pytest.mark.parametrize(
    ("mean", "groups", "sets"), [(0.02, 200, 2500), (0.9, 20, 2500), (0.9, 50, 2500), (0.98, 20, 2500)]
)
def test_intervals_of_rates_hold_the_truth_with_few_groups_that_differ_much(mean, groups, sets):
    rng, held = np.random.default_rng(8), 0
    for _ in range(sets):
        shares, codes = drawn(rng, mean, 0.5, groups)
        found = rate_interval(rng.uniform(size=codes.size) < shares, codes)
        held += found.low <= mean <= found.high
    assert 0.927 < held / sets < 0.985


@pytest.mark.parametrize(("mean", "groups"), [(0.97, 20), (0.97, 50), (0.03, 50), (0.7, 20)])
def test_intervals_of_means_hold_the_truth_where_scores_crowd_at_an_end(mean, groups):
    rng, held, sets = np.random.default_rng(9), 0, 1500
    for _ in range(sets):
        shares, codes = drawn(rng, mean, 0.5, groups)
        found = mean_interval(rng.binomial(20, shares) / 20, codes)
        held += found.low <= mean <= found.high
    assert 0.93 < held / sets < 0.985


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (1.0, 0, 1, (0.05**0.1, 1)),
        (0.0, 0, 1, (0, 1 - 0.05**0.1)),
        (0.0, -1, 1, (0.05**0.1 - 1, 1 - 0.05**0.1)),
    ],
)
def test_equal_values_leave_room_for_unseen_groups(value, low, high, expected):
    found = mean_interval(np.full(10, value), np.arange(10), low=low, high=high)
    assert (found.low, found.high) == pytest.approx(expected)
    assert (found.method, found.std_error) == ("rule of three", 0.0)


def test_groups_with_equal_means_have_no_interval_of_zero_width():
    found = mean_interval([0.1, 0.7, 0.4, 0.4, 0.7, 0.1], [0, 0, 1, 1, 2, 2])
    assert found.method == "rule of three"
    assert found.low < 0.4 < found.high


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


def wilson(rate: float, n: float) -> tuple[float, float]:
    """Wilson's interval at 95 %, in closed form."""
    z = stats.norm.ppf(0.975)
    centre, reach = rate + z**2 / (2 * n), z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2))
    return (centre - reach) / (1 + z**2 / n), (centre + reach) / (1 + z**2 / n)


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (3, 10), (9, 10), (50, 50)])
def test_a_rate_of_single_outcomes_has_wilsons_interval(hits, n):
    expected = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
    found = rate_interval(np.arange(n) < hits, np.arange(n))
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_outcomes_that_only_repeat_their_group_count_once_and_take_students_t():
    found = rate_interval(np.repeat([0, 1, 1, 0, 1, 1, 1, 1] * 2, 4), np.repeat(np.arange(16), 4))
    # Wilson's equation (p - q)² = t² q (1 - q) / n, with the n of 16 outcomes but for the factor 15/16 of a
    # sample variance; the other end allows for groups that were not met, and reaches farther.
    t = stats.t.ppf(0.975, 15)
    assert (0.75 - found.high) ** 2 == pytest.approx(t**2 * found.high * (1 - found.high) / 15)
    assert (0.75 - found.low) ** 2 > t**2 * found.low * (1 - found.low) / 15
    assert rate_interval(np.ones(32), np.repeat(np.arange(8), 4)).low == pytest.approx(wilson(1.0, 8)[0])


@pytest.mark.parametrize("size", [50, 1000])
def test_two_groups_that_agree_by_chance_are_two_outcomes_at_most(size):
    outcomes, groups = np.tile([1] * 9 + [0], 2 * size // 10), np.repeat([0, 1], size)
    low, high = wilson(0.9, 2)
    found = rate_interval(outcomes, groups)
    assert found.low <= low
    assert found.high >= high
    assert gate_answer(found, 0.9, at_least=0.8) == "inconclusive"


def test_a_group_of_many_beside_a_group_of_one_says_little():
    outcomes = np.arange(10_000) % 2
    found = rate_interval(outcomes, np.append(np.zeros(9_999, int), 1))
    assert found.low <= wilson(0.5, 2)[0]
    assert found.high >= wilson(0.5, 2)[1]


@given(st.lists(st.tuples(UNIT, st.integers(0, 8)), min_size=10, max_size=40))
def test_under_ten_groups_no_interval_is_narrower_than_that_of_as_many_values(items):
    values, groups = map(np.array, zip(*items, strict=True))
    count, found = np.unique(groups).size, mean_interval(values, groups)
    if found is not None and np.ptp(values) > 1e-6:
        share, error = values.mean(), values.std() / np.sqrt(count - 1)
        t = stats.t.ppf(0.975, count - 1)
        for end in (found.low, found.high):  # the error shrinks towards the ends of the range
            assert (end - share) ** 2 * share * (1 - share) >= t**2 * error**2 * end * (1 - end) - 1e-9


def test_outcomes_that_balance_within_groups_count_as_independent_at_most():
    found = rate_interval([0, 1] * 10, np.repeat(np.arange(10), 2))
    assert found.std_error == pytest.approx(np.sqrt(0.25 / 19))
    assert found.low < wilson(0.5, 20)[0]
    assert found.high > wilson(0.5, 20)[1]


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


@pytest.mark.parametrize("edge", [0.5, 0.58, 0.65])
def test_the_chance_of_another_class_is_the_tail_beyond_the_threshold(edge):
    expected = stats.ttest_1samp(VALUES, edge).pvalue / 2
    assert chance_of_another(VALUES, [edge]) == pytest.approx(expected, rel=1e-6)


def test_the_chances_of_the_classes_on_both_sides_add_up():
    tails = [stats.ttest_1samp(VALUES, edge).pvalue / 2 for edge in (0.55, 0.65)]
    assert chance_of_another(VALUES, [0.1, 0.55, 0.65, 0.95]) == pytest.approx(sum(tails), rel=1e-6)


def test_a_handful_of_equal_values_do_not_rule_out_another_class():
    edges = [0.4, 0.6, 0.8]
    # Three equal scores: groups unlike them may be a fifth of all with 0.8³; half of it is on either side.
    assert chance_of_another([1.0] * 3, edges) == pytest.approx(0.8**3 / 2)
    # Three passes of three: Wilson's interval of 3 outcomes ends at 0.8 for z² = 3 (1 / 0.8 - 1).
    assert chance_of_another([1.0] * 3, edges, kind="rate") == pytest.approx(stats.norm.sf(np.sqrt(0.75)))


def test_the_chance_needs_two_groups():
    assert probability_of_change(None, [0.4]) is None
