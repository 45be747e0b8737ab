"""Retry policy and per-request retry state (spec: metrics, T2.6)."""

import math

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long failing requests are retried.

    Attributes:
        tries: Requests that may fail before a judgement is given up. Where failures are frequent, more are
            allowed: so many that they fail by bad luck alone with a probability below ``bad_luck``, but at
            most ``most_tries``.
        bad_luck: See ``tries``. Also the probability below which repeated refusals of one prompt are blamed
            on the prompt.
        most_tries: See ``tries``. A prompt that is refused while others are admitted gets at least these.
        first_pause: Seconds before the second try, doubled for each that follows, with jitter.
        own_pause: Longest such pause, seconds.
        longest_pause: Seconds after which a prompt that is refused while others are admitted is given up.
        outage: Seconds to wait for a provider that answered before and now fails every request.
        never: Seconds to wait for a provider that has never answered.
        never_unusable, unusable: Errors that concern every request (key, account, model), without an answer
            in between, after which a model is turned off: before it ever answered, and later. A status 403
            may come from a firewall and concern one text alone, so two more of those are allowed.
    """

    tries: int = 5
    bad_luck: float = 1e-6
    most_tries: int = 20
    first_pause: float = 0.05
    own_pause: float = 5
    longest_pause: float = 60
    outage: float = 120
    never: float = 5
    never_unusable: int = 1
    unusable: int = 10

    def luck_limit(self, share: float) -> int:
        """Failures in a row that bad luck no longer explains, given the share of all requests that fail."""
        return math.ceil(math.log(self.bad_luck) / math.log(min(max(share, 0.02), 0.9)))


DEFAULT_RETRY_POLICY = RetryPolicy()


class RetryState:
    """Failures of the requests for one prompt so far.

    Attributes:
        failed: Requests that failed.
        refused: Requests that were rate limited.
        passed_by: Of those, how many came although others had been answered since the last refusal.
        since: When the first request failed or was refused.
    """

    __slots__ = ("_last", "failed", "passed_by", "refused", "since")

    def __init__(self) -> None:
        self.failed = self.refused = self.passed_by = 0
        self.since = math.inf
        self._last = math.inf

    def __bool__(self) -> bool:
        return bool(self.failed or self.refused)

    def count(self, *, rate_limited: bool, now: float, answered: float | None) -> None:
        """Count a request that failed or was refused.

        Args:
            rate_limited: Whether it was refused by a rate limit.
            now: Seconds.
            answered: When the last request of any prompt was answered, or None.
        """
        self.since = min(self.since, now)
        if not rate_limited:
            self.failed += 1
            return
        self.refused += 1
        self.passed_by += answered is not None and answered > self._last
        self._last = now
