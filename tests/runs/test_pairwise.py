"""Tests the counting of pairwise verdicts against closed forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trivium.runs.judged_pairs import of_both_orders
from trivium.runs.pairwise_result import JudgedPair, OrderVerdict, figure

SAID = st.sampled_from(["win", "loss", "tie", None])


def order(first, verdict):
    return OrderVerdict(first=first, verdict=verdict, status="ok", reason="so")


def pair(at, said):
    both = of_both_orders(order("base", said[0]), order("head", said[1]))
    return JudgedPair(case=f"c{at}", repeat=0, group=f"g{at // 2}", how="judged", verdicts={"overall": both})


@given(st.lists(st.tuples(SAID, SAID), max_size=20))
def test_every_pair_is_counted_once(said):
    found = figure([pair(at, each) for at, each in enumerate(said)], "overall", level=0.95)
    assert found.wins + found.losses + found.ties + found.unjudged == len(said)
    assert found.for_first + found.for_second <= found.inconsistent <= found.ties
    judged = len(said) - found.unjudged
    if judged:
        assert found.win_rate == pytest.approx((found.wins + found.ties / 2) / judged)
        assert found.position_bias == pytest.approx((found.for_first + found.for_second) / judged)
    else:
        assert found.win_rate is found.position_bias is found.ci95 is found.p is None


@given(st.lists(st.tuples(SAID, SAID), max_size=20))
def test_swapping_the_runs_mirrors_everything(said):
    mirror = {"win": "loss", "loss": "win", "tie": "tie", None: None}
    swapped = [(mirror[second], mirror[first]) for first, second in said]
    one, other = (
        figure([pair(at, each) for at, each in enumerate(given)], "overall", level=0.95)
        for given in (said, swapped)
    )
    assert (one.wins, one.ties, one.for_first) == (other.losses, other.ties, other.for_first)
    assert one.p == other.p
    if one.win_rate is not None:
        assert one.win_rate == pytest.approx(1 - other.win_rate)
