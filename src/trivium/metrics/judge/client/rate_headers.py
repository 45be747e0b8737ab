"""Rate-limit headers: what a provider says is left of its limits, used as far as it proves right."""

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
"""Headers of OpenAI, Azure, Groq and others, and of Anthropic: the limit, what is left of it, its reset."""

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")

LONGEST_RESET = 31 * 86_400.0

TESTED_EVERY = 20
"""Requests after which one is sent although nothing is said to be left: the headers may be wrong by now."""

DISTRUSTED_FOR = 200
"""Requests for which headers are passed over that were wrong."""

LONGEST_HOLD = 10.0
"""Seconds that headers alone hold requests back at most."""


class Remaining(msgspec.Struct, frozen=True):
    """What is left of a limit.

    Attributes:
        limit: Requests or tokens that it allows.
        left: Of them now.
        reset: Seconds until all are there again.
    """

    limit: float
    left: float
    reset: float


def remaining(headers: Mapping[str, str], *, now: datetime | None = None) -> dict[Unit, Remaining]:
    """What the headers of an answer say, as far as it can be: of requests and of tokens.

    Args:
        headers: By names in small letters.
        now: For resets that are given as a time; None for now.
    """
    found: dict[Unit, Remaining] = {}
    for unit, families in _NAMES.items():
        for limit, left, reset in families:
            if left in headers and reset in headers:
                told = _told(headers.get(limit), headers[left], headers[reset], now or datetime.now(UTC))
                if told is not None:
                    found[unit] = told
    return found


def _told(limit: str | None, left: str, reset: str, now: datetime) -> Remaining | None:
    try:
        number = float(left)
        most = max(float(limit) if limit else number, number, 1.0)
        seconds = _seconds(reset, now)
    except ValueError:
        return None
    if not (0 <= number < math.inf and most < math.inf and 0 <= seconds <= LONGEST_RESET):
        return None
    return Remaining(most, number, seconds)


def _seconds(text: str, now: datetime) -> float:
    """Seconds of "6m0s", "20ms", "1.5", or until a time such as "2026-01-27T12:00:00Z"."""
    text = text.strip()
    if text and (match := _DURATION.fullmatch(text)) is not None:
        hours, minutes, seconds, thousandths = (float(part or 0) for part in match.groups())
        return 3600 * hours + 60 * minutes + seconds + thousandths / 1000
    if "T" in text:
        then = datetime.fromisoformat(text)
        return max(0.0, (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - now.timestamp())
    return float(text)


class Quota:
    """Holds requests back while a provider says that nothing is left for them.

    What it says is information, not an order. The first time that it would hold a request back, that request
    is sent as a test: if the provider refuses it, the headers are right and are followed, with another test
    now and then; if not, they are passed over for a while.

    Attributes:
        trusted: Whether they were right when it was tested last; None before a test.
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

    def heard(self, told: Remaining, sent: SentRequest, now: float, *, cost: float = 1.0) -> None:
        """What an answer says is left.

        Args:
            told: What it says.
            sent: The request that it answers.
            now: Seconds.
            cost: Of a request, in the unit of the limit.
        """
        number = self._numbers.get(sent, self._sent)
        if number < self._known_at:
            return  # which a later request has told more of
        self._known_at = number
        self._left = told.left / cost - (self._sent - number)
        self._refill = (told.limit - told.left) / cost / told.reset if told.reset > 0 else math.inf
        self._at, self._reset_at = now, now + told.reset

    def ready(self, now: float) -> float:
        """Seconds for which a request should wait, as far as the headers are right."""
        wait = self._wait(now)
        if wait <= 0 or self.trusted is False:
            self._held_since = None
            return 0.0
        if self._test is None and (self.trusted is None or self._since_test >= TESTED_EVERY):
            return 0.0
        if self._held_since is None:
            self._held_since = now
        left = self._held_since + LONGEST_HOLD - now
        if left <= 0 and self._test is not None:
            self.trusted, self._since_test = False, 0  # the test has no end: nothing speaks for the headers
        return max(0.0, min(wait, left))

    def sent(self, sent: SentRequest, now: float) -> None:
        """A request is let go."""
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
        """It is known whether a request was let through."""
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
            self._steps = True  # nothing comes back before the reset

    def _wait(self, now: float) -> float:
        """Seconds until there is something left, by what was heard."""
        if now >= self._reset_at:
            return 0.0
        refill = 0.0 if self._steps else self._refill
        left = self._left + refill * (now - self._at)
        if left >= 1:
            return 0.0
        until_reset = self._reset_at - now
        return min(until_reset, (1 - left) / refill) if refill > 0 else until_reset
