import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trivium as tv
from trivium.metrics.text.task import time_score


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, 1.0),
        (1 / math.e, 1.0),
        (1.0, 1.0),
        (math.exp(1 / 3), 0.75),
        (math.e, 0.5),
        (math.e**3, 0.25),
        (math.e**9, 0.1),
    ],
)
def test_time_follows_its_closed_form(seconds: float, expected: float):
    score = tv.score("time", seconds=seconds)
    assert score.value == pytest.approx(expected, abs=1e-12)
    assert score.raw == seconds


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_more_time_never_scores_more(a: float, b: float):
    assert (time_score(a) >= time_score(b)) == (a <= b) or time_score(a) == time_score(b)
    assert 0 < time_score(a) <= 1


def test_no_time_is_skipped():
    score = tv.score("time", output="x")
    assert (score.status, score.value) == ("skipped", None)
    assert "measured" in str(score.reason)


@pytest.mark.parametrize("seconds", [-0.5, math.nan, math.inf])
def test_what_is_no_duration_is_skipped(seconds: float):
    score = tv.score("time", seconds=seconds)
    assert (score.status, score.value) == ("skipped", None)
    assert "no duration" in str(score.reason)
