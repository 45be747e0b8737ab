"""When the next request may go; in-flight cap."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from trivium.metrics.judge.client.concurrency import ConcurrencyWindow, SentRequest
from trivium.metrics.judge.client.rate_headers import Quota, Unit, remaining
from trivium.metrics.judge.client.rate_model import RateModel

SPREAD_SAMPLES = 7
"""Differences of which one of the smaller counts: busy moments make others large."""

MARGIN = 0.005
"""Seconds on top of what a refusal usually takes."""


class OutcomeTracker:
    """Requests until it is known what became of them.

    Refusals are heard of before answers, so that to take each as it comes would make refusals seem frequent.
    A request that was not refused in the time that refusals take counts as let through.
    """

    def __init__(self) -> None:
        self._waiting: deque[SentRequest] = deque()
        self._took: float | None = None
        self._spread = 0.0
        self._before = 0.0
        self._spread_samples: deque[float] = deque(maxlen=SPREAD_SAMPLES)

    @property
    def usual_refusal(self) -> float:
        """Seconds that a refusal usually takes to be heard of; 0 while none was."""
        return self._took or 0.0

    @property
    def refusal_window(self) -> float:
        """Seconds within which a refusal is heard of; 0 while none was."""
        return 0.0 if self._took is None else self._took + 4 * self._spread + MARGIN

    def sent(self, sent: SentRequest) -> None:
        """A request leaves."""
        self._waiting.append(sent)

    def observe_refusal(self, took: float) -> float:
        """A refusal took so many seconds; by how many those of late differ.

        Two that follow one another differ by chance alone, while all those of the first moments, when much is
        done at once, are slow.
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
        """Seconds until it is known of the first that is not yet judged."""
        if not self._waiting:
            return 0.0
        went_out = self._waiting[0].went_out
        return self.refusal_window if went_out is None else max(0.0, went_out + self.refusal_window - now)

    def due(self, now: float) -> Iterator[SentRequest]:
        """Those of which it is known by now, once each."""
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
    """Window and pace of one model at one address, for every request to it.

    Args:
        most: Requests in flight that are allowed; None for MOST_IN_FLIGHT.
        timeout: Seconds that a request may take.
    """

    def __init__(self, *, most: int | None = None, timeout: float = 60) -> None:
        self.window = ConcurrencyWindow(most or MAX_IN_FLIGHT, timeout)
        self.pacer = Pacer()
        self._tokens = 0.0
        self.quotas: dict[Unit, Quota] = {}
        self.in_flight = 0

    def ready(self, now: float) -> float | None:
        """Seconds until a request may be sent; None when one must come back first."""
        if self.in_flight >= self.window.size:
            self.window.filled()
            return None
        wait = max(
            [self.pacer.ready(now, self.in_flight), *(each.ready(now) for each in self.quotas.values())]
        )
        return None if wait == math.inf else wait

    def sent(self, now: float) -> SentRequest:
        """A request is let go; it must be told of by one of the others when it is over."""
        sent = self.pacer.sent(now, self.in_flight)
        self.in_flight += 1
        for quota in self.quotas.values():
            quota.sent(sent, now)
        return sent

    def observe_headers(
        self, headers: Mapping[str, str], sent: SentRequest, now: float, *, tokens: int
    ) -> None:
        """The headers of its answer; before it is told of by one of the others.

        Args:
            headers: By names in small letters.
            sent: The request.
            now: Seconds.
            tokens: That it took; 0 where that is not known.
        """
        for unit, reported in remaining(headers).items():
            if unit == "tokens":
                if not tokens:
                    continue
                self._tokens += 0.1 * (tokens - self._tokens) if self._tokens else tokens
            cost = 1.0 if unit == "requests" else self._tokens
            self.quotas.setdefault(unit, Quota()).heard(reported, sent, now, cost=cost)

    def went_out(self, sent: SentRequest, now: float) -> None:
        """It goes out, which may take a while: to be written, to be connected."""
        self.pacer.went_out(sent, now)

    def answered(self, sent: SentRequest, now: float) -> None:
        """It was answered."""
        self._ended(sent, refused=False)
        self.pacer.admitted(sent, now)
        self.window.answered(sent.time, now)

    def rejected(self, sent: SentRequest, now: float, *, retry_after: float | None) -> None:
        """It was turned away, as one too many."""
        self._ended(sent, refused=True)
        self.pacer.rejected(sent, now, retry_after=retry_after)

    def failed(self, sent: SentRequest, now: float) -> None:
        """It was let through and came to nothing, or was given up."""
        self._ended(sent, refused=False)
        self.pacer.admitted(sent, now)

    def timed_out(self, sent: SentRequest, now: float) -> None:
        """It was let through, as far as can be told, and not answered within its time."""
        self._ended(sent, refused=False)
        self.pacer.admitted(sent, now)
        self.window.timed_out(sent.time, now)

    def _ended(self, sent: SentRequest, *, refused: bool) -> None:
        self.in_flight -= 1
        for quota in self.quotas.values():
            quota.ended(sent, refused=refused)


FIRST_GAP, FREE_GAP = 0.002, 0.001
"""Seconds between requests until the first answer, and later: a refusal is heard of before many have left."""

RISK = 0.35
"""Chance of a refusal by the limit that is taken."""

DOUBTS = 0.2
"""Such a chance, even a moment later, above which nothing is sent until it is known of the last such."""

PROBE_SHARE = 0.3
"""Pause between probes of a provider that refuses all, as a share of the time that it has done so."""

SHORTEST_PROBE, LONGEST_PROBE = 0.004, 2.0

CLOSED_AFTER = 20
"""Refusals in a row, in the order of sending, after which nothing is let through, whatever is believed."""

PROBE_PRICE = 2.0
"""What a refused probe costs, in times between requests that are let through."""

UNKNOWN_WAIT = 10.0
"""Wait, in such times, where it is not known how long until a request comes back."""

AVERAGED = 100
"""Requests let through by which the time between them is told."""

REPLAYED = 300
"""Requests before the first refusal from which beliefs begin."""

STEADIER = 0.97
"""Of the seconds that requests take more or less than usual, what is left with each that is let through: only
refusals tell them, which may be few, and those of the first moments are slow."""

AGAIN = 0.25
"""Of the time since the last request, the part after which what to do is asked again."""

LEADS = 20
"""Requests of late by which it is told how long they take to go out once it is time, one in four less."""

LATE = 0.005
"""Seconds from when it was time after which something else held a request back."""

LEAVING = 0.03
"""Seconds that are waited for one to go out before it is decided about the next."""

TICK = 0.0001
"""Seconds; shorter waits are rounded up to it."""


class Pacer:
    """Sends while nothing is refused; from the first refusal on by what the limit is believed to be.

    A request is sent when the chance is small that a limit refuses it, however likely it is to be refused at
    random: of that nothing follows. Where the limit may have changed, one request at a time finds it out;
    so it does, at ever longer intervals, where nothing is let through.

    Attributes:
        rate_model: What the limit is believed to be, from the first refusal on.
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
        """Seconds until the next request may be sent; infinite when one must come back first."""
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
        """A request is let go."""
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
        """It goes out."""
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
        """A request was let through, whatever came of it then."""
        self._answered = True
        sent.outcome = "admitted"
        self._apply_outcomes(now)

    def rejected(self, sent: SentRequest, now: float, *, retry_after: float | None) -> None:
        """A request was turned away."""
        self._jitter = self._outcomes.observe_refusal(now - (sent.went_out or sent.time))
        if self.rate_model is None:
            self.rate_model = self._begun(
                sorted(self._recent, key=lambda each: (each.went_out is None, each.time))
            )
        sent.outcome, sent.retry_at = "rejected", now + retry_after if retry_after else None
        self._apply_outcomes(now)

    def pause_until(self, until: float) -> None:
        """Nothing is sent before a time."""
        self._open_at = max(self._open_at, until)

    def _begun(self, recent: Iterable[SentRequest]) -> RateModel:
        """Beliefs after what has been sent so far."""
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
        # What is believed of a later time is asked again before it.
        return min(at - now, max(0.5 * self._gap(), AGAIN * (now - self._last)))

    def _probe_at(self) -> float:
        """When a provider that lets nothing through is asked again."""
        shut = self._last - (self._admitted[-1] if self._admitted else self._first)
        pause = max(SHORTEST_PROBE, PROBE_SHARE / (1 - PROBE_SHARE) * shut)
        return self._last + min(LONGEST_PROBE, pause)

    def _gap(self) -> float:
        """Seconds between requests that are let through."""
        passed = self._admitted
        return max(FREE_GAP, (passed[-1] - passed[0]) / (len(passed) - 1)) if len(passed) > 1 else FIRST_GAP

    def _moment(self) -> float:
        return 0.003 + 0.1 * self._gap()

    def _retry_after_holds(self, now: float) -> bool:
        """Whether the provider has asked to be left alone for now, and has been right about it so far."""
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
