"""Parses rate-limit headers, and follows them as long as they prove right."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

import msgspec

from trivium.metrics.judge.client.concurrency import SentRequest

Unit = Literal["requests", "tokens"]

_NAMES: dict[Unit, tuple[tuple[str, str, str], ...]] = {
    unit: (
        (f"x-ratelimit-limit-{unit}", f"x-ratelimit-remaining-{unit}", f"x-ratelimit-reset-{unit}"),
        (
            f"anthropic-ratelimit-{unit}-limit",
            f"anthropic-ratelimit-{unit}-remaining",
            f"anthropic-ratelimit-{unit}-reset",
        ),
    )
    for unit in ("requests", "tokens")
}
"""Header names for limit, remaining and reset: those of OpenAI, Azure, Groq and others, and Anthropic's."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")

MAX_RESET = 31 * 86_400.0
"""Largest plausible reset, seconds."""

TESTED_EVERY = 20
"""Requests after which the headers are tested again by one request that they would hold back."""

DISTRUSTED_FOR = 200
"""Number of requests for which headers are ignored after they proved wrong."""

MAX_HOLD = 10.0
"""Longest time in seconds that headers alone hold requests back."""


class Remaining(msgspec.Struct, frozen=True):
    """Reported state of a limit.

    Attributes:
        limit: Requests or tokens it allows.
        left: Requests or tokens that remain.
        reset: Seconds until the full limit is available again.
    """

    limit: float
    left: float
    reset: float


def remaining(headers: Mapping[str, str], *, now: datetime | None = None) -> dict[Unit, Remaining]:
    """Parse the rate-limit headers of a response for requests and tokens; impossible values are ignored.

    Args:
        headers: Headers by lower-case name.
        now: Current time, for resets given as a point in time; None for the clock.
    """
    found: dict[Unit, Remaining] = {}
    for unit, families in _NAMES.items():
        for limit, left, reset in families:
            if left in headers and reset in headers:
                state = _parse_state(
                    headers.get(limit), headers[left], headers[reset], now or datetime.now(UTC)
                )
                if state is not None:
                    found[unit] = state
    return found


def _parse_state(limit: str | None, left: str, reset: str, now: datetime) -> Remaining | None:
    try:
        number = float(left)
        most = max(float(limit) if limit else number, number, 1.0)
        seconds = _seconds(reset, now)
    except ValueError:
        return None
    if not (0 <= number < math.inf and most < math.inf and 0 <= seconds <= MAX_RESET):
        return None
    return Remaining(most, number, seconds)


def _seconds(text: str, now: datetime) -> float:
    """Parse a duration ("6m0s", "20ms", "1.5") or a time ("2026-01-27T12:00:00Z") into seconds from now."""
    text = text.strip()
    if text and (match := _DURATION.fullmatch(text)) is not None:
        hours, minutes, seconds, thousandths = (float(part or 0) for part in match.groups())
        return 3600 * hours + 60 * minutes + seconds + thousandths / 1000
    if "T" in text:
        then = datetime.fromisoformat(text)
        return max(0.0, (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - now.timestamp())
    return float(text)


class Quota:
    """Holds requests back while the headers report that nothing remains.

    The headers are tested before they are trusted: the first request that they would hold back is sent. If
    the provider refuses it, the headers are followed and tested again at intervals; if not, they are ignored
    for a while.

    Attributes:
        trusted: Result of the last test; None before the first test.
    """

    def __init__(self) -> None:
        self.trusted: bool | None = None
        self._left = math.inf
        self._refill = 0.0
        self._at = -math.inf
        self._reset_at = -math.inf
        self._sent = 0
        self._known_at = -1
        self._numbers: dict[SentRequest, int] = {}
        self._test: SentRequest | None = None
        self._since_test = 0
        self._held_since: float | None = None
        self._steps = False

    def observe(self, reported: Remaining, sent: SentRequest, now: float, *, cost: float = 1.0) -> None:
        """Update from the headers of a response.

        Args:
            reported: The reported state.
            sent: The request that was answered.
            now: Current time, seconds.
            cost: Mean cost of a request in the unit of the limit.
        """
        number = self._numbers.get(sent, self._sent)
        if number < self._known_at:
            return  # a later request has reported a newer state
        self._known_at = number
        self._left = reported.left / cost - (self._sent - number)
        self._refill = (
            (reported.limit - reported.left) / cost / reported.reset if reported.reset > 0 else math.inf
        )
        self._at, self._reset_at = now, now + reported.reset

    def ready(self, now: float) -> float:
        """Seconds that a request should wait according to headers that are trusted or being tested."""
        wait = self._wait(now)
        if wait <= 0 or self.trusted is False:
            self._held_since = None
            return 0.0
        if self._test is None and (self.trusted is None or self._since_test >= TESTED_EVERY):
            return 0.0
        if self._held_since is None:
            self._held_since = now
        left = self._held_since + MAX_HOLD - now
        if left <= 0 and self._test is not None:
            self.trusted, self._since_test = False, 0  # the test has no outcome: do not trust the headers
        return max(0.0, min(wait, left))

    def sent(self, sent: SentRequest, now: float) -> None:
        """Count a request that is sent."""
        if self.trusted is not False and self._test is None and self._wait(now) > 0:
            self._test, self._since_test = sent, 0
        self._sent += 1
        self._since_test += 1
        if self.trusted is False and self._since_test >= DISTRUSTED_FOR:
            self.trusted = None
        self._numbers[sent] = self._sent
        self._left -= 1
        self._held_since = None

    def ended(self, sent: SentRequest, *, refused: bool) -> None:
        """Apply the outcome of a request."""
        self._numbers.pop(sent, None)
        if sent is self._test:
            self._test = None
            if refused:
                self.trusted = True
            elif self._steps:
                self._steps = False
            else:
                self.trusted, self._since_test = False, 0
        elif refused and self._left < 1:
            self._steps = True  # the limit refills at the reset only, not gradually

    def _wait(self, now: float) -> float:
        """Seconds until one request may be sent according to the last report."""
        if now >= self._reset_at:
            return 0.0
        refill = 0.0 if self._steps else self._refill
        left = self._left + refill * (now - self._at)
        if left >= 1:
            return 0.0
        until_reset = self._reset_at - now
        return min(until_reset, (1 - left) / refill) if refill > 0 else until_reset
