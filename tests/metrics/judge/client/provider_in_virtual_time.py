"""A provider and a line to it in virtual time: nothing waits, and the same seed gives the same day."""

import asyncio
import heapq
import random
from collections import deque
from typing import NamedTuple

from tests.metrics.judge.budget.calls import call, reply
from tests.metrics.judge.client.virtual_time import in_virtual_time
from trivium.metrics.judge.budget.budget import run_budget
from trivium.metrics.judge.client.providers import GivenUp, ModelDescription
from trivium.metrics.judge.client.request import RequestError
from trivium.metrics.judge.client.scheduler import RequestScheduler
from trivium.suites.settings import JudgeSettings


class Weather(NamedTuple):
    """What holds at a provider."""

    latency: float = 0.2
    rate: float | None = None
    window: float | None = None
    """Seconds of a window; None for a bucket."""
    fixed: bool = False
    """Whether the window starts anew, instead of sliding."""
    burst: float = 1
    refusal: float = 0.0
    """Seconds until a refusal is heard of."""
    retry_after_step: float | None = None
    """To how many seconds a refusal by the limit rounds up when to come back; None where it does not say."""
    trip: float = 0.0
    """Seconds on the way there, on average; as long as that at most more or less."""
    out: float = 0.0
    """Seconds until a request goes out, on average; ten times that for the first twenty."""
    cold: float = 0.0
    """Seconds that the first twenty are heard of later, on average, while connections are made."""
    refused: float = 0.0
    """Share refused at random."""
    refused_retry_after: float | None = None
    """Seconds after which those are told to come back."""
    shunned: frozenset[str] = frozenset()
    """Prompts that are refused whenever they come."""
    failing: float = 0.0
    slots: int | None = None
    """Requests that are worked on at once."""
    queues: bool = True
    """Whether others wait for a slot, or are refused."""
    spread: float = 0.0
    """Of the latency: sigma of its logarithm."""
    outage: tuple[float, float] | None = None
    """From when to when nothing is answered."""
    outage_kind: str = "provider_error"
    """What is heard then: ``provider_error``, ``rate_limited`` or ``connection``."""
    change_at: int = 0
    then: "Weather | None" = None


class Day(NamedTuple):
    """What became of it."""

    seconds: float
    requests: int
    lost: int
    peak: int
    scheduler: RequestScheduler
    sent: list[float]
    """When each request arrived."""
    phase: float
    """Share of the first window that was over at the start."""


class Provider:
    """Answers in virtual time; see :class:`~trivium.metrics.judge.client.request.Client`."""

    description = ModelDescription(provider="a", name="m", base_url="http://127.0.0.1")

    def __init__(self, weather: Weather, seed: int) -> None:
        self.weather, self.random = weather, random.Random(seed)
        self.phase = self.random.random()
        self.tokens, self.time, self.passed, self.answers = float("inf"), 0.0, deque[float](), 0
        self.free: list[float] = []
        self.in_flight = self.peak = self.working = self.asked = 0
        self.sent: list[float] = []

    async def send(self, asked, on_sent=lambda: None):
        loop, weather = asyncio.get_running_loop(), self.weather
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            self.asked += 1
            if weather.out:
                out = weather.out * (10 if self.asked <= 20 else 1)
                await asyncio.sleep(self.random.expovariate(1 / out))
            on_sent()
            if weather.trip:
                await asyncio.sleep(weather.trip * 2 * self.random.random())
            now = loop.time()
            self.sent.append(now)
            took, failure = self.take(now, asked.turns[0])
            if len(self.sent) <= 20:
                took += weather.cold * 2 * self.random.random()
            self.working += failure is None
            try:
                await asyncio.sleep(took)
            finally:
                self.working -= failure is None
            if weather.trip:
                await asyncio.sleep(weather.trip * 2 * self.random.random())
            if failure is not None:
                raise failure
            return reply(10, 10)
        finally:
            self.in_flight -= 1

    async def close(self):
        """Nothing is open."""

    def take(self, now: float, prompt: str) -> tuple[float, RequestError | None]:
        """Seconds until it reacts, and how."""
        weather = self.weather
        if weather.outage is not None and weather.outage[0] <= now < weather.outage[1]:
            return weather.refusal, RequestError("out of order", kind=weather.outage_kind)
        if prompt in weather.shunned:
            return weather.refusal, RequestError("too large", kind="rate_limited")
        if weather.rate is not None and (wait := self.wait(weather, now)) > 0:
            reported = (
                None
                if weather.retry_after_step is None
                else weather.retry_after_step * -(-wait // weather.retry_after_step)
            )
            return weather.refusal, RequestError("too many", kind="rate_limited", retry_after=reported)
        if weather.slots is not None and not weather.queues and self.working >= weather.slots:
            return weather.refusal, RequestError("too many at once", kind="rate_limited")
        drawn = self.random.random()
        if drawn < weather.refused:
            return weather.refusal, RequestError(
                "busy", kind="rate_limited", retry_after=weather.refused_retry_after
            )
        if drawn < weather.refused + weather.failing:
            return 0.0, RequestError("failed", kind="provider_error")
        self.answers += 1
        if weather.then is not None and self.answers == weather.change_at:
            self.weather = weather.then
        took = weather.latency * (self.random.lognormvariate(0, weather.spread) if weather.spread else 1)
        if weather.slots is not None and weather.queues:
            free = heapq.heappop(self.free) if len(self.free) >= weather.slots else now
            heapq.heappush(self.free, max(free, now) + took)
            took += max(free, now) - now
        return took, None

    def wait(self, weather: Weather, now: float) -> float:
        assert weather.rate is not None
        if weather.window is None:
            self.tokens = min(weather.burst, self.tokens + (now - self.time) * weather.rate)
            self.time = now
            if self.tokens >= 1:
                self.tokens -= 1
                return 0.0
            return (1 - self.tokens) / weather.rate
        whole = weather.window
        # Windows that start anew do so by the provider's clock, not by ours.
        since = now - (now + self.phase * whole) % whole if weather.fixed else now - whole + 1e-9
        while self.passed and self.passed[0] < since:
            self.passed.popleft()
        if len(self.passed) < weather.rate * whole:
            self.passed.append(now)
            return 0.0
        return (since if weather.fixed else self.passed[0]) + whole - now


def spend_a_day(
    weather: Weather,
    *,
    judgements: int = 500,
    most: int = 50,
    timeout: float = 60.0,
    seed: int = 0,
    late: float = 0.0005,
) -> Day:
    """Ask until everything is answered or given up; timers are ``late`` seconds late on average."""
    provider = Provider(weather, seed + 1)

    async def ask_all():
        scheduler = RequestScheduler(
            provider, run_budget(JudgeSettings()), JudgeSettings(concurrency=most, timeout=timeout)
        )
        loop = asyncio.get_running_loop()
        asking = [scheduler.ask(call(text=str(n)), about=("clarity",)) for n in range(judgements)]
        found = await asyncio.gather(*asking, return_exceptions=True)
        seconds = loop.time()
        await scheduler.close()
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, GivenUp):
                raise each
        return scheduler, seconds, sum(isinstance(each, GivenUp) for each in found)

    scheduler, seconds, lost = in_virtual_time(ask_all(), late=late, seed=seed)
    return Day(seconds, len(provider.sent), lost, provider.peak, scheduler, provider.sent, provider.phase)
