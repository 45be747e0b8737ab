"""Gates: a suite's bars, answered pass, fail or inconclusive (spec: metrics, B.5)."""

from collections.abc import Mapping
from math import ceil

from trivium.runs.gathering.columns import Column
from trivium.runs.summary import GateAnswer
from trivium.suites.settings import Settings
from trivium.trust.interval import Interval
from trivium.trust.intervals import gate_answer, needs_groups


def gate_answers(settings: Settings, columns: Mapping[str, Column]) -> tuple[GateAnswer, ...]:
    """The answer of every gate of a suite, one for each bar.

    Args:
        settings: The suite's.
        columns: Figures by name, ``pass_rate`` and ``composite`` among them. A gate on a figure that
            is not there is inconclusive.
    """
    answers = []
    for name, gate in settings.gates.items():
        bars = {"at_least": gate.at_least, "at_most": gate.at_most}
        for side, bar in bars.items():
            if bar is not None:
                answers.append(answer_of(name, columns.get(name), settings.level, **{side: bar}))
    return tuple(answers)


def answer_of(
    name: str,
    column: Column | None,
    level: float,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> GateAnswer:
    """The answer of one bar.

    Args:
        name: What the figure is called.
        column: The figure; None where there is none.
        level: Of its interval, in (0, 1).
        at_least: The bar, itself good; or
        at_most: the bar from the other side, itself good. Exactly one is given.
    """
    value = column.mean if column else None
    interval = column.interval(level) if column else None
    answer = gate_answer(interval, value, at_least=at_least, at_most=at_most)
    symbol, bar = ("≤", at_most) if at_least is None else ("≥", at_least)
    assert bar is not None  # noqa: S101 - gate_answer refuses it
    return GateAnswer(
        gate=f"{name} {symbol} {bar:g}",
        answer=answer,
        value=value,
        ci95=None if interval is None else (interval.low, interval.high),
        needs_cases=_needs_cases(interval, value, bar) if answer == "inconclusive" else 0,
    )


def _needs_cases(interval: Interval | None, value: float | None, bar: float) -> int | None:
    """About how many further cases would settle it, coming in groups as large as those there are."""
    groups = needs_groups(interval, value, bar)
    return None if groups is None or interval is None else ceil(groups * interval.n / interval.groups)
