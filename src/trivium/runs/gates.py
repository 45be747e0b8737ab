"""Evaluates the gates of a suite: each passes, fails or is inconclusive."""

from collections.abc import Mapping
from math import ceil

from trivium.runs.columns import Column, most_frequent
from trivium.runs.summary import GateAnswer
from trivium.suites.settings import Settings
from trivium.trust.clustered import ClusteredMean
from trivium.trust.decision import probability_of_missing
from trivium.trust.distributions import Answer, Interval
from trivium.trust.intervals import gate_answer, groups_to_settle


def gate_results(settings: Settings, columns: Mapping[str, Column]) -> tuple[GateAnswer, ...]:
    """Evaluate every gate of a suite; a gate with two limits gives two answers.

    Args:
        settings: Settings of the suite.
        columns: Columns by name, including ``pass_rate`` and ``composite``. A gate on a name without a
            column is inconclusive.
    """
    return tuple(
        gate_result(
            name,
            columns.get(name),
            settings.level,
            ignore_missing=settings.gates[name].missing == "ignore",
            **{side: limit},
        ).by(settings.decide)
        for name, side, limit in limits_of(settings)
    )


def limits_of(settings: Settings) -> list[tuple[str, str, float]]:
    """Name, side and limit of each gate of a suite."""
    return [
        (name, side, limit)
        for name, gate in settings.gates.items()
        for side, limit in (("at_least", gate.at_least), ("at_most", gate.at_most))
        if limit is not None
    ]


def gate_result(
    name: str,
    column: Column | None,
    level: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    ignore_missing: bool = False,
) -> GateAnswer:
    """Evaluate one limit of a gate; the answer is what the interval proves.

    If scores are missing, the gate passes only if it also passes with all of them at their worst, and fails
    only if it also fails with all of them at their best (docs/definitions/scores.md#missing-scores).

    Args:
        name: Name shown for the metric.
        column: The values, or None if there are none.
        level: Confidence level of the interval, in (0, 1).
        at_least: The lowest value that passes. Give exactly one of the two limits.
        at_most: The highest value that passes.
        ignore_missing: Whether to ignore missing scores.
    """
    estimate = column.clustered_mean if column else None
    limits = {"at_least": at_least, "at_most": at_most}
    known, answer, _ = check = _checked(estimate, level, limits)
    symbol, limit = ("≤", at_most) if at_least is None else ("≥", at_least)
    assert limit is not None  # noqa: S101 - gate_answer refuses it
    missing = column.missing if column else 0
    cases = [check]
    needs: int | None = 0
    if answer == "inconclusive":
        needs = groups_to_settle(estimate, limit, level=level)
    if column and missing and not ignore_missing:
        ends = column.extreme_means()
        cases = [_checked(end, level, limits) for end in (ends if at_most is None else ends[::-1])]
        worst, best = (of_end for _, of_end, _ in cases)
        if estimate is not None:  # without a measured value, any answer would rest on assumptions alone
            answer = "pass" if worst == "pass" else "fail" if best == "fail" else "inconclusive"
        # If the present values settle the gate, only the missing ones keep it open.
        needs = 0 if answer != "inconclusive" else needs
    return GateAnswer(
        gate=f"{name} {symbol} {limit:g}",
        answer=answer,
        proof=answer,
        probabilities=tuple(chance for *_, chance in cases if chance is not None and estimate),
        value=column.mean if column else None,
        ci95=_ends(known),
        needs_cases=needs and ceil(needs * estimate.n / estimate.groups) if estimate else needs,
        needs_groups=needs,
        missing=missing,
        due=column.due if column else 0,
        why=most_frequent(column.reasons_missing) if column and missing else None,
        ignored=ignore_missing,
        worst=_ends(cases[0][0]) if len(cases) == 2 else None,
        best=_ends(cases[1][0]) if len(cases) == 2 else None,
    )


def _checked(
    mean: ClusteredMean | None, level: float, limits: dict[str, float | None]
) -> tuple[Interval | None, Answer, float | None]:
    """Check a mean against a limit: its interval, what that proves, and how likely the mean misses it."""
    interval = None if mean is None else mean.interval(level)
    answer = gate_answer(interval, None if mean is None else mean.mean, **limits)
    if mean is None or interval is None:
        return interval, answer, None
    return interval, answer, probability_of_missing(mean.mean, interval, **limits)


def _ends(interval: Interval | None) -> tuple[float, float] | None:
    return None if interval is None else (interval.low, interval.high)
