"""Patience: how long one prompt is tried, and what became of its requests so far (spec: metrics, T2.6)."""

import math

import msgspec


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long a provider is tried that fails.

    Attributes:
        tries: Requests that may fail before a judgement is given up, more where failures are frequent:
            as many as leave a chance of ``bad_luck`` that it was nothing but that, ``most_tries`` at most.
        bad_luck: That chance; also of refusals of one prompt, beyond which it is the prompt that is refused.
        most_tries: See ``tries``; a prompt that alone is refused is tried at least as often.
        first_pause: Seconds before the second try, doubled for each that follows, with jitter.
        own_pause: Seconds that they grow to.
        longest_pause: Seconds after which a prompt that alone is refused is given up.
        outage: Seconds that a provider is waited for which answered before and now fails whoever asks.
        never: Seconds that one is waited for which never answered.
        never_unusable, unusable: Errors that every request would meet, none answered between, after which a
            model is asked no more: before it ever answered, and later. (A status 403 may be a firewall's,
            about one text alone, and two more of them are waited for.)
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
        """Of how many requests in a row it is no bad luck that they fail, where a share of all does."""
        return math.ceil(math.log(self.bad_luck) / math.log(min(max(share, 0.02), 0.9)))


DEFAULT_RETRY_POLICY = RetryPolicy()


class RetryState:
    """What became of the requests of one prompt so far.

    Attributes:
        failed: That failed.
        refused: That were refused.
        passed_by: That were refused after others had been answered since the refusal before.
        since: When the first came to nothing.
    """

    __slots__ = ("_last", "failed", "passed_by", "refused", "since")

    def __init__(self) -> None:
        self.failed = self.refused = self.passed_by = 0
        self.since = math.inf
        self._last = math.inf

    def __bool__(self) -> bool:
        return bool(self.failed or self.refused)

    def count(self, *, rate_limited: bool, now: float, answered: float | None) -> None:
        """Another came to nothing.

        Args:
            rate_limited: Whether it was refused.
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
