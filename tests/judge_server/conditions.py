"""The weather at the provider: how long an answer takes, how many are let through, what goes wrong."""

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
    burst: float = 1.0
    """Requests that may come at once after a pause, on top of the rate."""
    retry_after: Literal["exact", "whole"] | None = None
    """What a 429 for the rate says of when to come back: to the millisecond, in whole seconds, or nothing."""
    plan: Plan | None = None


class Bucket:
    """Lets requests through at a rate: a token bucket of the size of the burst."""

    def __init__(self) -> None:
        self.tokens, self.time = float("inf"), 0.0

    def wait(self, conditions: Conditions, now: float) -> float:
        """Takes a token and returns 0, or returns the seconds until there is one."""
        if conditions.rate is None:
            return 0.0
        self.tokens = min(conditions.burst, self.tokens + (now - self.time) * conditions.rate)
        self.time = now
        if self.tokens >= 1.0:
            self.tokens -= 1.0
            return 0.0
        return (1.0 - self.tokens) / conditions.rate
