"""A provider and the requests to it in virtual time: nothing waits, and the same seed gives the same day."""

import heapq
import random
from collections import Counter, deque
from typing import NamedTuple

from trivium.metrics.judge.models.rate.limiter import Limiter


class Weather(NamedTuple):
    """What holds at a provider."""

    latency: float = 0.2
    rate: float | None = None
    window: float | None = None  # seconds of a sliding window; none for a bucket
    fixed: bool = False  # whether the window starts anew, instead of sliding
    burst: float = 1
    refusal: float = 0.0  # seconds until a refusal is heard of
    told: bool = False  # whether a refusal says when to come back
    refused: float = 0.0  # share at random
    failing: float = 0.0
    slots: int | None = None
    spread: float = 0.0
    change_at: int = 0
    then: "Weather | None" = None


class Day(NamedTuple):
    """What became of it."""

    seconds: float
    requests: int
    limiter: Limiter
    peak: int


class Provider:
    def __init__(self, weather, seed):
        self.weather, self.random = weather, random.Random(seed)
        self.tokens, self.time, self.passed, self.busy, self.answers = float("inf"), 0.0, deque(), [], 0

    def take(self, now):
        """Seconds until it reacts, how, and when to come back."""
        weather = self.weather
        if weather.rate is not None and (wait := self.wait(weather, now)) > 0:
            return weather.refusal, "refused", wait if weather.told else None
        drawn = self.random.random()
        if drawn < weather.refused:
            return weather.refusal, "refused", None
        if drawn < weather.refused + weather.failing:
            return 0.0, "failed", None
        self.answers += 1
        if weather.then is not None and self.answers == weather.change_at:
            self.weather = weather.then
        took = weather.latency * (self.random.lognormvariate(0, weather.spread) if weather.spread else 1)
        if weather.slots is not None:
            free = heapq.heappop(self.busy) if len(self.busy) >= weather.slots else now
            heapq.heappush(self.busy, max(free, now) + took)
            took += max(free, now) - now
        return took, "answered", None

    def wait(self, weather, now):
        if weather.window is None:
            self.tokens = min(weather.burst, self.tokens + (now - self.time) * weather.rate)
            self.time = now
            if self.tokens >= 1:
                self.tokens -= 1
                return 0.0
            return (1 - self.tokens) / weather.rate
        since = now - now % weather.window if weather.fixed else now - weather.window + 1e-9
        while self.passed and self.passed[0] < since:
            self.passed.popleft()
        if len(self.passed) < weather.rate * weather.window:
            self.passed.append(now)
            return 0.0
        return (since if weather.fixed else self.passed[0]) + weather.window - now


def spend_a_day(  # noqa: C901
    weather: Weather,
    *,
    judgements: int = 500,
    most: int = 50,
    timeout: float = 60.0,
    seed: int = 0,
    late: float = 0.0005,
) -> Day:
    """Ask until everything is answered; timers are ``late`` seconds late on average."""
    provider, draw = Provider(weather, seed + 1), random.Random(seed)
    limiter = Limiter(most=most, timeout=timeout)
    due, tried, refused = deque(range(judgements)), Counter(), Counter()
    events, now, count, answered, requests, peak, alarm = [], 0.0, 0, 0, 0, 0, None

    def push(when, *what):
        nonlocal count
        count += 1
        heapq.heappush(events, (when, count, *what))

    push(0.0, "go")
    alarm = 0.0
    while answered < judgements:
        now, _, *what = heapq.heappop(events)
        if what[0] == "go":
            if now != alarm:
                continue  # another has taken its place
            alarm = None
        elif what[0] == "again":
            due.appendleft(what[1])
        else:
            _, each, sent, how, after = what
            if how == "answered":
                limiter.answered(sent, now)
                answered += 1
            elif how == "refused":
                limiter.rejected(sent, now, retry_after=after)
                refused[each] += 1
                pause = 0.0 if refused[each] < 2 else min(0.25, 0.03 * 2 ** (refused[each] - 2))
                push(now + max(after or 0.0, pause), "again", each)
            elif how == "late":
                limiter.late(sent, now)
                due.appendleft(each)
            else:
                limiter.failed(sent, now)
                tried[each] += 1
                push(now + draw.uniform(0.5, 1) * 0.15 * 2 ** (tried[each] - 1), "again", each)
        while due:
            wait = limiter.ready(now)
            if wait is None:
                break
            if wait > 1e-9:
                if alarm is None or alarm > now + wait:
                    alarm = now + wait + (draw.expovariate(1 / late) if late else 0)
                    push(alarm, "go")
                break
            each, sent = due.popleft(), limiter.sent(now)
            requests, peak = requests + 1, max(peak, limiter.in_flight)
            took, how, after = provider.take(now)
            if took > timeout:
                took, how = timeout, "late"
            push(now + took, "done", each, sent, how, after)
    return Day(now, requests, limiter, peak)
