"""Pace: how many requests a second a provider lets through, found from what it turns away."""

import math
from collections import deque
from typing import Literal

from trivium.metrics.judge.models.rate.verdicts import Sent, Verdicts

FIRST_GAP, FREE_GAP = 0.004, 0.001
"""Seconds between requests until the first answer, and later: a refusal is heard of before many have left."""

RANDOM, LIMIT = 0.15, 0.7
"""Shares of refusals that are borne as accidents, and that mean a limit while nothing else is known."""

ALARM = 6.0
"""Evidence (log-odds of LIMIT against RANDOM) on which nothing more is sent."""

SLOW_WEIGHED = 100
"""Requests over which a smaller share of refusals is weighed."""

SLOW_FREE, SLOW_PACED = 0.12, 0.1
"""Share of refusals, beyond the usual one, that is looked into without and with a pace."""

PROBE_SHARE = 0.35
"""Pause between probes of a closed provider, as a share of the time that it has been closed."""

SHORTEST_PROBE, LONGEST_PROBE = 0.005, 8.0

ROUND = 1.35
"""A round of a provider that opens and closes, as a multiple of the time that it was closed."""

LONG_ROUND = 25
"""Requests let through by which a pace is corrected that was right before."""

RECENT = 25
"""Requests over which the present share of refusals is smoothed."""

CLOSINGS = 2
"""Closings in a row after which the share of refusals is measured, however high."""

FIRST_LOOK = 12
"""Requests by which the share of refusals at a rate is told."""

CUT = 0.7
"""Of the rate that was let through, on trial: low enough for refusals of a limit to stop."""

TRIED = 2.5
"""Evidence (log-odds) on which a trial ends."""

FEW, LONGEST_TRIAL = 20, 30
"""Requests that tell little of a small share, and those after which a trial ends in any case."""

MOST_RANDOM = 0.9
"""Largest share of refusals that may be taken for chance."""

DOWN, MOST_DOWN = 0.02, 0.06
"""Share of the rate that a refusal takes off; twice as much when others came shortly before."""

UP = 0.0006
"""Share that a request let through adds: with DOWN, some three refusals in a hundred."""

CALM, CALM_DOUBLES, MOST_UP = 40, 6, 0.03
"""Requests without a refusal after which the rate rises faster, twice as fast every so many, and the most."""

CLIMB, CLIMBED = 0.03, 2.0
"""Share that a request let through adds until the first refusal, and how far at most."""

SINKING, SUNK = 0.8, 0.9
"""Of the rate that was found, what it may sink to by single refusals before it is found anew, and from where
on as many refusals as before mean that they strike at random."""

CLIMB_A_SECOND, MOST_A_SECOND = 0.5, 1.0
"""Share that the rate rises by in a second: limits may be counted over as long."""

IDLE = 40
"""Requests in a row that came later than they might have, after which there is no pace any more."""

SLOWEST = 0.1
"""Requests a second below which the rate is not lowered; what is slower than that is closed."""

Mode = Literal["free", "closed", "look", "trial", "held"]


class Pace:
    """The rate at which requests may be sent: none until refusals show one.

    Refusals may come of a limit, and then stop when less is sent, or strike at random, and then their share
    stays what it is. So when many are refused their share is measured at one steady rate (``look``), then at
    a lower one (``trial``). If they stopped, the rate is kept to just below the limit and followed as it
    changes (``held``); if not, they are taken for what they are and no longer heeded. When next to nothing is
    let through, single requests probe when that ends, and what was let through meanwhile tells the rate.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        """Requests a second, or None for no limit."""
        self.background = 0.0
        """Share of requests that is refused whatever the rate."""
        self._mode: Mode = "free"
        self._verdicts = Verdicts()
        self._next = self._open_at = 0.0
        self._answered = False
        self._alarm = 0.0
        self._through = self._refused = 0
        self._epoch, self._since = 0, 0.0
        self._recent = 0.0
        self._passed: deque[float] = deque(maxlen=1000)
        self._began: float | None = None
        self._closed_at = self._last_sent = self._first_refused = 0.0
        self._closings = 0
        self._looked = (0.0, 0, 0)
        self._was: float | None = None
        self._limited = False
        self._found = 0.0
        self._calm, self._climbing = 0, False
        self._cut_at, self._down = 0.0, DOWN
        self._idle = 0

    def ready(self, now: float) -> float:
        """Seconds until the next request may be sent."""
        self._settle(now)
        wait = max(0.0, self._next - now, self._open_at - now)
        if self.rate is None and self._verdicts.doubtful(max(LIMIT, 0.5 + 0.5 * self.background)):
            wait = max(wait, self._verdicts.until_known(now))
        return wait

    def sent(self, now: float) -> Sent:
        """A request leaves."""
        if self._began is None:
            self._began = now
        gap = self._gap()
        self._idle = 0 if now - self._next < 0.5 * gap else self._idle + 1
        self._next = now + gap
        if self._mode == "closed":
            self._open_at = max(self._open_at, now + self._probe(now))
        elif self._mode == "held" and self._idle > IDLE:
            self._free(now)  # something else is what holds requests back
        self._last_sent = now
        return self._verdicts.sent(now, self._epoch)

    def admitted(self, sent: Sent, now: float) -> None:
        """A request was let through, whatever came of it then."""
        self._answered = True
        sent.fate = "admitted"
        self._settle(now)

    def rejected(self, sent: Sent, now: float, *, retry_after: float | None) -> None:
        """A request was turned away."""
        self._verdicts.heard(now - sent.time)
        sent.fate = "rejected"
        if sent.judged:
            self._judge(sent, now)
        self._settle(now)
        if self._mode == "closed":
            self._open_at = max(self._open_at, now + (retry_after or 0.0), sent.time + self._probe(sent.time))

    def hold(self, until: float) -> None:
        """Nothing is sent before a time."""
        self._open_at = max(self._open_at, until)

    def _gap(self) -> float:
        if self.rate is not None:
            return 1 / self.rate
        return FREE_GAP if self._answered else FIRST_GAP

    def _probe(self, now: float) -> float:
        """Seconds to the next probe."""
        shut = PROBE_SHARE * (now - self._closed_at)
        return min(LONGEST_PROBE, max(SHORTEST_PROBE, 0.25 * self._verdicts.hearing, shut))

    def _settle(self, now: float) -> None:
        for sent in self._verdicts.due(now):
            self._judge(sent, now)

    def _judge(self, sent: Sent, now: float) -> None:
        """Take account of a request of which it is known whether it was let through, in order of sending."""
        refused = sent.fate == "rejected"
        if not refused:
            self._passed.append(sent.time)
            if self._mode == "closed" and sent.epoch == self._epoch:
                self._reopen(sent.time, now)
                return
        if sent.epoch != self._epoch or self._mode == "closed":
            return
        self._through += not refused
        if refused and not self._refused:
            self._first_refused = sent.time
        self._refused += refused
        self._recent += (refused - self._recent) / RECENT
        usual = min(0.8, max(RANDOM, 1.2 * self.background + 0.05))
        limit = max(LIMIT, 0.5 + 0.5 * usual)
        step = math.log(limit / usual) if refused else math.log((1 - limit) / (1 - usual))
        self._alarm = max(0.0, self._alarm + step)
        if self._mode == "look":
            self._look(now)
        elif self._mode == "trial":
            self._try(now)
        elif self._alarm > ALARM:
            self._was = self.rate
            self._closings = 0
            self._limited = self._limited or self.background > 0
            self._close(now)
        elif self._mode == "held":
            self._follow(sent, now, refused=refused)
        elif self._through + self._refused >= SLOW_WEIGHED:
            self._weigh_free(now)

    def _weigh_free(self, now: float) -> None:
        """Look into a share of refusals that is no accident, and forget one that is no more."""
        n = self._through + self._refused
        share = self._refused / n
        if share > 1.4 * self.background + SLOW_FREE:
            self._was, self._closings = None, 0
            self._put_to_trial(n / max(0.01, now - self._since), now)
            return
        self.background = min(self.background, 0.5 * (self.background + share))
        self._begin("free", now)

    def _close(self, now: float) -> None:
        self._closed_at = self._passed[-1] if self._passed else self._began or now
        self._closings += 1
        self._begin("closed", now)
        self._open_at = max(self._open_at, self._last_sent + self._probe(now))

    def _reopen(self, newest: float, now: float) -> None:
        """A probe was let through: what was, in a whole round from open to open, is what is allowed."""
        shut = max(1e-3, newest - self._closed_at)
        since = newest - ROUND * shut
        if self._closings == 1:
            since = min(since, self._round(newest, shut))
        mine = [each for each in self._passed if since <= each <= newest]
        over = newest - mine[0] if len(mine) > 1 else shut
        rate = max(1, len(mine) - 1) / max(over, 1e-3) / (1 - self.background)
        if self._was is not None and self._closings == 1 and self.background and shut * self._was < 4:
            rate = max(rate, self._was)  # by chance: it was not closed at all
        if self._closings > 1 and self.rate is not None and shut < 0.5:
            rate = max(rate, 0.4 * self.rate)  # so short a time tells little
        self.rate = max(SLOWEST, 0.9 * rate)
        self._open_at = 0.0
        self._next = newest + 1 / self.rate
        self._begin("look", now)

    def _round(self, newest: float, shut: float) -> float:
        """From when on what was let through tells the rate, at a first closing."""
        if self._was is not None and len(self._passed) > LONG_ROUND:
            return self._passed[-LONG_ROUND]  # a pace that was held was nearly right
        full = [each for each in self._passed if each >= self._first_refused]
        if len(full) >= 4:
            return full[0]
        # Closed for long after so many: they are counted over a second or more.
        return newest - min(1.1, newest - (self._began or 0.0)) if shut > 0.2 else newest

    def _look(self, now: float) -> None:
        """Measure the share of refusals at a steady rate."""
        n = self._through + self._refused
        if n >= 6 and self._refused > 0.8 * n and self._closings < CLOSINGS:
            self._close(now)
        elif n >= FIRST_LOOK:
            chance = 1.5 * math.sqrt(self.background * (1 - self.background) / n)
            if self._refused / n > self.background + 0.1 + chance:
                self._put_to_trial(self.rate or SLOWEST, now)
            else:
                self._keep(self.rate or SLOWEST, now)

    def _put_to_trial(self, rate: float, now: float) -> None:
        """Lower the rate so far that the refusals of a limit would stop."""
        self._looked = (rate, self._through, self._refused)
        share = self._refused / (self._through + self._refused)
        self.rate = max(SLOWEST, CUT * (1 - share) * rate)
        self._begin("trial", now)

    def _try(self, now: float) -> None:
        """Decide whether refusals have stopped, as they do at a limit, or are as many as before."""
        rate, through, refused = self._looked
        share = refused / (through + refused)
        beyond = max(0.1, share - self.background)
        n = self._through + self._refused
        stopped, same = self.background + 0.35 * beyond, min(0.98, self.background + 0.9 * beyond)
        odds = self._refused * math.log(same / stopped) + self._through * math.log((1 - same) / (1 - stopped))
        if n < 5 or (abs(odds) < TRIED and n < LONGEST_TRIAL):
            return
        found = self._refused / n
        if abs(odds) < TRIED:  # neither: they became fewer or they did not
            odds = found - (share - 1.5 * math.sqrt(share * (1 - share) / n))
        if odds < 0:
            few = n < FEW and self._refused < 3
            self.background = min(self.background, found + 0.1) if few else found
            self._keep(0.95 * (1 - share) / (1 - found) * rate, now)
            return
        n += through + refused
        share = self.background = (refused + self._refused) / n
        if self._limited:
            self._keep(self._was or rate, now)  # there is a limit besides
        else:
            # Rather too much than too little: it sinks again by itself, and a second trial takes time.
            self.background = min(MOST_RANDOM, share + math.sqrt(share * (1 - share) / n))
            self._free(now)

    def _keep(self, rate: float, now: float) -> None:
        self.rate = self._found = max(SLOWEST, rate)
        self._climbing, self._calm, self._cut_at, self._idle = True, 0, now, 0
        self._begin("held", now)

    def _follow(self, sent: Sent, now: float, *, refused: bool) -> None:
        """Keep to just below the limit: a refusal takes off a little, what is let through adds less."""
        assert self.rate is not None  # noqa: S101 - a held pace has a rate
        self._climbing = self._climbing and self.rate < CLIMBED * self._found
        up = CLIMB if self._climbing else min(MOST_UP, UP * 2 ** max(0.0, (self._calm - CALM) / CALM_DOUBLES))
        up = min(up, (CLIMB_A_SECOND if self._climbing else MOST_A_SECOND) / self.rate)
        if not refused:
            if self._idle < 5:
                self._calm += 1
                self.rate *= 1 + up
            return
        # Of those that would be refused anyway nothing follows.
        chance = 1.5 * math.sqrt(self.background * (1 - self.background) / (2 * RECENT))
        weight = 1.0
        if self.background:
            weight = min(1.0, max(0.0, 2 * (self._recent - self.background - chance) / self._recent))
        if weight and sent.time > self._cut_at:
            self._cut_at = now
            self._down = min(MOST_DOWN, 2 * self._down) if self._calm < 8 else DOWN
            lower = self.rate * (1 - self._down * weight)
            if up > 3 * UP and weight > 0.5:
                # It had been rising fast: what was let through on the way is part of the truth.
                lower = min(lower, math.sqrt(self.rate * self._lately()))
            self.rate = max(SLOWEST, lower)
            if weight > 0.5 and self._calm and now - sent.time < 0.2 / self.rate:
                # The next place is nearly free: that it was not yet is why this one was refused.
                self._next = min(self._next, now + 0.3 / self.rate)
            self._calm, self._climbing = int(self._calm * (1 - weight)), False
        n = self._through + self._refused
        many = self._refused / n > 1.3 * self.background + SLOW_PACED
        if many and (n >= SLOW_WEIGHED or (self.rate < SINKING * self._found and n >= 30)):
            self._was, self._closings = self._found, 0
            self._put_to_trial(self.rate, now)
        elif n >= SLOW_WEIGHED:
            share = self._refused / n
            if 0 < self.background < share and self.rate < SUNK * self._found:
                self.background, self.rate = share, self._found  # to send less has not helped
            else:
                self.background = min(self.background, share + 0.5 * math.sqrt(share * (1 - share) / n))
            self._found = self.rate
            self._through = self._refused = 0

    def _lately(self) -> float:
        """Requests a second that would have to be sent for as many to be let through as were lately."""
        mine = list(self._passed)[-LONG_ROUND:]
        over = mine[-1] - mine[0] if mine else 0.0
        return (len(mine) - 1) / over / (1 - self.background) if over else math.inf

    def _begin(self, mode: Mode, now: float) -> None:
        self._mode, self._since = mode, now
        self._epoch += 1
        self._alarm = 0.0
        self._through = self._refused = 0

    def _free(self, now: float) -> None:
        self.rate = None
        self._idle = 0
        self._begin("free", now)
