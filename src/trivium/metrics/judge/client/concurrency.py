"""Window: how many requests may be in flight, found from what more of them do to the answers' time."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from trivium.metrics.judge.client.rate_model import Vector

from statistics import median

FIRST = 50
"""Requests in flight before anything has been answered."""

GAIN_SHARE = 0.3
"""Of the throughput that a wider window promises, the part that must come of it."""

NEAR_TIMEOUT = 0.5
"""Share of the time limit that answers may take before the window is narrowed."""

LONGEST_REST = 32

Outcome = Literal["open", "admitted", "rejected"]


class SentRequest:
    """A request under way: when it was let go, with how many others, and whether it was turned away."""

    __slots__ = ("counted", "due", "in_flight", "outcome", "refusal_odds", "retry_at", "time", "went_out")

    def __init__(self, time: float, in_flight: int) -> None:
        self.time = self.due = time
        self.went_out: float | None = None
        """When it went out."""
        self.in_flight = in_flight
        self.outcome: Outcome = "open"
        self.counted = False
        self.refusal_odds: Vector | None = None
        """How likely each limit was held to refuse it, until that is weighed."""
        self.retry_at: float | None = None
        """Time until which a refusal asks to be left alone."""


class ConcurrencyWindow:
    """Requests in flight: doubled while answers take no longer for it, up to the most that is allowed.

    A wider window that does not let more through is taken back and tried again later, later each time.

    Args:
        most: Requests in flight that are allowed.
        timeout: Seconds that a request may take.
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
        """A request had to wait for another to come back."""
        self._full = True

    def answered(self, sent: float, now: float) -> None:
        """A request came back with an answer."""
        if sent >= self._since:
            self._times.append(now - sent)
            if len(self._times) >= max(5, self.size // 2):
                self._conclude(now)

    def timed_out(self, sent: float, now: float) -> None:
        """A request was not answered within its time."""
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
