"""Sequences: the longest common subsequence equals rapidfuzz's, and stays quick on long ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from trivium.metrics.graph.matching import lcs_length
from trivium.metrics.graph.trajectories import path_agreement

sequences = st.lists(st.sampled_from("abcd"), max_size=90)


@given(sequences, sequences)
def test_the_longest_common_subsequence_equals_rapidfuzz(first, second):
    assert lcs_length(first, second) == LCSseq.similarity(first, second)


def test_fifty_thousand_calls_are_compared():
    long = ["a", "b", "c"] * 16_667
    assert lcs_length(long, long[1:]) == len(long) - 1


@given(st.lists(sequences, min_size=2, max_size=5))
def test_agreement_is_the_mean_over_pairs(drawn):
    pairs = [(a, b) for i, a in enumerate(drawn) for b in drawn[i + 1 :]]
    each = [2 * LCSseq.similarity(a, b) / (len(a) + len(b)) if a or b else 1.0 for a, b in pairs]
    score = path_agreement(drawn)
    assert score.value == pytest.approx(sum(each) / len(each), abs=1e-12)
    assert 0 <= score.value <= 1
    assert score.detail["attempts"] == len(drawn)


def test_attempts_without_calls_agree():
    assert path_agreement([[], []]).value == 1.0
    assert path_agreement([[], ["a"]]).value == 0.0


def test_one_attempt_agrees_with_nothing():
    score = path_agreement([["a"]])
    assert (score.status, score.value) == ("skipped", None)
