"""What a panel passes, by counting hands."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.metrics.judge.panel import by_judge, majority
from trivium.metrics.metric import Score

JUDGES = ("a", "b", "c")


@given(st.lists(st.booleans(), max_size=9))
def test_more_than_half_decide_and_half_decide_nothing(verdicts):
    for_it, against = verdicts.count(True), verdicts.count(False)
    assert majority(verdicts) is (None if for_it == against else for_it > against)


@given(
    st.lists(st.lists(st.none() | st.floats(0, 1), min_size=3, max_size=3), min_size=1, max_size=5), st.data()
)
def test_each_judge_has_the_weighted_mean_of_what_it_scored(votes, data):
    """Of every dimension a vote a judge, None where it abstained; NumPy's weighted mean of the others."""
    weights = {f"d{n}": data.draw(st.floats(0.05, 3)) for n in range(len(votes))}
    scores = {
        name: Score(
            name=name,
            tier="judge",
            value=0.5,
            detail={
                "votes": [{"model": who, "value": each} for who, each in zip(JUDGES, given, strict=True)]
            },
        )
        for name, given in zip(weights, votes, strict=True)
    }
    found = by_judge(scores, weights)
    for place, who in enumerate(JUDGES):
        there = [(given[place], weights[name]) for name, given in zip(weights, votes, strict=True)]
        there = [(value, weight) for value, weight in there if value is not None]
        if there:
            values, heavy = zip(*there, strict=True)
            assert found[who] == pytest.approx(np.average(values, weights=heavy), abs=1e-11)
        else:
            assert who not in found


def test_without_a_panel_there_is_no_majority():
    alone = Score(name="d", tier="judge", value=0.5, detail={"model": "a"})
    assert by_judge({"d": alone}, {"d": 1.0}) == {}
