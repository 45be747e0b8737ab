"""Decides when the next request to a model may be sent (docs/design/judging.md)."""

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from trivium.metrics.judge.client.rate_model import RateModel

if TYPE_CHECKING:
    from trivium.metrics.judge.client.rate_model import Vector

MAX_IN_FLIGHT, FIRST_WINDOW = 100, 50
"""Default maximum of requests in flight, and the maximum before the first answers."""

GAIN_SHARE = 0.3
"""A wider window stays if throughput rises by at least this share of what the window was widened by."""

REST = 32
"""Measurements after which a window that was taken back is widened again."""

FIRST_GAP, FREE_GAP = 0.002, 0.001
"""Seconds between requests before and after the first answer: a refusal is seen before many are sent."""

REPLACE_SECONDS = 0.02
"""Within this time after an answer another request may take its place at once, until a request is refused: a
busy machine reads many answers together."""

RISK = 0.35
"""Accepted probability that the rate limit refuses a request."""

DOUBT = 0.2
"""If this probability of refusal is exceeded even a moment after a request, its outcome is awaited first."""

CLOSED_AFTER = 20
"""Refusals in a row, in the order of sending, after which only probes are sent."""

PROBE_SHARE, SHORTEST_PROBE, LONGEST_PROBE = 0.3, 0.004, 2.0
"""Interval between probes: a share of the time for which everything was refused, and its bounds, seconds."""

PROBE_PRICE, UNKNOWN_WAIT = 2.0, 10.0
"""Cost of a refused probe, and the wait assumed if the rate model knows no time at which a slot becomes free:
in mean intervals between admitted requests."""

GAP_SAMPLES = 100
"""Admitted requests over which that mean interval is taken."""

REPLAYED = 300
"""Requests before the first refusal that are replayed into a new rate model."""

JITTER_DECAY = 0.97
"""Factor on the estimated jitter with each admission: it is measured by refusals, the first of them slow."""

RECHECK_SHARE = 0.25
"""Share of the time since the last request after which a wait is computed again."""

LEAD_SAMPLES = 20
"""Recent requests whose lower quartile estimates the delay between the due time and the actual sending."""

MAX_LATENESS = 0.005
"""A request that is later than this was held back by something other than the limiter, seconds."""

MIN_WAIT, MAX_WRITE_WAIT = 0.0001, 0.03
"""Shortest wait, and the longest one for a request to be written before the next is considered; seconds."""

SPREAD_SAMPLES = 7
"""Recent differences whose lower quartile is used: busy moments inflate the larger ones."""

REFUSAL_MARGIN = 0.005
"""Seconds added to the time that a refusal usually takes."""

Ended = Literal["answered", "refused", "timeout", "failed"]
"""How a request ended: answered, refused by a rate limit, or otherwise; a cancelled one failed."""

Outcome = Literal["open", "admitted", "rejected"]


@dataclass(eq=False, slots=True)
class SentRequest:
    """A request that the limiter has released.

    Attributes:
        time: When it was released, or written to its connection, once that is known; seconds.
        due: When it was to be released.
        in_flight: Requests in flight then.
        went_out: When it was written, or None.
        outcome: Whether it was admitted.
        counted: Whether its outcome has been applied.
        refusal_probabilities: Probability of its refusal under each hypothesis of the rate model, until then.
        retry_at: When the Retry-After of its refusal ends, or None.
    """

    time: float
    due: float
    in_flight: int
    went_out: float | None = None
    outcome: Outcome = "open"
    counted: bool = False
    refusal_probabilities: "Vector | None" = None
    retry_at: float | None = None


class ConcurrencyWindow:
    """Limits the requests in flight, to ``most`` of them. Timeouts halve the limit.

    Attributes:
        full: Whether a request had to wait for a free slot.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = min(FIRST_WINDOW, most)
        self.full = False
        self._since = 0.0
        self._latencies: list[float] = []
        self._timeouts = 0
        self._before: tuple[int, float] | None = None
        """Size and median latency before the window was widened, until it is known whether that helped."""
        self._rest = 0

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
        elif self.full and self.size < self.most:
            self._resize(min(self.most, 2 * self.size), now, before=latency)
            return
        self._resize(self.size, now)

    def _resize(self, size: int, now: float, *, before: float | None = None) -> None:
        """Begin a measurement with the next request."""
        self._before = None if before is None else (self.size, before)
        self.size, self._since = size, now
        self._latencies, self._timeouts, self.full = [], 0, False


class OutcomeTracker:
    """Orders outcomes by the time of sending, because refusals return faster than answers.

    A request that was not refused within the time that refusals take counts as admitted.

    Attributes:
        waiting: Requests in the order of sending, from the first whose outcome is not known.
    """

    def __init__(self) -> None:
        self.waiting: deque[SentRequest] = deque()
        self._delay: float | None = None
        self._spread = 0.0
        self._before = 0.0
        self._spread_samples: deque[float] = deque(maxlen=SPREAD_SAMPLES)

    @property
    def usual_refusal(self) -> float:
        """Seconds until a refusal usually returns; 0 before the first."""
        return self._delay or 0.0

    @property
    def refusal_window(self) -> float:
        """Seconds within which a refusal returns; 0 before the first."""
        return 0.0 if self._delay is None else self._delay + 4 * self._spread + REFUSAL_MARGIN

    def observe_refusal(self, delay: float) -> float:
        """Record the delay of a refusal; return the spread of recent delays in seconds.

        The spread is taken between consecutive refusals, because the first ones are all slow.
        """
        if self._delay is None:
            self._delay, self._spread = delay, delay / 8
        else:
            self._spread_samples.append(abs(delay - self._before))
            self._spread += 0.25 * (abs(delay - self._delay) - self._spread)
            self._delay += 0.125 * (delay - self._delay)
        self._before = delay
        return sorted(self._spread_samples)[len(self._spread_samples) // 4] if self._spread_samples else 0.0

    def until_known(self, now: float) -> float:
        """Seconds until the outcome of the oldest undecided request is known."""
        if not self.waiting:
            return 0.0
        went_out = self.waiting[0].went_out
        return self.refusal_window if went_out is None else max(0.0, went_out + self.refusal_window - now)

    def due(self, now: float) -> Iterator[SentRequest]:
        """Yield each request once its outcome is known, in the order of sending."""
        waiting = self.waiting
        refusal_window = None if self._delay is None else self.refusal_window
        while waiting:
            first = waiting[0]
            if first.outcome == "open" and (
                refusal_window is None or first.went_out is None or now - first.went_out < refusal_window
            ):
                return
            waiting.popleft()
            first.counted = True
            yield first


class RateLimiter:
    """Limits requests in flight and their rate, for all requests to one model at one address.

    Args:
        most: Maximum number of requests in flight.

    Attributes:
        window: Limits the requests in flight.
        in_flight: Requests in flight.
        rate_model: Estimate of the rate limit; None before the first refusal.
        refused_in_row: Requests refused since the last admitted one, in the order of sending.
    """

    def __init__(self, most: int) -> None:
        self.window = ConcurrencyWindow(most)
        self.in_flight = 0
        self.rate_model: RateModel | None = None
        self.refused_in_row = 0
        self._outcomes = OutcomeTracker()
        self._recent: deque[SentRequest] = deque(maxlen=REPLAYED)
        self._admitted: deque[float] = deque(maxlen=GAP_SAMPLES)
        self._answered = False
        self._last_answer = -math.inf
        self._places = 0
        self._first = math.inf
        self._last = -math.inf
        self._open_at = 0.0
        self._doubtful: SentRequest | None = None
        self._being_written: SentRequest | None = None
        self._lead_times: deque[float] = deque(maxlen=LEAD_SAMPLES)
        self._lead = 0.0
        self._due = -math.inf
        self._retry_after_from = self._retry_after_until = -math.inf
        self._test: SentRequest | None = None
        self._jitter = 0.0

    def ready(self, now: float) -> float | None:
        """Seconds until a request may be sent; None if one in flight must end first."""
        if self.in_flight >= self.window.size:
            self.window.full = True
            return None
        self._apply_outcomes(now)
        gap = FREE_GAP if self._answered else FIRST_GAP
        if self._places and self.rate_model is None and now - self._last_answer < REPLACE_SECONDS:
            gap = 0.0
        wait = max(self._last + gap, self._open_at) - now
        if wait <= 0 and self.rate_model is not None:
            unwritten = self._being_written
            wait = 0.0 if unwritten is None else MAX_WRITE_WAIT - (now - unwritten.time)
            if wait <= 0:
                wait = self._time_until_safe(self.rate_model, now + self._lead)
                if self.refused_in_row >= CLOSED_AFTER:
                    wait = max(wait, self._probe_at() - now)
                self._due = now + max(wait, 0.0)
        if wait == math.inf:
            return None
        return max(wait, MIN_WAIT) if wait > 0 else 0.0

    def sent(self, now: float) -> SentRequest:
        """Release a request. Report its end with ``ended``."""
        due = self._due if now - self._due < MAX_LATENESS else now
        sent = self._being_written = SentRequest(now + self._lead, due, self.in_flight)
        self._outcomes.waiting.append(sent)
        self._places = max(0, self._places - 1)
        self._last = now
        self._first = min(self._first, now)
        if self.rate_model is None:
            self._recent.append(sent)
        else:
            if self._is_doubtful(self.rate_model, now):
                self._doubtful = sent
            if now < self._retry_after_until:
                self._test = sent
            sent.refusal_probabilities = self.rate_model.sent(sent.time, self.in_flight)
        self.in_flight += 1
        return sent

    def went_out(self, sent: SentRequest, now: float) -> None:
        """Record when a request was written, which is later than its release if it had to connect first."""
        sent.went_out = self._last = now
        self._lead_times.append(now - sent.due)
        self._lead = sorted(self._lead_times)[len(self._lead_times) // 4]
        if self.rate_model is not None and sent.refusal_probabilities is not None:
            sent.refusal_probabilities = self.rate_model.delayed(
                sent.refusal_probabilities, sent.time, now, in_flight=sent.in_flight
            )
        if not sent.counted:
            sent.time = now
        if sent is self._being_written:
            self._being_written = None

    def ended(self, sent: SentRequest, how: Ended, now: float, *, retry_after: float | None = None) -> None:
        """Report how a request ended; one that timed out or failed counts as admitted."""
        self.in_flight -= 1
        if how == "refused":
            self._jitter = self._outcomes.observe_refusal(now - (sent.went_out or sent.time))
            if self.rate_model is None:
                self.rate_model = self._replayed_model()
            sent.outcome, sent.retry_at = "rejected", now + retry_after if retry_after else None
        else:
            self._answered = True
            sent.outcome = "admitted"
        self._apply_outcomes(now)
        if how == "answered":
            self._places = self._places + 1 if now - self._last_answer < REPLACE_SECONDS else 1
            self._last_answer = now
            self.window.answered(sent.time, now)
        elif how == "timeout":
            self.window.timed_out(sent.time, now)

    def pause_until(self, until: float) -> None:
        """Send nothing before a time."""
        self._open_at = max(self._open_at, until)

    def _replayed_model(self) -> RateModel:
        """Create the rate model and replay the requests sent so far."""
        rate_model, now = RateModel(), -math.inf
        for sent in sorted(self._recent, key=lambda each: (each.went_out is None, each.time)):
            sent.time = now = max(now, sent.time)
            sent.refusal_probabilities = rate_model.sent(now, sent.in_flight)
            if sent.counted:
                rate_model.learn(sent.refusal_probabilities, sent.time, refused=False)
        return rate_model

    def _time_until_safe(self, rate_model: RateModel, now: float) -> float:
        if self._test is not None and now < self._retry_after_until:
            return self._retry_after_until - now
        at = rate_model.free_by(now, self.in_flight, RISK, costly=self._outcomes.usual_refusal / self._gap())
        if self._doubtful is not None and not self._doubtful.counted:
            # A further request would rest on the same assumption and be refused for the same reason.
            if at > now or self._is_doubtful(rate_model, now):
                return max(MIN_WAIT, self._outcomes.until_known(now))
            return 0.0
        if at > now >= self._retry_after_until:
            probe_at = max(now, self._probe_at())
            risk, gap = rate_model.refusal_probability(probe_at, self.in_flight), self._gap()
            saved = at - probe_at if at < math.inf else UNKNOWN_WAIT * gap
            if (1 - risk) * saved > PROBE_PRICE * gap * risk:
                at = probe_at
        # The estimate changes during the wait, so compute it again before the wait is over.
        return min(at - now, max(0.5 * self._gap(), RECHECK_SHARE * (now - self._last)))

    def _probe_at(self) -> float:
        """Time of the next probe of a provider that admits nothing."""
        refused_for = self._last - (self._admitted[-1] if self._admitted else self._first)
        pause = max(SHORTEST_PROBE, PROBE_SHARE / (1 - PROBE_SHARE) * refused_for)
        return self._last + min(LONGEST_PROBE, pause)

    def _gap(self) -> float:
        """Mean interval between admitted requests, seconds."""
        admitted = self._admitted
        if len(admitted) < 2:
            return FIRST_GAP
        return max(FREE_GAP, (admitted[-1] - admitted[0]) / (len(admitted) - 1))

    def _is_doubtful(self, rate_model: RateModel, now: float) -> bool:
        """Whether a request may be refused even a moment after ``now``."""
        return rate_model.refusal_probability(now + 0.003 + 0.1 * self._gap(), self.in_flight) > DOUBT

    def _apply_outcomes(self, now: float) -> None:
        if self._being_written is not None and self._being_written.outcome != "open":
            self._being_written = None
        for sent in self._outcomes.due(now):
            refused = sent.outcome == "rejected"
            by_limit = 0.0
            if self.rate_model is not None and sent.refusal_probabilities is not None:
                self.rate_model.blur(self._jitter)
                by_limit = self.rate_model.learn(sent.refusal_probabilities, sent.time, refused=refused)
                sent.refusal_probabilities = None
            self.refused_in_row = self.refused_in_row + 1 if refused else 0
            if not refused:
                self._admitted.append(sent.time)
                self._jitter *= JITTER_DECAY
            if not refused and self._retry_after_from < sent.time:
                self._retry_after_until = -math.inf
            if sent.retry_at is not None and by_limit > 0.5 and sent.retry_at > self._retry_after_until:
                self._retry_after_from, self._retry_after_until, self._test = now, sent.retry_at, None
