"""Attaches budget, cache and ledger to the judges of a run, and sums up what they cost."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from trivium.metrics.judge.budget.ledger import Entry, Spending
from trivium.metrics.metric import Metric
from trivium.runs.event_loop import in_worker_thread
from trivium.runs.summary import JudgeCosts, ModelCosts
from trivium.store.judge_ledger import committed_of, entries_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.settings import JudgeSettings, Settings


@asynccontextmanager
async def judges_attached(run: RunRecord, store: Store, metrics: Sequence[Metric]) -> AsyncIterator[None]:
    """Attach a run's budget, cache and ledger to its judges; close the metrics at the end.

    Args:
        run: Owned by this process.
        store: Where it is.
        metrics: Those that score it.

    Raises:
        StoreError: If what was kept or spent cannot be written.
    """
    if not any(metric.tier == "judge" for metric in metrics):
        yield
        return
    from trivium.metrics.judge.budget.budget import run_budget
    from trivium.metrics.judge.metrics import executor_of
    from trivium.store.judge_cache import StoredResponseCache
    from trivium.store.judge_ledger import StoredLedger

    executor = executor_of(metrics)
    if executor is None:
        yield
        return
    settings = executor.settings
    answers = StoredResponseCache(store, run, shared=settings.cache, max_mb=settings.cache_mb)
    ledger = StoredLedger(store, run)
    budget = run_budget(settings, ledger=ledger)
    executor.configure(cache=answers, budget=budget)

    def end() -> None:
        # What remains of the reserved budget is known only when no request is in flight.
        executor.close()
        answers.close()
        budget.close()
        ledger.close()

    try:
        yield
        answers.allow_eviction()
    finally:
        await in_worker_thread(end)


_LEAST_USD = 1e-9
"""Under this, what was drawn and what was spent differ by rounding alone."""


def judge_costs_of_run(store: Store, run: RunRecord, settings: Settings) -> JudgeCosts | None:
    """What a run spent so far, that of processes included which were killed; None where nobody was asked.

    Args:
        store: Where it is.
        run: The run.
        settings: Its settings.
    """
    if settings.judge is None:
        return None
    entries, committed = entries_of(store, run), committed_of(store, run)
    if not (entries or any(committed)):
        return None
    return spent_in(entries, settings.judge, committed=committed)


def spent_in(
    entries: Mapping[Entry, Spending], judge: JudgeSettings, *, committed: tuple[float, int] = (0.0, 0)
) -> JudgeCosts:
    """Sum the entries of a ledger.

    Args:
        entries: Of the ledger.
        judge: The settings that they were spent by.
        committed: USD and tokens reserved in advance, which a killed process may have spent unrecorded.
    """
    models: dict[str, list[Spending]] = {}
    dimensions: dict[str, list[tuple[Spending, int]]] = {}
    for (model, about), spending in entries.items():
        models.setdefault(model, []).append(spending)
        for dimension in about:
            dimensions.setdefault(dimension, []).append((spending, len(about)))
    total = sum(entries.values(), Spending())
    lost = max(0.0, committed[0] - total.most_usd) if judge.budget_usd is not None else 0.0
    lost_tokens = max(0, committed[1] - total.most_tokens) if judge.budget_tokens is not None else 0
    total += Spending(unknown_usd=lost if lost > _LEAST_USD else 0.0, unknown_tokens=lost_tokens)
    whole = _on([(total, 1)])
    return JudgeCosts(
        **{name: getattr(whole, name) for name in ModelCosts.__struct_fields__},
        budget_usd=judge.budget_usd,
        budget_tokens=judge.budget_tokens,
        models={name: _on([(each, 1) for each in found]) for name, found in models.items()},
        dimensions={name: _on(found) for name, found in dimensions.items()},
    )


def _on(found: Iterable[tuple[Spending, int]]) -> ModelCosts:
    """The sum of entries, each divided by the number of dimensions that share it."""
    sums = dict.fromkeys(Spending.__struct_fields__, 0.0)
    for spending, shared_by in found:
        for name in sums:
            sums[name] += getattr(spending, name) / shared_by
    if sums["unknown_usd"] < _LEAST_USD:
        sums["unknown_usd"] = 0.0
    unpriced_alone = sums["unpriced"] and sums["unpriced"] == sums["answered"]
    return ModelCosts(
        **{name: _plain(sums[name]) for name in ModelCosts.__struct_fields__ if name != "cost_usd"},
        cost_usd=None if unpriced_alone else sums["cost_usd"],
    )


def _plain(number: float) -> float:
    """A number without a fraction as an integer."""
    return int(number) if number.is_integer() else number
