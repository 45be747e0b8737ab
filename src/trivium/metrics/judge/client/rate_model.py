"""Bayesian rate-limit estimator: weights a grid of possible limits by which requests were refused."""

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

RATES = np.geomspace(0.1, 1000, 236)
"""Refill rates of token buckets, requests a second, in steps of 4 %."""

BURSTS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 300.0)
"""Capacities of token buckets, requests."""

SPANS = (1.0, 10.0, 60.0)
"""Lengths of counting windows, seconds."""

COUNTS = np.unique(np.geomspace(1, 3000, 200).round())
"""Requests that a window admits."""

AT_ONCE = np.arange(1.0, 101)
"""Concurrency limits, requests in flight."""

NONE, BUCKET, SLIDING, FIXED, CROWD = 0.8, 0.1, 0.03, 0.03, 0.04
"""Prior probability of each kind of limit."""

SURPRISE = 0.025
"""Probability that a limit decides otherwise than modelled: no provider fits the model exactly."""

CHANGE, CHANGE_SECONDS, CHANGE_SURELY = 0.015, 2.5, 30.0
"""Transition prior: probability that the limit has changed by the next request. It rises to CHANGE within
CHANGE_SECONDS, and further over CHANGE_SURELY seconds, so that a low estimated rate does not persist."""

BACK, LASTING = 0.25, 300.0
"""Transition prior: probability that the limit returns to an earlier one, and requests averaged for those."""

FASTER, TWICE = 0.7, 18
"""Transition prior: probability that the bucket rate has increased; TWICE grid steps double it. This recovers
from an estimate that is too low; one that is too high is refuted at once."""

YOUNG = 0.1
"""Extra probability of change after the first outcome; divided by n after the n-th."""

CHANCE, SEEN = 0.05, 6.0
"""Prior share of random refusals, and its weight in requests."""

REMEMBERED = 150.0
"""Most requests over which that share is counted."""

JITTER, COARSE = 0.0004, 0.01
"""Uncertainty of the time at which a slot becomes free: seconds, and share of a bucket's interval."""

EDGE, EDGE_WHERE_SLOW = 1.85, 2.5
"""Safety margin in multiples of that uncertainty: if a refusal returns at once, and if it takes as long as
the interval between requests."""

SLIGHT = 1e-4
"""Limits with less weight are ignored when the next sending time is chosen."""


class RateModel:
    """Posterior weights of many limits: none, token buckets, sliding and fixed windows, concurrency limits.

    Each hypothetical limit predicts the probability that a request is refused, and keeps its own account of
    the slots taken. Besides, requests are refused at random with a rate that is estimated for each limit. The
    weights follow by Bayes' rule. Because a limit may change, a small part of the weights returns with every
    request to the prior, to earlier weights and to faster buckets.
    """

    def __init__(self) -> None:
        rate, burst = (each.ravel() for each in np.meshgrid(RATES, BURSTS))
        count, span = (each.ravel() for each in np.meshgrid(COUNTS, SPANS))
        self._rate, self._burst = rate, burst
        self._count, self._span = count, span
        self._nth = count.astype(np.int64)
        buckets, windows = len(rate), len(count)
        edges = np.cumsum([1, buckets, windows, windows, len(AT_ONCE)])
        self._buckets = slice(edges[0], edges[1])
        self._sliding = slice(edges[1], edges[2])
        self._fixed = slice(edges[2], edges[3])
        self._crowd = slice(edges[3], edges[4])
        wide = 1 / np.sqrt(burst)
        self._prior: Vector = np.concatenate(
            [
                [NONE],
                BUCKET * wide / wide.sum(),
                np.full(windows, SLIDING / windows),
                np.full(windows, FIXED / windows),
                np.full(len(AT_ONCE), CROWD / len(AT_ONCE)),
            ]
        )
        self._coarse: Vector = np.zeros(edges[4])
        self._coarse[self._buckets] = COARSE / rate
        self._soft = self._coarse + JITTER
        self.weights = self._prior.copy()
        self._before = self._prior.copy()
        self._refused: Vector = np.full(edges[4], CHANCE * SEEN)
        self._seen: Vector = np.full(edges[4], SEEN)
        self._tokens: Vector = burst.copy()
        self._time = self._learnt = 0.0
        self._learned = 0
        self._earlier: tuple[Vector, float, Vector, Vector] | None = None
        """Tokens, time, opened and taken before the last request, to undo it."""
        self._opened: Vector = np.full(windows, -np.inf)
        self._taken: Vector = np.zeros(windows)
        self._passed: Vector = np.full(2 * int(COUNTS[-1]), -np.inf)
        self._last = int(COUNTS[-1])

    def blur(self, jitter: float) -> None:
        """Set the jitter of sending times, seconds."""
        self._soft = self._coarse + max(JITTER, jitter)

    def free_by(self, now: float, in_flight: int, risk: float, *, costly: float) -> float:
        """Return the earliest time at which limits that would refuse a request weigh at most ``risk``.

        ``costly`` is how long a refusal takes to return, in intervals between requests.
        """
        edge = EDGE + (EDGE_WHERE_SLOW - EDGE) * min(1.0, costly)
        safe = self._free_at(in_flight) + edge * self._soft
        shut = np.flatnonzero((safe > now) & (self.weights > SLIGHT))
        weights, safe = self.weights[shut], safe[shut]
        if weights.sum() <= risk:
            return now
        order = np.argsort(safe)[::-1]
        return float(safe[order[int(np.searchsorted(np.cumsum(weights[order]), risk))]])

    def refusing(self, now: float, in_flight: int) -> float:
        """Probability that the limit refuses a request sent at a time."""
        return float(self.weights @ self._blocked(now, in_flight))

    def sent(self, now: float, in_flight: int) -> "Vector":
        """Account for a request; return the probability of refusal under each limit."""
        blocked = self._blocked(now, in_flight)
        let = 1 - blocked
        self._earlier = self._tokens, self._time, self._opened.copy(), self._taken.copy()
        since, self._time = now - self._time, now
        self._tokens = np.minimum(self._burst, self._tokens + since * self._rate)
        self._tokens -= let[self._buckets]
        anew = now >= self._opened + self._span
        self._opened[anew] = now
        self._taken[anew] = 0
        self._taken += let[self._fixed]
        self._note(now)
        return blocked

    def delayed(self, blocked: "Vector", sent: float, now: float, *, in_flight: int) -> "Vector":
        """Correct the account: a request was sent later than assumed."""
        self._forget(sent)
        self._undo(blocked, sent)
        return self.sent(now, in_flight)

    def learn(self, blocked: "Vector", sent: float, *, refused: bool) -> float:
        """Update the weights with an outcome; return the probability that the limit caused the refusal."""
        chance = self._refused / self._seen
        at_random = (1 - blocked) * chance
        likely = np.clip(blocked + at_random, SURPRISE, 1 - SURPRISE * 0.1)
        if refused:
            by_limit = float(self.weights @ blocked) / max(1e-12, float(self.weights @ likely))
            share = at_random / np.maximum(1e-12, blocked + at_random)
            self._refused += share
            self._seen += share
            self._forget(sent)
            self._give_back(blocked, sent, share < 0.5)
        else:
            by_limit = 0.0
            likely = 1 - likely
            self._seen += 1 - blocked
            self._correct(blocked, sent)
        self.weights *= likely
        self.weights /= self.weights.sum()
        self._leak(max(0.0, sent - self._learnt))
        self._learnt = sent
        return by_limit

    @property
    def chance(self) -> float:
        """Estimated share of random refusals."""
        return float(self.weights @ (self._refused / self._seen))

    def _free_at(self, in_flight: int) -> "Vector":
        """When each limit admits the next request; infinite if one in flight must end first."""
        free = np.full(len(self.weights), -np.inf)
        free[self._buckets] = self._time + (1 - self._tokens) / self._rate
        free[self._sliding] = self._passed[self._last - self._nth] + self._span
        opens = self._opened + self._span
        free[self._fixed] = np.where(self._taken >= self._count, opens, -np.inf)
        free[self._crowd] = np.where(in_flight >= AT_ONCE, np.inf, -np.inf)
        return free

    def _blocked(self, now: float, in_flight: int) -> "Vector":
        free = self._free_at(in_flight)
        blocked: Vector = np.clip(0.5 + (free - now) / (4 * self._soft), 0, 1)
        return blocked

    def _correct(self, blocked: "Vector", sent: float) -> None:
        """Account for an admitted request under limits that predicted its refusal."""
        self._tokens = np.maximum(np.minimum(0.0, self._tokens), self._tokens - blocked[self._buckets])
        wrong = blocked[self._fixed] > 0.5
        if wrong.any():
            # Their window must have been reset earlier than they assumed.
            full = wrong & (self._taken >= self._count)
            self._opened[full] = sent
            self._taken[full] = 0
            self._taken[wrong] += 1

    def _undo(self, blocked: "Vector", sent: float) -> None:
        """Undo the account of a request that has not been sent yet."""
        if self._earlier is not None and sent == self._time:
            self._tokens, self._time, self._opened, self._taken = self._earlier
            self._earlier = None
        else:
            self._tokens = np.minimum(self._burst, self._tokens + 1 - blocked[self._buckets])
            self._taken = np.maximum(0.0, self._taken - 1 + blocked[self._fixed])

    def _give_back(self, blocked: "Vector", sent: float, limits: "NDArray[np.bool_]") -> None:
        """Return the slot of a refused request under limits that explain the refusal."""
        if self._earlier is None or sent != self._time:
            return  # the slot has overflowed since, or later requests took it
        tokens, before, _, _ = self._earlier
        full = tokens + (sent - before) * self._rate
        self._tokens = np.where(limits[self._buckets], full, self._tokens)
        self._taken = self._taken - limits[self._fixed] * (1 - blocked[self._fixed])
        self._earlier = None

    def _note(self, sent: float) -> None:
        if self._last == len(self._passed):
            half = len(self._passed) // 2
            self._passed[:half] = self._passed[half:]
            self._last = half
        self._passed[self._last] = sent
        self._last += 1

    def _forget(self, sent: float) -> None:
        """Remove a refused request from the sliding windows."""
        index = self._last - 1
        while index >= 0 and self._passed[index] > sent:
            index -= 1
        if index >= 0 and self._passed[index] == sent:
            self._passed[index : self._last - 1] = self._passed[index + 1 : self._last]
            self._last -= 1

    def _faster(self) -> "Vector":
        """Weights with those of each bucket spread over faster buckets."""
        faster = self.weights.copy()
        rows = faster[self._buckets].reshape(len(BURSTS), len(RATES))
        total = np.cumsum(rows, axis=1)
        rows[:, 1:] = total[:, :-1]
        rows[:, TWICE + 1 :] -= total[:, : -TWICE - 1]
        rows[:, 0] = 0
        rows /= TWICE
        faster[self._buckets] = rows.ravel()
        return faster

    def _leak(self, seconds: float) -> None:
        """Apply the transition prior; the estimated share of random refusals stays."""
        self._learned += 1
        often = CHANGE + YOUNG / self._learned
        change = 1 - (1 - min(often, seconds / CHANGE_SECONDS)) * math.exp(-seconds / CHANGE_SURELY)
        self._before += (self.weights - self._before) / LASTING
        back = (1 - BACK - FASTER) * self._prior + BACK * self._before + FASTER * self._faster()
        back *= change
        kept = (1 - change) * self.weights
        refused, seen = float(self.weights @ self._refused), float(self.weights @ self._seen)
        less = min(1.0, 4 * SEEN / seen)
        self.weights = kept + back
        share = kept / self.weights
        self._refused = share * self._refused + (1 - share) * refused * less
        self._seen = share * self._seen + (1 - share) * seen * less
        fade = np.minimum(1.0, REMEMBERED / self._seen)
        self._refused *= fade
        self._seen *= fade
