"""Builds the warnings of a run: reservations that change how to read its numbers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from trivium.metrics.evaluation import pass_rule
from trivium.metrics.metric import NONE_RELEVANT, RECORDED_BY
from trivium.metrics.registry import ACCEPTED, JUDGE_FALLBACK
from trivium.runs.columns import NO_JUDGE, Column, most_frequent
from trivium.runs.summary import Summary
from trivium.suites.rubrics.loader import OVERALL
from trivium.suites.settings import Settings
from trivium.traces.readers import FORMATS
from trivium.trust.clustered import about_groups
from trivium.values import counted

_ONE_WAY = frozenset({"trivium", *FORMATS})
"""Recorders that are not the instrumentation of a framework: decorators, and files of one tool."""


def warnings_of(
    summary: Summary, settings: Settings, columns: Mapping[str, Column], *, shown: set[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the warnings of a run, most serious first, and its notes, which change no number's meaning."""
    return tuple(_warnings(summary, settings, columns, shown)), tuple(
        _notes(summary, settings, columns, shown)
    )


def _is_share(gate: str, summary: Summary) -> bool:
    """Whether a gate is on the share of accepted judgements, and there are judgements."""
    share = gate == ACCEPTED or gate.endswith(f".{ACCEPTED}")
    return share and any(each.accepted + each.to_people for each in summary.acceptance.values())


def _warnings(
    summary: Summary, settings: Settings, columns: Mapping[str, Column], shown: set[str]
) -> Iterator[str]:
    lacking = _unscored_metrics(columns, shown)
    reported = {why for _, why in lacking}  # each cause is reported once
    for column in columns.values():
        if column.tier == "judge":
            yield from _about_judgements(column)
            continue
        fallbacks = column.status["fallback"]
        if fallbacks:
            reason = _reason(column, "fallback")
            short, _, why = reason.partition(": ")
            reason = short if why in reported else reason
            reported.add(why)
            how = ", ".join(column.methods) or "another way"
            apart = f" ({column.aside.mean:.3f}, not in the mean)" if column.aside else ""
            yield f"{column.name} is a fallback in {fallbacks} of {column.attempts}: {how}{apart}. {reason}"
    yield from _about_other_judges(columns)
    yield from _about_truncated_texts(columns)
    for column in columns.values():
        for part, count in column.not_given.items():
            yield f"judges gave no usable {part} with {column.name} in {count} of {column.attempts}"
    yield from _about_attempts(summary, settings, columns)
    for name in settings.gates:
        if name not in columns and name not in {"pass_rate", "composite"} and not _is_share(name, summary):
            yield f"the gate on {name} has no answer: {name} is not among the metrics that were measured"
    yield from _about_errors(columns)
    yield from _about_traces(columns)
    yield from _about_groups(summary, settings, columns)
    yield from _without_score(lacking, settings, asked=True)


def _notes(
    summary: Summary, settings: Settings, columns: Mapping[str, Column], shown: set[str]
) -> Iterator[str]:
    yield from _about_parts(summary)
    yield from _without_score(_unscored_metrics(columns, shown), settings, asked=False)
    yield from _about_recorders(columns, shown)
    yield from _about_expectations(settings, columns, shown)


def _without_score(lacking: Iterable[tuple[str, str]], settings: Settings, *, asked: bool) -> Iterator[str]:
    """Report metrics without a score, by cause: those that the suite names, or those on by default."""
    named = {*(settings.metrics or ()), *settings.gates}
    for why, names in _by_cause(each for each in lacking if (each[0] in named) == asked).items():
        yield f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no score: {why}"


def _by_cause(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Group names by the first line of their cause."""
    by_cause: dict[str, list[str]] = {}
    for name, why in named:
        first, _, rest = why.strip().partition("\n")
        by_cause.setdefault(f"{first} …" if rest else first, []).append(name)
    return by_cause


def _about_errors(columns: Mapping[str, Column]) -> Iterator[str]:
    """Warn about metrics that failed, grouped by error."""
    failed = [
        (column.name, f"on {column.status['error']} attempts: {_reason(column, 'error')}")
        for column in columns.values()
        if column.status["error"]
    ]
    for how, names in _by_cause(failed).items():
        yield f"{', '.join(names)} failed {how}"


def _about_traces(columns: Mapping[str, Column]) -> Iterator[str]:
    """Warn about incomplete traces, documents of other names, and metrics that mix different recorders."""
    lacking: Counter[str] = Counter()
    for column in columns.values():
        lacking |= column.caveats  # the same traces, seen by each metric
    if lacking.pop(NONE_RELEVANT, 0) and (count := _found_nothing(columns)):
        of = counted(count, "attempt")
        yield f"{NONE_RELEVANT} in any of {of}: expect.relevant must name their ids or texts"
    for why, count in lacking.most_common():
        yield f"{why} ({counted(count, 'attempt')})"
    for column in columns.values():
        recorders = _recorders(column)
        if len(recorders) > 1:
            yield (
                f"{column.name} mixes traces recorded by {'; by '.join(recorders)}, which record hand-offs"
                " differently: compare it within one of them"
            )


def _found_nothing(columns: Mapping[str, Column]) -> int:
    """Number of attempts that retrieved documents, of which none is relevant; 0 if one in any attempt is."""
    found = [column for column in columns.values() if NONE_RELEVANT in column.caveats]
    return 0 if any(column.mean for column in found) else found[0].caveats[NONE_RELEVANT]


def _recorders(column: Column) -> list[str]:
    """The tools that recorded the traces of a metric, where its definition depends on them."""
    return sorted({how.rpartition(RECORDED_BY)[2] for how in column.methods if RECORDED_BY in how})


def _about_recorders(columns: Mapping[str, Column], shown: set[str]) -> Iterator[str]:
    """Say which metrics count hand-offs in the way of one framework."""
    recorded: dict[str, list[str]] = {}
    for column in columns.values():
        recorders = _recorders(column)
        if len(recorders) == 1 and column.name in shown and recorders[0] not in _ONE_WAY:
            recorded.setdefault(recorders[0], []).append(column.name)
    for recorder, names in recorded.items():
        yield (
            f"{' and '.join(names)} {'counts' if len(names) == 1 else 'count'} hand-offs as {recorder}"
            " records them, and other frameworks record them differently: compare within one"
        )


def _about_judgements(column: Column) -> Iterator[str]:
    """Warn about judgements that no judge could make; a rubric's overall score is not mentioned."""
    unjudged = column.unavailable - column.status["error"]
    if not unjudged or column.name.endswith(f".{OVERALL}"):
        return
    reasons = {
        reason: count for reason, count in column.reasons_missing.items() if reason.startswith(NO_JUDGE)
    }
    line = f"{column.name} was not judged in {unjudged} of {column.attempts}: {most_frequent(reasons)}"
    if column.aside is not None:
        aside = column.aside
        line += f"; {aside.method} is the fallback for {aside.n}: {aside.mean:.3f}, not in the mean"
    yield line


def _about_other_judges(columns: Mapping[str, Column]) -> Iterator[str]:
    """Warn about judgements that a substitute model made."""
    by_others: dict[str, list[str]] = {}
    for column in columns.values():
        if column.tier == "judge" and not column.name.endswith(f".{OVERALL}"):
            for method, count in column.methods.items():
                if method != JUDGE_FALLBACK:
                    by_others.setdefault(method, []).append(f"{column.name} in {count} of {column.attempts}")
    for method, where in by_others.items():
        yield f"judged by {method}: {', '.join(where)}"


def _about_truncated_texts(columns: Mapping[str, Column]) -> Iterator[str]:
    """Warn about texts truncated for judges; dimensions judged in one request share them."""
    most: dict[tuple[str, str], tuple[tuple[int, int, int], int]] = {}
    for column in columns.values():
        for text, sizes in column.truncated.items():
            most[text] = max(most.get(text, ((0, 0, 0), 0)), (sizes, column.attempts))
    for (name, unit), ((attempts, shown, of), every) in most.items():
        yield (
            f"judges were shown {name} in part in {attempts} of {every}: {shown:,} of {of:,} {unit} "
            "(judge.excerpt_chars)"
        )


def _about_attempts(summary: Summary, settings: Settings, columns: Mapping[str, Column]) -> Iterator[str]:
    if summary.missing:
        yield f"{summary.missing:,} of {summary.total_tests:,} attempts are missing"
    if summary.errors["attempts"]:
        effect = "left out" if settings.failed_attempts == "skip" else "counted as 0"
        yield f"{summary.errors['attempts']:,} of {counted(summary.attempts, 'attempt')} failed ({effect})"
    undecided = summary.attempts - summary.passed - summary.failed
    if undecided:
        why = _why_no_verdict(settings, columns)
        yield f"no pass/fail for {undecided:,} of {counted(summary.attempts, 'attempt')}: {why}"


def _why_no_verdict(settings: Settings, columns: Mapping[str, Column]) -> str:
    rule = pass_rule(columns, settings).metric
    if rule == "composite":
        return "parts of the composite have no score"
    if rule not in columns:
        return f"{rule}, which decides it, was not measured; add it to metrics"
    reasons = {reason: count for (kind, reason), count in columns[rule].reasons.items() if kind != "fallback"}
    return f"{rule}, which decides it, has no score" + (f": {most_frequent(reasons)}" if reasons else "")


def _about_parts(summary: Summary) -> Iterator[str]:
    figure = summary.shown_composite
    if figure is None or figure.mean is None:
        return
    there = [name for name, value in figure.parts.items() if value is not None]
    unmeasured = [name for name in figure.parts if name not in summary.metrics]
    unscored = [name for name in figure.parts if name not in {*there, *unmeasured}]
    if unmeasured or unscored:
        lacking = []
        if unscored:
            lacking.append(f"{', '.join(unscored)} had no score")
        if unmeasured:
            lacking.append(
                f"{', '.join(unmeasured)} {'was' if len(unmeasured) == 1 else 'were'} not measured"
            )
        yield f"the composite rests on {', '.join(there) or 'fallbacks'}: {'; '.join(lacking)}"


def _unscored_metrics(columns: Mapping[str, Column], shown: set[str]) -> list[tuple[str, str]]:
    """Name and reason of each metric that should have scores and has none."""
    return [
        (column.name, _reason(column, "skipped"))
        for column in columns.values()
        if column.name in shown and not column.status["ok"] + column.status["fallback"] + column.unavailable
    ]


def _about_expectations(settings: Settings, columns: Mapping[str, Column], shown: set[str]) -> Iterator[str]:
    names_alone = settings.tools.match == "names" and "tool_selection" in shown
    if names_alone and columns["tool_selection"].mean is not None:
        yield "tool_selection compares names of tools: names alone hardly predict success (see action_match)"
    steps = columns.get("path_convergence")
    if steps is None:
        return
    from trivium.metrics.graph.trajectories import WITHOUT_EXPECTATION  # imported if it was measured

    if unexpected := steps.methods[WITHOUT_EXPECTATION]:
        yield (
            f"path_convergence rests on no expectation in {unexpected} of {steps.attempts}: without "
            "expect.tools it only sees whether tools were called again, and is 1 where none was"
        )


def _about_groups(summary: Summary, settings: Settings, columns: Mapping[str, Column]) -> Iterator[str]:
    counts = {"pass_rate": summary.pass_rate.groups}
    counts |= {name: figure.groups for name, figure in summary.metrics.items()}
    groups, _, name = max((count, name in columns, name) for name, count in counts.items())
    mean = columns[name].clustered_mean if groups > 1 and name in columns else None
    equal = 0.0 if mean is None else mean.effective_groups
    yield from about_groups(groups, equal, level=settings.level)


def _reason(column: Column, status: str) -> str:
    reasons = {reason: count for (kind, reason), count in column.reasons.items() if kind == status}
    return most_frequent(reasons) if reasons else ""
