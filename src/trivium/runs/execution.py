"""Executes a run that has begun: makes or reads its attempts, scores and stores them, and summarises it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import msgspec

from trivium.agents.conversation import Users
from trivium.metrics.registry import CASE_FIGURES
from trivium.runs.aggregation import IncrementalAggregation, case_scores_of
from trivium.runs.costs import judges_attached
from trivium.runs.engines.agent import InTurn, ask_and_score, calls_of
from trivium.runs.engines.processes import Engine, Scoring
from trivium.runs.engines.recorded import RecordedAttempts, StoredAttempts
from trivium.runs.event_loop import (
    THRESHOLDS_WHILE_ASKING,
    THRESHOLDS_WHILE_SCORING,
    in_worker_thread,
    reduced_garbage_collection,
)
from trivium.runs.pipeline import Pipeline, Progress, Take
from trivium.runs.run import Run
from trivium.runs.start import Begun, interrupted_by_errors
from trivium.runs.summarize import summarise
from trivium.runs.until_decided.asker import Asker


async def execute(begun: Begun, *, workers: int | None, engine: Engine, progress: Progress) -> Run:
    """Execute a run.

    Args:
        begun: The run.
        workers: Number of processes that score recorded outputs.
        engine: Where these processes run.
        progress: Receives the progress.

    Raises:
        StoreError: If the store fails; everything stored before stays.
    """
    prepared, store, run = begun.prepared, begun.store, begun.run
    asker = None
    if prepared.settings.until_decided:
        asker = Asker(run, prepared.suite, prepared.settings, begun.comparison)
    async with running(begun, progress=progress, take=None if asker is None else asker.take) as (
        pipeline,
        users,
    ):
        scoring = partial(Scoring, pipeline, workers=workers, engine=engine)
        await _score(begun, pipeline, scoring, asker, users)
    return Run(store, store.run(run.id))


@asynccontextmanager
async def running(
    begun: Begun, *, progress: Progress, take: Take | None = None
) -> AsyncIterator[tuple[Pipeline, Users]]:
    """Keep a run open while its attempts are made and scored; then summarise it.

    An error leaves it as interrupted.

    Args:
        begun: The run.
        progress: Receives the progress.
        take: Receives every evaluation too, each with the position of its case.

    Yields:
        What scores and stores attempts, and what makes the users of conversations.
    """
    prepared, store, run, writer = begun.prepared, begun.store, begun.run, begun.writer
    pipeline = Pipeline(
        prepared, store, run, progress=progress, in_order=begun.in_order, take=take, partitions=writer
    )
    thresholds = THRESHOLDS_WHILE_SCORING if begun.adapter is None else THRESHOLDS_WHILE_ASKING
    with interrupted_by_errors(store, run):
        try:
            progress.begin(run=run.id, total=run.due, already=begun.already)
            with reduced_garbage_collection(thresholds):
                asks = None if begun.adapter is None else prepared.settings.judge
                async with judges_attached(run, store, prepared.metrics, asks) as judges, _finished(begun):
                    yield pipeline, judges.users
        finally:
            await in_worker_thread(pipeline.close)
            progress.end()
        _summarise(begun, pipeline.incremental)


@asynccontextmanager
async def _finished(begun: Begun) -> AsyncIterator[None]:
    """Close the agent and complete the last partition, also of a run that fails or is interrupted."""
    try:
        yield
    finally:
        if begun.adapter is not None:
            await begun.adapter.close()
        if begun.writer is not None:
            await in_worker_thread(begun.writer.finish)


async def _score(
    begun: Begun, pipeline: Pipeline, scoring: Callable[..., Scoring], asker: Asker | None, users: Users
) -> None:
    """Score what is stored without evaluations, then what the agent answers or the outputs hold."""
    store, run, settings = begun.store, begun.run, begun.prepared.settings
    if asker is not None:
        asker.take(store.outlines(run))
    if run.attempts_from is None:  # of before an interruption
        await pipeline.score_all(store.attempts(run, unscored_only=True), save=False)
    else:
        await scoring(StoredAttempts(store, run), save=False).score()
    suite, done = begun.prepared.suite, set[tuple[int, int]]()
    if asker is not None or begun.adapter is not None:
        done |= set(store.attempt_keys(run))
    remaining = (
        (position, case, repeat)
        for position, case in enumerate(suite)
        for repeat in range(settings.repeats)
        if (position, repeat) not in done
    )
    attempts = InTurn(remaining) if asker is None else asker.attempts(done)
    if begun.adapter is not None:
        most = min(settings.limits.attempts_at_once, len(suite) * settings.repeats)
        await ask_and_score(attempts, calls_of(begun.adapter, settings, users), pipeline, concurrency=most)
    elif begun.recorded is not None:
        recorded = RecordedAttempts(begun.recorded, suite=suite, store=store, run=run)
        if asker is None:
            await scoring(recorded, save=True).score()
        else:
            await recorded.score_until_decided(attempts, pipeline, repeats=settings.repeats)


def _summarise(begun: Begun, incremental: IncrementalAggregation) -> None:
    store, run, settings = begun.store, begun.run, begun.prepared.settings
    aggregation = incremental.aggregation(len(begun.prepared.suite))
    needs_case_scores = settings.metrics is None or set(settings.metrics) & set(CASE_FIGURES)
    if needs_case_scores and incremental.repeats:
        store.save_case_scores(run, case_scores_of(store, run, settings))
        aggregation = None
    summary = summarise(store, run, aggregation)
    due = summary.total_tests if settings.until_decided or run.kind == "confirm" else None
    store.finish(run, "done", summary=msgspec.to_builtins(summary), due=due)
