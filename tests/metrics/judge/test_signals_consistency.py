"""Consistency by its definition, written out a second way."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.metrics.judge.signals import consistency, modal

SAMPLES = st.lists(st.sampled_from([None, 0.2, 0.6, 0.8, 1.0]), min_size=1, max_size=12)


@given(SAMPLES)
def test_the_modal_score_is_a_most_frequent_one_abstaining_before_the_smallest(values):
    modes = statistics.multimode(values)
    assert modal(values) == (None if None in modes else min(modes))


@given(SAMPLES.filter(lambda values: len(values) > 1))
def test_the_signals_are_those_of_the_definitions(values):
    found = consistency(values)
    scores = [value for value in values if value is not None]
    assert found["consistency_modal_confidence"] == max(values.count(each) for each in values) / len(values)
    assert found["consistency_na_rate"] == values.count(None) / len(values)
    spread = statistics.pvariance(scores) ** 0.5 if len(scores) > 1 else 0
    assert found["consistency_score_std"] == pytest.approx(spread)


def test_a_single_sample_has_no_agreement():
    unknown = {
        "consistency_modal_confidence": None,
        "consistency_score_std": None,
        "consistency_na_rate": None,
    }
    assert consistency([0.6]) == consistency([None]) == unknown


@pytest.mark.parametrize(
    ("values", "modal_confidence", "std", "na_rate", "counts"),
    [
        ([0.8, 0.8, 0.8], 1.0, 0.0, 0.0, 0.8),
        # Mean 0.6, squared distances 0.04, 0.04, 0.16, 0, 0: variance 0.24 / 5.
        ([0.8, 0.8, 0.2, 0.6, 0.6], 2 / 5, 0.048**0.5, 0.0, 0.6),
        # Two scores 0.4 apart lie 0.2 from their mean; the abstention ties with neither.
        ([0.2, 0.6, None, None], 2 / 4, 0.2, 2 / 4, None),
        ([0.2, 0.2, None, None], 2 / 4, 0.0, 2 / 4, None),
        ([0.2, 0.2, 0.2, None], 3 / 4, 0.0, 1 / 4, 0.2),
        # Of one numeric score there is no spread.
        ([0.2, None], 1 / 2, 0.0, 1 / 2, None),
        ([None, None], 1.0, 0.0, 1.0, None),
        # A tie goes to the smaller score.
        ([1.0, 0.2, 1.0, 0.2], 2 / 4, 0.4, 0.0, 0.2),
    ],
)
def test_by_hand(values, modal_confidence, std, na_rate, counts):
    assert modal(values) == counts
    assert consistency(values) == {
        "consistency_modal_confidence": modal_confidence,
        "consistency_score_std": pytest.approx(std),
        "consistency_na_rate": na_rate,
    }


@given(SAMPLES.filter(lambda values: len(values) > 1), st.randoms())
def test_neither_order_nor_repetition_of_all_samples_changes_anything(values, random):
    shuffled = random.sample(values * 3, len(values) * 3)
    assert modal(shuffled) == modal(values)
    for name, found in consistency(shuffled).items():
        if name != "consistency_score_std" or sum(value is not None for value in values) != 1:
            assert found == pytest.approx(consistency(values)[name])
