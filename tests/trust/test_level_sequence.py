"""A level that is watched value by value; oracles: the whole sequence, closed forms, simulated lives."""

import json
from math import ceil, floor, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trust.test_confidence_sequences import VALUES, WEIGHTS, lives
from tests.trust.whole_sequences import whole_sequence
from trivium.trust.gamblers import STAKES
from trivium.trust.level_sequence import ALL_STARTS, LevelSequence


@given(VALUES, WEIGHTS, st.sampled_from([0.01, 0.05, 0.3]), st.sampled_from([10, 100]))
def test_value_by_value_gives_the_ends_of_the_whole(values, weights, alpha, grid):
    weights = weights[: len(values)]
    whole = whole_sequence(values, weights=weights, alpha=alpha, grid=grid)
    sequence = LevelSequence(alpha, grid)
    for place, (value, weight) in enumerate(zip(values, weights, strict=True)):
        sequence.update(value, weight)
        if sequence.moved:
            break
        assert (sequence.lower, sequence.upper) == pytest.approx(
            (whole.lower[place], whole.upper[place]), abs=1e-12
        )


@given(VALUES, WEIGHTS, st.integers(0, 30))
def test_a_restart_from_the_stored_state_changes_nothing(values, weights, at):
    stays, restarted = LevelSequence(0.2, 50, [0.4, 0.8]), LevelSequence(0.2, 50, [0.4, 0.8])
    for place, value in enumerate(values):
        if place == at:
            restarted = LevelSequence.from_state(json.loads(json.dumps(restarted.to_state())))
        stays.update(value, weights[place])
        restarted.update(value, weights[place])
    assert restarted.to_state() == stays.to_state()


def test_failures_only_are_sure_after_as_many_as_the_stakes_need():
    """Half of the capital is staked; against 0.7 each failure multiplies it by 1 + 0.5 / 0.3 · 0.7."""
    growth = log(1 + 0.5 / 0.3 * 0.7)
    one_sided, two_sided = ceil(log(20) / growth), ceil(log(40) / growth)
    assert (one_sided, two_sided) == (4, 5)
    sequence = LevelSequence()
    for n in range(1, 6):
        sequence.update(0.0)
        assert sequence.sure_below(0.7) == (n >= one_sided)
        assert (sequence.upper <= 0.7) == (n >= two_sided)
    assert not sequence.sure_above(0.01)


def test_a_named_threshold_is_sure_as_soon_as_the_two_sided_ends_say_so():
    """Five values of one kind, as above: before the late gamblers, with the other half of the error."""
    below, above = (LevelSequence(grid=10, thresholds=[threshold]) for threshold in (0.7, 0.3))
    for n in range(1, 6):
        below.update(0.0)
        above.update(1.0)
        assert below.sure_below(0.7) == above.sure_above(0.3) == (n >= 5)
    assert not below.to_state()["crossings"][0]["fell"]
    assert not above.to_state()["crossings"][0]["rose"]
    assert (below.upper, above.lower) == (0.7, 0.3)
    assert not below.sure_above(0.7)
    assert not above.sure_below(0.3)


def test_a_value_weighs_one():
    """So a cluster of weight 3 that comes later is larger than what was before."""
    one, other = LevelSequence(), LevelSequence()
    one.update(0.4)
    other.update(0.4, 1.0)
    assert one.to_state() == other.to_state()
    assert one.to_state()["largest_weight"] == 1.0


def test_passes_only_are_sure_above():
    sequence = LevelSequence()
    for _ in range(200):
        sequence.update(1.0)
    assert sequence.sure_above(0.95)
    assert not sequence.sure_above(0.999)
    assert not sequence.sure_below(0.9999)


@pytest.mark.parametrize("thresholds", [(), (0.75,)])
def test_sure_is_wrong_in_at_most_one_life_in_twenty(thresholds):
    below, above = 0, 0
    for life in lives(0.75, lives=100, looks=150, seed=3):
        sequence = LevelSequence(grid=20, thresholds=thresholds)
        for value in life:
            sequence.update(value)
        below += sequence.sure_below(0.75)
        above += sequence.sure_above(0.75)
    assert below / 100 <= 0.05
    assert above / 100 <= 0.05


def looks_until_sure(before, after, **options):
    sequence = LevelSequence(grid=50, **options)
    for value in lives(before, lives=1, looks=1000)[0]:
        sequence.update(value)
    assert not sequence.sure_below(0.85)
    for place, value in enumerate(lives(after, lives=1, looks=1500, seed=8)[0]):
        sequence.update(value)
        if sequence.sure_below(0.85):
            return place + 1
    return None


def test_a_late_fall_below_a_named_threshold_is_sure_soon():
    assert looks_until_sure(0.95, 0.7) is None
    assert looks_until_sure(0.95, 0.7, thresholds=[0.7, 0.85]) < 300


def brought(n: int, limit: float) -> np.ndarray:
    """What those who start at each of ``n`` values bring, shape (stakes, n), gambler by gambler.

    A stake f starts so rarely that it wins half a unit of log capital meanwhile: f² limit / (2 (1 - limit)) a
    value.
    """
    found = np.zeros((len(STAKES), n))
    for place, share in enumerate(STAKES):
        for k, start in enumerate(range(0, n, max(1, floor(0.5 / (share**2 * limit / (2 * (1 - limit))))))):
            found[place, start] = 1 / (len(STAKES) * ALL_STARTS * (k + 2) * log(k + 2) ** 2)
    return found


@pytest.mark.parametrize("limit", [0.5, 0.8])
def test_a_late_fall_is_sure_when_all_gamblers_together_have_two_over_alpha(limit):
    """The capital of those who started at each value, one product of factors for each start and stake."""
    values = np.array([1.0] * 40 + [0.0] * 40)
    bring = brought(values.size, limit)
    factors = 1 + np.outer(STAKES, (limit - values) / (1 - limit))
    capital = [
        sum((bring[:, start] * factors[:, start:end].prod(axis=1)).sum() for start in range(end))
        for end in range(1, values.size + 1)
    ]
    sequence, sure = LevelSequence(alpha=0.1, thresholds=[limit]), []
    for value in values:
        sequence.update(value)
        sure.append(sequence.sure_below(limit))
    assert 40 < np.argmax(sure) == np.argmax(np.array(capital) >= 2 / 0.1) < 70
    assert sequence.to_state()["crossings"][0]["falls"]["capital"] == pytest.approx(
        [
            sum(bring[place, start] * factors[place, start:].prod() for start in range(values.size))
            for place in range(len(STAKES))
        ]
    )


def test_the_ends_of_the_range_are_candidates_too():
    sequence = LevelSequence(grid=2)
    for value in [0.9] * 60:
        sequence.update(value)
    assert (sequence.surely_above, sequence.surely_below, sequence.lower) == (0.5, 1.0, 0.5)


def test_a_late_rise_above_a_named_threshold_is_sure_soon():
    sequence = LevelSequence(grid=50, thresholds=[0.85])
    for value in [*lives(0.7, lives=1, looks=500)[0], *[1.0] * 150]:
        sequence.update(value)
    assert sequence.sure_above(0.85)
    assert sequence.sure_below(0.85)


def test_those_who_start_late_bring_at_most_the_whole_capital_in_all():
    """A value at the threshold changes no capital, so what is there was brought."""
    first = np.arange(2.0, 1e6)
    rest = 1 / np.log(1e6 - 1)  # the integral of 1 / (k ln²(k))
    assert 0.99 < (np.sum(1 / (first * np.log(first) ** 2)) + rest) / ALL_STARTS <= 1
    for threshold in (0.5, 0.8):
        sequence = LevelSequence(grid=2, thresholds=[threshold])
        for _ in range(50):
            sequence.update(threshold)
        (state,) = sequence.to_state()["crossings"]
        falls, rises = brought(50, threshold).sum(axis=1), brought(50, 1 - threshold).sum(axis=1)
        assert state["falls"]["capital"] == pytest.approx(falls)
        assert state["rises"]["capital"] == pytest.approx(rises)


def test_a_small_late_fall_is_sure_sooner_than_with_a_start_at_each_value():
    """Median of five lives that fall from 0.92 to 0.80 after 2,800 values: 1,500 with a start at each."""
    delays = []
    for seed in range(5):
        sequence = LevelSequence(0.025, 20, [0.85])
        for value in lives(0.92, lives=1, looks=2800, seed=seed)[0]:
            sequence.update(value)
        after = iter(lives(0.80, lives=1, looks=4000, seed=100 + seed)[0])
        while not sequence.sure_below(0.85):
            sequence.update(next(after))
        delays.append(sequence.n - 2800)
    assert np.median(delays) < 1400


def test_a_mean_that_moved_is_said_and_survives_a_restart():
    sequence = LevelSequence(grid=100)
    for value in [1.0] * 100 + [0.0] * 2000:
        sequence.update(value)
    assert sequence.moved
    assert sequence.n == 2100
    assert 0.9 < sequence.lower < sequence.upper
    again = LevelSequence.from_state(json.loads(json.dumps(sequence.to_state())))
    again.update(0.0)
    sequence.update(0.0)
    assert again.to_state() == sequence.to_state()


def test_the_state_becomes_small():
    sequence = LevelSequence()
    sizes = []
    for value in lives(0.9, lives=1, looks=1000)[0]:
        sequence.update(value)
        sizes.append(len(json.dumps(sequence.to_state())))
    assert sizes[99] < 6_000
    assert sizes[999] < 2_500


def test_no_values_leave_every_mean_possible():
    sequence = LevelSequence()
    assert (sequence.lower, sequence.upper, sequence.n) == (0.0, 1.0, 0)
    assert not sequence.sure_below(1.0)
    assert not sequence.sure_above(0.0)


@pytest.mark.parametrize("threshold", [0.0, 1.0, 1.5, float("nan")])
def test_a_threshold_outside_the_range_is_refused(threshold):
    with pytest.raises(ValueError, match="threshold"):
        LevelSequence(thresholds=[threshold])


@pytest.mark.parametrize(("alpha", "grid"), [(0.0, 10), (1.0, 10), (0.5, 1)])
def test_an_option_outside_its_range_is_refused(alpha, grid):
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1|grid must be at least 2"):
        LevelSequence(alpha, grid)


@pytest.mark.parametrize("arguments", [(1.1,), (-0.1,), (float("nan"),), (0.5, 0.0), (0.5, float("inf"))])
def test_a_wrong_update_is_refused_and_changes_nothing(arguments):
    sequence = LevelSequence()
    with pytest.raises(ValueError, match="found"):
        sequence.update(*arguments)
    assert sequence.n == 0


@pytest.mark.parametrize(
    "change",
    [
        {"version": 99},
        {"n": None},
        {"log_capital": "?"},
        {"grid": 0},
        {"log_capital": "AAAA"},
        {"crossings": [{"threshold": 0.5, "fell": False, "rose": False, "falls": {}, "rises": {}}]},
    ],
)
def test_a_state_of_something_else_is_refused(change):
    with pytest.raises(ValueError, match="not the state of a LevelSequence"):
        LevelSequence.from_state(LevelSequence().to_state() | change)
