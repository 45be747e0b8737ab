"""The limiter against providers in virtual time; the ideal is what the provider itself needs."""

import pytest

from tests.metrics.judge.models.provider_in_virtual_time import Weather, spend_a_day

LIMITS = {
    "bucket": Weather(rate=25),
    "bucket, told": Weather(rate=25, told=True),
    "bucket of ten": Weather(rate=25, burst=10),
    "window": Weather(rate=25, window=1),
    "window, told": Weather(rate=25, window=1, told=True),
}


@pytest.mark.parametrize("seed", range(3))
def test_without_a_limit_all_that_is_allowed_is_soon_in_flight(seed):
    day = spend_a_day(Weather(), judgements=2000, seed=seed)
    assert (day.requests, day.peak) == (2000, 50)
    assert day.seconds < 1.1 * 8


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("weather", LIMITS.values(), ids=LIMITS)
def test_a_limit_is_found_and_kept_to(weather, seed):
    day = spend_a_day(weather, seed=seed)
    assert day.seconds < 1.15 * 20
    assert day.requests <= 550


def test_refusals_at_random_are_no_limit():
    days = [spend_a_day(Weather(refused=0.1, failing=0.05), seed=seed).seconds for seed in range(7)]
    assert sorted(days)[3] < 1.6 * 2


@pytest.mark.parametrize("seed", range(3))
def test_slower_answers_are_no_reason_to_ask_for_fewer(seed):
    day = spend_a_day(Weather(change_at=1000, then=Weather(latency=0.6)), judgements=2000, seed=seed)
    assert day.seconds < 1.1 * (4 + 12)


def test_a_provider_that_only_queues_is_not_given_all_that_is_allowed():
    day = spend_a_day(Weather(slots=8), most=100)
    assert day.limiter.window.size < 50
    assert day.seconds < 1.1 * 500 * 0.2 / 8


def test_no_more_are_in_flight_than_allowed():
    assert spend_a_day(Weather(spread=0.5), most=7).peak == 7
