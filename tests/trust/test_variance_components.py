"""Components of variance against the nested analysis of variance by hand, and by simulation."""

from math import inf

import numpy as np
import pytest
from scipy import stats

from trivium.trust.clustered import ClusteredMean
from trivium.trust.sample_size import MOST_PLANNED, detectable_difference, groups_to_detect, with_variance
from trivium.trust.variance_components import (
    detectable,
    groups_by_t,
    inflation_of_pilot,
    variance_components,
)


def drawn(rng, groups, cases, repeats, spreads=(0.1, 0.2, 0.3), mean=0.0):
    """Values, codes of cases and codes of groups of a design with equal sizes."""
    of_group, of_case, of_repeat = spreads
    values = mean + rng.normal(0, of_group, groups)[:, None, None]
    values = values + rng.normal(0, of_case, (groups, cases))[:, :, None]
    values = values + rng.normal(0, of_repeat, (groups, cases, repeats))
    case = np.repeat(np.arange(groups * cases), repeats)
    return values.ravel(), case, case // cases


def test_equal_sizes_give_the_nested_analysis_of_variance():
    values, case, group = drawn(np.random.default_rng(1), 6, 4, 3)
    found = variance_components(values, case, group)
    cube = values.reshape(6, 4, 3)
    of_cases, of_groups = cube.mean(2), cube.mean((1, 2))
    ms_repeats = cube.var(2, ddof=1).mean()
    ms_cases = 3 * of_cases.var(1, ddof=1).mean()
    ms_groups = 12 * of_groups.var(ddof=1)
    assert found.between_repeats == pytest.approx(ms_repeats)
    assert found.between_cases == pytest.approx(max(0, (ms_cases - ms_repeats) / 3))
    assert found.between_groups == pytest.approx(max(0, (ms_groups - ms_cases) / 12))
    assert (found.groups, found.cases, found.values, found.imbalance) == (6, 24, 72, 1.0)
    # The variance of the mean of the same design is that which the groups' means show.
    assert found.of_mean(6, cases_per_group=4, repeats=3) == pytest.approx(of_groups.var(ddof=1) / 6)


def test_codes_and_order_do_not_matter():
    rng = np.random.default_rng(2)
    values, case, group = drawn(rng, 5, 3, 2)
    order = rng.permutation(values.size)
    shuffled = variance_components(values[order], 7 * case[order] + 3, -group[order])
    plain = variance_components(values, case, group)
    assert shuffled.between_groups == pytest.approx(plain.between_groups)
    assert shuffled.between_cases == pytest.approx(plain.between_cases)
    assert shuffled.between_repeats == pytest.approx(plain.between_repeats)


def test_unequal_sizes_are_unbiased():
    rng, sums = np.random.default_rng(3), np.zeros(3)
    for _ in range(400):
        values, case, group = drawn(rng, 30, 5, 4, spreads=(0.3, 0.2, 0.3))
        # Repeats, cases and most of some groups are missing, whatever their values.
        there = rng.random(values.size) < np.where(group < 10, 0.3, 0.9)
        found = variance_components(values[there], case[there], group[there])
        assert found.imbalance > 1
        sums += [found.between_groups, found.between_cases, found.between_repeats]
    assert sums / 400 == pytest.approx([0.09, 0.04, 0.09], rel=0.06)


def test_without_repeats_their_variance_is_part_of_the_cases():
    values, case, group = drawn(np.random.default_rng(4), 200, 5, 1)
    found = variance_components(values, case, group)
    assert found.between_repeats is None
    assert found.between_cases == pytest.approx(0.04 + 0.09, rel=0.1)
    assert found.of_mean(10, cases_per_group=2, repeats=5) == found.of_mean(10, cases_per_group=2)
    assert sum(found.shares().values()) == pytest.approx(1)


def test_groups_of_one_case_are_cases():
    values, case, _ = drawn(np.random.default_rng(5), 300, 1, 3)
    found = variance_components(values, case, case)
    assert found.between_groups == 0
    assert found.between_cases == pytest.approx(0.01 + 0.04, rel=0.25)


def test_equal_values_have_no_variance():
    found = variance_components([0.5] * 6, [0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2])
    assert (found.between_cases, found.between_repeats, found.shares()) == (0, 0, {})


@pytest.mark.parametrize(
    ("values", "cases", "groups", "message"),
    [
        ([1, 2, 3], [0, 1], [0, 1, 2], "of equal length"),
        ([1, np.nan], [0, 1], [0, 1], "finite"),
        ([1, 2, 3], [0, 0, 1], [0, 1, 1], "in two groups"),
        ([1, 2, 3], [0, 1, 2], [0, 0, 0], "one group"),
    ],
)
def test_what_has_no_components_is_refused(values, cases, groups, message):
    with pytest.raises(ValueError, match=message):
        variance_components(values, cases, groups)


def test_the_least_difference_is_found_with_the_power_of_the_t_test():
    found = detectable(0.02, 25, level=0.95, power=0.8)
    exact = stats.nct(24, found / 0.02).sf(stats.t(24).ppf(0.975))
    assert exact == pytest.approx(0.8, abs=0.01)
    assert detectable(0.02, 1) == inf


@pytest.mark.parametrize("groups", [2, 3])
def test_few_groups_have_the_critical_values_of_their_degrees_of_freedom(groups):
    student = stats.t(groups - 1)
    assert detectable(0.02, groups) == pytest.approx(0.02 * (student.ppf(0.975) + student.ppf(0.8)))


def test_groups_of_unequal_sizes_weigh_more_in_the_variance_of_a_mean():
    sizes = np.array([1, 2, 9])
    group = np.repeat(np.arange(3), sizes)
    values = np.random.default_rng(8).normal(0, 0.1, 12) + np.array([0.0, 1.0, 2.0])[group]
    found = variance_components(values, np.arange(12), group)
    of_groups = found.between_groups * (sizes**2).sum() / 12**2
    assert found.of_mean(3, cases_per_group=4) == pytest.approx(of_groups + found.between_cases / 12)


def test_the_fewest_groups_are_the_fewest():
    components = variance_components(*drawn(np.random.default_rng(6), 40, 4, 3))
    needed = groups_by_t(components, 0.05, cases_per_group=4, repeats=2)
    for groups, enough in ((needed, True), (needed - 1, False)):
        error = components.of_mean(groups, cases_per_group=4, repeats=2) ** 0.5
        assert (detectable(error, groups) <= 0.05) is enough
    assert groups_by_t(components, 0.05, cases_per_group=4, repeats=5) < needed
    assert groups_by_t(components, 0.05, cases_per_group=4, repeats=2, power=0.9) > needed
    assert groups_by_t(components, 0.05, cases_per_group=4, repeats=2, level=0.99) > needed
    assert groups_by_t(components, 1e-6, cases_per_group=4) is None


@pytest.mark.parametrize("wrong", [{"difference": 0.0}, {"level": 1.0}, {"power": 0.4}])
def test_what_cannot_be_planned_is_refused(wrong):
    components = variance_components(*drawn(np.random.default_rng(7), 10, 2, 2))
    with pytest.raises(ValueError, match=next(iter(wrong))):
        groups_by_t(components, **({"difference": 0.1} | wrong), cases_per_group=2)


def test_a_small_pilot_may_have_missed_the_variance():
    least, most = inflation_of_pilot(21)
    assert least == pytest.approx(20 / stats.chi2(20).ppf(0.9))
    assert most == pytest.approx(20 / stats.chi2(20).ppf(0.1))
    assert inflation_of_pilot(2001)[1] - inflation_of_pilot(2001)[0] < 0.1


@pytest.mark.parametrize(("per_group", "difference"), [(1, 0.2), (5, 0.15)])
def test_so_many_groups_find_the_difference_with_the_test_that_decides(per_group, difference):
    rng = np.random.default_rng(8)

    def differences(groups, lift):
        rates = rng.normal(0.5, 0.06, (groups, 1)).repeat(per_group, axis=1)
        values = (rng.random(rates.shape) < rates + lift).astype(float) - (rng.random(rates.shape) < rates)
        codes = np.repeat(np.arange(groups), per_group)
        return ClusteredMean.of(values.ravel(), codes, kind="difference")

    found = []
    for _ in range(200):
        groups = groups_to_detect(differences(40, 0.02), difference, power=0.83)
        found.append(differences(groups, difference).sign_flip_tail() <= 0.025)
    assert 0.72 <= np.mean(found) <= 0.92


def test_groups_that_are_all_equal_tell_nothing_and_tiny_differences_are_out_of_reach():
    equal = ClusteredMean.of(np.zeros(10), np.arange(10), kind="difference")
    assert groups_to_detect(equal, 0.1) is None
    values = np.random.default_rng(9).choice([-1.0, 0.0, 1.0], 50)
    spread = ClusteredMean.of(values, np.arange(50), kind="difference")
    assert groups_to_detect(spread, 1e-4) is None
    assert 100 < groups_to_detect(spread, 0.1) < MOST_PLANNED
    assert detectable_difference(equal) is None


def test_the_detectable_difference_is_that_for_which_the_groups_are_enough():
    values = np.random.default_rng(10).normal(0, 0.2, 80).clip(-1, 1)
    clustered = ClusteredMean.of(values, np.arange(80), kind="difference")
    least = detectable_difference(clustered)
    assert least == pytest.approx(detectable(clustered.variance**0.5, 80), rel=0.05)
    assert groups_to_detect(clustered, least * 1.001) <= 80 < groups_to_detect(clustered, least * 0.97)
    wide = ClusteredMean.of([-1.0, 1.0, 0.5], np.arange(3), kind="difference")
    assert detectable_difference(wide) is None


def test_another_variance_moves_the_ends_as_the_same_groups_would():
    values = np.random.default_rng(11).normal(0, 0.1, 80)
    clustered = ClusteredMean.of(values, np.arange(80), kind="difference")
    doubled = ClusteredMean.of(2 * values, np.arange(80), kind="difference")
    scaled = with_variance(clustered, 4 * clustered.variance)
    low, high = doubled.ends(0.95)
    assert np.array(scaled.ends(0.95)) - scaled.mean == pytest.approx(
        np.array([low, high]) - doubled.mean, rel=2e-3
    )
    equal = ClusteredMean.of(np.zeros(10), np.arange(10), kind="difference")
    assert with_variance(equal, 0.1) is equal
