"""Adapts the number of requests in flight to its effect on latency."""

from statistics import median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trivium.metrics.judge.client.rate_model import Vector

FIRST = 50
"""Requests in flight before the first answers."""

GAIN_SHARE = 0.3
"""A wider window stays if throughput rises by at least this share of what the window was widened by."""

REST = 32
"""Measurements after which a window that was taken back is widened again."""

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

    A wider window that does not raise throughput is taken back and tried again after a while. Timeouts halve
    the window.

    Args:
        most: Maximum number of requests in flight.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = min(FIRST, most)
        self._full = False
        self._since = 0.0
        self._latencies: list[float] = []
        self._timeouts = 0
        self._before: tuple[int, float] | None = None
        """Size and median latency before the window was widened, until it is known whether that helped."""
        self._rest = 0

    def filled(self) -> None:
        """Note that a request had to wait for a free slot."""
        self._full = True

    def answered(self, sent: float, now: float) -> None:
        """Record the latency of an answered request."""
        if sent >= self._since:
            self._latencies.append(now - sent)
            if len(self._latencies) >= max(5, self.size // 2):
                self._conclude(now)

    def timed_out(self, sent: float, now: float) -> None:
        """Record a timeout."""
        if sent >= self._since:
            self._timeouts += 1
            if self._timeouts >= 3 and self._timeouts > 0.2 * (len(self._latencies) + self._timeouts):
                self._resize(max(1, self.size // 2), now)

    def _conclude(self, now: float) -> None:
        latency = median(self._latencies)
        if self._before is not None:
            size, before = self._before
            wider = self.size / size
            throughput = wider / (latency / max(before, 1e-9))
            if throughput < 1 + GAIN_SHARE * (wider - 1) and latency - before > 0.005:
                self._rest = REST
                self._resize(size, now)
                return
        if self._rest:
            self._rest -= 1
        elif self._full and self.size < self.most:
            self._resize(min(self.most, 2 * self.size), now, before=latency)
            return
        self._resize(self.size, now)

    def _resize(self, size: int, now: float, *, before: float | None = None) -> None:
        """Begin a measurement with the next request."""
        self._before = None if before is None else (self.size, before)
        self.size, self._since = size, now
        self._latencies, self._timeouts, self._full = [], 0, False
