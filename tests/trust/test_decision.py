"""Probabilities of a loss and of missing a limit against integrals and limits, and priors of histories."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from trivium.trust.decision import (
    DEFAULT_PRIOR,
    DifferencePrior,
    learned_prior,
    loss_beyond,
    loss_of_differences,
    probability_of_loss,
    probability_of_missing,
)
from trivium.trust.distributions import Interval
from trivium.trust.paired import paired_means


def interval(low, high, *, n=30, groups=30, error=0.01):
    return Interval(low=low, high=high, level=0.95, method="m", n=n, groups=groups, std_error=error)


def probability(estimate, error, *, n=10**9, groups=10**9, **how):
    return probability_of_loss(estimate, interval(-1, 1, n=n, groups=groups, error=error), **how)


@pytest.mark.parametrize("prior", [DEFAULT_PRIOR, DifferencePrior(unchanged=0.7, spread=0.03)])
@pytest.mark.parametrize("estimate", [-0.2, -0.033, 0.0, 0.1])
@pytest.mark.parametrize(("error", "n", "groups"), [(0.04, 60, 12), (0.0, 60, 60), (0.02, 200, 2)])
def test_the_probability_of_a_loss_is_an_integral(estimate, error, n, groups, prior):
    few = stats.t.ppf(0.975, groups - 1) / stats.norm.ppf(0.975)
    likelihood = stats.norm(estimate, np.hypot(error * few, 1 / (n + 1))).pdf

    def mass(*cuts):
        def density(difference):
            return likelihood(difference) * stats.norm.pdf(difference, 0, prior.spread)

        return sum(integrate.quad(density, *ends, epsabs=1e-13)[0] for ends in pairwise(sorted(cuts)))

    changed = 1 - prior.unchanged
    loss, every = mass(-2, -0.2, -0.1, -0.02), mass(-2, -0.2, -0.1, -0.02, 0, 0.1, 0.2, 2)
    expected = changed * loss / (changed * every + prior.unchanged * likelihood(0.0))
    found = probability(estimate, error, n=n, groups=groups, margin=0.02, prior=prior)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_probability_of_a_loss_at_its_limits():
    flat = DifferencePrior(unchanged=0.0, spread=100.0)
    assert probability(-0.1, 0.05, margin=0.1, prior=flat) == pytest.approx(0.5, abs=1e-3)
    assert probability(-0.098, 0.05, margin=0.0, prior=flat) == pytest.approx(0.975, abs=1e-3)
    assert probability(-0.1, 0.0, margin=0.02) == pytest.approx(1)
    assert probability(-0.01, 0.0, margin=0.02) == pytest.approx(0)
    nothing_known = (1 - DEFAULT_PRIOR.unchanged) * stats.norm.cdf(-0.02, 0, DEFAULT_PRIOR.spread)
    assert probability(0.0, 1e4, margin=0.02) == pytest.approx(nothing_known, abs=1e-3)
    rising = [probability(each, 0.05, margin=0.02) for each in np.linspace(0.5, -0.5, 30)]
    assert rising == sorted(rising)


@pytest.mark.parametrize(("n", "groups"), [(60, 60), (60, 12)])
def test_what_is_likely_comes_about_as_often(n, groups):
    """Changes of cases in groups, differences drawn from the prior; of 40 to 60 %, 30 to 70 % are losses."""
    rng, seen = np.random.default_rng(4), []
    codes = np.arange(n) % groups
    for _ in range(600):
        true = rng.normal(0, DEFAULT_PRIOR.spread) * (rng.random() > DEFAULT_PRIOR.unchanged)
        amount = max(abs(true), 0.2)
        ways = rng.beta(*(8 * (1 + sign * true / amount) / 2 + 1e-9 for sign in (1, -1)), groups)[codes]
        ways = ways if groups < n else (1 + true / amount) / 2
        change = np.where(rng.random(n) < ways, 1.0, -1.0) * (rng.random(n) < amount)
        (found,) = paired_means(np.zeros((1, n)), change[None], codes, resamples=1)
        seen.append((probability_of_loss(found.delta, found.interval, margin=0.02), true < -0.02))
    odds, lost = np.array(seen, float).T
    for low, high in ((0, 0.2), (0.4, 0.6), (0.8, 1)):
        there = (odds >= low) & (odds <= high)
        assert low - 0.1 <= lost[there].mean() <= high + 0.1


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ({"at_least": 0.66}, 0.025),
        ({"at_least": 0.93}, 0.975),
        ({"at_least": 0.833}, 0.5),
        ({"at_most": 0.66}, 0.975),
        ({"at_most": 0.93}, 0.025),
    ],
)
def test_a_limit_at_an_end_of_the_interval_is_missed_as_often_as_the_interval_says(limit, expected):
    found = probability_of_missing(0.833, interval(0.66, 0.93), **limit)
    assert found == pytest.approx(expected)


def test_a_mean_without_spread_misses_a_limit_surely_or_never():
    point = interval(1.0, 1.0)
    assert probability_of_missing(1.0, point, at_least=0.9) == 0
    assert probability_of_missing(1.0, point, at_most=0.9) == 1
    for limits in ({}, {"at_least": 0.1, "at_most": 0.2}):
        with pytest.raises(ValueError, match="either at_least or at_most"):
            probability_of_missing(1.0, point, **limits)


@pytest.mark.parametrize(("unchanged", "spread"), [(0.0, 0.15), (0.9, 0.1), (0.5, 0.05)])
def test_a_prior_is_learned_from_a_long_history(unchanged, spread):
    rng = np.random.default_rng(3)
    errors = rng.uniform(0.01, 0.02, 400)
    true = np.where(rng.random(400) < unchanged, 0, rng.normal(0, spread, 400))
    found = learned_prior(rng.normal(true, errors), errors)
    assert found.unchanged == pytest.approx(unchanged, abs=0.15)
    assert found.spread == pytest.approx(spread, rel=0.25)
    assert found.comparisons == 400


def test_a_short_history_hardly_moves_the_prior_and_a_very_short_one_does_not():
    assert learned_prior([0.3] * 7, [0.01] * 7) is DEFAULT_PRIOR
    found = learned_prior([0.0] * 8, [0.08] * 8)  # wide intervals around nothing say little
    assert abs(found.unchanged - DEFAULT_PRIOR.unchanged) < 0.25
    assert 0.03 < found.spread < 0.15
    quiet, wild = (learned_prior([delta, -delta] * 6, [0.02] * 12) for delta in (0.0, 0.3))
    assert quiet.spread < DEFAULT_PRIOR.spread < wild.spread
    assert wild.unchanged < DEFAULT_PRIOR.unchanged < quiet.unchanged


def test_the_loss_of_differences_is_that_of_their_interval():
    rng = np.random.default_rng(5)
    base, head, groups = rng.random(60), rng.random(60), np.arange(60) // 3
    found = paired_means(base[None], head[None], groups)[0]
    expected = probability_of_loss(found.delta, found.interval, margin=0.02)
    assert loss_of_differences(head - base, groups, margin=0.02) == pytest.approx(expected)
    with pytest.raises(ValueError, match="two groups"):
        loss_of_differences([0.1], [0], margin=0.02)


def test_no_difference_is_a_loss_below_a_limit_above_0():
    equal = DifferencePrior(unchanged=1 - 1e-12, spread=0.1)
    assert loss_beyond(0.0, 0.01, 0.001, equal) == pytest.approx(1)
    assert loss_beyond(0.0, 0.01, -0.001, equal) == pytest.approx(0)
