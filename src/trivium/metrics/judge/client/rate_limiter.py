"""Rate limiter: decides when the next request to a model may be sent.

It combines three parts: the adaptive window of requests in flight, the pacer, which uses the Bayesian rate
model once a request has been refused, and the quotas that rate-limit headers report.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from trivium.metrics.judge.client.concurrency import ConcurrencyWindow, SentRequest
from trivium.metrics.judge.client.rate_headers import Quota, Unit, remaining
from trivium.metrics.judge.client.rate_model import RateModel

SPREAD_SAMPLES = 7
"""Recent differences whose lower quartile is used: busy moments inflate the larger ones."""

MARGIN = 0.005
"""Seconds added to the time that a refusal usually takes."""


class OutcomeTracker:
    """Orders outcomes by the time of sending.

    Refusals return faster than answers, so taking outcomes as they arrive would overstate refusals. A
    request that was not refused within the time that refusals take counts as admitted.
    """

    def __init__(self) -> None:
        self._waiting: deque[SentRequest] = deque()
        self._took: float | None = None
        self._spread = 0.0
        self._before = 0.0
        self._spread_samples: deque[float] = deque(maxlen=SPREAD_SAMPLES)

    @property
    def usual_refusal(self) -> float:
        """Seconds until a refusal usually returns; 0 before the first."""
        return self._took or 0.0

    @property
    def refusal_window(self) -> float:
        """Seconds within which a refusal returns; 0 before the first."""
        return 0.0 if self._took is None else self._took + 4 * self._spread + MARGIN

    def sent(self, sent: SentRequest) -> None:
        """Track a request that is sent."""
        self._waiting.append(sent)

    def observe_refusal(self, took: float) -> float:
        """Record how long a refusal took; return the spread of recent ones in seconds.

        The spread is taken from consecutive refusals, because those of the first busy moments are all slow.
        """
        if self._took is None:
            self._took, self._spread = took, took / 8
        else:
            self._spread_samples.append(abs(took - self._before))
            self._spread += 0.25 * (abs(took - self._took) - self._spread)
            self._took += 0.125 * (took - self._took)
        self._before = took
        return sorted(self._spread_samples)[len(self._spread_samples) // 4] if self._spread_samples else 0.0

    def until_known(self, now: float) -> float:
        """Seconds until the outcome of the oldest undecided request is known."""
        if not self._waiting:
            return 0.0
        went_out = self._waiting[0].went_out
        return self.refusal_window if went_out is None else max(0.0, went_out + self.refusal_window - now)

    def due(self, now: float) -> Iterator[SentRequest]:
        """Yield, once each, the requests whose outcome is known by now, in the order of sending."""
        waiting = self._waiting
        refusal_window = None if self._took is None else self.refusal_window
        while waiting:
            first = waiting[0]
            if first.outcome == "open" and (
                refusal_window is None or first.went_out is None or now - first.went_out < refusal_window
            ):
                return
            waiting.popleft()
            first.counted = True
            yield first


MAX_IN_FLIGHT = 100


class RateLimiter:
    """Limits concurrency and rate of all requests to one model at one address.

    Args:
        most: Most requests in flight; None for MAX_IN_FLIGHT.
        timeout: Seconds that a request may take.
    """

    def __init__(self, *, most: int | None = None, timeout: float = 60) -> None:
        self.window = ConcurrencyWindow(most or MAX_IN_FLIGHT, timeout)
        self.pacer = Pacer()
        self._tokens = 0.0
        self.quotas: dict[Unit, Quota] = {}
        self.in_flight = 0

    def ready(self, now: float) -> float | None:
        """Seconds until a request may be sent; None if one in flight must end first."""
        if self.in_flight >= self.window.size:
            self.window.filled()
            return None
        wait = max(
            [self.pacer.ready(now, self.in_flight), *(each.ready(now) for each in self.quotas.values())]
        )
        return None if wait == math.inf else wait

    def sent(self, now: float) -> SentRequest:
        """Let a request go. One of the methods below must report its end."""
        sent = self.pacer.sent(now, self.in_flight)
        self.in_flight += 1
        for quota in self.quotas.values():
            quota.sent(sent, now)
        return sent

    def observe_headers(
        self, headers: Mapping[str, str], sent: SentRequest, now: float, *, tokens: int
    ) -> None:
        """Read the rate-limit headers of a response; called before the method that reports its end.

        Args:
            headers: By lower-case name.
            sent: The request.
            now: Seconds.
            tokens: Tokens the request used; 0 if unknown.
        """
        for unit, reported in remaining(headers).items():
            if unit == "tokens":
                if not tokens:
                    continue
                self._tokens += 0.1 * (tokens - self._tokens) if self._tokens else tokens
            cost = 1.0 if unit == "requests" else self._tokens
            self.quotas.setdefault(unit, Quota()).observe(reported, sent, now, cost=cost)

    def went_out(self, sent: SentRequest, now: float) -> None:
        """Note when a request was written, which may be later than it was let go: connecting takes time."""
        self.pacer.went_out(sent, now)

    def answered(self, sent: SentRequest, now: float) -> None:
        """Report an answer."""
        self._ended(sent, refused=False)
        self.pacer.admitted(sent, now)
        self.window.answered(sent.time, now)

    def rejected(self, sent: SentRequest, now: float, *, retry_after: float | None) -> None:
        """Report a refusal by a rate limit."""
        self._ended(sent, refused=True)
        self.pacer.rejected(sent, now, retry_after=retry_after)

    def failed(self, sent: SentRequest, now: float) -> None:
        """Report a request that was admitted and failed, or was cancelled."""
        self._ended(sent, refused=False)
        self.pacer.admitted(sent, now)

    def timed_out(self, sent: SentRequest, now: float) -> None:
        """Report a timeout; the request counts as admitted."""
        self._ended(sent, refused=False)
        self.pacer.admitted(sent, now)
        self.window.timed_out(sent.time, now)

    def _ended(self, sent: SentRequest, *, refused: bool) -> None:
        self.in_flight -= 1
        for quota in self.quotas.values():
            quota.ended(sent, refused=refused)


FIRST_GAP, FREE_GAP = 0.002, 0.001
"""Seconds between requests before the first answer and after it: a refusal is seen before many have left."""

RISK = 0.35
"""Accepted probability that the rate limit refuses a request."""

DOUBTS = 0.2
"""If this is exceeded even a moment later, the outcome of the last such request is waited for."""

PROBE_SHARE = 0.3
"""Pause between probes of a provider that refuses everything, as a share of the time it has done so."""

SHORTEST_PROBE, LONGEST_PROBE = 0.004, 2.0

CLOSED_AFTER = 20
"""Refusals in a row, in the order of sending, after which only probes are sent, whatever the model says."""

PROBE_PRICE = 2.0
"""Cost of a refused probe, in mean intervals between admitted requests."""

UNKNOWN_WAIT = 10.0
"""Assumed wait, in such intervals, when the model does not know when a slot becomes free."""

AVERAGED = 100
"""Admitted requests over which the mean interval is taken."""

REPLAYED = 300
"""Requests before the first refusal that are replayed into a new rate model."""

STEADIER = 0.97
"""Decay of the estimated jitter with each admitted request. Only refusals measure jitter; they may be few,
and those of the first moments are slow."""

AGAIN = 0.25
"""Share of the time since the last request after which the decision is made again."""

LEADS = 20
"""Recent requests whose lower quartile estimates the delay between the due time and the actual sending."""

LATE = 0.005
"""A request later than this (seconds) was held back by something other than the pacer."""

LEAVING = 0.03
"""Most seconds to wait for a request to be written before deciding about the next."""

TICK = 0.0001
"""Seconds; shorter waits are rounded up to it."""


class Pacer:
    """Spaces requests in time; from the first refusal on it consults the rate model.

    A request is sent when the estimated probability of a rate-limit refusal is below RISK. Random refusals
    are ignored. If the limit may have changed, one request at a time tests it; if everything is refused,
    probes follow at increasing intervals.

    Attributes:
        rate_model: Estimate of the limit, from the first refusal on.
        refused_in_row: Requests refused since the last one that was admitted, in the order of sending.
    """

    def __init__(self) -> None:
        self.rate_model: RateModel | None = None
        self.refused_in_row = 0
        self._outcomes = OutcomeTracker()
        self._recent: deque[SentRequest] = deque(maxlen=REPLAYED)
        self._admitted: deque[float] = deque(maxlen=AVERAGED)
        self._answered = False
        self._first = math.inf
        self._last = -math.inf
        self._open_at = 0.0
        self._doubtful: SentRequest | None = None
        self._leaving: SentRequest | None = None
        self._lead_times: deque[float] = deque(maxlen=LEADS)
        self._lead = 0.0
        self._due = -math.inf
        self._retry_after_from = self._retry_after_until = -math.inf
        self._retry_after_right = self._retry_after_wrong = 0
        self._test: SentRequest | None = None
        self._jitter = 0.0

    def ready(self, now: float, in_flight: int) -> float:
        """Seconds until the next request may be sent; infinite if one in flight must end first."""
        self._apply_outcomes(now)
        wait = max(self._last + (FREE_GAP if self._answered else FIRST_GAP), self._open_at) - now
        if wait <= 0 and self.rate_model is not None:
            wait = LEAVING - (now - self._leaving.time) if self._leaving is not None else 0.0
            if wait <= 0:
                wait = self._time_until_safe(self.rate_model, now + self._lead, in_flight)
                if self.refused_in_row >= CLOSED_AFTER:
                    wait = max(wait, self._probe_at() - now)
                self._due = now + max(wait, 0.0)
        return max(wait, TICK) if wait > 0 else 0.0

    def sent(self, now: float, in_flight: int) -> SentRequest:
        """Let a request go."""
        sent = self._leaving = SentRequest(now + self._lead, in_flight)
        sent.due = self._due if now - self._due < LATE else now
        self._outcomes.sent(sent)
        self._last = now
        self._first = min(self._first, now)
        if self.rate_model is None:
            self._recent.append(sent)
            return sent
        if self.rate_model.refusing(now + self._moment(), in_flight) > DOUBTS:
            self._doubtful = sent
        if self._retry_after_holds(now):
            self._test = sent
        sent.refusal_odds = self.rate_model.sent(sent.time, in_flight)
        return sent

    def went_out(self, sent: SentRequest, now: float) -> None:
        """Note when a request was written."""
        sent.went_out = self._last = now
        self._lead_times.append(now - sent.due)
        self._lead = sorted(self._lead_times)[len(self._lead_times) // 4]
        if self.rate_model is not None and sent.refusal_odds is not None:
            sent.refusal_odds = self.rate_model.delayed(
                sent.refusal_odds, sent.time, now, in_flight=sent.in_flight
            )
        if not sent.counted:
            sent.time = now
        if sent is self._leaving:
            self._leaving = None

    def admitted(self, sent: SentRequest, now: float) -> None:
        """Report a request that was not refused, whether it was answered or failed."""
        self._answered = True
        sent.outcome = "admitted"
        self._apply_outcomes(now)

    def rejected(self, sent: SentRequest, now: float, *, retry_after: float | None) -> None:
        """Report a refusal."""
        self._jitter = self._outcomes.observe_refusal(now - (sent.went_out or sent.time))
        if self.rate_model is None:
            self.rate_model = self._begun(
                sorted(self._recent, key=lambda each: (each.went_out is None, each.time))
            )
        sent.outcome, sent.retry_at = "rejected", now + retry_after if retry_after else None
        self._apply_outcomes(now)

    def pause_until(self, until: float) -> None:
        """Send nothing before a time."""
        self._open_at = max(self._open_at, until)

    def _begun(self, recent: Iterable[SentRequest]) -> RateModel:
        """Create the rate model and replay the requests sent so far."""
        rate_model = RateModel()
        now = -math.inf
        for sent in recent:
            sent.time = now = max(now, sent.time)
            sent.refusal_odds = rate_model.sent(now, sent.in_flight)
            if sent.counted:
                rate_model.learn(sent.refusal_odds, sent.time, refused=False)
        return rate_model

    def _time_until_safe(self, rate_model: RateModel, now: float, in_flight: int) -> float:
        if self._test is not None and self._retry_after_holds(now):
            return self._retry_after_until - now
        at = rate_model.free_by(now, in_flight, RISK, costly=self._outcomes.usual_refusal / self._gap())
        if self._doubtful is not None and not self._doubtful.counted:
            # To send more on the same assumption could only be refused for the same reason.
            if at > now or rate_model.refusing(now + self._moment(), in_flight) > DOUBTS:
                return max(TICK, self._outcomes.until_known(now))
            return 0.0
        if at > now and not self._retry_after_holds(now):
            probe_at = max(now, self._probe_at())
            risk, gap = rate_model.refusing(probe_at, in_flight), self._gap()
            saved = at - probe_at if at < math.inf else UNKNOWN_WAIT * gap
            if (1 - risk) * saved > PROBE_PRICE * gap * risk:
                at = probe_at
        # The estimate changes while waiting: decide again before the time has come.
        return min(at - now, max(0.5 * self._gap(), AGAIN * (now - self._last)))

    def _probe_at(self) -> float:
        """When to probe a provider that admits nothing."""
        shut = self._last - (self._admitted[-1] if self._admitted else self._first)
        pause = max(SHORTEST_PROBE, PROBE_SHARE / (1 - PROBE_SHARE) * shut)
        return self._last + min(LONGEST_PROBE, pause)

    def _gap(self) -> float:
        """Mean interval between admitted requests, seconds."""
        passed = self._admitted
        return max(FREE_GAP, (passed[-1] - passed[0]) / (len(passed) - 1)) if len(passed) > 1 else FIRST_GAP

    def _moment(self) -> float:
        return 0.003 + 0.1 * self._gap()

    def _retry_after_holds(self, now: float) -> bool:
        """Whether a Retry-After is in force and such values have proved right so far."""
        return now < self._retry_after_until and self._retry_after_right >= self._retry_after_wrong

    def _apply_outcomes(self, now: float) -> None:
        if self._leaving is not None and self._leaving.outcome != "open":
            self._leaving = None
        for sent in self._outcomes.due(now):
            refused = sent.outcome == "rejected"
            by_limit = 0.0
            if self.rate_model is not None and sent.refusal_odds is not None:
                self.rate_model.blur(self._jitter)
                by_limit = self.rate_model.learn(sent.refusal_odds, sent.time, refused=refused)
                sent.refusal_odds = None
            self.refused_in_row = self.refused_in_row + 1 if refused else 0
            if not refused:
                self._admitted.append(sent.time)
                self._jitter *= STEADIER  # as it all goes well
            if self._retry_after_from < sent.time < self._retry_after_until:
                self._retry_after_right += refused
                self._retry_after_wrong += not refused
                if not refused:
                    self._retry_after_until = -math.inf
            if sent.retry_at is not None and by_limit > 0.5 and sent.retry_at > self._retry_after_until:
                self._retry_after_from, self._retry_after_until, self._test = now, sent.retry_at, None
