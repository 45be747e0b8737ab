"""When the next request may go; in-flight cap."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from trivium.metrics.judge.client.concurrency import Sent, Window
from trivium.metrics.judge.client.rate_headers import Quota, Unit, remaining
from trivium.metrics.judge.client.rate_model import Beliefs

OFFS = 7
"""Differences of which one of the smaller counts: busy moments make others large."""

MARGIN = 0.005
"""Seconds on top of what a refusal usually takes."""


class Verdicts:
    """Requests until it is known what became of them.

    Refusals are heard of before answers, so that to take each as it comes would make refusals seem frequent.
    A request that was not refused in the time that refusals take counts as let through.
    """

    def __init__(self) -> None:
        self._waiting: deque[Sent] = deque()
        self._took: float | None = None
        self._spread = 0.0
        self._before = 0.0
        self._offs: deque[float] = deque(maxlen=OFFS)

    @property
    def usual(self) -> float:
        """Seconds that a refusal usually takes to be heard of; 0 while none was."""
        return self._took or 0.0

    @property
    def hearing(self) -> float:
        """Seconds within which a refusal is heard of; 0 while none was."""
        return 0.0 if self._took is None else self._took + 4 * self._spread + MARGIN

    def sent(self, sent: Sent) -> None:
        """A request leaves."""
        self._waiting.append(sent)

    def heard(self, took: float) -> float:
        """A refusal took so many seconds; by how many those of late differ.

        Two that follow one another differ by chance alone, while all those of the first moments, when much is
        done at once, are slow.
        """
        if self._took is None:
            self._took, self._spread = took, took / 8
        else:
            self._offs.append(abs(took - self._before))
            self._spread += 0.25 * (abs(took - self._took) - self._spread)
            self._took += 0.125 * (took - self._took)
        self._before = took
        return sorted(self._offs)[len(self._offs) // 4] if self._offs else 0.0

    def until_known(self, now: float) -> float:
        """Seconds until it is known of the first that is not yet judged."""
        if not self._waiting:
            return 0.0
        left = self._waiting[0].left
        return self.hearing if left is None else max(0.0, left + self.hearing - now)

    def due(self, now: float) -> Iterator[Sent]:
        """Those of which it is known by now, once each."""
        waiting = self._waiting
        hearing = None if self._took is None else self.hearing
        while waiting:
            first = waiting[0]
            if first.fate == "open" and (hearing is None or first.left is None or now - first.left < hearing):
                return
            waiting.popleft()
            first.judged = True
            yield first


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


FIRST_GAP, FREE_GAP = 0.002, 0.001
"""Seconds between requests until the first answer, and later: a refusal is heard of before many have left."""

RISK = 0.35
"""Chance of a refusal by the limit that is taken."""

DOUBTS = 0.2
"""Such a chance, even a moment later, above which nothing is sent until it is known of the last such."""

PROBE_SHARE = 0.3
"""Pause between probes of a provider that refuses all, as a share of the time that it has done so."""

SHORTEST_PROBE, LONGEST_PROBE = 0.004, 2.0

SHUT = 20
"""Refusals in a row, in the order of sending, after which nothing is let through, whatever is believed."""

PRICE = 2.0
"""What a refused probe costs, in times between requests that are let through."""

LONG = 10.0
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


class Pace:
    """Sends while nothing is refused; from the first refusal on by what the limit is believed to be.

    A request is sent when the chance is small that a limit refuses it, however likely it is to be refused at
    random: of that nothing follows. Where the limit may have changed, one request at a time finds it out;
    so it does, at ever longer intervals, where nothing is let through.

    Attributes:
        beliefs: What the limit is believed to be, from the first refusal on.
        in_row: Requests that were refused since the last that was let through, in the order of sending.
    """

    def __init__(self) -> None:
        self.beliefs: Beliefs | None = None
        self.in_row = 0
        self._verdicts = Verdicts()
        self._recent: deque[Sent] = deque(maxlen=REPLAYED)
        self._passed: deque[float] = deque(maxlen=AVERAGED)
        self._answered = False
        self._first = math.inf
        self._last = -math.inf
        self._open_at = 0.0
        self._doubtful: Sent | None = None
        self._leaving: Sent | None = None
        self._leads: deque[float] = deque(maxlen=LEADS)
        self._lead = 0.0
        self._due = -math.inf
        self._told_at = self._told_until = -math.inf
        self._told_right = self._told_wrong = 0
        self._test: Sent | None = None
        self._jitter = 0.0

    def ready(self, now: float, in_flight: int) -> float:
        """Seconds until the next request may be sent; infinite when one must come back first."""
        self._settle(now)
        wait = max(self._last + (FREE_GAP if self._answered else FIRST_GAP), self._open_at) - now
        if wait <= 0 and self.beliefs is not None:
            wait = LEAVING - (now - self._leaving.time) if self._leaving is not None else 0.0
            if wait <= 0:
                wait = self._weigh(self.beliefs, now + self._lead, in_flight)
                if self.in_row >= SHUT:
                    wait = max(wait, self._probe_at() - now)
                self._due = now + max(wait, 0.0)
        return max(wait, TICK) if wait > 0 else 0.0

    def sent(self, now: float, in_flight: int) -> Sent:
        """A request is let go."""
        sent = self._leaving = Sent(now + self._lead, in_flight)
        sent.due = self._due if now - self._due < LATE else now
        self._verdicts.sent(sent)
        self._last = now
        self._first = min(self._first, now)
        if self.beliefs is None:
            self._recent.append(sent)
            return sent
        if self.beliefs.refusing(now + self._moment(), in_flight) > DOUBTS:
            self._doubtful = sent
        if self._told(now):
            self._test = sent
        sent.blocked = self.beliefs.sent(sent.time, in_flight)
        return sent

    def left(self, sent: Sent, now: float) -> None:
        """It goes out."""
        sent.left = self._last = now
        self._leads.append(now - sent.due)
        self._lead = sorted(self._leads)[len(self._leads) // 4]
        if self.beliefs is not None and sent.blocked is not None:
            sent.blocked = self.beliefs.delayed(sent.blocked, sent.time, now, in_flight=sent.in_flight)
        if not sent.judged:
            sent.time = now
        if sent is self._leaving:
            self._leaving = None

    def admitted(self, sent: Sent, now: float) -> None:
        """A request was let through, whatever came of it then."""
        self._answered = True
        sent.fate = "admitted"
        self._settle(now)

    def rejected(self, sent: Sent, now: float, *, retry_after: float | None) -> None:
        """A request was turned away."""
        self._jitter = self._verdicts.heard(now - (sent.left or sent.time))
        if self.beliefs is None:
            self.beliefs = self._begun(sorted(self._recent, key=lambda each: (each.left is None, each.time)))
        sent.fate, sent.told = "rejected", now + retry_after if retry_after else None
        self._settle(now)

    def hold(self, until: float) -> None:
        """Nothing is sent before a time."""
        self._open_at = max(self._open_at, until)

    def _begun(self, recent: Iterable[Sent]) -> Beliefs:
        """Beliefs after what has been sent so far."""
        beliefs = Beliefs()
        now = -math.inf
        for sent in recent:
            sent.time = now = max(now, sent.time)
            sent.blocked = beliefs.sent(now, sent.in_flight)
            if sent.judged:
                beliefs.learn(sent.blocked, sent.time, refused=False)
        return beliefs

    def _weigh(self, beliefs: Beliefs, now: float, in_flight: int) -> float:
        if self._test is not None and self._told(now):
            return self._told_until - now
        at = beliefs.free_by(now, in_flight, RISK, costly=self._verdicts.usual / self._gap())
        if self._doubtful is not None and not self._doubtful.judged:
            # To send more on the same assumption could only be refused for the same reason.
            if at > now or beliefs.refusing(now + self._moment(), in_flight) > DOUBTS:
                return max(TICK, self._verdicts.until_known(now))
            return 0.0
        if at > now and not self._told(now):
            probe_at = max(now, self._probe_at())
            risk, gap = beliefs.refusing(probe_at, in_flight), self._gap()
            saved = at - probe_at if at < math.inf else LONG * gap
            if (1 - risk) * saved > PRICE * gap * risk:
                at = probe_at
        # What is believed of a later time is asked again before it.
        return min(at - now, max(0.5 * self._gap(), AGAIN * (now - self._last)))

    def _probe_at(self) -> float:
        """When a provider that lets nothing through is asked again."""
        shut = self._last - (self._passed[-1] if self._passed else self._first)
        pause = max(SHORTEST_PROBE, PROBE_SHARE / (1 - PROBE_SHARE) * shut)
        return self._last + min(LONGEST_PROBE, pause)

    def _gap(self) -> float:
        """Seconds between requests that are let through."""
        passed = self._passed
        return max(FREE_GAP, (passed[-1] - passed[0]) / (len(passed) - 1)) if len(passed) > 1 else FIRST_GAP

    def _moment(self) -> float:
        return 0.003 + 0.1 * self._gap()

    def _told(self, now: float) -> bool:
        """Whether the provider has asked to be left alone for now, and has been right about it so far."""
        return now < self._told_until and self._told_right >= self._told_wrong

    def _settle(self, now: float) -> None:
        if self._leaving is not None and self._leaving.fate != "open":
            self._leaving = None
        for sent in self._verdicts.due(now):
            refused = sent.fate == "rejected"
            by_limit = 0.0
            if self.beliefs is not None and sent.blocked is not None:
                self.beliefs.blur(self._jitter)
                by_limit = self.beliefs.learn(sent.blocked, sent.time, refused=refused)
                sent.blocked = None
            self.in_row = self.in_row + 1 if refused else 0
            if not refused:
                self._passed.append(sent.time)
                self._jitter *= STEADIER  # as it all goes well
            if self._told_at < sent.time < self._told_until:
                self._told_right += refused
                self._told_wrong += not refused
                if not refused:
                    self._told_until = -math.inf
            if sent.told is not None and by_limit > 0.5 and sent.told > self._told_until:
                self._told_at, self._told_until, self._test = now, sent.told, None
