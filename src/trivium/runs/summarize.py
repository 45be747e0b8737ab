"""Summarises a stored run: means with intervals, gates, and warnings."""

from collections.abc import Mapping, Sequence

import msgspec

from trivium.runs.aggregation import (
    FAILURES_SHOWN,
    Aggregation,
    aggregate_run,
    composite_figure,
    pass_at_k_figures,
)
from trivium.runs.certificates import acceptance_of, expired
from trivium.runs.columns import Column
from trivium.runs.costs import judge_costs_of_run
from trivium.runs.gates import gate_results
from trivium.runs.human_ceiling import human_ceiling
from trivium.runs.spread import spread_of
from trivium.runs.summary import Figure, GateAnswer, Rate, Summary
from trivium.runs.until_decided.gates import gates_of_stored, stopping, with_intervals
from trivium.runs.warnings import warnings_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.rubrics.loader import OVERALL
from trivium.suites.settings import Settings
from trivium.values import record_of


def summarise(store: Store, run: RunRecord, aggregation: Aggregation | None = None) -> Summary:
    """Summarise a run.

    A metric that the suite does not name and that applies to no attempt is left out; a warning lists it.

    Args:
        store: The store that holds the run.
        run: The run; it need not be finished.
        aggregation: Its aggregated evaluations; if None, they are read from the store.
    """
    settings = run.settings
    aggregation = aggregation or aggregate_run(store, run, settings)
    missing = aggregation.missing
    if run.kind == "human":  # some cases have no outputs by people
        missing = max(0, (run.due or 0) - aggregation.attempts)
    level = settings.level
    columns, passed = _shown(aggregation.columns, settings.metrics), aggregation.verdicts.figure(level=level)
    table = _figures(run, columns, level=level) | pass_at_k_figures(aggregation, level)
    ceiling, unlike = human_ceiling(store, run, aggregation.columns)
    acceptance, shares = ({}, {}) if settings.judge is None else acceptance_of(store, run, settings)
    summary = Summary(
        run=run.id,
        suite=run.suite_name,
        cases=aggregation.cases,
        attempts=aggregation.attempts,
        total_tests=aggregation.attempts + missing,
        passed=aggregation.passed,
        failed=aggregation.failed,
        missing=missing,
        errors={
            "attempts": aggregation.failed_attempts,
            "scores": sum(column.status["error"] for column in aggregation.columns.values()),
            "judgements": sum(_unjudged(column) for column in aggregation.columns.values()),
        },
        pass_rate=record_of(Rate, passed, value=passed.mean),
        metrics=table,
        dimension_averages={
            name: figure.mean
            for name, figure in table.items()
            if figure.tier == "judge" and figure.mean is not None and not name.endswith(".overall")
        },
        composite=composite_figure(aggregation, level=level),
        human_ceiling=ceiling,
        failures=aggregation.failures,
        failures_left_out=max(0, aggregation.failed - FAILURES_SHOWN),
        gates=(),
        warnings=(),
        spent=judge_costs_of_run(store, run, settings),
        acceptance=acceptance,
        metadata={"level": level, "resamples": settings.resamples, "seed": settings.seed} | _origin(run),
        agent=aggregation.agent.totals(),
        left_out=tuple(name for name in aggregation.columns if name not in columns),
        spread={} if settings.user is None else spread_of(store, run),
    )
    gates, stopped = _gates(store, run, settings, aggregation.all_columns | shares)
    warnings, notes = warnings_of(summary, settings, aggregation.columns, shown=set(columns))
    reservations = (*stopped, *(expired(acceptance) if acceptance else ()), *warnings, *unlike)
    origin = run.provenance.notes
    return msgspec.structs.replace(
        summary,
        gates=gates,
        # What samples or chosen cases are decides how to read everything else.
        warnings=(*origin, *reservations) if run.kind in {"live", "confirm"} else (*reservations, *origin),
        notes=notes,
    )


def _figures(run: RunRecord, columns: Mapping[str, Column], *, level: float) -> dict[str, Figure]:
    """The figures of metrics, with their units."""
    units = run.provenance.units
    return {
        name: msgspec.structs.replace(column.figure(level=level), **units.get(name, {}))
        for name, column in columns.items()
    }


def _gates(
    store: Store, run: RunRecord, settings: Settings, columns: Mapping[str, Column]
) -> tuple[tuple[GateAnswer, ...], tuple[str, ...]]:
    """The answers of the gates, and for what a run stopped that asks until they are decided."""
    gates = gate_results(settings, columns) if settings.gates else ()
    if not settings.until_decided:
        return gates, ()
    sequences = gates_of_stored(store, run, settings)
    return with_intervals(gates, sequences, settings), (stopping(sequences, run),)


def _origin(run: RunRecord) -> dict[str, object]:
    """Return the origin of a run: the agent and its version, Trivium's, the commit and the judges."""
    made = run.provenance
    return {
        "agent": made.agent,
        **({} if (version := run.names.version) is None else {"version": version}),
        "trivium": made.trivium,
        "commit": made.git and made.git.commit,
        "judges": made.judges or [],
    }


def columns_of(store: Store, run: RunRecord) -> dict[str, Column]:
    """Return the columns of a run by metric, including ``composite`` and ``pass_rate``."""
    return aggregate_run(store, run, run.settings).all_columns


def _shown(columns: dict[str, Column], asked_for: Sequence[str] | None) -> dict[str, Column]:
    if asked_for is not None:
        return columns
    return {
        name: column
        for name, column in columns.items()
        if set(column.status) != {"skipped"} or column.tier == "judge"
    }


def _unjudged(column: Column) -> int:
    """Number of judgements that no judge could make; the overall score of a rubric is not counted."""
    judged = column.tier == "judge" and not column.name.endswith(f".{OVERALL}")
    return column.unavailable - column.status["error"] if judged else 0
