"""Gates: a suite's limits, answered pass, fail or inconclusive (spec: metrics, B.5)."""

from collections.abc import Mapping
from functools import partial
from math import ceil

from trivium.runs.gathering.columns import Column, most_frequent
from trivium.runs.summary import GateAnswer
from trivium.suites.settings import Settings
from trivium.trust.interval import Interval
from trivium.trust.intervals import gate_answer, needs_groups


def gate_answers(settings: Settings, columns: Mapping[str, Column]) -> tuple[GateAnswer, ...]:
    """The answer of every gate of a suite, one for each limit.

    Args:
        settings: The suite's.
        columns: Figures by name, ``pass_rate`` and ``composite`` among them. A gate on a figure that
            is not there is inconclusive.
    """
    answers = []
    for name, gate in settings.gates.items():
        limits = {"at_least": gate.at_least, "at_most": gate.at_most}
        for side, limit in limits.items():
            if limit is not None:
                answers.append(
                    answer_of(
                        name,
                        columns.get(name),
                        settings.level,
                        ignore_missing=gate.missing == "ignore",
                        **{side: limit},
                    )
                )
    return tuple(answers)


def answer_of(
    name: str,
    column: Column | None,
    level: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    ignore_missing: bool = False,
) -> GateAnswer:
    """The answer of one limit.

    It passes where it does with all that is missing at its worst, and fails where it does with all of that at
    its best (spec: metrics, "What was due and is not there").

    Args:
        name: What the figure is called.
        column: The figure; None where there is none.
        level: Of its interval, in (0, 1).
        at_least: The limit, itself good; or
        at_most: the limit from the other side, itself good. Exactly one is given.
        ignore_missing: Whether what is missing is left out instead.
    """
    value = column.mean if column else None
    found = column.found if column else None
    interval = None if found is None else found.interval(level)
    decide = partial(gate_answer, at_least=at_least, at_most=at_most)
    answer = decide(interval, value)
    symbol, limit = ("≤", at_most) if at_least is None else ("≥", at_least)
    assert limit is not None  # noqa: S101 - gate_answer refuses it
    missing = column.missing if column else 0
    worst = best = None
    needs: int | None = 0
    if answer == "inconclusive":
        needs = needs_groups(found, limit, level=level)
    if column and missing and not ignore_missing:
        ends = column.extreme_intervals(level)
        worst, best = ends if at_most is None else ends[::-1]
        at_worst, at_best = decide(worst, value), decide(best, value)
        answer = "pass" if at_worst == "pass" else "fail" if at_best == "fail" else "inconclusive"
        # Where the figure alone would settle it, nothing but what is missing keeps the gate open.
        needs = 0 if answer != "inconclusive" else needs
    return GateAnswer(
        gate=f"{name} {symbol} {limit:g}",
        answer=answer,
        value=value,
        ci95=_ends(interval),
        needs_cases=needs and ceil(needs * found.n / found.groups) if found else needs,
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
