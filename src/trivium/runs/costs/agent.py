"""Sums up what the agent itself took: latency, tokens, cost and failures."""

# ruff: noqa: SLF001 - what is merged is of the same class

from collections.abc import Sequence
from math import isfinite

import numpy as np

from trivium.agents.attempt import Attempt, Usage
from trivium.metrics.judge.budget.prices import Prices
from trivium.number_buffer import BLOCK, NumberBuffer
from trivium.runs.case_values import Sum
from trivium.runs.summary import AgentTotals
from trivium.store.records import AttemptUsage, RequestUsage
from trivium.traces.trace import Span, SpanUsage
from trivium.values import sum_known

NEAREST_RANK = "nearest rank"
"""Method of the quantiles: the smallest latency that at least the given share of attempts does not exceed."""


class AgentTally:
    """Adds up latencies, tokens and costs of attempts, which may come in any order.

    An attempt's own ``usage`` counts; if it has none, the usage of the model requests in its trace. Without a
    reported cost, tokens are priced with genai-prices, where the trace names a model whose price is listed.
    """

    def __init__(self) -> None:
        self._prices = Prices([], {})
        self._seconds: NumberBuffer[float] = NumberBuffer("d")
        self._tokens = [0, 0]
        self._with_tokens = [0, 0]
        self._cost = Sum()
        self._with_cost = 0
        self._priced = self._partly = 0
        self._attempts = 0
        self._failures = 0

    def add(self, attempt: Attempt | AttemptUsage) -> None:
        """Count one attempt."""
        self._attempts += 1
        self._failures += attempt.error is not None
        seconds = attempt.seconds
        if seconds is not None and isfinite(seconds) and seconds >= 0:
            self._seconds.append(seconds)
        requests = _requests_of(attempt)
        usage = attempt.usage or _usage_of(requests)
        for side, tokens in enumerate((usage.input_tokens, usage.output_tokens)):
            if tokens is not None:
                self._tokens[side] += tokens
                self._with_tokens[side] += 1
        cost = usage.cost_usd
        if cost is None:
            cost, complete = self._listed_cost(requests)
            self._priced += cost is not None
            self._partly += not complete
        if cost is not None and isfinite(cost):
            self._cost.add([cost])
            self._with_cost += 1

    def merge(self, other: "AgentTally") -> None:
        """Add the attempts that another tally has counted."""
        self._seconds.join(other._seconds)
        self._tokens = [own + more for own, more in zip(self._tokens, other._tokens, strict=True)]
        self._with_tokens = [
            own + more for own, more in zip(self._with_tokens, other._with_tokens, strict=True)
        ]
        self._cost.merge(other._cost)
        self._with_cost += other._with_cost
        self._priced += other._priced
        self._partly += other._partly
        self._attempts += other._attempts
        self._failures += other._failures

    def _listed_cost(self, requests: Sequence[Span | RequestUsage]) -> tuple[float | None, bool]:
        """Cost of model requests in USD, and whether every class of their tokens has a price.

        None unless the cost of each is reported, or its price is listed.
        """
        total, whole = 0.0, True
        for span in requests:
            cost, complete = self._prices.recorded_cost(span.name, span.usage or SpanUsage())
            if cost is None:
                return None, True
            total += cost
            whole = whole and complete
        return (total if requests else None), whole

    def totals(self) -> AgentTotals:
        """The sums and quantiles of the attempts added so far."""
        seconds = self._seconds
        return AgentTotals(
            attempts=self._attempts,
            failures=self._failures,
            timed=len(seconds),
            latency_p50=quantile(seconds, 50),
            latency_p95=quantile(seconds, 95),
            latency_method=NEAREST_RANK if len(seconds) else None,
            input_tokens=self._tokens[0] if self._with_tokens[0] else None,
            output_tokens=self._tokens[1] if self._with_tokens[1] else None,
            with_tokens=max(self._with_tokens),
            cost_usd=self._cost.value if self._with_cost else None,
            with_cost=self._with_cost,
            priced=self._priced,
            partly=self._partly,
        )


def quantile(numbers: NumberBuffer[float], percent: int) -> float | None:
    """The quantile of numbers by nearest rank, one of these numbers (Hyndman & Fan 1996, type 1).

    Args:
        numbers: Finite, none of them negative; many are read four times, a part at a time.
        percent: In [1, 100].

    Returns:
        The smallest number that at least ``percent`` per cent of all do not exceed; None if there is none.
    """
    if not len(numbers):
        return None
    rank = -(-len(numbers) * percent // 100)  # rounded up, in whole numbers
    if len(numbers) <= BLOCK:
        return float(np.partition(numbers.all(), rank - 1)[rank - 1])
    found = np.uint64(0)
    # Such numbers are in the order of their bits, of which each round finds the next sixteen.
    for shift in (48, 32, 16, 0):
        counts = np.zeros(1 << 16, np.int64)
        for block in numbers.blocks():
            bits = (block + 0.0).view(np.uint64) >> np.uint64(shift)  # -0.0 becomes 0.0
            alike = bits[bits >> np.uint64(16) == found]
            counts += np.bincount(alike & np.uint64(0xFFFF), minlength=counts.size)
        up_to = counts.cumsum()
        digit = int(up_to.searchsorted(rank))
        rank -= int(up_to[digit] - counts[digit])
        found = found << np.uint64(16) | np.uint64(digit)
    return float(found.view(np.float64))


def _requests_of(attempt: Attempt | AttemptUsage) -> Sequence[Span | RequestUsage]:
    """The model requests in the trace of an attempt."""
    if attempt.trace is None:
        return []
    return [span for span in attempt.trace.spans if span.kind == "llm"]


def _usage_of(requests: Sequence[Span | RequestUsage]) -> Usage:
    """Sum of the usage of model requests; None where no request reports it."""
    reported = [span.usage for span in requests if span.usage is not None]
    costs = [usage.cost_usd for usage in reported if usage.cost_usd is not None]
    return Usage(
        input_tokens=sum_known(usage.input_tokens for usage in reported),
        output_tokens=sum_known(usage.output_tokens for usage in reported),
        cost_usd=sum(costs) if costs and len(costs) == len(requests) else None,
    )
