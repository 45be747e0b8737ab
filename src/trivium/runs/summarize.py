"""Summarises a stored run: means with intervals, gates, and scores of single cases."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import ceil
from typing import Any

import msgspec

from trivium.metrics.evaluation import (
    RECOMMENDATION_WEIGHTS,
    TOLERANCE,
    distance_to_threshold,
    may_recommend,
    measures_result,
    nearest_threshold,
    recommend,
)
from trivium.metrics.metric import Score
from trivium.runs.aggregation import FAILURES_SHOWN, Aggregation, aggregate_run
from trivium.runs.case_values import REDUCERS, pass_at_k, pass_hat_k
from trivium.runs.certificates import acceptance_of, expired
from trivium.runs.columns import Column, most_frequent
from trivium.runs.costs.judges import judge_costs_of_run
from trivium.runs.human_ceiling import human_ceiling
from trivium.runs.summary import CompositeFigure, Figure, GateAnswer, Rate, Summary
from trivium.runs.until_decided.gates import gates_of_stored, stopping, with_intervals
from trivium.runs.warnings import warnings_of
from trivium.store.records import RunRecord
from trivium.store.store import Store
from trivium.suites.rubrics.loader import OVERALL
from trivium.suites.settings import Settings
from trivium.trust.distributions import Interval
from trivium.trust.intervals import gate_answer, groups_to_settle, probability_of_change


def summarise(store: Store, run: RunRecord, aggregation: Aggregation | None = None) -> Summary:
    """Summarise a run.

    A metric that the suite does not name and that applies to no attempt is left out; a warning lists it.

    Args:
        store: The store that holds the run.
        run: The run; it need not be finished.
        aggregation: Its aggregated evaluations; if None, they are read from the store.
    """
    settings = msgspec.convert(run.settings, Settings)
    aggregation = aggregation or aggregate_run(store, run, settings)
    missing = aggregation.missing
    if run.kind == "human":  # some cases have no outputs by people
        missing = max(0, (run.due or 0) - aggregation.attempts)
    level = settings.level
    columns = _shown(aggregation.columns, settings.metrics)
    units = run.provenance.get("units", {})
    table = {
        name: msgspec.structs.replace(column.figure(level=level), **units.get(name, {}))
        for name, column in columns.items()
    }
    table |= _pass_at_k_figures(aggregation, level)
    rate = aggregation.verdicts.figure(level=level)
    composite = _composite(aggregation, level=level)
    ceiling, unlike = human_ceiling(store, run, aggregation.columns)
    acceptance, shares = acceptance_of(store, run, settings)
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
        pass_rate=Rate(
            value=rate.mean,
            ci95=rate.ci95,
            n=rate.n,
            groups=rate.groups,
            method=rate.method,
            coverage=rate.coverage,
        ),
        metrics=table,
        dimension_averages={
            name: figure.mean
            for name, figure in table.items()
            if figure.tier == "judge" and figure.mean is not None and not name.endswith(".overall")
        },
        composite=composite,
        human_ceiling=ceiling,
        failures=aggregation.failures,
        failures_left_out=max(0, aggregation.failures_seen - FAILURES_SHOWN),
        gates=(),
        warnings=(),
        spent=judge_costs_of_run(store, run, settings),
        acceptance=acceptance,
        metadata={"level": level, "resamples": settings.resamples, "seed": settings.seed} | _origin(run),
        agent=aggregation.agent.totals(),
        left_out=tuple(name for name in aggregation.columns if name not in columns),
    )
    warnings, notes = warnings_of(summary, settings, aggregation.columns, shown=set(columns))
    origin = run.provenance.get("notes", ())
    gates = gate_results(settings, aggregation.all_columns | shares)
    stopped: tuple[str, ...] = ()
    if settings.until_decided:
        sequences = gates_of_stored(store, run, settings)
        gates, stopped = (
            with_intervals(gates, sequences, settings),
            (stopping(sequences, run),),
        )
    reservations = (*stopped, *expired(acceptance), *warnings, *unlike)
    return msgspec.structs.replace(
        summary,
        gates=gates,
        # What the samples of a monitor are decides how to read everything else.
        warnings=(*origin, *reservations) if run.kind == "live" else (*reservations, *origin),
        notes=notes,
    )


def _origin(run: RunRecord) -> dict[str, Any]:
    """What a summary says of a run's origin: the agent, the version of Trivium, the commit and the judges."""
    made = run.provenance
    git = made.get("git") or {}
    return {
        "agent": made.get("agent"),
        "trivium": made.get("trivium"),
        "commit": git.get("commit"),
        "judges": list(made.get("judges", ())),
    }


def columns_of(store: Store, run: RunRecord) -> dict[str, Column]:
    """Return the columns of a run by metric, including ``composite`` and ``pass_rate``."""
    return aggregate_run(store, run, msgspec.convert(run.settings, Settings)).all_columns


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


def _pass_at_k_figures(aggregation: Aggregation, level: float) -> dict[str, Figure]:
    """Compute pass@k and pass^k over the cases with at least k attempts.

    Definitions: docs/definitions/scores.md#pass-at-k, docs/definitions/scores.md#pass-hat-k.
    """
    verdict_counts = aggregation.verdict_counts
    max_attempts = max((int(block[::2].max()) for block in verdict_counts.blocks()), default=0)
    if max_attempts < 2:
        return {}
    figures = {}
    for symbol, chance in (("@", pass_at_k), ("^", pass_hat_k)):
        for k in _ks(max_attempts):
            column = Column(f"pass{symbol}{k}", "composite", aggregation.clusters)
            first = 0
            for block in verdict_counts.blocks():
                chances = [
                    chance(attempts, successes, k) if attempts >= k else None
                    for attempts, successes in block.reshape(-1, 2).tolist()
                ]
                column.add_values(range(first, first + len(chances)), chances, REDUCERS["mean"])
                first += len(chances)
            figures[column.name] = column.figure(level=level)
    return figures


def _ks(max_attempts: int) -> list[int]:
    """Return 1 to 5, then doubling, and the largest."""
    ks = [k for k in range(1, 6) if k <= max_attempts]
    while ks[-1] * 2 <= max_attempts:
        ks.append(ks[-1] * 2)
    return ks if ks[-1] == max_attempts else [*ks, max_attempts]


def _composite(aggregation: Aggregation, *, level: float) -> CompositeFigure | None:
    settings = aggregation.settings.composite
    parts = [name for name, weight in settings.weights.items() if weight]
    if not parts:
        return None
    column = aggregation.composite
    figure = column.figure(level=level)
    means = {name: aggregation.columns[name].mean if name in aggregation.columns else None for name in parts}
    result = any(
        mean is not None and measures_result(name, aggregation.columns[name].tier)
        for name, mean in means.items()
    )
    coverage = aggregation.coverage
    all_failed = 0 < aggregation.attempts == aggregation.failed_attempts
    why_none = None
    if figure.mean is None:
        why_none = "no part has a score"
    elif not (all_failed or may_recommend(coverage, settings, result=result)):
        why_none = "nothing that looks at the result has a score" if not result else "too little was measured"
    recommended = figure.mean if why_none is None else None
    return CompositeFigure(
        mean=figure.mean,
        ci95=figure.ci95,
        n=figure.n,
        coverage=coverage,
        groups=figure.groups,
        status=figure.status,
        method=figure.method,
        recommendation=None if recommended is None else recommend(recommended, settings.thresholds),
        why_none=why_none,
        threshold=None if recommended is None else nearest_threshold(recommended, settings.thresholds),
        distance=None if recommended is None else distance_to_threshold(recommended, settings.thresholds),
        p_change=None if recommended is None else _probability_of_change(aggregation),
        recommendations={
            name: aggregation.recommendations[name]
            for name in RECOMMENDATION_WEIGHTS
            if aggregation.recommendations[name]
        },
        parts=means,
        missing=column.missing,
    )


def _probability_of_change(aggregation: Aggregation) -> float | None:
    """Probability that other cases would lead to another recommendation.

    Definition: docs/definitions/scores.md#probability-of-change.
    """
    limits = aggregation.settings.composite.thresholds
    edges = (limits.weak_reject, limits.weak_accept, limits.accept)
    return probability_of_change(aggregation.composite.clustered_mean, [edge - TOLERANCE for edge in edges])


def case_scores_of(
    store: Store, run: RunRecord, settings: Settings
) -> Iterator[tuple[int, dict[str, Score]]]:
    """Yield (position, scores by name) of every case with at least two attempts that have a trace."""
    from trivium.metrics.graph.trajectories import path_agreement  # imported by runs with traces only

    ignored = frozenset(settings.tools.ignore)
    for position, stored in groupby(store.attempts(run), key=lambda one: one.position):
        traces = [one.attempt.trace for one in stored if not one.attempt.failed]
        sequences = [
            [call.name for call in trace.tool_calls if call.name not in ignored]
            for trace in traces
            if trace is not None
        ]
        if len(sequences) > 1:
            yield position, {"path_agreement": path_agreement(sequences)}


def gate_results(settings: Settings, columns: Mapping[str, Column]) -> tuple[GateAnswer, ...]:
    """Evaluate every gate of a suite; a gate with two limits gives two answers.

    Args:
        settings: Settings of the suite.
        columns: Columns by name, including ``pass_rate`` and ``composite``. A gate on a name without a
            column is inconclusive.
    """
    answers = []
    for name, gate in settings.gates.items():
        limits = {"at_least": gate.at_least, "at_most": gate.at_most}
        for side, limit in limits.items():
            if limit is not None:
                answers.append(
                    gate_result(
                        name,
                        columns.get(name),
                        settings.level,
                        ignore_missing=gate.missing == "ignore",
                        **{side: limit},
                    )
                )
    return tuple(answers)


def gate_result(
    name: str,
    column: Column | None,
    level: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    ignore_missing: bool = False,
) -> GateAnswer:
    """Evaluate one limit of a gate.

    With missing scores, it passes only if it also passes with all of them at their worst, and fails only if
    it also fails with all of them at their best (docs/definitions/scores.md#missing-scores).

    Args:
        name: Name shown for the metric.
        column: The values, or None if there are none.
        level: Confidence level of the interval, in (0, 1).
        at_least: The lowest value that passes. Give exactly one of the two limits.
        at_most: The highest value that passes.
        ignore_missing: Whether to ignore missing scores.
    """
    value = column.mean if column else None
    estimate = column.clustered_mean if column else None
    interval = None if estimate is None else estimate.interval(level)
    decide = partial(gate_answer, at_least=at_least, at_most=at_most)
    answer = decide(interval, value)
    symbol, limit = ("≤", at_most) if at_least is None else ("≥", at_least)
    assert limit is not None  # noqa: S101 - gate_answer refuses it
    missing = column.missing if column else 0
    worst = best = None
    needs: int | None = 0
    if answer == "inconclusive":
        needs = groups_to_settle(estimate, limit, level=level)
    if column and missing and not ignore_missing:
        ends = column.extreme_intervals(level)
        worst, best = ends if at_most is None else ends[::-1]
        at_worst, at_best = decide(worst, value), decide(best, value)
        answer = "pass" if at_worst == "pass" else "fail" if at_best == "fail" else "inconclusive"
        # If the present values settle the gate, only the missing ones keep it open.
        needs = 0 if answer != "inconclusive" else needs
    return GateAnswer(
        gate=f"{name} {symbol} {limit:g}",
        answer=answer,
        value=value,
        ci95=_ends(interval),
        needs_cases=needs and ceil(needs * estimate.n / estimate.groups) if estimate else needs,
        needs_groups=needs,
        missing=missing,
        due=column.due if column else 0,
        why=most_frequent(column.reasons_missing) if column and missing else None,
        ignored=ignore_missing,
        worst=_ends(worst),
        best=_ends(best),
    )


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)
