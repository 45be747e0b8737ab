"""Scores recorded traces by every metric that needs no expectation, and stores them as a run."""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from trivium.errors import InputError
from trivium.runs.engines.processes import Engine
from trivium.runs.evaluate import evaluate
from trivium.runs.event_loop import THRESHOLDS_WHILE_SCORING, reduced_garbage_collection
from trivium.runs.pipeline import Progress
from trivium.runs.summary import Summary
from trivium.runs.trace_scores.report import TraceReport
from trivium.runs.trace_scores.selection import Moment, Selection
from trivium.runs.trace_scores.settings import Judge, Rubrics, settings_of_traces
from trivium.runs.trace_scores.spool import Spool
from trivium.store.connection import DEFAULT_URL
from trivium.store.store import Store
from trivium.suites.files.many_files import name_of
from trivium.suites.suite import Suite
from trivium.traces.trace import Trace

TraceSource = str | PathLike[str] | Trace


def score_traces(
    traces: TraceSource | Iterable[TraceSource],
    *,
    format: str | None = None,  # noqa: A002
    metrics: Sequence[str] | None = None,
    judge: Judge | None = None,
    rubric: Rubrics | None = None,
    trace_ids: Sequence[str] = (),
    tags: Sequence[str] = (),
    agents: Sequence[str] = (),
    since: Moment | None = None,
    until: Moment | None = None,
    name: str | None = None,
    config: str | PathLike[str] | None = None,
    store: str | Path | Store = DEFAULT_URL,
    resume: str | None = None,
    workers: int | None = 1,
    engine: Engine = "local",
    progress: Progress | None = None,
) -> TraceReport:
    """Score recorded traces that belong to no suite; nothing is known but what they record.

    Every metric that needs no expectation is computed, with figures by agent, tool and model. Each trace is a
    case of the stored run; it passes if it completed (metric ``completed``). Files are read one at a time,
    and traces are kept on disk, so that memory stays bounded.

    Args:
        traces: Files, folders (searched for files of any known format) or :class:`Trace` objects, or one.
        format: Format of all files; detected for each if None.
        metrics: Metrics that replace those; none may need an expectation.
        judge: Model or models that judge the traces by a rubric, or settings of the judge.
        rubric: Rubric or rubrics of the judge (default: ``agent``); dimensions that need a reference are left
            out.
        trace_ids: Score only traces with one of these ids.
        tags: Score only traces with one of these tags.
        agents: Score only traces in which one of these agents acted.
        since: Score only traces that began then or later: a datetime, an ISO date or time, or ``24h``.
        until: Score only traces that began before this time.
        name: Name of the run's suite (default: the name of the first file or folder).
        config: A file of settings, such as ``tools``, ``messages``, ``judge`` and ``gates``.
        store: The store, or its URL.
        resume: Id of an interrupted run of the same traces to finish.
        workers: Number of processes that score; see :func:`trivium.evaluate`.
        engine: Where they run: ``local``, or ``ray`` for a Ray cluster. This process reads the files.
        progress: Receives the progress of the run.

    Returns:
        The figures, and the summary of the stored run.

    Raises:
        InputError: If no trace can be read or none is selected, or an option is wrong.
        StoreError: If the store fails.

    Examples:
        >>> report = score_traces(Trace(trace_id="t1", spans=()))
        >>> report.traces, report.failed
        (1, 0)
    """
    sources = [traces] if isinstance(traces, str | PathLike | Trace) else list(traces)
    if not sources:
        raise InputError("traces", "names no file, folder or trace")
    settings = settings_of_traces(metrics, judge, rubric, config)
    selection = Selection(trace_ids=trace_ids, tags=tags, agents=agents, since=since, until=until)
    spool = Spool(sources, format=format, selection=selection, limit=settings.limits.output_bytes)
    with reduced_garbage_collection(THRESHOLDS_WHILE_SCORING), spool:
        notes = tuple(_notes(spool, selection))
        suite = Suite(name=name or _name(sources), cases=spool.cases, settings=settings, notes=notes)
        run = evaluate(
            suite,
            outputs=spool.attempts,
            store=store,
            resume=resume,
            workers=workers,
            engine=engine,
            progress=progress,
        )
        summary = msgspec.convert(run.record.summary, Summary)
        return _report(spool, selection, run.id, summary)


def _name(sources: Sequence[Any]) -> str:
    """Name of the run's suite: that of the first file or folder."""
    first = next((str(source) for source in sources if not isinstance(source, Trace)), None)
    return (name_of(first) if first is not None else "") or "traces"


def _notes(spool: Spool, selection: Selection) -> Iterator[str]:
    """Reservations about what was read, which the run keeps."""
    files = spool.files
    if files.unreadable:
        first = files.problems[0]
        what = counted(files.unreadable, "file or trace", "files or traces")
        yield f"{what} left out, because unreadable (first: {first})"
    if spool.renamed:
        yield (
            f"{counted(spool.renamed, 'trace')} without an id of {'its' if spool.renamed == 1 else 'their'} "
            "own, or with one that an earlier trace has: named after the file, and counted like the others"
        )
    if selection.undated:
        yield f"{counted(selection.undated, 'trace')} left out by --since or --until: without a time of day"


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """``1 trace``, ``1,200 traces``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _report(spool: Spool, selection: Selection, run: str, summary: Summary) -> TraceReport:
    files, totals = spool.files, spool.totals
    whole = totals.whole
    return TraceReport(
        run=run,
        source=spool.name,
        traces=whole.traces,
        failed=whole.failed,
        unfinished=whole.unfinished,
        files=files.files,
        formats=dict(files.formats.most_common()),
        unreadable=files.unreadable,
        problems=tuple(files.problems),
        without_traces=tuple(files.without_traces),
        not_selected=selection.left_out,
        renamed=spool.renamed,
        seconds=whole.seconds,
        tokens=whole.tokens,
        calls=whole.calls,
        failed_calls=whole.failed_calls,
        retries=whole.retries,
        loops=whole.loops,
        agents=totals.agents,
        tools=totals.tools,
        models=totals.models,
        worst=totals.worst,
        summary=summary,
    )
