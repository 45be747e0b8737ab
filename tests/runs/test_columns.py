"""Tests number buffers and clusters: contents and memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.number_buffer import NumberBuffer
from trivium.runs.columns import Clusters


@pytest.mark.parametrize(("kind", "dtype"), [("d", np.float64), ("q", np.int64), ("I", np.uint32)])
@pytest.mark.parametrize("parts", [[], [0], [1], [4095, 1, 1], [4096], [5000, 0, 3, 9000]])
def test_numbers_come_out_as_they_came_in(kind, dtype, parts):
    flat, whole = NumberBuffer(kind), list(range(sum(parts)))
    rest = iter(whole)
    for count in parts:
        flat.extend([next(rest) for _ in range(count)])
    assert len(flat) == len(whole)
    assert flat.all().dtype == dtype
    assert flat.all().tolist() == whole


def test_what_was_looked_at_can_still_grow():
    flat = NumberBuffer("d")
    flat.extend([1.0, 2.0])
    before = flat.all()
    flat.extend([3.0])
    before[0] = 9.0
    assert flat.all().tolist() == [1.0, 2.0, 3.0]


def test_a_number_takes_its_eight_bytes():
    tracemalloc.start()
    columns = [NumberBuffer("d") for _ in range(10)]
    for _ in range(1000):
        for column in columns:
            column.extend([0.5] * 32)
    taken, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 1.02 * 10 * 32_000 * 8
    assert most < 1.1 * 10 * 32_000 * 8


@given(st.lists(st.integers(0, 2**63 - 1) | st.sampled_from([0, 7, 2**62]), max_size=40))
def test_ranks_are_those_of_the_sorted_codes(codes):
    clusters = Clusters()
    clusters.extend(codes[:20])
    clusters.ranks()
    clusters.extend(codes[20:])
    assert clusters.ranks().tolist() == np.unique(np.array(codes, np.int64), return_inverse=True)[1].tolist()
    assert clusters.all().tolist() == codes
