"""Decides on the gates of a suite: pass, fail or inconclusive."""

from collections.abc import Mapping
from functools import partial
from math import ceil

from trivium.runs.columns import Column, most_frequent
from trivium.runs.summary import GateAnswer
from trivium.suites.settings import Settings
from trivium.trust.distributions import Interval
from trivium.trust.intervals import gate_answer, groups_to_settle


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
