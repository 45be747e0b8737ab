"""The detector of a fall; oracles: closed forms, the promised mean time in simulated lives."""

import json

import numpy as np
import pytest

from trivium.trust.change_detection import ChangeDetector
from trivium.trust.gamblers import STAKES


def test_equal_values_give_the_evidence_of_a_geometric_series():
    """Each gambler who started j values ago has f^j, and a k-th of the time since the value before."""
    detector = ChangeDetector(0.9, 0.1, 1000)
    for _ in range(5):
        detector.update(0.3, elapsed=0.5)
    factors = [1 + stake * (0.8 - 0.3) / (1 - 0.8) for stake in STAKES]
    expected = sum(0.5 / len(STAKES) * sum(f**j for j in range(1, 6)) for f in factors)
    assert detector.evidence == pytest.approx(expected, rel=1e-12)
    assert (detector.n, detector.elapsed) == (5, 2.5)


def test_a_weight_scales_the_bet():
    detector = ChangeDetector(0.9, 0.1, 1000)
    detector.update(1.0, weight=0.25)
    expected = sum((1 - 0.25 * stake) / len(STAKES) for stake in STAKES)
    assert detector.evidence == pytest.approx(expected, rel=1e-12)


def test_the_sum_of_the_weights_of_a_session_is_scaled_by_the_largest_before():
    detector, expected = ChangeDetector(0.9, 0.1, 1000), ChangeDetector(0.9, 0.1, 1000)
    for weight, staked in [(0.5, 0.5), (4.0, 1.0), (2.0, 0.5), (1.0, 0.25), (1e6, 1.0), (10.0, 0.5)]:
        detector.update(0.4, weight=weight)
        expected.update(0.4, weight=staked)
    assert detector.evidence == pytest.approx(expected.evidence, rel=1e-12)
    again = ChangeDetector.from_state(detector.to_state())
    again.update(0.4, weight=10.0)
    detector.update(0.4, weight=10.0)
    assert again.to_state() == detector.to_state()


def first_alarm(detector, values, elapsed=1.0, weights=None):
    """Elapsed time at the first alarm, or at the end."""
    for place, value in enumerate(values):
        if detector.update(value, elapsed, 1.0 if weights is None else weights[place]):
            break
    return detector.elapsed


@pytest.mark.parametrize("limit", [0.5, 0.95])
def test_the_mean_time_to_a_false_alarm_is_at_least_the_one_promised(limit):
    rng = np.random.default_rng(5)
    times = [
        first_alarm(ChangeDetector(limit, 0.0, 100), (rng.random(1500) < limit).astype(float))
        for _ in range(300)
    ]
    assert np.mean(times) >= 100
    assert np.mean(np.array(times) < 1500) > 0.5  # at the limit itself the promise is not far off


def test_the_promise_holds_where_errors_are_always_sampled():
    """4 % of the traffic are errors, which fail and are all taken, of the rest 1 %: the mean is 0.95."""
    rng = np.random.default_rng(6)
    share = 0.04 / (0.04 + 0.96 * 0.01)
    times = []
    for _ in range(200):
        error = rng.random(1500) < share
        outcomes = np.where(error, 0.0, rng.random(1500) >= 0.0104166667)
        weights = np.where(error, 0.01, 1.0)
        times.append(first_alarm(ChangeDetector(0.95, 0.0, 100), outcomes, weights=weights))
    assert np.mean(times) >= 100
    detector = ChangeDetector(0.95, 0.0, 100)
    assert first_alarm(detector, outcomes) < 100  # without weights it alarms at once


@pytest.mark.parametrize(("drop", "within"), [(0.05, 800), (0.1, 250), (0.2, 80)])
def test_a_fall_is_noticed_and_dated(drop, within):
    rng, delays, dates = np.random.default_rng(8), [], []
    for _ in range(30):
        detector = ChangeDetector(0.95, 0.02, 5000)
        before = (rng.random(500) < 0.96).astype(float)
        assert first_alarm(detector, before) == 500
        after = (rng.random(3000) < 0.95 - drop).astype(float)
        delays.append(first_alarm(detector, after) - 500)
        dates.append(detector.since - 500)
    assert np.median(delays) < within
    assert np.median(np.abs(dates)) < within / 2


def test_a_fall_is_dated_at_the_first_value_of_the_best_product():
    detector = ChangeDetector(0.9, 0.1, 1000)
    dates = []
    for value, elapsed in [(1.0, 2.0), (0.79, 3.0), (0.79, 1.0), (0.9, 1.0), (0.9, 1.0), (0.7, 0.5)]:
        detector.update(value, elapsed)
        dates.append(detector.since)
    assert dates == [None, 5.0, 5.0, None, None, 8.5]


def test_the_unit_of_time_does_not_matter():
    values = (np.random.default_rng(9).random(400) < 0.8).astype(float)
    in_days, in_hours = ChangeDetector(0.9, 0.02, 30), ChangeDetector(0.9, 0.02, 30 * 24)
    for value in values:
        alarms = in_days.update(value, 0.1), in_hours.update(value, 2.4)
        assert alarms[0] == alarms[1]
    assert in_hours.evidence == pytest.approx(24 * in_days.evidence)
    assert in_hours.since == pytest.approx(24 * in_days.since)


def test_a_longer_mean_time_waits_for_more_evidence():
    values = (np.random.default_rng(10).random(2000) < 0.7).astype(float)
    assert first_alarm(ChangeDetector(0.9, 0.0, 100), values) < first_alarm(
        ChangeDetector(0.9, 0.0, 100_000), values
    )


def test_a_fall_inside_the_tolerance_is_no_change():
    values = (np.random.default_rng(12).random(3000) < 0.88).astype(float)
    detector = ChangeDetector(0.9, 0.05, 1000)
    assert first_alarm(detector, values) == 3000
    assert first_alarm(ChangeDetector(0.9, 0.0, 1000), values) < 3000


def test_after_a_recovery_the_alarm_ends():
    detector = ChangeDetector(0.9, 0.0, 100)
    first_alarm(detector, [0.0] * 50)
    assert detector.alarm
    assert detector.since == 1.0
    for _ in range(300):
        detector.update(1.0)
    assert not detector.alarm
    assert detector.since is None


def test_a_reset_forgets_everything():
    detector = ChangeDetector(0.9, 0.0, 100)
    fresh = detector.to_state()
    first_alarm(detector, [0.0] * 50)
    detector.reset()
    assert detector.to_state() == fresh
    assert (detector.evidence, detector.since, detector.alarm) == (0.0, None, False)


def test_a_restart_from_the_stored_state_changes_nothing():
    values = np.random.default_rng(13).random(200)
    stays, restarted = ChangeDetector(0.7, 0.1, 50), ChangeDetector(0.7, 0.1, 50)
    for place, value in enumerate(values):
        if place % 37 == 0:
            restarted = ChangeDetector.from_state(json.loads(json.dumps(restarted.to_state())))
        assert stays.update(value, 0.3, 0.5) == restarted.update(value, 0.3, 0.5)
    assert restarted.to_state() == stays.to_state()
    assert len(json.dumps(stays.to_state())) < 1000


def test_a_very_long_fall_keeps_the_evidence_a_number():
    detector = ChangeDetector(0.9, 0.0, 100)
    for _ in range(3000):
        detector.update(0.0)
    assert 1e300 <= detector.evidence < float("inf")
    assert ChangeDetector.from_state(json.loads(json.dumps(detector.to_state()))).alarm


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.2, 0.0, 10), "reference"),
        ((0.5, 0.5, 10), "limit"),
        ((1.0, 0.0, 10), "limit"),
        ((0.5, -0.1, 10), "tolerance"),
        ((0.5, 0.1, 0), "mean_time_between_false_alarms"),
        ((0.5, 0.1, float("inf")), "mean_time_between_false_alarms"),
        ((float("nan"), 0.1, 1), "reference"),
    ],
)
def test_what_cannot_be_watched_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ChangeDetector(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [(1.5,), (float("nan"),), (0.5, -1.0), (0.5, float("inf")), (0.5, 1.0, 0.0)],
)
def test_a_wrong_update_is_refused_and_changes_nothing(arguments):
    detector = ChangeDetector(0.9, 0.0, 100)
    with pytest.raises(ValueError, match="found"):
        detector.update(*arguments)
    assert (detector.n, detector.evidence) == (0, 0.0)


@pytest.mark.parametrize(
    "change", [{"version": 0}, {"capital": [1.0]}, {"capital": [1.0] * 7}, {"best": None}, {"reference": 3}]
)
def test_a_state_of_something_else_is_refused(change):
    with pytest.raises(ValueError, match="not the state of a ChangeDetector"):
        ChangeDetector.from_state(ChangeDetector(0.9, 0.0, 100).to_state() | change)
