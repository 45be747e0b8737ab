"""Prompts that are refused whenever they come, and providers that refuse whatever comes, in virtual time."""

import pytest

from tests.metrics.judge.client.provider_in_virtual_time import Weather, spend_a_day


def shunning(*prompts, **weather):
    return Weather(shunned=frozenset(map(str, prompts)), **weather)


@pytest.mark.parametrize(
    "weather",
    [
        shunning(0),
        shunning(0, rate=25),
        shunning(0, rate=25, burst=25),
        shunning(0, refused=0.1),
        shunning(0, rate=10, window=60),
    ],
    ids=["no limit", "bucket", "bucket of 25", "at random", "window"],
)
def test_a_prompt_that_alone_is_refused_costs_a_minute_and_few_requests(weather):
    day = spend_a_day(weather, judgements=650)
    assert day.lost == 1
    assert 60 <= day.seconds < 80
    assert day.requests < 650 / (1 - weather.refused) + 160


def test_prompts_that_are_refused_for_ever_do_not_keep_the_others_from_being_asked():
    day = spend_a_day(shunning(*range(0, 250, 50)), judgements=250)
    assert day.lost == 5
    assert day.requests < 350


def test_a_limit_is_observed_among_prompts_that_are_always_refused():
    day = spend_a_day(shunning(*range(0, 300, 100), rate=25), judgements=500)
    assert day.lost == 3
    assert day.seconds < 2 * 20 + 60
    assert day.requests < 500 + 200


@pytest.mark.parametrize("judgements", [1, 50, 200])
def test_a_provider_that_refuses_all_from_the_start_is_asked_seldom(judgements):
    weather = Weather(outage=(0, 30), outage_kind="rate_limited")
    day = spend_a_day(weather, judgements=judgements)
    assert day.lost == 0
    assert day.seconds < 30 + 2 + 2
    assert day.requests < judgements + 60


def test_a_prompt_that_is_all_there_is_and_refused_for_ever_is_given_up_after_few_requests():
    day = spend_a_day(shunning(0), judgements=1)
    assert (day.lost, day.requests < 100) == (1, True)
    assert 120 <= day.seconds < 125
