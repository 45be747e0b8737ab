"""Limiter: when the next request to one model may be sent; it knows no clock and no event loop."""

import math
from collections.abc import Mapping

from trivium.metrics.judge.models.rate.headers import Quota, Unit, remaining
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
        self._tokens = 0.0
        self.quotas: dict[Unit, Quota] = {}
        self.in_flight = 0

    def ready(self, now: float) -> float | None:
        """Seconds until a request may be sent; None when one must come back first."""
        if self.in_flight >= self.window.size:
            self.window.filled()
            return None
        wait = max(
            [self.pace.ready(now, self.in_flight), *(each.ready(now) for each in self.quotas.values())]
        )
        return None if wait == math.inf else wait

    def sent(self, now: float) -> Sent:
        """A request is let go; it must be told of by one of the others when it is over."""
        sent = self.pace.sent(now, self.in_flight)
        self.in_flight += 1
        for quota in self.quotas.values():
            quota.sent(sent, now)
        return sent

    def heard(self, headers: Mapping[str, str], sent: Sent, now: float, *, tokens: int) -> None:
        """The headers of its answer; before it is told of by one of the others.

        Args:
            headers: By names in small letters.
            sent: The request.
            now: Seconds.
            tokens: That it took; 0 where that is not known.
        """
        for unit, told in remaining(headers).items():
            if unit == "tokens":
                if not tokens:
                    continue
                self._tokens += 0.1 * (tokens - self._tokens) if self._tokens else tokens
            cost = 1.0 if unit == "requests" else self._tokens
            self.quotas.setdefault(unit, Quota()).heard(told, sent, now, cost=cost)

    def left(self, sent: Sent, now: float) -> None:
        """It goes out, which may take a while: to be written, to be connected."""
        self.pace.left(sent, now)

    def answered(self, sent: Sent, now: float) -> None:
        """It was answered."""
        self._ended(sent, refused=False)
        self.pace.admitted(sent, now)
        self.window.answered(sent.time, now)

    def rejected(self, sent: Sent, now: float, *, retry_after: float | None) -> None:
        """It was turned away, as one too many."""
        self._ended(sent, refused=True)
        self.pace.rejected(sent, now, retry_after=retry_after)

    def failed(self, sent: Sent, now: float) -> None:
        """It was let through and came to nothing, or was given up."""
        self._ended(sent, refused=False)
        self.pace.admitted(sent, now)

    def late(self, sent: Sent, now: float) -> None:
        """It was let through, as far as can be told, and not answered within its time."""
        self._ended(sent, refused=False)
        self.pace.admitted(sent, now)
        self.window.late(sent.time, now)

    def _ended(self, sent: Sent, *, refused: bool) -> None:
        self.in_flight -= 1
        for quota in self.quotas.values():
            quota.ended(sent, refused=refused)
