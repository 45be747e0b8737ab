"""Quantiles of the normal and of Student's distribution; oracles: SciPy, closed forms."""

from math import pi, sqrt, tan

import pytest
from scipy import stats

from trivium.trust.distributions import normal_critical_value, t_critical_value

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
