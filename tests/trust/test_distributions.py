"""Quantiles of the normal and of Student's distribution; oracles: SciPy, closed forms."""

from math import pi, sqrt, tan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from trivium.trust.distributions import beta_probability, normal_critical_value, t_critical_value

LEVELS = (0.01, 0.5, 0.8, 0.95, 0.999, 1 - 1e-6)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("freedom", [*range(1, 12), 99, 100, 1_001, 9_999, 10_001, 10**15])
def test_the_reach_of_students_distribution_is_that_of_scipy(level, freedom):
    expected = stats.t.isf((1 - level) / 2, freedom)
    assert t_critical_value(level, freedom) == pytest.approx(expected, rel=1e-8 if level > 0.99 else 1e-10)


@pytest.mark.parametrize("level", LEVELS)
def test_one_and_two_degrees_of_freedom_have_closed_forms(level):
    assert t_critical_value(level, 1) == pytest.approx(tan(pi * level / 2))
    assert t_critical_value(level, 2) == pytest.approx(level * sqrt(2 / (1 - level**2)))


@pytest.mark.parametrize("level", LEVELS)
def test_the_reach_of_the_normal_distribution_is_that_of_scipy(level):
    assert normal_critical_value(level) == pytest.approx(stats.norm.isf((1 - level) / 2), rel=1e-9)


@given(st.floats(-7, 11), st.floats(-7, 11), st.floats(-4, 4))
def test_the_beta_distribution_is_that_of_scipy(p, q, at):
    p, q = np.exp([p, q])
    x = float(np.clip(p / (p + q) + at * np.sqrt(p * q / (p + q + 1)) / (p + q), 0, 1))
    assert beta_probability(x, p, q) == pytest.approx(special.betainc(p, q, x), rel=1e-7, abs=1e-12)
