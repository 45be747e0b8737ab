"""Gates: a suite's bars, answered pass, fail or inconclusive (spec: metrics, B.5)."""

from collections.abc import Mapping
from math import ceil

from trivium.runs.columns import Column
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
        column = columns.get(name)
        for symbol, bar in (("≥", gate.at_least), ("≤", gate.at_most)):
            if bar is not None:
                answers.append(
                    _answer(f"{name} {symbol} {bar:g}", column, bar, settings.level, at_least=symbol == "≥")
                )
    return tuple(answers)


def _answer(text: str, column: Column | None, bar: float, level: float, *, at_least: bool) -> GateAnswer:
    value = column.mean if column else None
    interval = column.interval(level) if column else None
    limit = {"at_least": bar} if at_least else {"at_most": bar}
    answer = gate_answer(interval, value, **limit)
    return GateAnswer(
        gate=text,
        answer=answer,
        value=value,
        ci95=None if interval is None else (interval.low, interval.high),
        needs_cases=_needs_cases(interval, value, bar) if answer == "inconclusive" else 0,
    )


def _needs_cases(interval: Interval | None, value: float | None, bar: float) -> int | None:
    """About how many further cases would settle it, coming in groups as large as those there are."""
    groups = needs_groups(interval, value, bar)
    return None if groups is None or interval is None else ceil(groups * interval.n / interval.groups)
