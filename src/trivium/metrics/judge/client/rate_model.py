"""Estimates a provider's rate limit: weights a grid of possible limits by the refusals that they explain."""

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

RATES, BURSTS = np.geomspace(0.1, 1000, 236), (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 300.0)
"""Token buckets: refill rates, requests per second, in steps of 4 %; and capacities, requests."""

SPANS, COUNTS = (1.0, 10.0, 60.0), np.unique(np.geomspace(1, 3000, 200).round())
"""Counting windows: lengths, seconds, and the requests that they admit."""

CONCURRENCY_LIMITS = np.arange(1.0, 101)
"""Concurrency limits, requests in flight."""

NO_LIMIT, BUCKET, WINDOW, CONCURRENCY = 0.8, 0.1, 0.06, 0.04
"""Prior probability of each kind of limit."""

MIN_LIKELIHOOD = 0.025
"""Smallest likelihood of an outcome under a limit: no provider fits the model exactly."""

CHANGE, CHANGE_SECONDS, CHANGE_SURELY = 0.015, 2.5, 30.0
"""Transition prior: probability that the limit has changed by the next request. It rises to CHANGE within
CHANGE_SECONDS, then to 1 on the scale of CHANGE_SURELY, so that a low estimated rate does not persist."""

RETURN_SHARE, AVERAGED_REQUESTS = 0.25, 300.0
"""Transition prior: share that returns to earlier weights, and the number of requests these average over."""

FASTER_SHARE, STEPS_TO_DOUBLE = 0.7, 18
"""Transition prior: share that moves to faster buckets, and the grid steps that double a rate. This corrects
an estimate that is too low; one that is too high is refuted at once."""

EARLY_CHANGE = 0.1
"""Extra probability of change after the first outcome; divided by n after the n-th outcome."""

RANDOM_SHARE, RANDOM_SHARE_WEIGHT, MAX_COUNTED = 0.05, 6.0, 150.0
"""Prior share of random refusals, its weight in requests, and the most requests over which it is counted."""

JITTER, COARSE = 0.0004, 0.01
"""Uncertainty of the time at which a slot becomes free: seconds, and share of a bucket's interval."""

SAFETY_FACTOR, SAFETY_FACTOR_SLOW = 1.85, 2.5
"""Safety margin in multiples of that uncertainty, if a refusal returns at once and if it takes as long as the
interval between requests."""

NEGLIGIBLE_WEIGHT = 1e-4
"""Limits with a smaller weight are ignored when the next sending time is computed."""


class RateModel:
    """Posterior weights of many limits: none, token buckets, sliding windows, concurrency limits.

    docs/design/judging.md explains the estimate.
    """

    def __init__(self) -> None:
        rate, burst = (each.ravel() for each in np.meshgrid(RATES, BURSTS))
        self._rate, self._burst = rate, burst
        count, self._span = (each.ravel() for each in np.meshgrid(COUNTS, SPANS))
        self._nth = count.astype(np.int64)
        buckets, windows = len(rate), len(count)
        edges = np.cumsum([1, buckets, windows, len(CONCURRENCY_LIMITS)])
        self._buckets = slice(edges[0], edges[1])
        self._windows = slice(edges[1], edges[2])
        self._concurrency = slice(edges[2], edges[3])
        burst_weight = 1 / np.sqrt(burst)
        self._prior: Vector = np.concatenate(
            [
                [NO_LIMIT],
                BUCKET * burst_weight / burst_weight.sum(),
                np.full(windows, WINDOW / windows),
                np.full(len(CONCURRENCY_LIMITS), CONCURRENCY / len(CONCURRENCY_LIMITS)),
            ]
        )
        self._coarse: Vector = np.zeros(edges[3])
        self._coarse[self._buckets] = COARSE / rate
        self._soft = self._coarse + JITTER
        self.weights = self._prior.copy()
        self._before = self._prior.copy()
        self._refused: Vector = np.full(edges[3], RANDOM_SHARE * RANDOM_SHARE_WEIGHT)
        self._counted: Vector = np.full(edges[3], RANDOM_SHARE_WEIGHT)
        self._tokens: Vector = burst.copy()
        self._time = self._learnt = 0.0
        self._learned = 0
        self._earlier: tuple[Vector, float] | None = None
        """``_tokens`` and ``_time`` before the last request, to undo it."""
        self._admitted_times: Vector = np.full(2 * int(COUNTS[-1]), -np.inf)
        self._last = int(COUNTS[-1])

    def blur(self, jitter: float) -> None:
        """Set the jitter of sending times, seconds."""
        self._soft = self._coarse + max(JITTER, jitter)

    def free_by(self, now: float, in_flight: int, risk: float, *, costly: float) -> float:
        """Return the earliest time at which a limit refuses a request with probability at most ``risk``.

        Args:
            now: Current time, seconds.
            in_flight: Requests in flight.
            risk: Accepted probability of refusal.
            costly: Time that a refusal takes to return, in intervals between requests.
        """
        edge = SAFETY_FACTOR + (SAFETY_FACTOR_SLOW - SAFETY_FACTOR) * min(1.0, costly)
        safe = self._free_at(in_flight) + edge * self._soft
        shut = np.flatnonzero((safe > now) & (self.weights > NEGLIGIBLE_WEIGHT))
        weights, safe = self.weights[shut], safe[shut]
        if weights.sum() <= risk:
            return now
        order = np.argsort(safe)[::-1]
        return float(safe[order[int(np.searchsorted(np.cumsum(weights[order]), risk))]])

    def refusal_probability(self, now: float, in_flight: int) -> float:
        """Probability that the limit refuses a request sent at ``now``."""
        return float(self.weights @ self._refusal_probabilities(now, in_flight))

    def sent(self, now: float, in_flight: int) -> "Vector":
        """Count a request; return its probability of refusal under each limit."""
        refusal_probabilities = self._refusal_probabilities(now, in_flight)
        admitted = 1 - refusal_probabilities
        self._earlier = self._tokens, self._time
        since, self._time = now - self._time, now
        self._tokens = np.minimum(self._burst, self._tokens + since * self._rate)
        self._tokens -= admitted[self._buckets]
        self._add_to_window(now)
        return refusal_probabilities

    def delayed(
        self, refusal_probabilities: "Vector", sent: float, now: float, *, in_flight: int
    ) -> "Vector":
        """Correct the counts for a request that was sent later than assumed."""
        self._remove_from_window(sent)
        self._undo(refusal_probabilities, sent)
        return self.sent(now, in_flight)

    def learn(self, refusal_probabilities: "Vector", sent: float, *, refused: bool) -> float:
        """Update the weights with an outcome; return the probability that the limit caused the refusal."""
        chance = self._refused / self._counted
        at_random = (1 - refusal_probabilities) * chance
        likelihood = np.clip(refusal_probabilities + at_random, MIN_LIKELIHOOD, 1 - MIN_LIKELIHOOD * 0.1)
        if refused:
            explained, expected = self.weights @ refusal_probabilities, self.weights @ likelihood
            by_limit = float(explained) / max(1e-12, float(expected))
            share = at_random / np.maximum(1e-12, refusal_probabilities + at_random)
            self._refused += share
            self._counted += share
            self._remove_from_window(sent)
            self._return_slot(sent, share < 0.5)
        else:
            by_limit = 0.0
            likelihood = 1 - likelihood
            self._counted += 1 - refusal_probabilities
            self._correct(refusal_probabilities)
        self.weights *= likelihood
        self.weights /= self.weights.sum()
        self._apply_transition(max(0.0, sent - self._learnt))
        self._learnt = sent
        return by_limit

    def _free_at(self, in_flight: int) -> "Vector":
        """Time at which each limit admits the next request; infinite if one in flight must end first."""
        free = np.full(len(self.weights), -np.inf)
        free[self._buckets] = self._time + (1 - self._tokens) / self._rate
        free[self._windows] = self._admitted_times[self._last - self._nth] + self._span
        free[self._concurrency] = np.where(in_flight >= CONCURRENCY_LIMITS, np.inf, -np.inf)
        return free

    def _refusal_probabilities(self, now: float, in_flight: int) -> "Vector":
        free = self._free_at(in_flight)
        refusal_probabilities: Vector = np.clip(0.5 + (free - now) / (4 * self._soft), 0, 1)
        return refusal_probabilities

    def _correct(self, refusal_probabilities: "Vector") -> None:
        """Correct the counts of limits that predicted the refusal of an admitted request."""
        self._tokens = np.maximum(
            np.minimum(0.0, self._tokens), self._tokens - refusal_probabilities[self._buckets]
        )

    def _undo(self, refusal_probabilities: "Vector", sent: float) -> None:
        """Undo the count of a request that has not been sent yet."""
        if self._earlier is not None and sent == self._time:
            self._tokens, self._time = self._earlier
            self._earlier = None
        else:
            self._tokens = np.minimum(self._burst, self._tokens + 1 - refusal_probabilities[self._buckets])

    def _return_slot(self, sent: float, limits: "NDArray[np.bool_]") -> None:
        """Return the slot of a refused request under limits that explain the refusal."""
        if self._earlier is None or sent != self._time:
            return  # later requests have taken the slot, or the bucket has refilled
        tokens, before = self._earlier
        full = tokens + (sent - before) * self._rate
        self._tokens = np.where(limits[self._buckets], full, self._tokens)
        self._earlier = None

    def _add_to_window(self, sent: float) -> None:
        if self._last == len(self._admitted_times):
            half = len(self._admitted_times) // 2
            self._admitted_times[:half] = self._admitted_times[half:]
            self._last = half
        self._admitted_times[self._last] = sent
        self._last += 1

    def _remove_from_window(self, sent: float) -> None:
        """Remove a refused request from the sliding windows."""
        index = self._last - 1
        while index >= 0 and self._admitted_times[index] > sent:
            index -= 1
        if index >= 0 and self._admitted_times[index] == sent:
            self._admitted_times[index : self._last - 1] = self._admitted_times[index + 1 : self._last]
            self._last -= 1

    def _faster(self) -> "Vector":
        """Weights after each bucket's weight is spread over faster buckets."""
        faster = self.weights.copy()
        rows = faster[self._buckets].reshape(len(BURSTS), len(RATES))
        total = np.cumsum(rows, axis=1)
        rows[:, 1:] = total[:, :-1]
        rows[:, STEPS_TO_DOUBLE + 1 :] -= total[:, : -STEPS_TO_DOUBLE - 1]
        rows[:, 0] = 0
        rows /= STEPS_TO_DOUBLE
        faster[self._buckets] = rows.ravel()
        return faster

    def _apply_transition(self, seconds: float) -> None:
        """Apply the transition prior; the estimated share of random refusals stays."""
        self._learned += 1
        often = CHANGE + EARLY_CHANGE / self._learned
        change = 1 - (1 - min(often, seconds / CHANGE_SECONDS)) * math.exp(-seconds / CHANGE_SURELY)
        self._before += (self.weights - self._before) / AVERAGED_REQUESTS
        back = (
            (1 - RETURN_SHARE - FASTER_SHARE) * self._prior
            + RETURN_SHARE * self._before
            + FASTER_SHARE * self._faster()
        )
        back *= change
        stayed = (1 - change) * self.weights
        refused, counted = float(self.weights @ self._refused), float(self.weights @ self._counted)
        less = min(1.0, 4 * RANDOM_SHARE_WEIGHT / counted)
        self.weights = stayed + back
        share = stayed / self.weights
        self._refused = share * self._refused + (1 - share) * refused * less
        self._counted = share * self._counted + (1 - share) * counted * less
        fade = np.minimum(1.0, MAX_COUNTED / self._counted)
        self._refused *= fade
        self._counted *= fade
