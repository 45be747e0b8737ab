"""Tests of a limit on the error rate; oracles: closed forms, all outcomes enumerated."""

from math import comb, exp, inf, log

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom

from trivium.trust.certification import RiskTest

DELTA = 0.1


class OfVerdicts:
    """The test of one limit once these verdicts are accepted."""

    def __init__(self, test, limit, codes, wrong):
        self.test, self.limit, self.codes, self.wrong = test, limit, codes, np.asarray(wrong, float)

    def log_p(self):
        return self.test.log_p(self.limit, self.codes, self.wrong)(self.codes.size)

    def bound(self, delta):
        return self.test.bound(delta, self.codes, self.wrong)


def of_groups(kind, limit, groups, size):
    """Evidence from (accepted, wrong) of each group."""
    codes = np.repeat(np.arange(len(groups)), [taken for taken, _ in groups])
    wrong = np.concatenate([np.arange(taken) < lost for taken, lost in groups])
    return OfVerdicts(RiskTest(kind, len(groups), size), limit, codes, wrong)


GROUPS = st.lists(
    st.integers(0, 4).flatmap(lambda taken: st.tuples(st.just(taken), st.integers(0, taken))),
    min_size=1,
    max_size=30,
).filter(lambda groups: any(taken for taken, _ in groups))


@given(GROUPS, st.floats(0.02, 0.6))
def test_hoeffdings_evidence_is_his_inequality_on_the_means_of_groups(groups, limit):
    means = [(lost + limit * (4 - taken)) / 4 for taken, lost in groups]
    gap = limit - np.mean(means)
    expected = -2 * len(groups) * gap**2 if gap > 0 else 0.0
    assert of_groups("hoeffding", limit, groups, 4).log_p() == pytest.approx(expected, abs=1e-12)


@given(GROUPS, st.floats(0.02, 0.6))
def test_a_bettors_capital_is_the_mean_over_stakes_of_what_each_group_multiplies_it_by(groups, limit):
    means = [(lost + limit * (4 - taken)) / 4 for taken, lost in groups]
    stakes = [k / 20 / (1 - limit) for k in range(1, 21)]  # more than 1 / (1 - limit) could ruin twice over
    capital = np.mean([np.prod([max(0.0, 1 + stake * (limit - mean)) for mean in means]) for stake in stakes])
    assert exp(of_groups("betting", limit, groups, 4).log_p()) == pytest.approx(
        min(1.0, 1 / capital), rel=1e-6
    )


@pytest.mark.parametrize("kind", ["betting", "hoeffding"])
def test_where_the_error_is_the_limit_no_p_value_comes_more_often_than_it_says(kind):
    count, limit = 40, 0.2
    chances = binom.pmf(np.arange(count + 1), count, limit)  # of so many groups being wrong throughout
    found = [of_groups(kind, limit, [(2, 2)] * k + [(2, 0)] * (count - k), 2) for k in range(count + 1)]
    p = np.exp([evidence.log_p() for evidence in found])
    for each in p:
        assert chances[p <= each * (1 + 1e-12)].sum() <= each
    assert p[0] < 0.05


@pytest.mark.parametrize("kind", ["betting", "hoeffding"])
@given(GROUPS)
def test_the_bound_is_the_limit_at_which_the_evidence_is_just_enough(kind, groups):
    limit = of_groups(kind, 0.5, groups, 4).bound(DELTA)
    share = sum(lost for _, lost in groups) / sum(taken for taken, _ in groups)
    assert share <= limit <= 1
    if limit < 1:
        assert of_groups(kind, limit, groups, 4).log_p() == pytest.approx(log(DELTA), abs=1e-4)
    else:
        assert of_groups(kind, 1 - 1e-9, groups, 4).log_p() > log(DELTA)


@given(st.integers(1, 10_000), st.integers(0, 100), st.floats(0.01, 0.5))
def test_hoeffdings_bound_of_full_groups_is_the_share_and_a_reach(count, lost, delta):
    assume(lost <= count)
    evidence = OfVerdicts(RiskTest("hoeffding", count, 1), 0.5, np.arange(count), np.arange(count) < lost)
    expected = lost / count + (log(1 / delta) / (2 * count)) ** 0.5
    assert evidence.bound(delta) == pytest.approx(min(1.0, expected), abs=1e-7)


def test_evidence_beyond_the_smallest_number_is_overwhelming():
    exact, codes = RiskTest("exact binomial", 100_000, 1), np.arange(100_000)
    assert OfVerdicts(exact, 0.5, codes, codes == 0).log_p() == -inf
    assert OfVerdicts(exact, 0.5, codes, codes < 0).log_p() == pytest.approx(100_000 * log(0.5))


@given(st.integers(1, 60), st.floats(0.02, 0.5), st.data())
def test_the_exact_tail_is_the_binomial_sum(n, epsilon, picks):
    lost = picks.draw(st.integers(0, n))
    exact = RiskTest("exact binomial", n, 1)
    evidence = OfVerdicts(exact, epsilon, np.arange(n), np.arange(n) < lost)
    by_hand = sum(comb(n, k) * epsilon**k * (1 - epsilon) ** (n - k) for k in range(lost + 1))
    assert evidence.log_p() == pytest.approx(log(by_hand), abs=1e-9)
    limit = evidence.bound(DELTA)
    assert (limit == 1) == (lost == n)
    if limit < 1:
        again = OfVerdicts(exact, limit, np.arange(n), np.arange(n) < lost)
        assert again.log_p() == pytest.approx(log(DELTA), abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 7), st.booleans()), min_size=1, max_size=24), st.floats(0.05, 0.5))
def test_evidence_does_not_depend_on_how_verdicts_arrive(verdicts, epsilon):
    codes, wrong = np.array([v[0] for v in verdicts]), np.array([float(v[1]) for v in verdicts])
    order = np.random.default_rng(0).permutation(codes.size)
    for kind in ("betting", "hoeffding"):
        test = RiskTest(kind, 8, 24)
        evidence, moved = (OfVerdicts(test, epsilon, codes[at], wrong[at]) for at in (slice(None), order))
        assert moved.log_p() == pytest.approx(evidence.log_p(), abs=1e-9)
        first = codes.size // 2
        half = OfVerdicts(test, epsilon, codes[:first], wrong[:first])
        if first:
            assert test.log_p(epsilon, codes, wrong)(first) == pytest.approx(half.log_p(), abs=1e-9)
        limit = evidence.bound(DELTA)
        assert wrong.mean() <= limit + 1e-9
        if evidence.log_p() <= log(DELTA):
            assert limit <= epsilon + 1e-8
