"""Retry policy and per-request retry state (docs/definitions/judge.md#unavailable-judge)."""

import math

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long failing requests are retried.

    Attributes:
        tries: Failed requests after which a judgement is given up. If failures are frequent, more are
            allowed, up to ``max_tries``: until the probability that all fail by chance is below ``bad_luck``.
        bad_luck: See ``tries``. Also the probability below which repeated refusals of one prompt are
            attributed to the prompt.
        most_tries: See ``tries``. A prompt that is refused while others are admitted gets at least these.
        initial_backoff: Seconds before the second try, doubled for each further one, with jitter.
        max_backoff: Longest backoff, seconds.
        max_refused_seconds: Seconds after which a prompt that is refused while others are admitted is given
            up.
        outage: Seconds to wait for a provider that answered before and now fails every request.
        never_answered: Seconds to wait for a provider that has never answered.
        unusable_before_answer: Errors about the key, the account or the model after which a model that has
            never answered is turned off. Two more are allowed for status 403, which a firewall may send
            because of one text.
        unusable_after_answer: The same for a model that has answered, counted since its last answer.
    """

    tries: int = 5
    bad_luck: float = 1e-6
    max_tries: int = 20
    initial_backoff: float = 0.05
    max_backoff: float = 5
    max_refused_seconds: float = 60
    outage: float = 120
    never_answered: float = 5
    unusable_before_answer: int = 1
    unusable_after_answer: int = 10

    def luck_limit(self, share: float) -> int:
        """Failures in a row that chance does not explain, given the share of all requests that fail."""
        return math.ceil(math.log(self.bad_luck) / math.log(min(max(share, 0.02), 0.9)))


DEFAULT_RETRY_POLICY = RetryPolicy()


class RetryState:
    """Failures of the requests for one prompt so far.

    Attributes:
        failed: Requests that failed.
        refused: Requests that were rate limited.
        refused_alone: Refusals since whose predecessor another request was answered.
        since: When the first request failed or was refused.
    """

    __slots__ = ("_last", "failed", "refused", "refused_alone", "since")

    def __init__(self) -> None:
        self.failed = self.refused = self.refused_alone = 0
        self.since = math.inf
        self._last = math.inf

    def __bool__(self) -> bool:
        return bool(self.failed or self.refused)

    def count(self, *, rate_limited: bool, now: float, answered: float | None) -> None:
        """Count a request that failed or was refused.

        Args:
            rate_limited: Whether it was refused by a rate limit.
            now: Current time, seconds.
            answered: Time of the last answer to any prompt, or None.
        """
        self.since = min(self.since, now)
        if not rate_limited:
            self.failed += 1
            return
        self.refused += 1
        self.refused_alone += answered is not None and answered > self._last
        self._last = now
