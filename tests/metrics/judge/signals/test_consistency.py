"""Consistency by its definition, written out a second way."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.metrics.judge.signals.consistency import NONE, consistency, modal

SAMPLES = st.lists(st.sampled_from([None, 0.2, 0.6, 0.8, 1.0]), min_size=1, max_size=12)


@given(SAMPLES)
def test_the_modal_score_is_a_most_frequent_one_abstaining_before_the_smallest(values):
    modes = statistics.multimode(values)
    assert modal(values) == (None if None in modes else min(modes))


@given(SAMPLES.filter(lambda values: len(values) > 1))
def test_the_signals_are_those_of_the_specification(values):
    found = consistency(values)
    scores = [value for value in values if value is not None]
    assert found["consistency_modal_confidence"] == max(values.count(each) for each in values) / len(values)
    assert found["consistency_na_rate"] == values.count(None) / len(values)
    spread = statistics.pvariance(scores) ** 0.5 if len(scores) > 1 else 0
    assert found["consistency_score_std"] == pytest.approx(spread)


def test_one_sample_agrees_with_nobody():
    assert consistency([0.6]) == consistency([None]) == NONE
