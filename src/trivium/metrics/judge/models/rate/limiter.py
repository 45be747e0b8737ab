"""Limiter: when the next request to one model may be sent; it knows no clock and no event loop."""

import math

from trivium.metrics.judge.models.rate.pace import Pace
from trivium.metrics.judge.models.rate.verdicts import Sent
from trivium.metrics.judge.models.rate.window import Window

MOST_IN_FLIGHT = 100


class Limiter:
    """Window and pace of one model at one address, for every request to it.

    Args:
        most: Requests in flight that are allowed; None for MOST_IN_FLIGHT.
        timeout: Seconds that a request may take.
    """

    def __init__(self, *, most: int | None = None, timeout: float = 60) -> None:
        self.window = Window(most or MOST_IN_FLIGHT, timeout)
        self.pace = Pace()
        self.in_flight = 0

    def ready(self, now: float) -> float | None:
        """Seconds until a request may be sent; None when one must come back first."""
        if self.in_flight >= self.window.size:
            self.window.filled()
            return None
        wait = self.pace.ready(now, self.in_flight)
        return None if wait == math.inf else wait

    def sent(self, now: float) -> Sent:
        """A request is let go; it must be told of by one of the others when it is over."""
        sent = self.pace.sent(now, self.in_flight)
        self.in_flight += 1
        return sent

    def left(self, sent: Sent, now: float) -> None:
        """It goes out, which may take a while: to be written, to be connected."""
        self.pace.left(sent, now)

    def answered(self, sent: Sent, now: float) -> None:
        """It was answered."""
        self.in_flight -= 1
        self.pace.admitted(sent, now)
        self.window.answered(sent.time, now)

    def rejected(self, sent: Sent, now: float, *, retry_after: float | None) -> None:
        """It was turned away, as one too many."""
        self.in_flight -= 1
        self.pace.rejected(sent, now, retry_after=retry_after)

    def failed(self, sent: Sent, now: float) -> None:
        """It was let through and came to nothing, or was given up."""
        self.in_flight -= 1
        self.pace.admitted(sent, now)

    def late(self, sent: Sent, now: float) -> None:
        """It was let through, as far as can be told, and not answered within its time."""
        self.in_flight -= 1
        self.pace.admitted(sent, now)
        self.window.late(sent.time, now)
