"""Needed groups: they settle the question in four cases of five if the true mean equals the estimate."""

import numpy as np
import pytest
from scipy import stats

from trivium.trust.clustered import ClusteredMean
from trivium.trust.intervals import groups_to_settle, mean_interval, rate_interval
from trivium.trust.paired import non_inferiority, paired_means, settling_groups
from trivium.trust.sample_size import MOST_NEEDED, groups_to_show, needed_groups, shown_margin


def rate(hits, n):
    return ClusteredMean.of(np.arange(n) < hits, np.arange(n), kind="rate")


def chance_to_settle(hits, n, further, limit):
    """Of the exact interval, by the binomial distribution of further hits."""
    chance = 0.0
    for more in range(further + 1):
        ends = stats.binomtest(hits + more, n + further).proportion_ci(0.95, method="exact")
        if not ends.low < limit <= ends.high:
            chance += stats.binom.pmf(more, further, hits / n)
    return chance


@pytest.mark.parametrize(
    ("hits", "n", "limit"),
    [(29, 30, 0.9), (58, 60, 0.9), (36, 40, 0.8), (40, 50, 0.7), (19, 20, 0.9), (16, 20, 0.6), (12, 30, 0.5)],
)
def test_a_gate_on_a_rate_is_settled_in_four_cases_of_five(hits, n, limit):
    further = groups_to_settle(rate(hits, n), limit)
    assert 0.7 <= chance_to_settle(hits, n, further, limit) <= 0.9


@pytest.mark.parametrize(("n", "limit"), [(3, 0.7), (3, 0.95), (10, 0.9)])
def test_where_all_are_right_it_is_as_many_as_the_interval_takes(n, limit):
    further = groups_to_settle(rate(n, n), limit)
    assert rate_interval(np.ones(n + further), np.arange(n + further)).low >= limit
    assert rate_interval(np.ones(n + further - 1), np.arange(n + further - 1)).low < limit


@pytest.mark.parametrize(("groups", "limit"), [(4, 0.5), (12, 0.5), (40, 0.53)])
def test_a_gate_on_a_mean_of_few_groups_is_settled_in_four_cases_of_five(groups, limit):
    rng = np.random.default_rng(groups)
    shape = stats.zscore(np.linspace(-1, 1, groups) ** 3, ddof=1)
    values = 0.55 + 0.1 * shape
    further = groups_to_settle(ClusteredMean.of(values, np.arange(groups)), limit)
    settled = 0
    for _ in range(400):
        every = np.append(values, np.clip(rng.normal(0.55, 0.1, further), 0, 1))
        settled += mean_interval(every, np.arange(every.size)).low >= limit
    assert 0.7 <= settled / 400 <= 0.9


@pytest.mark.parametrize(("wins", "losses"), [(3, 7), (4, 8), (3, 3)])
def test_a_comparison_by_documents_is_settled_in_four_cases_of_five(wins, losses):
    rng, codes = np.random.default_rng(5), np.repeat(np.arange(30), 5)
    differences = np.zeros(150)
    differences[np.arange(wins) * 7] = 1
    differences[np.arange(losses) * 11 + 1] = -1
    further = settling_groups(
        ClusteredMean.of(differences, codes, kind="difference"), margin=0.02, level=0.95
    )
    documents, settled = differences.reshape(30, 5), 0
    for _ in range(200):
        every = np.concatenate([documents, documents[rng.integers(30, size=further)]])
        lost, won = np.clip(-every.ravel(), 0, 1)[None], np.clip(every.ravel(), 0, 1)[None]
        found = paired_means(lost, won, np.repeat(np.arange(len(every)), 5), resamples=1)[0]
        settled += non_inferiority(found, margin=0.02) != "inconclusive"
    assert 0.7 <= settled / 200 <= 0.93


def test_a_settled_gate_needs_none_and_one_without_interval_cannot_tell():
    assert groups_to_settle(rate(20, 40), 0.1) == 0
    assert groups_to_settle(None, 0.5) is None
    assert settling_groups(None, margin=0.02, level=0.95) is None


@pytest.mark.parametrize("limit", [0.5, 0.5001])
def test_a_mean_at_the_limit_needs_more_groups_than_are_reported(limit):
    assert groups_to_settle(rate(20, 40), limit) is None


def test_the_largest_reported_number_is_found():
    found = rate(20, 40)
    limits = np.linspace(0.47, 0.4999, 60)
    announced = [groups_to_settle(found, limit) for limit in limits]
    known = [number for number in announced if number is not None]
    assert known == sorted(known)
    assert announced[: len(known)] == known
    assert 0.8 * MOST_NEEDED < known[-1] <= MOST_NEEDED


def test_needed_groups_of_many_values_rest_on_sums_alone():
    rng = np.random.default_rng(1)
    found = ClusteredMean.of(rng.uniform(size=100_000), np.arange(100_000) // 2)
    assert needed_groups(found, above=found.mean - 1e-4, below=found.mean - 1e-4) is None
    assert needed_groups(found, above=0.4, below=0.4) == 0


def unchanged(rng, kind, n):
    """Differences of two runs of one agent."""
    if kind == "scores":
        of_case = rng.beta(4, 2, n)
        one, other = (np.clip(of_case + 0.1 * rng.standard_normal(n), 0, 1) for _ in range(2))
        return one - other
    rate = rng.beta(2, 0.5, n) if kind == "verdicts" else np.repeat(rng.beta(2, 0.5, n // 5), 5)
    return (rng.random(n) < rate) * 1.0 - (rng.random(n) < rate)


@pytest.mark.parametrize("kind", ["verdicts", "scores", "groups"])
@pytest.mark.parametrize("n", [60, 200])
def test_four_comparisons_of_an_unchanged_agent_in_five_show_the_margin(kind, n):
    rng, codes = np.random.default_rng(n), np.arange(n) // (5 if kind == "groups" else 1)
    found = [ClusteredMean.of(unchanged(rng, kind, n), codes, kind="difference") for _ in range(200)]
    margins = np.array([shown_margin(each) for each in found])
    shown = np.mean([-each.ends(0.95)[0] <= margins for each in found])
    assert 0.72 <= shown <= 0.88


@pytest.mark.parametrize(("margin", "groups"), [(0.02, 183), (0.05, 72), (0.1, 36)])
def test_where_nothing_differs_it_is_the_rule_of_three_halves(margin, groups):
    equal = ClusteredMean.of(np.zeros(20), np.arange(20), kind="difference")
    assert shown_margin(equal, groups) == pytest.approx(1 - 0.025 ** (1 / groups), abs=1e-6)
    assert groups_to_show(equal, margin) == groups
    assert groups_to_show(equal, 0.0) is None


def test_the_cases_that_show_a_margin_show_it_and_one_fewer_does_not():
    found = ClusteredMean.of(
        unchanged(np.random.default_rng(1), "verdicts", 60), np.arange(60), kind="difference"
    )
    needed = groups_to_show(found, 0.05)
    assert shown_margin(found, needed) <= 0.05 < shown_margin(found, needed - 1)
    assert groups_to_show(found, 0.05, power=0.9) > needed
    assert groups_to_show(found, shown_margin(found)) == pytest.approx(60, abs=1)
