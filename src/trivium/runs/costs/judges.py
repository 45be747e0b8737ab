"""Attaches budget, cache and ledger to the judges of a run, and sums up what they cost."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

from trivium.metrics.judge.budget.ledger import Entry, Spending
from trivium.metrics.metric import Metric
from trivium.runs.event_loop import in_worker_thread
from trivium.runs.summary import JudgeCosts, ModelCosts
from trivium.store.judge_ledger import committed_of, entries_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import JudgeSettings, Settings

if TYPE_CHECKING:
    from trivium.metrics.judge.budget.ledger import MemoryLedger
    from trivium.metrics.judge.judge import Judge
    from trivium.suites.rubrics.rubric import Rubric

_ROUNDING_USD = 1e-9
"""A smaller difference between reserved and recorded spending is due to rounding."""


class AttachedJudges:
    """The budget, cache and ledger of a run, attached to the judges of its metrics until :meth:`close`.

    Args:
        run: The run, owned by this process.
        store: The store that holds the run.
        metrics: The metrics of the run; nothing is attached if none of them is judged.

    Raises:
        StoreError: If responses or spending cannot be written.
    """

    def __init__(self, run: RunRecord, store: Store, metrics: Sequence[Metric]) -> None:
        self._closing = ExitStack()
        self._cache: Any = None
        if not any(metric.tier == "judge" for metric in metrics):
            return
        from trivium.metrics.judge.budget.budget import run_budget
        from trivium.metrics.judge.metrics import executor_of
        from trivium.store.judge_cache import StoredResponseCache
        from trivium.store.judge_ledger import StoredLedger

        executor = executor_of(metrics)
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
async def judges_attached(run: RunRecord, store: Store, metrics: Sequence[Metric]) -> AsyncIterator[None]:
    """Attach a run's budget, cache and ledger to its judges, in an event loop (:class:`AttachedJudges`)."""
    judges = AttachedJudges(run, store, metrics)
    try:
        yield
        judges.allow_eviction()
    finally:
        await in_worker_thread(judges.close)


@contextmanager
def judge_of_pairs(
    store: Store, run: RunRecord, settings: JudgeSettings, rubric: "Rubric", *, encoder: str | None
) -> "Iterator[tuple[Judge, MemoryLedger]]":
    """A judge with a budget and a ledger of its own, whose responses are cached with a run.

    Args:
        store: The store that holds the run.
        run: The run.
        settings: The judge.
        rubric: What it judges pairs by.
        encoder: The encoder of the suite.
    """
    from trivium.metrics.judge.budget.budget import run_budget
    from trivium.metrics.judge.budget.ledger import MemoryLedger
    from trivium.metrics.judge.client.executor import JudgeExecutor
    from trivium.metrics.judge.judge import Judge
    from trivium.store.judge_cache import StoredResponseCache

    executor = JudgeExecutor(settings)
    cache = StoredResponseCache(store, run, shared=settings.cache, max_mb=settings.cache_mb)
    ledger = MemoryLedger()
    executor.configure(cache=cache, budget=run_budget(settings, ledger=ledger))
    try:
        yield Judge(rubric, rubric.dimensions, settings, encoder=encoder, executor=executor), ledger
        cache.allow_eviction()
    finally:
        executor.close()
        cache.close()


def judge_costs_of_run(store: Store, run: RunRecord, settings: Settings) -> JudgeCosts | None:
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
    run_costs = _sum([(total, 1)])
    return JudgeCosts(
        **{name: getattr(run_costs, name) for name in ModelCosts.__struct_fields__},
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
