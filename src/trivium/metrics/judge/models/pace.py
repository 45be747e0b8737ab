"""Pace: how many requests a second a provider lets through, found from what it turns away."""

import math
from collections import deque
from typing import Literal

Fate = Literal["open", "admitted", "rejected"]


class Sent:
    """A request under way: when it was sent, and whether it was turned away for being one too many."""

    __slots__ = ("epoch", "fate", "time")

    def __init__(self, time: float, epoch: int) -> None:
        self.time = time
        self.epoch = epoch
        self.fate: Fate = "open"


FIRST_GAPS = (0.01, 0.01, 0.01, 0.01, 0.004)
"""Seconds between the first requests, while nothing is known: enough to hear an early refusal."""

TOLERATED = 0.03
"""Share of refusals that nothing is done about."""

CLOSED_AFTER = 5
"""Refusals one after another, in the order of sending, that mean that nothing is let through now."""

CHANCE = 1e-4
"""How likely as many refusals in a row may be where they strike at random."""

PROBE_SHARE = 0.35
"""Pause between probes of a closed provider, as a share of the time that it has been closed."""

ROUND = 1.35
"""A round of a provider that opens and closes, as a multiple of the time that it was closed."""

SHORTEST_PROBE, LONGEST_PROBE = 0.05, 8.0
CUT = 0.75
"""Of the rate that was let through, on trial: low enough for a limit to show as refusals that stop."""

STEP_DOWN = 0.015
"""Share of the rate that one refusal takes off, near the limit."""

STEP_UP = 0.0005
"""Share that one request let through adds; more, the longer nothing is refused."""

CLIMB = 0.012
"""Share that one request let through adds between a trial and the first refusal after it."""

CALM = 28.0
"""Requests without a refusal after which the rate rises twice as fast."""

TRIAL = 50
"""Requests after which a trial ends, if few are refused."""

WEIGHED = 20
"""Requests by which the share of refusals at a rate is told."""

MOST_RANDOM = 0.6
"""Largest share of refusals that may be taken for chance."""

SINKING = 0.7
"""Of the rate that was held, what it may sink to by single refusals before it is found anew."""

SLOWEST = 0.1
"""Requests a second below which the rate is not lowered; what is slower than that is closed."""


class Pace:
    """The rate at which requests may be sent: none until refusals show one.

    Refusals may come of a limit, and then stop when less is sent, or strike at random, and then their share
    stays what it is. On many refusals a lower rate is tried, a part of what was let through, and what
    follows decides between the two: a limit is approached from below and followed as it changes, a random
    share is taken for what it is and no longer heeded.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        """Requests a second, or None for no limit."""
        self.background = 0.0
        """Share of requests that is refused whatever the rate."""
        self._mode: Literal["free", "weighing", "trial", "held"] = "free"
        self._next = 0.0
        self._count = 0
        self._answered = False
        self._alarm = 0.0
        self._epoch = 0
        self._log: deque[Sent] = deque(maxlen=1000)
        self._weighed = 0.0
        self._held_at = 0.0
        self._was_free = True
        self._climbing = False
        self._calm = 0
        self._idle = 0
        self._hearing: float | None = None
        self._last_admitted = 0.0
        self._refused_at = 0.0
        self._closed = False
        self._closed_at = 0.0
        self._open_at = 0.0

    def ready(self, now: float) -> float:
        """Seconds until the next request may be sent."""
        return max(0.0, self._next - now, self._open_at - now)

    def sent(self, now: float) -> Sent:
        """A request leaves."""
        if self._count == 0:
            self._last_admitted = now
        gap = self._gap()
        self._idle = 0 if now - self._next < 0.5 * gap else self._idle + 1
        if self._mode == "held" and self._idle > 60:
            self._free()  # something else is what holds requests back
        self._next = now + gap
        if self._closed:
            self._open_at = now + self._probe(now)
        self._count += 1
        sent = Sent(now, self._epoch)
        self._log.append(sent)
        return sent

    def admitted(self, sent: Sent, now: float) -> None:
        """A request was let through, whatever came of it then."""
        sent.fate = "admitted"
        self._answered = True
        if sent.time >= self._last_admitted:
            self._last_admitted = sent.time
            if self._closed:
                self._reopen(now)
        if sent.epoch != self._epoch:
            return
        usual, high = self._shares()
        self._alarm = max(0.0, self._alarm + math.log((1 - high) / (1 - usual)))
        if self._mode == "weighing":
            self._weigh(now)
        elif self._mode == "trial":
            self._try(now)
        elif self.rate is not None and self._idle < 5:
            self._calm += 1
            step = CLIMB if self._climbing else STEP_UP * (1 + (self._calm / CALM) ** 2)
            self.rate *= 1 + min(step, 0.1) + STEP_DOWN * self.background

    def rejected(self, sent: Sent, now: float, *, retry_after: float | None) -> None:
        """A request was turned away."""
        sent.fate = "rejected"
        took = now - sent.time
        self._hearing = took if self._hearing is None else self._hearing + 0.3 * (took - self._hearing)
        if self._closed or self._in_a_row(now) >= self._closed_after():
            if not self._closed:
                self._closed, self._closed_at = True, self._last_admitted
            self._open_at = max(self._open_at, now + max(self._probe(now), retry_after or 0.0))
        if self._closed or sent.epoch != self._epoch:
            return
        usual, high = self._shares()
        self._alarm += math.log(high / usual)
        if self._mode in ("weighing", "trial"):
            (self._weigh if self._mode == "weighing" else self._try)(now)
            return
        if self.rate is not None and sent.time > self._refused_at:
            self._refused_at = now
            self.rate *= 1 - STEP_DOWN
            self._calm, self._climbing = 0, False
        sinking = self._mode == "held" and self.rate is not None and self.rate < SINKING * self._held_at
        if sinking or self._alarm > (6.0 if self._mode == "held" else 4.0):
            self._doubt(now)

    def hold(self, until: float) -> None:
        """Nothing is sent before a time."""
        self._open_at = max(self._open_at, until)

    def _gap(self) -> float:
        if self.rate is not None:
            return 1 / self.rate
        if self._answered:
            return 0.0
        return FIRST_GAPS[min(self._count, len(FIRST_GAPS) - 1)]

    def _probe(self, now: float) -> float:
        return min(LONGEST_PROBE, max(SHORTEST_PROBE, PROBE_SHARE * (now - self._last_admitted)))

    def _heard(self, now: float) -> float:
        """The time until which it is known of every request sent whether it was refused."""
        return now - 2 * (self._hearing or 0.0) - 0.02

    def _in_a_row(self, now: float) -> int:
        """The latest requests that were refused one after another; keeps the last that was not in mind."""
        row, heard = 0, self._heard(now)
        for each in reversed(self._log):
            if each.time >= heard:
                continue
            if each.fate != "rejected":
                self._last_admitted = max(self._last_admitted, each.time)
                break
            row += 1
        return row

    def _closed_after(self) -> int:
        by_chance = math.log(CHANCE) / math.log(self.background) if self.background else 0
        return max(CLOSED_AFTER, math.ceil(by_chance))

    def _shares(self) -> tuple[float, float]:
        """Shares of refusals that are usual, and that are not."""
        usual = min(0.8, max(TOLERATED, 1.3 * self.background))
        return usual, min(0.95, max(0.3, 3 * usual))

    def _doubt(self, now: float) -> None:
        """Too many are refused: see first how many, at a rate that does not change."""
        self._was_free = self._mode == "free"
        mine = [each.time for each in self._log if each.epoch == self._epoch]
        sending = len(mine) / max(0.01, now - mine[0])
        self._weigh_at(min(sending, self.rate or math.inf), now)

    def _weigh_at(self, rate: float, now: float) -> None:
        self.rate = max(rate, SLOWEST)
        self._mode = "weighing"
        self._begin(now)

    def _weigh(self, now: float) -> None:
        """Once the share of refusals is known, put a rate to the trial at which a limit would not show."""
        through, refused = self._measured(now)
        n = through + refused
        if n < 8 or self.rate is None:
            return
        share = refused / n
        if share > MOST_RANDOM and self.rate > SLOWEST:
            self._was_free = False
            self._weigh_at(self.rate * max(0.25, 1 - share), now)
        elif n >= WEIGHED:
            if share <= self._shares()[0] + 0.05:
                # An accident; or a share at random that is a little larger than it had seemed.
                self.background = max(self.background, share if self.background else 0.0)
                if self._was_free:
                    self._free()
                else:
                    self._hold_rate(now)
                    self._climbing = True
                return
            self._weighed = share
            self.rate = max(SLOWEST, CUT * (1 - share) * self.rate)
            self._mode = "trial"
            self._begin(now)

    def _try(self, now: float) -> None:
        """Decide whether refusals have stopped, as they do at a limit, or are as many as before."""
        through, refused = self._measured(now)
        n = through + refused
        if n < min(TRIAL, max(15, 4 / self._weighed)):
            return
        if refused / n > self._weighed / 2:
            self.background = min(MOST_RANDOM, (WEIGHED * self._weighed + refused) / (WEIGHED + n))
            self._free()
        else:
            self._hold_rate(now)
            self._climbing = True

    def _measured(self, now: float) -> tuple[int, int]:
        """Requests let through and refused since the rate was last changed.

        A request that has not been refused in twice the usual time has been let through. Younger ones are
        left out whatever is known of them, for refusals are heard of before answers.
        """
        heard = self._heard(now)
        known = [each for each in self._log if each.epoch == self._epoch and each.time < heard]
        refused = sum(each.fate == "rejected" for each in known)
        return len(known) - refused, refused

    def _reopen(self, now: float) -> None:
        """Requests are let through again: those of a whole round, from open to open, are what is allowed."""
        self._closed, self._open_at = False, 0.0
        newest = self._last_admitted
        shut = newest - self._closed_at
        if shut > 0.3:
            since = newest - ROUND * shut
            mine = [each for each in self._log if since <= each.time <= newest and each.fate != "rejected"]
            self.rate = 0.95 * max(1, len(mine) - 1) / (newest - mine[0].time if len(mine) > 1 else shut)
            self._hold_rate(now)
            self._climbing = True

    def _hold_rate(self, now: float) -> None:
        self._mode, self._climbing = "held", False
        self._held_at = self.rate or 0.0
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._epoch += 1
        self._alarm = 0.0
        self._calm = 0
        self._refused_at = now

    def _free(self) -> None:
        self.rate, self._mode = None, "free"
        self._idle = 0
        self._epoch += 1
        self._alarm = 0.0
