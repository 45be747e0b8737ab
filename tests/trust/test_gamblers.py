"""Gamblers: none loses all, what they bring is theirs, and a fall is dated where it began."""

import pytest

from trivium.trust.gamblers import LARGEST_CLUSTER, STAKES, ClusterWeight, Gamblers


def test_the_worst_value_costs_each_gambler_his_stake_and_never_all():
    brought = [1.0 + place for place in range(len(STAKES))]
    gamblers = Gamblers.none().bet(0.9, 1.0, 1.0, brought=brought, time=0.0)
    left = [have * (1 - stake) for have, stake in zip(brought, STAKES, strict=True)]
    assert gamblers.capitals == pytest.approx(left)
    assert gamblers.capital == pytest.approx(sum(left))
    assert min(left) > 0
    assert sorted(STAKES) == list(STAKES)


@pytest.mark.parametrize("number", [1, len(STAKES) + 1])
def test_each_stake_is_brought_something(number):
    with pytest.raises(ValueError, match="zip"):
        Gamblers.none().bet(0.5, 0.5, 1.0, brought=[0.1] * number, time=0.0)


def test_who_has_won_nothing_dates_no_fall():
    """At the limit each factor is exactly 1; the fall began with the value after it."""
    gamblers = Gamblers.none().bet(0.5, 0.5, 1.0, brought=[0.1] * len(STAKES), time=3.0)
    assert gamblers.since is None
    gamblers = gamblers.bet(0.5, 0.0, 1.0, brought=[0.1] * len(STAKES), time=4.0)
    assert gamblers.since == 4.0


def test_the_bound_of_a_weight_is_the_largest_one_before():
    scale = ClusterWeight()
    assert [scale.scaled(weight) for weight in (0.5, 2.0, 1.0, 4.0)] == [0.5, 1.0, 0.5, 1.0]
    assert scale.largest == 4.0
    assert scale.scaled(1000.0) == 1.0
    assert scale.largest == LARGEST_CLUSTER
    assert scale.scaled(LARGEST_CLUSTER / 4) == 0.25


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(ValueError, match="above 0 and finite"):
        ClusterWeight().scaled(weight)
