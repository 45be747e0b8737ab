"""Probabilities of a loss and of missing a limit against integrals and limits, and priors of histories."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from trivium.trust.decision import (
    DEFAULT_PRIOR,
    DifferencePrior,
    learned_prior,
    probability_of_loss,
    probability_of_missing,
)
from trivium.trust.distributions import Interval


def interval(low, high, level=0.95):
    return Interval(low=low, high=high, level=level, method="m", n=30, groups=30, std_error=0.01)


@pytest.mark.parametrize("prior", [DEFAULT_PRIOR, DifferencePrior(unchanged=0.7, spread=0.03)])
@pytest.mark.parametrize(
    ("estimate", "low", "high", "level"),
    [
        (-0.033, -0.123, 0.037, 0.95),
        (0.1, -0.14, 0.3, 0.95),
        (-0.2, -0.3, -0.05, 0.8),
        (0.0, -0.02, 0.2, 0.99),
    ],
)
def test_the_probability_of_a_loss_is_an_integral(estimate, low, high, level, prior):
    z = stats.norm.ppf((1 + level) / 2)
    below, above = (estimate - low) / z, (high - estimate) / z

    def likelihood(difference):
        return np.exp(-(((difference - estimate) / (below if difference < estimate else above)) ** 2) / 2)

    def mass(start, end):
        def density(difference):
            return likelihood(difference) * stats.norm.pdf(difference, 0, prior.spread)

        cuts = sorted({start, end, *(point for point in (estimate, 0.0, -0.02) if start < point < end)})
        return sum(integrate.quad(density, *ends)[0] for ends in pairwise(cuts))

    changed = 1 - prior.unchanged
    expected = changed * mass(-2, -0.02) / (changed * mass(-2, 2) + prior.unchanged * likelihood(0.0))
    found = probability_of_loss(estimate, interval(low, high, level), margin=0.02, prior=prior)
    assert found == pytest.approx(expected, abs=1e-6)


def test_the_probability_of_a_loss_at_its_limits():
    def probability(estimate, reach, **how):
        return probability_of_loss(estimate, interval(estimate - reach, estimate + reach), **how)

    flat = DifferencePrior(unchanged=0.0, spread=100.0)
    assert probability(-0.1, 0.1, margin=0.1, prior=flat) == pytest.approx(0.5, abs=1e-4)
    assert probability(-0.1, 0.1, margin=0.0, prior=flat) == pytest.approx(0.975, abs=1e-4)
    assert probability(-0.1, 1e-12, margin=0.02) == pytest.approx(1)
    assert probability(-0.01, 1e-12, margin=0.02) == pytest.approx(0)
    nothing_known = (
        DEFAULT_PRIOR,
        (1 - DEFAULT_PRIOR.unchanged) * stats.norm.cdf(-0.02, 0, DEFAULT_PRIOR.spread),
    )
    assert probability(0.0, 1e4, margin=0.02, prior=nothing_known[0]) == pytest.approx(
        nothing_known[1], abs=1e-3
    )
    rising = [probability(each, 0.1, margin=0.02) for each in np.linspace(0.5, -0.5, 30)]
    assert rising == sorted(rising)


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
    assert abs(found.unchanged - DEFAULT_PRIOR.unchanged) < 0.2
    assert 0.03 < found.spread < 0.15
    quiet, wild = (learned_prior([delta, -delta] * 6, [0.02] * 12) for delta in (0.0, 0.3))
    assert quiet.spread < DEFAULT_PRIOR.spread < wild.spread
    assert wild.unchanged < DEFAULT_PRIOR.unchanged < quiet.unchanged
