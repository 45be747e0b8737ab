"""The limiter against providers in virtual time; the ideal is what the provider itself needs."""

from statistics import median

import pytest

from tests.metrics.judge.client.provider_in_virtual_time import Weather, spend_a_day
from trivium.metrics.judge.client.rate_limiter import FREE_GAP, RateLimiter

LIMITS = {
    "bucket": Weather(rate=25),
    "bucket, Retry-After": Weather(rate=25, retry_after_step=0.001),
    "bucket of ten": Weather(rate=25, burst=10),
    "bucket of twenty-five": Weather(rate=25, burst=25),
    "bucket, near by": Weather(rate=25, latency=0.02),
    "bucket, far away": Weather(rate=25, latency=1),
    "window": Weather(rate=25, window=1),
    "window, Retry-After": Weather(rate=25, window=1, retry_after_step=0.001),
    "fixed window": Weather(rate=25, window=1, fixed=True),
}

NEAR = {"out": 0.0006, "trip": 0.0003, "refusal": 0.001}
"""As with a server on the same machine: the first requests take milliseconds to go out, the others one."""


MANY = 250
"""Judgements of a day: twice as many spend the same share of requests and of seconds beyond the ideal."""


def days(weather, *, seeds=(0,), judgements=MANY, **options):
    """A seed gives the same day each time, and where no median counts, one shows what others say."""
    return [spend_a_day(weather, seed=seed, judgements=judgements, **options) for seed in seeds]


def test_without_a_limit_all_that_is_allowed_is_soon_in_flight():
    day = spend_a_day(Weather(), judgements=2000)
    assert (day.requests, day.peak, day.lost) == (2000, 50, 0)
    assert day.seconds < 1.05 * 8


@pytest.mark.parametrize("weather", LIMITS.values(), ids=LIMITS)
def test_a_limit_is_found_and_observed(weather):
    (day,) = days(weather)
    assert day.seconds < 1.1 * 10 + weather.latency
    assert day.requests <= (275 if weather.burst == 1 else 280)


@pytest.mark.parametrize("rate", [24, 25, 25.5])
def test_a_limit_is_observed_closely_if_requests_leave_late(rate):
    found = days(Weather(rate=rate, **NEAR), late=0.0001)
    assert max(day.seconds for day in found) < 1.1 * MANY / rate
    assert max(day.requests for day in found) <= 1.1 * MANY


def test_a_limit_and_random_refusals_are_distinguished_if_requests_leave_late():
    found = days(Weather(rate=25, refused=0.05, **NEAR), late=0.0001)
    assert median(day.seconds for day in found) < 1.1 * 10 / 0.95
    assert median(day.requests for day in found) <= 1.15 * MANY / 0.95


@pytest.mark.parametrize("rate", [2, 10, 100])
def test_any_rate_is_found(rate):
    day = spend_a_day(Weather(rate=rate, burst=5), judgements=300)
    assert day.seconds < 1.1 * 300 / rate
    assert day.requests <= 1.3 * 300


@pytest.mark.parametrize("burst", [5, 25, 100])
def test_a_bucket_that_few_requests_at_once_empty_is_not_taken_for_chance(burst):
    for day in days(Weather(rate=25, burst=burst), most=8):
        assert day.seconds < 1.1 * 10
        assert day.requests <= 1.2 * MANY


@pytest.mark.parametrize("weather", [Weather(rate=25, refusal=0.1), Weather(rate=25, window=1, refusal=0.1)])
def test_a_limit_is_found_where_refusals_take_their_time(weather):
    found = days(weather)
    assert max(day.seconds for day in found) < 1.2 * 10
    assert max(day.requests for day in found) < 1.25 * MANY


def test_that_all_is_slow_at_first_does_not_make_a_limit_look_blurred():
    for day in days(Weather(rate=25, cold=0.02)):
        assert day.seconds < 1.2 * 10
        assert day.requests < 1.2 * MANY


def test_a_limit_far_away_does_not_get_a_stampede():
    # Requests arrive up to 80 ms late, in another order than they left.
    found = days(Weather(rate=25, burst=5, trip=0.04), seeds=range(5), judgements=150)
    assert max(day.seconds for day in found) < 1.4 * 6
    assert median(day.requests for day in found) < 2.2 * 150
    assert max(day.requests for day in found) < 5 * 150


@pytest.mark.parametrize("weather", [Weather(refused=0.1, failing=0.05), Weather(refused=0.3)])
def test_refusals_at_random_are_no_limit(weather):
    for day in days(weather):
        assert day.seconds < 1.5
        assert day.lost == 0


@pytest.mark.parametrize("refused", [0.5, 0.7])
def test_however_many_are_refused_at_random_judging_goes_on(refused):
    found = days(Weather(refused=refused))
    assert median(day.seconds for day in found) < 1 / (1 - refused)
    assert max(day.requests for day in found) < 1.15 * MANY / (1 - refused)
    assert sum(day.lost for day in found) == 0
    models = [day.scheduler.limiter.rate_model for day in found]
    chances = [float(each.weights @ (each._refused / each._counted)) for each in models]
    assert median(chances) == pytest.approx(refused, abs=0.1)


@pytest.mark.parametrize("refused", [0.1, 0.3])
def test_a_limit_is_observed_among_random_refusals(refused):
    found = days(Weather(rate=25, refused=refused), seeds=range(3))
    ideal = 10 / (1 - refused)
    assert median(day.seconds for day in found) < 1.25 * ideal
    assert max(day.seconds for day in found) < 1.5 * ideal
    assert max(day.requests for day in found) < 1.15 * MANY / (1 - refused)


@pytest.mark.parametrize(("before", "after"), [(25, 100), (100, 25)])
def test_a_limit_is_followed_when_it_changes(before, after):
    weather = Weather(rate=before, change_at=MANY, then=Weather(rate=after))
    for day in days(weather, judgements=2 * MANY):
        assert day.seconds < 1.25 * (MANY / before + MANY / after)
        assert day.requests <= 1.15 * 2 * MANY


def test_slower_answers_are_no_reason_to_ask_for_fewer():
    day = spend_a_day(Weather(change_at=500, then=Weather(latency=0.6)), judgements=1000)
    assert day.seconds < 1.1 * (2 + 6) + 0.6


def test_a_provider_that_only_queues_is_not_given_all_that_is_allowed():
    day = spend_a_day(Weather(slots=8), most=100)
    assert day.scheduler.limiter.window.size < 100
    assert day.seconds < 1.1 * 500 * 0.2 / 8


def test_a_provider_that_takes_so_many_at_once_gets_so_many():
    for day in days(Weather(slots=8, queues=False)):
        assert day.seconds < 1.1 * MANY * 0.2 / 8
        assert day.requests < 1.15 * MANY


@pytest.mark.parametrize("answered", [1, 10])
def test_answers_that_are_read_together_leave_as_many_places_at_once(answered):
    limiter = RateLimiter(50)
    sent = [limiter.sent(0.01 * number) for number in range(40)]
    for each in sent[:answered]:
        limiter.ended(each, "answered", 1.0)
    followed = 0
    while limiter.ready(1.0) == 0:
        limiter.sent(1.0)
        followed += 1
    # There is room for ten more, which are spaced.
    assert followed == answered
    assert 0 < limiter.ready(1.0) <= FREE_GAP


def test_no_more_are_in_flight_than_allowed():
    assert spend_a_day(Weather(spread=0.5), most=7).peak == 7


@pytest.mark.parametrize("fixed", [False, True])
def test_all_that_a_minute_allows_is_asked_at_once_and_then_the_next_minute_waited_for(fixed):
    day = spend_a_day(Weather(rate=10, window=60, fixed=fixed), judgements=1000)
    assert day.seconds < 60 + 10
    assert day.requests <= 1.1 * 1000


@pytest.mark.parametrize("kind", ["rate_limited", "provider_error", "connection"])
def test_after_an_outage_judging_goes_on_at_the_full_rate(kind):
    day = spend_a_day(Weather(outage=(1, 11), outage_kind=kind))
    assert day.lost == 0
    assert day.seconds < 10 + 2 + 3
    during = [each for each in day.sent if 1.5 < each < 11]
    assert len(during) < 60
    # One at a time finds it out: no more leave at once than at the start.
    back = [each for each in day.sent if each >= 11]
    assert max(sum(begin <= each < begin + 0.01 for each in back) for begin in back) <= 12


def test_after_an_outage_a_limit_is_observed_as_before():
    day = spend_a_day(Weather(rate=25, outage=(5, 10), outage_kind="rate_limited"))
    assert day.seconds < 1.2 * 25
    assert day.requests <= 600


def test_a_provider_that_rounds_up_when_to_come_back_is_not_taken_at_its_word():
    # There is room again after 40 ms, but whole seconds are told.
    for day in days(Weather(rate=25, retry_after_step=1)):
        assert day.seconds < 1.2 * 10
        assert day.requests <= 1.1 * MANY


def test_a_provider_that_is_right_about_when_to_come_back_is_left_alone_until_then():
    day = spend_a_day(Weather(rate=10, window=60, retry_after_step=1), judgements=700)
    first = day.sent[600]
    assert sum(first < each < day.sent[0] + 60 for each in day.sent) < 10
