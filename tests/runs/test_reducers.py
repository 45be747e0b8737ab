"""Tests reducers against their definitions, by enumeration."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.runs.case_values import REDUCERS, pass_at_k, pass_hat_k


@st.composite
def _draws(draw):
    attempts = draw(st.integers(1, 8))
    return attempts, draw(st.integers(0, attempts)), draw(st.integers(1, attempts))


@given(_draws())
def test_pass_at_k_and_pass_hat_k_equal_counting_every_draw(drawn):
    attempts, successes, k = drawn
    outcomes = [True] * successes + [False] * (attempts - successes)
    draws = list(combinations(outcomes, k))
    assert pass_at_k(*drawn) == pytest.approx(sum(any(one) for one in draws) / len(draws), abs=1e-12)
    assert pass_hat_k(*drawn) == pytest.approx(sum(all(one) for one in draws) / len(draws), abs=1e-12)


def test_reducers_on_a_case_worked_by_hand():
    values = [0.2, 0.8, 0.8, 0.6]
    expected = {"mean": 0.6, "best": 0.8, "worst": 0.2, "majority": 0.8}
    assert {name: reduce(values) for name, reduce in REDUCERS.items()} == pytest.approx(expected)


def test_majority_takes_the_smaller_of_a_tie():
    assert REDUCERS["majority"]([1.0, 0.0]) == 0.0
