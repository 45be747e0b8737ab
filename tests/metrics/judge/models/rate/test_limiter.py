"""The limiter against providers in virtual time; the ideal is what the provider itself needs."""

from statistics import median

import pytest

from tests.metrics.judge.models.rate.provider_in_virtual_time import Weather, spend_a_day

LIMITS = {
    "bucket": Weather(rate=25),
    "bucket, told": Weather(rate=25, told=True),
    "bucket of ten": Weather(rate=25, burst=10),
    "bucket of twenty-five": Weather(rate=25, burst=25),
    "bucket, near by": Weather(rate=25, latency=0.02),
    "bucket, far away": Weather(rate=25, latency=1),
    "window": Weather(rate=25, window=1),
    "window, told": Weather(rate=25, window=1, told=True),
    "two a second": Weather(rate=2),
    "ten a second": Weather(rate=10),
}

SEEDS = range(4)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_limit_all_that_is_allowed_is_soon_in_flight(seed):
    day = spend_a_day(Weather(), judgements=2000, seed=seed)
    assert (day.requests, day.peak) == (2000, 50)
    assert day.seconds < 1.1 * 8


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weather", LIMITS.values(), ids=LIMITS)
def test_a_limit_is_found_and_kept_to(weather, seed):
    day = spend_a_day(weather, seed=seed)
    assert day.seconds < 1.1 * 500 / weather.rate
    assert day.requests <= 550


@pytest.mark.parametrize("weather", [Weather(rate=25, refusal=0.1), Weather(rate=25, window=1, refusal=0.1)])
def test_a_limit_is_found_where_refusals_take_their_time(weather):
    days = [spend_a_day(weather, seed=seed) for seed in SEEDS]
    assert max(day.seconds for day in days) < 1.2 * 20
    assert max(day.requests for day in days) < 600


@pytest.mark.parametrize("seed", range(8))
def test_refusals_at_random_are_no_limit(seed):
    assert spend_a_day(Weather(refused=0.1, failing=0.05), seed=seed).seconds < 1.5 * 2


@pytest.mark.parametrize("refused", [0.3, 0.5])
def test_even_many_refusals_at_random_are_told_from_a_limit(refused):
    days = [spend_a_day(Weather(refused=refused), seed=seed) for seed in range(7)]
    assert median(day.seconds for day in days) < 2 * 2 / (1 - refused)
    assert median(day.limiter.pace.background for day in days) == pytest.approx(refused, abs=0.1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("before", "after"), [(25, 100), (100, 25)])
def test_a_limit_is_followed_when_it_changes(before, after, seed):
    weather = Weather(rate=before, change_at=1000, then=Weather(rate=after))
    day = spend_a_day(weather, judgements=2000, seed=seed)
    assert day.seconds < 1.15 * (1000 / before + 1000 / after)
    assert day.requests <= 1.1 * 2000


@pytest.mark.parametrize("seed", SEEDS)
def test_slower_answers_are_no_reason_to_ask_for_fewer(seed):
    day = spend_a_day(Weather(change_at=1000, then=Weather(latency=0.6)), judgements=2000, seed=seed)
    assert day.seconds < 1.1 * (4 + 12)


def test_a_provider_that_only_queues_is_not_given_all_that_is_allowed():
    day = spend_a_day(Weather(slots=8), most=100)
    assert day.limiter.window.size < 100
    assert day.seconds < 1.1 * 500 * 0.2 / 8


def test_no_more_are_in_flight_than_allowed():
    assert spend_a_day(Weather(spread=0.5), most=7).peak == 7


def test_a_provider_that_is_closed_for_a_while_is_asked_now_and_then():
    # Twenty-five at once, then nobody for the rest of half a minute.
    day = spend_a_day(Weather(rate=25 / 30, window=30, fixed=True), judgements=60)
    assert day.seconds < 1.2 * 60 + 8
    assert day.requests < 60 + 60


@pytest.mark.parametrize("refused", [0.1, 0.3])
def test_a_limit_with_refusals_at_random_besides_does_not_bring_judging_to_a_halt(refused):
    days = [spend_a_day(Weather(rate=25, refused=refused), seed=seed) for seed in range(5)]
    assert median(day.seconds for day in days) < 2 * 20 / (1 - refused)
