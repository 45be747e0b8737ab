"""Rate-limit headers spare refusals where they are right, and hold nothing up where they are not."""

from datetime import UTC, datetime

import pytest

from tests.judge_server import JudgeServer, Reaction
from tests.metrics.judge.asked import served
from tests.metrics.judge.client import provider_in_virtual_time
from tests.metrics.judge.client.provider_in_virtual_time import Provider, Weather, spend_a_day
from tests.metrics.judge.client.test_executor import GPT, answers, distinct
from trivium.metrics.judge.client.executor import JudgeExecutor
from trivium.metrics.judge.client.rate_headers import Remaining, remaining
from trivium.suites.settings import JudgeSettings

NOON = datetime(2026, 1, 27, 12, tzinfo=UTC)


def openai(limit, left, reset, unit="requests"):
    names = (f"x-ratelimit-{kind}-{unit}" for kind in ("limit", "remaining", "reset"))
    return {name: value for name, value in zip(names, (limit, left, reset), strict=True) if value is not None}


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("20ms", 0.02),
        ("1m30.5s", 90.5),
        ("2h3m4s", 7384),
        ("0s", 0),
        ("12.5", 12.5),
    ],
)
def test_what_is_left_is_read_as_providers_write_it(reset, seconds):
    assert remaining(openai("60", "59", reset)) == {"requests": Remaining(60, 59, pytest.approx(seconds))}
    anthropic = {"limit": "60", "remaining": "59", "reset": "2026-01-27T12:00:30Z"}
    found = remaining(
        {f"anthropic-ratelimit-tokens-{key}": each for key, each in anthropic.items()}, now=NOON
    )
    assert found == {"tokens": Remaining(60, 59, 30.0)}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        openai("60", "59", None),
        openai("60", "-1", "1s"),
        openai("60", "nan", "1s"),
        openai("60", "inf", "1s"),
        openai("many", "59", "1s"),
        openai("60", "59", "soon"),
        openai("60", "59", ""),
        openai("60", "59", "-5"),
        openai("60", "59", "9999999999999"),
        openai("60", "59", "2026-13-45T99:00:00Z"),
    ],
    ids=str,
)
def test_what_cannot_be_is_passed_over(headers):
    assert remaining(headers) == {}


@pytest.mark.parametrize("fixed", [True, False])
def test_headers_that_are_right_spare_refusals(fixed):
    weather = Weather(rate=10, window=10, fixed=fixed)
    for seed in range(2):
        without = spend_a_day(weather, seed=seed, judgements=300)
        day = spend_a_day(weather._replace(headers=1.0), seed=seed, judgements=300)
        assert day.requests <= 1.03 * 300 < without.requests
        assert day.seconds < 1.05 * without.seconds
        assert day.lost == 0


@pytest.mark.parametrize("merged", [0.0, 0.2, 10.0])
def test_headers_that_are_wrong_cost_little(merged):
    weather = Weather(rate=25, burst=25)
    without, day = (spend_a_day(each, seed=1) for each in (weather, weather._replace(headers=merged)))
    assert day.seconds < 1.1 * without.seconds
    assert day.requests < 1.1 * without.requests
    assert day.lost == 0


@pytest.mark.parametrize("hanging", [False, True])
def test_a_provider_that_says_for_ever_that_nothing_is_left_is_asked_all_the_same(monkeypatch, hanging):
    class Wrong(Provider):
        def headers(self, now):
            return openai("1", "0", "1h")

        def take(self, now, prompt):
            took, failure = super().take(now, prompt)
            # The test of the headers may be the one request that is never answered.
            return (100.0 if hanging and self.answers in (2, 51, 52) else took), failure

    monkeypatch.setattr(provider_in_virtual_time, "Provider", Wrong)
    day = spend_a_day(Weather())
    assert day.lost == 0
    assert sorted(day.sent)[490] < (10 + 1.5 * 2 if hanging else 1.5 * 2)


def test_headers_are_read_over_http(monkeypatch):
    merged = openai("500", "499", "120ms") | openai("30000", "29000", "2s", "tokens")
    answer = Reaction(headers=tuple(merged.items()))
    with served(JudgeServer(plan=lambda _: answer), monkeypatch):
        executor = JudgeExecutor(JudgeSettings(models=(GPT,)))
        answers(executor, *distinct(3)).result()

        async def quotas():
            return set(executor._local.opened(GPT).scheduler.limiter.quotas)

        found = executor.submit(quotas).result()
        executor.close()
    assert found == {"requests", "tokens"}
