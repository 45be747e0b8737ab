"""Executes a run that has begun: makes or reads its attempts, scores and stores them, and summarises it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from trivium.agents.conversation import Users
from trivium.metrics.registry import CASE_FIGURES
from trivium.runs.aggregation import IncrementalAggregation, case_scores_of
from trivium.runs.certificates import Certificates, drift_before
from trivium.runs.costs import judges_attached
from trivium.runs.engines.agent import ask_agent
from trivium.runs.engines.processes import Engine, Scoring
from trivium.runs.engines.recorded import RecordedAttempts, StoredAttempts
from trivium.runs.event_loop import (
    THRESHOLDS_WHILE_ASKING,
    THRESHOLDS_WHILE_SCORING,
    in_worker_thread,
    reduced_garbage_collection,
)
from trivium.runs.pipeline import Pipeline, Progress
from trivium.runs.run import Run
from trivium.runs.start import Begun, interrupted_by_errors
from trivium.runs.summarize import summarise
from trivium.runs.until_decided.asker import Asker, Chooser
from trivium.store.partitions.writer import PartitionWriter


async def execute(
    begun: Begun,
    *,
    workers: int | None,
    engine: Engine,
    progress: Progress,
    chooser: Chooser | None = None,
) -> Run:
    """Execute a run.

    Args:
        begun: The run.
        workers: Number of processes that score recorded outputs.
        engine: Where these processes run.
        progress: Receives the progress.
        chooser: Chooses which attempts are made; None leaves it to the settings.

    Raises:
        StoreError: If the store fails; everything stored before stays.
    """
    prepared, store, run, writer = begun.prepared, begun.store, begun.run, begun.writer
    incremental = IncrementalAggregation(prepared.settings, unordered=not begun.in_order)
    chooser = chooser or Asker.of(run, prepared.suite, prepared.settings, begun.comparison)
    pipeline = Pipeline(
        prepared,
        store,
        run,
        progress=progress,
        incremental=incremental,
        certificates=Certificates(
            prepared.settings, run.provenance, before=drift_before(store, prepared.settings)
        ),
        chooser=chooser,
        partitions=writer,
    )
    scoring = Scoring(prepared, run, pipeline, workers=workers, engine=engine, partitions=writer)
    thresholds = THRESHOLDS_WHILE_SCORING if begun.adapter is None else THRESHOLDS_WHILE_ASKING
    with interrupted_by_errors(store, run):
        try:
            progress.begin(run=run.id, total=run.due, already=begun.already)
            with reduced_garbage_collection(thresholds):
                asks = None if begun.adapter is None else prepared.settings.judge
                async with judges_attached(run, store, prepared.metrics, asks) as judges, _finished(writer):
                    await _score(begun, pipeline, scoring, chooser, judges.users)
        finally:
            await in_worker_thread(pipeline.close)
            progress.end()
        return _summarised(begun, incremental)


@asynccontextmanager
async def _finished(writer: PartitionWriter | None) -> AsyncIterator[None]:
    """Complete the last partition, also of a run that fails or is interrupted."""
    try:
        yield
    finally:
        if writer is not None:
            await in_worker_thread(writer.finish)


async def _score(
    begun: Begun, pipeline: Pipeline, scoring: Scoring, chooser: Chooser | None, users: Users
) -> None:
    """Score what is stored without evaluations, then what the agent answers or the outputs hold."""
    store, run, settings = begun.store, begun.run, begun.prepared.settings
    if chooser is not None:
        chooser.take(store.outlines(run))
    stored = StoredAttempts(store, run)
    if run.attempts_from is None:  # of before an interruption
        await pipeline.score_all(stored.left(), save=False)
    else:
        await scoring.score(stored, save=False)
    if begun.adapter is not None:
        done = set(store.attempt_keys(run))
        prepared = begun.prepared
        await ask_agent(begun.adapter, prepared, pipeline, done=done, chooser=chooser, users=users)
    elif begun.recorded is not None:
        attempts = RecordedAttempts(begun.recorded, suite=begun.prepared.suite, store=store, run=run)
        if chooser is None:
            await scoring.score(attempts, save=True)
        else:
            await attempts.score_until_decided(chooser, pipeline, repeats=settings.repeats)


def _summarised(begun: Begun, incremental: IncrementalAggregation) -> Run:
    store, run, settings = begun.store, begun.run, begun.prepared.settings
    aggregation = incremental.aggregation(len(begun.prepared.suite))
    needs_case_scores = settings.metrics is None or set(settings.metrics) & set(CASE_FIGURES)
    if needs_case_scores and incremental.repeats:
        store.save_case_scores(run, case_scores_of(store, run, settings))
        aggregation = None
    summary = summarise(store, run, aggregation)
    due = summary.total_tests if settings.until_decided or run.kind == "confirm" else None
    store.finish(run, "done", summary=msgspec.to_builtins(summary), due=due)
    return Run(store, store.run(run.id))
