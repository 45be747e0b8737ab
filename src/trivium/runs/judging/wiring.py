"""Wiring: the judges of a run get its purse and its answers, both kept in the store as it goes."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from trivium.metrics.metric import Metric
from trivium.runs.own_thread import aside
from trivium.store.records import RunRecord
from trivium.store.store import Store


@asynccontextmanager
async def judges_of(run: RunRecord, store: Store, metrics: Sequence[Metric]) -> AsyncIterator[None]:
    """Let the judges among some metrics spend and keep in the name of a run; closes the metrics.

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
    from trivium.metrics.judge.dimensions import bench_of
    from trivium.metrics.judge.spending.purse import run_purse
    from trivium.store.answers import StoredAnswers
    from trivium.store.books import StoredBooks

    bench = bench_of(metrics)
    if bench is None:
        yield
        return
    settings = bench.settings
    answers = StoredAnswers(store, run, shared=settings.cache, most_mb=settings.cache_mb)
    books = StoredBooks(store, run)
    purse = run_purse(settings, books=books)
    bench.equip(answers=answers, purse=purse)

    def end() -> None:
        # Only when nothing is in flight any more is it known what is left of what was drawn.
        bench.close()
        answers.close()
        purse.close()
        books.close()

    try:
        yield
        answers.over()
    finally:
        await aside(end)
