"""The weather at the provider: how long an answer takes, how many are let through, what goes wrong."""

from collections import deque
from collections.abc import Callable
from typing import Literal

import msgspec

from tests.judge_server.faults import Plan
from tests.judge_server.question import Question


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a request that arrives."""

    latency: float | Callable[[Question], float] = 0.0
    """Seconds from a request to its answer."""
    failure_latency: float = 0.0
    """Seconds from a request to a failure's status or to a reset."""
    rate: float | None = None
    """Requests a second that are let through; beyond it they get 429. None for no limit."""
    limit: Literal["bucket", "window"] = "bucket"
    """How the rate is held: by a token bucket of the size ``burst``, or over any one second."""
    burst: float = 1.0
    """Requests that a bucket lets through at once after a pause; at least 1."""
    retry_after: Literal["exact", "whole"] | None = None
    """What a 429 for the rate says of when to come back: to the millisecond, in whole seconds, or nothing."""
    plan: Plan | None = None

    def __post_init__(self) -> None:
        if self.burst < 1:
            raise ValueError("a bucket smaller than one request lets none through")


class Gate:
    """Lets requests through at the rate of the conditions. A request that is turned away uses nothing up."""

    def __init__(self) -> None:
        self.tokens, self.time = float("inf"), 0.0
        self.passed: deque[float] = deque()

    def wait(self, conditions: Conditions, now: float) -> float:
        """Lets a request through and returns 0, or returns the seconds until one could pass."""
        if conditions.rate is None:
            return 0.0
        return (self._bucket if conditions.limit == "bucket" else self._window)(
            conditions.rate, conditions.burst, now
        )

    def _bucket(self, rate: float, burst: float, now: float) -> float:
        self.tokens = min(burst, self.tokens + (now - self.time) * rate)
        self.time = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return (1.0 - self.tokens) / rate

    def _window(self, rate: float, _: float, now: float) -> float:
        while self.passed and self.passed[0] <= now - 1.0:
            self.passed.popleft()
        if len(self.passed) < rate:
            self.passed.append(now)
            return 0.0
        return self.passed[0] + 1.0 - now
