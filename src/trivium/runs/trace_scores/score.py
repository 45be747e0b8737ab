"""Scores recorded traces by every metric that needs no expectation, and stores them as a run."""

from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Unpack

import msgspec

from trivium.errors import InputError
from trivium.keywords import keywords, taken
from trivium.records.source import name_of
from trivium.runs.evaluate import evaluate
from trivium.runs.event_loop import THRESHOLDS_WHILE_SCORING, reduced_garbage_collection
from trivium.runs.summary import Summary
from trivium.runs.trace_scores.report import TraceReport
from trivium.runs.trace_scores.selection import Selection
from trivium.runs.trace_scores.settings import TraceScoringOptions, settings_of_traces
from trivium.runs.trace_scores.spool import Spool, spooled
from trivium.store.connection import DEFAULT_URL
from trivium.suites.suite import Suite
from trivium.traces.conversations import by_conversation
from trivium.traces.trace import Trace
from trivium.values import counted, record_of

BY = ("trace", "conversation")
"""What may be scored."""

TraceSource = str | PathLike[str] | Trace


@keywords(by="trace", trace_ids=(), tags=(), agents=(), store=DEFAULT_URL, workers=1, engine="local")
def score_traces(
    traces: TraceSource | Iterable[TraceSource], **options: Unpack[TraceScoringOptions]
) -> TraceReport:
    """Score recorded traces that belong to no suite; nothing is known but what they record.

    Every metric that needs no expectation is computed, with figures by agent, tool and model. Each trace is a
    case of the stored run; it passes if it completed (metric ``completed``). Files are read one at a time,
    and traces are kept on disk, so that memory stays bounded.

    Args:
        traces: Files, folders (searched for files of any known format) or :class:`Trace` objects, or one.
        **options: See :class:`~trivium.runs.trace_scores.settings.TraceScoringOptions`.

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
    settings = settings_of_traces(options["metrics"], options["judge"], options["rubric"], options["config"])
    wanted = ("trace_ids", "tags", "agents", "since", "until")
    selection = Selection(**taken(wanted, options))
    if options["by"] not in BY:
        raise InputError("by", f'found "{options["by"]}", expected one of: {", ".join(BY)}')
    keeping = spooled(
        sources,
        format=options["format"],
        selection=selection,
        limit=settings.limits.output_bytes,
        joined=by_conversation if options["by"] == "conversation" else iter,
    )
    with reduced_garbage_collection(THRESHOLDS_WHILE_SCORING), keeping as spool:
        notes = tuple(_notes(spool, selection))
        name = options["name"] or _name(sources)
        suite = Suite(name=name, cases=spool.cases, settings=settings, notes=notes)
        how = taken(("store", "resume", "workers", "engine", "progress"), options)
        run = evaluate(suite, outputs=spool, **how)
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


def _report(spool: Spool, selection: Selection, run: str, summary: Summary) -> TraceReport:
    files, totals = spool.files, spool.totals
    return record_of(
        TraceReport,
        totals.whole,
        run=run,
        source=spool.name,
        files=files.files,
        formats=dict(files.formats.most_common()),
        unreadable=files.unreadable,
        problems=tuple(files.problems),
        without_traces=tuple(files.without_traces),
        not_selected=selection.left_out,
        renamed=spool.renamed,
        agents=totals.agents,
        tools=totals.tools,
        models=totals.models,
        worst=totals.worst,
        summary=summary,
    )
