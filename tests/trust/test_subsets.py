"""Tests of a subset against the other values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from trivium.trust.subsets import adjusted, subset_difference


def test_independent_outcomes_give_at_least_the_p_of_fishers_exact_test():
    outcomes = np.repeat([1.0, 0.0, 1.0, 0.0], [1, 5, 40, 14])
    inside = np.arange(60) < 6
    tested = subset_difference(outcomes, np.arange(60), inside)
    exact = 2 * min(
        stats.hypergeom.cdf(1, 60, 41, 6),
        stats.hypergeom.sf(0, 60, 41, 6),
    )
    assert tested.difference == pytest.approx(1 / 6 - 40 / 54)
    assert tested.p == pytest.approx(exact)


def test_values_without_groups_give_the_t_test_with_the_variance_of_all_values():
    rng = np.random.default_rng(3)
    values, inside = rng.normal(0.5, 0.1, 40), np.arange(40) < 12
    tested = subset_difference(values, np.arange(40), inside)
    error = np.sqrt(values.var(ddof=1) * (1 / 12 + 1 / 28))
    assert tested.p == pytest.approx(2 * stats.t.sf(abs(tested.difference) / error, 39))


def test_a_subset_of_whole_groups_is_no_surer_than_its_groups():
    """With all values of a group equal, the groups are the observations."""
    groups = np.repeat(np.arange(20), 5)
    of_group = np.random.default_rng(4).normal(0.5, 0.1, 20)
    inside = np.arange(20) < 6
    many = subset_difference(of_group[groups], groups, inside[groups])
    error = np.sqrt(of_group[groups].var(ddof=1) * (1 / 6 + 1 / 14))
    assert many.p == pytest.approx(2 * stats.t.sf(abs(many.difference) / error, 19))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4), st.booleans()), min_size=2, max_size=30))
def test_swapping_the_subset_and_the_others_changes_only_the_sign(items):
    values, groups, inside = (np.array(column) for column in zip(*items, strict=True))
    ours, theirs = subset_difference(values, groups, inside), subset_difference(values, groups, ~inside)
    if ours is None:
        assert theirs is None
        return
    assert ours.difference == pytest.approx(-theirs.difference)
    assert ours.p is None or 0 <= ours.p <= 1
    assert ours.p == (None if theirs.p is None else pytest.approx(theirs.p))


def test_all_values_none_of_them_and_equal_values_are_not_tested():
    assert subset_difference([0.0, 1.0], [0, 1], [True, True]) is None
    assert subset_difference([0.0, 1.0], [0, 1], [False, False]) is None
    assert subset_difference([1.0, 1.0], [0, 1], [True, False]).p is None
    assert subset_difference([0.0, 1.0], [0, 0], [True, False]).p is None
    with pytest.raises(ValueError, match="of equal length"):
        subset_difference([0.0, 1.0], [0, 1], [True])


def test_p_values_are_adjusted_for_the_number_of_subsets_that_were_tested():
    values = np.repeat([0.0, 1.0, 0.0, 1.0], [9, 1, 6, 24])
    subsets = [np.arange(40) < 10, np.arange(40) >= 40, np.arange(40) % 2 == 0]
    plain = [subset_difference(values, np.arange(40), inside) for inside in subsets]
    first, none, last = adjusted(plain)
    assert none is None
    assert first.p_holm == pytest.approx(2 * first.p)
    assert last.p_holm == pytest.approx(last.p)


@pytest.mark.parametrize(
    ("size", "nested", "correlation"), [(1, False, 0.0), (5, True, 0.4), (5, False, 0.4)]
)
def test_where_no_subset_differs_one_is_called_different_in_at_most_five_percent_of_runs(
    size, nested, correlation
):
    rng, found, runs, count = np.random.default_rng(8), 0, 400, 4
    for _ in range(runs):
        groups = np.repeat(np.arange(40), size)
        tags = groups % count if nested else rng.integers(0, count, groups.size)
        rates = rng.beta(0.7 * 1.5, 0.3 * 1.5, 40)[groups] if correlation else 0.7
        outcomes = (rng.random(groups.size) < rates).astype(float)
        tested = adjusted([subset_difference(outcomes, groups, tags == tag) for tag in range(count)])
        found += any(each.p_holm is not None and each.p_holm <= 0.05 for each in tested)
    assert found / runs <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / runs)
