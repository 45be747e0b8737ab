"""Tests clusters, and columns of more cases than are kept in memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium import number_buffer
from trivium.runs import case_values
from trivium.runs.case_values import Clusters
from trivium.runs.columns import Column


@given(st.lists(st.integers(0, 2**63 - 1) | st.sampled_from([0, 7, 2**62]), max_size=40))
def test_ranks_are_those_of_the_sorted_codes(codes):
    clusters = Clusters()
    clusters.extend(codes[:20])
    clusters.ranks()
    clusters.extend(codes[20:])
    assert clusters.ranks().tolist() == np.unique(np.array(codes, np.int64), return_inverse=True)[1].tolist()
    assert clusters.all().tolist() == codes


def figure_of(codes, values):
    clusters = Clusters()
    column = Column("m", "text", clusters)
    for index, (code, value) in enumerate(zip(codes, values, strict=True)):
        clusters.extend([code])
        column.add_values([index], [value])
    return column.figure(level=0.95), column.clustered_mean


@pytest.mark.parametrize("clusters", [1, 2, 40, 10**6])
@pytest.mark.parametrize("rate", [False, True])
def test_a_column_too_large_for_memory_has_the_figures_of_one_in_memory(monkeypatch, clusters, rate):
    random = np.random.default_rng(7)
    codes = [int(code) * (2**62 // clusters) for code in random.integers(0, clusters, 500)]
    values = [float(value > 0.5) if rate else float(value) for value in random.random(500)]
    values = [value if random.random() < 0.9 else None for value in values]
    whole, mean = figure_of(codes, values)
    monkeypatch.setattr(number_buffer, "BLOCK", 64)
    monkeypatch.setattr(number_buffer, "_SORTED_AT_ONCE", 100)
    monkeypatch.setattr(case_values, "LARGE", 100)
    large, mean_in_parts = figure_of(codes, values)
    assert (large.method, large.groups, large.n) == (whole.method, whole.groups, whole.n)
    assert large.mean == pytest.approx(whole.mean, rel=1e-14)
    assert large.ci95 == (whole.ci95 and pytest.approx(whole.ci95, rel=1e-9))
    assert (mean_in_parts is None) == (mean is None) == (clusters == 1)


def test_a_large_column_that_grows_has_new_figures(monkeypatch):
    monkeypatch.setattr(case_values, "LARGE", 2)
    clusters = Clusters()
    column = Column("m", "text", clusters)
    for count, value in ((4, 0.0), (8, 1.0)):
        clusters.extend(range(count - 4, count))
        column.add_values(range(count - 4, count), [value] * 4)
        assert (column.clustered_mean.n, column.mean) == (count, value / 2)
