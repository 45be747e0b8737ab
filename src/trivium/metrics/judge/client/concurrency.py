"""Adapts the number of requests in flight to its effect on latency."""

from statistics import median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trivium.metrics.judge.client.rate_model import Vector

FIRST = 50
"""Requests in flight before the first answers."""

GAIN_SHARE = 0.3
"""A wider window stays if throughput rises by at least this share of what the window was widened by."""

NEAR_TIMEOUT = 0.5
"""Median latency, as a share of the timeout, above which the window is narrowed."""

LONGEST_REST = 32
"""Most measurements between two attempts to widen the window."""

Outcome = Literal["open", "admitted", "rejected"]


class SentRequest:
    """A request that the limiter has released: its time, the requests in flight, and its outcome."""

    __slots__ = (
        "counted",
        "due",
        "in_flight",
        "outcome",
        "refusal_probabilities",
        "retry_at",
        "time",
        "went_out",
    )

    def __init__(self, time: float, in_flight: int) -> None:
        self.time = self.due = time
        self.went_out: float | None = None
        """Time at which it was written to its connection."""
        self.in_flight = in_flight
        self.outcome: Outcome = "open"
        self.counted = False
        self.refusal_probabilities: Vector | None = None
        """Probability of refusal under each hypothesis of the rate model, until the outcome is applied."""
        self.retry_at: float | None = None
        """Time at which the Retry-After of its refusal ends."""


class ConcurrencyWindow:
    """Limits the requests in flight; the limit doubles while throughput rises, up to a maximum.

    A wider window that does not raise throughput is taken back and tried again after a growing interval.

    Args:
        most: Maximum number of requests in flight.
        timeout: Timeout of one request, seconds.
    """

    def __init__(self, most: int, timeout: float) -> None:
        self.most = most
        self.size = min(FIRST, most)
        self._timeout = timeout
        self._doubling = True
        self._full = False
        self._since = 0.0
        self._times: list[float] = []
        self._late = 0
        self._before: tuple[int, float] | None = None
        self._rest = 0
        self._next_rest = 1

    def filled(self) -> None:
        """Note that a request had to wait for a free slot."""
        self._full = True

    def answered(self, sent: float, now: float) -> None:
        """Record the latency of an answered request."""
        if sent >= self._since:
            self._times.append(now - sent)
            if len(self._times) >= max(5, self.size // 2):
                self._conclude(now)

    def timed_out(self, sent: float, now: float) -> None:
        """Record a timeout."""
        if sent >= self._since:
            self._late += 1
            if self._late >= 3 and self._late > 0.2 * (len(self._times) + self._late):
                self._narrow(now, 0.5)

    def _conclude(self, now: float) -> None:
        took = median(self._times)
        if took > NEAR_TIMEOUT * self._timeout and self.size > 1:
            self._narrow(now, 0.7)
            return
        if self._before is not None:
            size, before = self._before
            wider = self.size / size
            if wider / (took / max(before, 1e-9)) < 1 + GAIN_SHARE * (wider - 1) and took - before > 0.005:
                self.size, self._before, self._doubling = size, None, False
                self._rest = self._next_rest = min(LONGEST_REST, 2 * self._next_rest)
                self._start(now)
                return
        self._before = None
        if self._rest:
            self._rest -= 1
        elif self._full and self.size < self.most:
            self._before = (self.size, took)
            wider = 2 * self.size if self._doubling else self.size + max(1, self.size // 4)
            self.size = min(self.most, wider)
        self._start(now)

    def _narrow(self, now: float, share: float) -> None:
        self.size = max(1, int(self.size * share))
        self._before, self._doubling = None, False
        self._rest = 4
        self._start(now)

    def _start(self, now: float) -> None:
        self._since, self._times, self._late, self._full = now, [], 0, False
