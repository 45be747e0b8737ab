"""The costs of a run: what its judges spend, and the time, tokens and money of the agent."""

# ruff: noqa: SLF001 - what is merged is of the same class

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from trivium.agents.attempt import UNFAIR, Attempt, Usage
from trivium.agents.conversation import ScriptedUser, Users
from trivium.metrics.judge.budget.ledger import Entry, Ledger, Spending
from trivium.metrics.judge.budget.prices import Prices
from trivium.metrics.metric import Metric
from trivium.number_buffer import BLOCK, NumberBuffer
from trivium.runs.case_values import Sum
from trivium.runs.event_loop import in_worker_thread
from trivium.runs.summary import AgentTotals, JudgeCosts, ModelCosts
from trivium.store.records import AttemptUsage, RequestUsage, RunRecord
from trivium.suites.settings import JudgeSettings, Settings
from trivium.traces.trace import Span, SpanUsage
from trivium.values import record_of, sum_known

if TYPE_CHECKING:
    from trivium.metrics.judge.judge import Judge
    from trivium.store.store import Store
    from trivium.suites.rubrics.rubric import Rubric

_ROUNDING_USD = 1e-9
"""A smaller difference between reserved and recorded spending is due to rounding."""


class AttachedJudges:
    """The budget, cache and ledger of a run, attached to the judges of its metrics until :meth:`close`.

    Args:
        run: The run, owned by this process.
        store: The store that holds the run.
        metrics: The metrics of the run; nothing is attached if none of them is judged.
        asks: The judge's settings, if simulated users may be asked by them.

    Attributes:
        users: Makes the users of conversations.

    Raises:
        StoreError: If responses or spending cannot be written.
    """

    def __init__(
        self, run: RunRecord, store: "Store", metrics: Sequence[Metric], asks: JudgeSettings | None = None
    ) -> None:
        self._closing = ExitStack()
        self._cache: Any = None
        self.users: Users = ScriptedUser
        if asks is None and not any(metric.tier == "judge" for metric in metrics):
            return
        from trivium.metrics.judge.budget.budget import run_budget
        from trivium.metrics.judge.metrics import executor_of
        from trivium.store.judge_cache import StoredResponseCache
        from trivium.store.judge_ledger import StoredLedger

        executor = executor_of(metrics)
        if asks is not None:
            from trivium.metrics.judge.user import simulated_users

            executor, self.users = simulated_users(asks, executor)
        if executor is None:
            return
        settings = executor.settings
        self._cache = StoredResponseCache(store, run, shared=settings.cache, max_mb=settings.cache_mb)
        ledger = StoredLedger(store, run)
        budget = run_budget(settings, ledger=ledger)
        executor.configure(cache=self._cache, budget=budget)
        # The executor is closed first: the rest of the reserved budget is known only when no request is in
        # flight.
        for each in (ledger, budget, self._cache, executor):
            self._closing.callback(each.close)

    def allow_eviction(self) -> None:
        """Let the cache evict at the end what was used least recently."""
        if self._cache is not None:
            self._cache.allow_eviction()

    def close(self) -> None:
        """Close everything; blocks until it is in the store."""
        self._closing.close()


@asynccontextmanager
async def judges_attached(
    run: RunRecord, store: "Store", metrics: Sequence[Metric], asks: JudgeSettings | None = None
) -> AsyncIterator[AttachedJudges]:
    """Attach a run's budget, cache and ledger to its judges, in an event loop (:class:`AttachedJudges`)."""
    judges = AttachedJudges(run, store, metrics, asks)
    try:
        yield judges
        judges.allow_eviction()
    finally:
        await in_worker_thread(judges.close)


@contextmanager
def judge_of_pairs(
    store: "Store", run: RunRecord, settings: JudgeSettings, rubric: "Rubric", *, encoder: str | None
) -> "Iterator[tuple[Judge, Ledger]]":
    """A judge with a budget and a ledger of its own, whose responses are cached with a run.

    Args:
        store: The store that holds the run.
        run: The run.
        settings: The judge.
        rubric: What it judges pairs by.
        encoder: The encoder of the suite.
    """
    from trivium.metrics.judge.budget.budget import run_budget
    from trivium.metrics.judge.client.models import JudgeExecutor
    from trivium.metrics.judge.judge import Judge
    from trivium.store.judge_cache import StoredResponseCache

    executor = JudgeExecutor(settings)
    cache = StoredResponseCache(store, run, shared=settings.cache, max_mb=settings.cache_mb)
    ledger = Ledger()
    executor.configure(cache=cache, budget=run_budget(settings, ledger=ledger))
    try:
        yield Judge(rubric, rubric.dimensions, settings, encoder=encoder, executor=executor), ledger
        cache.allow_eviction()
    finally:
        executor.close()
        cache.close()


def judge_costs_of_run(store: "Store", run: RunRecord, settings: Settings) -> JudgeCosts | None:
    """Sum up what a run has spent on judges so far, including what killed processes spent.

    Args:
        store: The store that holds the run.
        run: The run.
        settings: Settings of the run.

    Returns:
        The costs, or None if no judge was asked.
    """
    if settings.judge is None:
        return None
    from trivium.store.judge_ledger import committed_of, entries_of

    entries, committed = entries_of(store, run), committed_of(store, run)
    if not (entries or any(committed)):
        return None
    return sum_costs(entries, settings.judge, committed=committed)


def sum_costs(
    entries: Mapping[Entry, Spending], judge: JudgeSettings, *, committed: tuple[float, int] = (0.0, 0)
) -> JudgeCosts:
    """Sum up the entries of a ledger.

    Args:
        entries: Spending by model and dimensions.
        judge: Settings of the judges, for the budgets.
        committed: USD and tokens reserved in advance, which a killed process may have spent unrecorded.
    """
    models: dict[str, list[Spending]] = {}
    dimensions: dict[str, list[tuple[Spending, int]]] = {}
    for (model, about), spending in entries.items():
        models.setdefault(model, []).append(spending)
        for dimension in about:
            dimensions.setdefault(dimension, []).append((spending, len(about)))
    total = sum(entries.values(), Spending())
    unrecorded = max(0.0, committed[0] - total.most_usd) if judge.budget_usd is not None else 0.0
    unrecorded_tokens = max(0, committed[1] - total.most_tokens) if judge.budget_tokens is not None else 0
    total += Spending(
        unknown_usd=unrecorded if unrecorded > _ROUNDING_USD else 0.0, unknown_tokens=unrecorded_tokens
    )
    return record_of(
        JudgeCosts,
        _sum([(total, 1)]),
        budget_usd=judge.budget_usd,
        budget_tokens=judge.budget_tokens,
        models={name: _sum([(each, 1) for each in of_model]) for name, of_model in models.items()},
        dimensions={name: _sum(of_dimension) for name, of_dimension in dimensions.items()},
    )


def _sum(entries: Iterable[tuple[Spending, int]]) -> ModelCosts:
    """Sum entries, each divided by the number of dimensions that share it."""
    sums = dict.fromkeys(Spending.__struct_fields__, 0.0)
    for spending, shared_by in entries:
        for name in sums:
            sums[name] += getattr(spending, name) / shared_by
    if sums["unknown_usd"] < _ROUNDING_USD:
        sums["unknown_usd"] = 0.0
    all_unpriced = sums["unpriced"] and sums["unpriced"] == sums["answered"]
    return ModelCosts(
        **{name: _int_if_whole(sums[name]) for name in ModelCosts.__struct_fields__ if name != "cost_usd"},
        cost_usd=None if all_unpriced else sums["cost_usd"],
    )


def _int_if_whole(number: float) -> float:
    return int(number) if number.is_integer() else number


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
        self._cost = Sum()
        self._counts: Counter[str] = Counter()

    def add(self, attempt: Attempt | AttemptUsage) -> None:
        """Count one attempt."""
        counts = self._counts
        counts["attempts"] += 1
        counts["failures"] += attempt.error is not None and UNFAIR.isdisjoint(attempt.flags)
        seconds = attempt.seconds
        if seconds is not None and isfinite(seconds) and seconds >= 0:
            self._seconds.append(seconds)
        usage = attempt.usage or _usage_of(_requests_of(attempt))
        for side, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens is not None:
                counts[side] += tokens
                counts[f"with {side}"] += 1
        cost, complete = cost_of(attempt, self._prices)
        if usage.cost_usd is None:
            counts["priced"] += cost is not None
            counts["partly"] += not complete
        if cost is not None:
            self._cost.add([cost])

    def merge(self, other: "AgentTally") -> None:
        """Add the attempts that another tally has counted."""
        self._seconds.join(other._seconds)
        self._cost.merge(other._cost)
        self._counts.update(other._counts)

    def totals(self) -> AgentTotals:
        """The sums and quantiles of the attempts added so far."""
        seconds, counts = self._seconds, self._counts
        return AgentTotals(
            attempts=counts["attempts"],
            failures=counts["failures"],
            timed=len(seconds),
            latency_p50=quantile(seconds, 50),
            latency_p95=quantile(seconds, 95),
            latency_method=NEAREST_RANK if len(seconds) else None,
            input_tokens=counts["input"] if counts["with input"] else None,
            output_tokens=counts["output"] if counts["with output"] else None,
            with_tokens=max(counts["with input"], counts["with output"]),
            cost_usd=self._cost.value if self._cost.count else None,
            with_cost=self._cost.count,
            priced=counts["priced"],
            partly=counts["partly"],
        )


def cost_of(attempt: Attempt | AttemptUsage, prices: Prices) -> tuple[float | None, bool]:
    """Cost of an attempt in USD, and whether every class of its tokens has a price.

    What it states, or its model requests do, else their tokens at list price; None unless the cost of each
    request is reported, or its price is listed.

    Definition: docs/definitions/scores.md#agent-totals.
    """
    requests = _requests_of(attempt)
    stated = (attempt.usage or _usage_of(requests)).cost_usd
    if stated is not None:
        return (stated if isfinite(stated) else None), True
    costs = [prices.recorded_cost(span.name, span.usage or SpanUsage()) for span in requests]
    known = [cost for cost, _ in costs if cost is not None]
    if not known or len(known) < len(costs):
        return None, True
    return sum(known), all(complete for _, complete in costs)


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
