"""Warnings: what a reader of a run must know before reading its numbers."""

from collections.abc import Iterator, Mapping

from trivium.metrics.registry import STAND_IN
from trivium.runs.gathering.columns import Column
from trivium.runs.summary import Summary
from trivium.suites.rubrics.checking import OVERALL
from trivium.suites.settings import Settings

NO_JUDGE = "no judge"
"""How the reason of a judgement begins that was due and could not be had."""

FEW_GROUPS = 20
TOO_FEW_GROUPS = 10
"""Under these, intervals are warned of, and not called by their level (spec: metrics, B.3)."""


def warnings_of(
    summary: Summary, settings: Settings, columns: Mapping[str, Column], *, shown: set[str]
) -> tuple[str, ...]:
    """The warnings of a run, the gravest first."""
    return tuple(_warnings(summary, settings, columns, shown))


def _warnings(
    summary: Summary, settings: Settings, columns: Mapping[str, Column], shown: set[str]
) -> Iterator[str]:
    lacking = list(_about_what_is_lacking(columns, shown))
    told = {why for _, why in lacking}  # each cause is told once
    for column in columns.values():
        leaning = column.status["fallback"]
        if leaning:
            how = STAND_IN if column.tier == "judge" else ", ".join(column.methods) or "another way"
            reason = _reason(column, "fallback")
            short, _, why = reason.partition(": ")
            reason = short if why in told else reason
            told.add(why)
            yield f"{column.name} is a fallback in {leaning} of {column.attempts}: {how}. {reason}"
    yield from _about_judges(columns)
    yield from _about_attempts(summary, settings)
    for name in settings.gates:
        if name not in columns and name not in {"pass_rate", "composite"}:
            yield f"the gate on {name} has no answer: {name} is not among the metrics that were measured"
    for column in columns.values():
        if column.status["error"]:
            yield f"{column.name} failed on {column.status['error']} attempts: {_reason(column, 'error')}"
    yield from _about_groups(summary, settings)
    yield from _about_parts(summary)
    yield from (f"{name} has no score: {why}" for name, why in lacking)
    yield from _about_what_is_left_out(settings, columns, shown)


def _about_judges(columns: Mapping[str, Column]) -> Iterator[str]:
    """Judgements that were due and left out, or made by others than those who should have made them.

    Those that failed or were stood in for are told of anyway.
    """
    by_others: dict[str, list[str]] = {}
    for column in columns.values():
        unjudged = sum(
            count
            for (kind, reason), count in column.reasons.items()
            if column.tier == "judge" and kind == "skipped" and reason.startswith(NO_JUDGE)
        )
        if unjudged and column.status["ok"]:
            yield (
                f"{column.name} was not judged in {unjudged} of {column.attempts}: "
                f"{_reason(column, 'skipped', beginning=NO_JUDGE)}"
            )
        if column.tier == "judge" and not column.name.endswith(f".{OVERALL}"):
            for method, count in column.methods.items():
                if method != STAND_IN:
                    by_others.setdefault(method, []).append(f"{column.name} in {count} of {column.attempts}")
    for method, where in by_others.items():
        yield f"judged by {method}: {', '.join(where)}"


def _about_attempts(summary: Summary, settings: Settings) -> Iterator[str]:
    if summary.missing:
        yield f"{summary.missing} of {summary.total_tests} attempts are missing"
    if summary.errors["attempts"]:
        effect = "left out" if settings.failed_attempts == "skip" else "counted as 0"
        yield f"{summary.errors['attempts']} of {summary.attempts} attempts failed ({effect})"
    undecided = summary.attempts - summary.passed - summary.failed
    if undecided:
        yield f"{undecided} of {summary.attempts} attempts have no verdict: what decides it has no value"


def _about_parts(summary: Summary) -> Iterator[str]:
    if summary.composite is None or summary.composite.mean is None:
        return
    parts = summary.composite.parts
    absent = [name for name, value in parts.items() if value is None]
    if absent:
        rest = [name for name in parts if name not in absent]
        if rest:
            yield f"the composite rests on {', '.join(rest)}: {', '.join(absent)} had no score"


def _about_what_is_lacking(columns: Mapping[str, Column], shown: set[str]) -> Iterator[tuple[str, str]]:
    """Of each metric that should have scores and has none its name, and why."""
    for column in columns.values():
        scored = column.status["ok"] + column.status["fallback"] + column.status["error"]
        if column.name in shown and not scored:
            yield column.name, _reason(column, "skipped")


def _about_what_is_left_out(
    settings: Settings, columns: Mapping[str, Column], shown: set[str]
) -> Iterator[str]:
    hidden = [name for name in columns if name not in shown]
    if hidden:
        yield f"not applicable here and left out: {', '.join(hidden)}"
    names_alone = settings.tools.match == "names" and "tool_selection" in shown
    if names_alone and columns["tool_selection"].mean is not None:
        yield "tool_selection compares names of tools: names alone hardly predict success (see action_match)"


def _about_groups(summary: Summary, settings: Settings) -> Iterator[str]:
    groups = max([summary.pass_rate.groups, *(figure.groups for figure in summary.metrics.values())])
    if groups == 1:
        yield "one group gives no interval: it cannot be told how much another group would differ"
    elif 1 < groups < TOO_FEW_GROUPS:
        yield f"intervals rest on {groups} groups: too few to call them {100 * settings.level:g} % intervals"
    elif TOO_FEW_GROUPS <= groups < FEW_GROUPS:
        yield f"intervals rest on {groups} groups: they may be somewhat too narrow"


def _reason(column: Column, status: str, *, beginning: str = "") -> str:
    reasons = [
        (count, reason)
        for (kind, reason), count in column.reasons.items()
        if kind == status and reason.startswith(beginning)
    ]
    if not reasons:
        return ""
    most = max(reasons)[1]
    return most if len(reasons) == 1 else f"{most} (and {len(reasons) - 1} other reasons)"
