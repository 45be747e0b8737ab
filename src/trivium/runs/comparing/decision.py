"""Checks whether two runs are comparable, and decides on each difference: pass, fail or inconclusive."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Self, TypedDict

import msgspec
import numpy as np

from trivium.errors import ComparisonError, Problem
from trivium.runs.comparing.comparison import MetricDelta
from trivium.runs.comparing.pairing import PairedScores, Pairing
from trivium.runs.run import Run
from trivium.store.records import RunKind
from trivium.suites.case import Case
from trivium.suites.digest import digest_of
from trivium.suites.settings import JudgeSettings, Settings
from trivium.trust.multiple_testing import holm
from trivium.trust.paired import Answer, Paired, non_inferiority, overall, paired_means, settling_groups
from trivium.values import json_text

_MEANING = (
    "references",
    "group",
    "reduce",
    "failed_attempts",
    "similarity",
    "success",
    "passed",
    "tools",
    "messages",
)
"""Settings that change the meaning of a score. The encoder is not among them, because scores name it."""

_OPERATION = frozenset(
    {"concurrency", "timeout", "budget_usd", "budget_tokens", "prices", "cache", "certificate"}
)
"""Settings of a judge that change its cost or speed, not its judgements."""

_RECORDED = ("metrics", "judge")
"""Parts of the provenance that determine scores: versions of metrics, models and prompts of judges."""

_CASES_NAMED = 5
WORST_SHOWN = 5


def incomparabilities(base: Run, head: Run) -> Iterator[str]:
    """Describe each difference that makes two runs incomparable."""
    yield from differences_from(
        base,
        kind=head.record.kind,
        provenance=head.provenance,
        settings=msgspec.convert(head.record.settings, Settings),
        suite=head.record.suite,
        cases=head.cases,
    )


def differences_from(
    base: Run,
    *,
    kind: RunKind,
    provenance: Mapping[str, Any],
    settings: Settings,
    suite: str,
    cases: Callable[[], Iterable[Case]],
) -> Iterator[str]:
    """Describe each difference that makes a run, which need not have begun, incomparable with another.

    Args:
        base: The other run.
        kind: Kind of the run.
        provenance: At least the versions of its metrics and its judge.
        settings: Its settings.
        suite: Digest of its suite.
        cases: Reads its cases.
    """
    if (base.record.kind == "human") != (kind == "human"):
        yield "one run holds people's own outputs, scored against each other: its references differ"
    for part in _RECORDED:
        yield from _recorded(part, base.provenance.get(part), provenance.get(part))
    yield from _settings(msgspec.convert(base.record.settings, Settings), settings)
    if base.record.suite != suite:
        yield from _cases(base, cases())


def _recorded(part: str, base: Any, head: Any) -> Iterator[str]:
    if not (isinstance(base, Mapping) and isinstance(head, Mapping)):
        return
    # Settings of the judge are compared in _settings.
    elsewhere = JudgeSettings.__struct_fields__ if part == "judge" else ()
    for name in base:
        if part == "judge" and name == "addresses" and name in head:
            yield from _addresses(base[name], head[name])
        elif name not in elsewhere and name in head and base[name] != head[name]:
            yield f"{part}.{name}: {_short(base[name])} in base, {_short(head[name])} in head"


def _addresses(base: Mapping[str, str | None], head: Mapping[str, str | None]) -> Iterator[str]:
    """Describe models with different addresses; an unavailable model has none, and is not reported here."""
    for model, ours in base.items():
        theirs = head.get(model)
        if ours is not None and theirs is not None and ours != theirs:
            yield f"{model} was asked at {ours} in base, at {theirs} in head"


def _settings(base: Settings, head: Settings) -> Iterator[str]:
    pairs = {name: (getattr(base, name), getattr(head, name)) for name in _MEANING}
    pairs["composite.weights"] = base.composite.weights, head.composite.weights
    pairs["composite.missing"] = base.composite.missing, head.composite.missing
    if base.judge and head.judge:
        names = [name for name in JudgeSettings.__struct_fields__ if name not in _OPERATION]
        pairs |= {f"judge.{name}": (_setting(base.judge, name), _setting(head.judge, name)) for name in names}
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield f"{'pass' if name == 'passed' else name}: {_short(ours)} in base, {_short(theirs)} in head"


def _setting(judge: JudgeSettings, name: str) -> Any:
    """Return a setting of a judge; for rubrics of the suite, name and digest."""
    if name != "rubric":
        return getattr(judge, name)
    return [each if isinstance(each, str) else f"{each.name} {each.digest}" for each in judge.rubric]


def _cases(base: Run, cases: Iterable[Case]) -> Iterator[str]:
    known = {case.id: _content(case) for case in base.cases()}
    changed = [case.id for case in cases if known.get(case.id, content := _content(case)) != content]
    if changed:
        named = ", ".join(changed[:_CASES_NAMED]) + (", …" if len(changed) > _CASES_NAMED else "")
        yield f"{len(changed):,} of the cases have changed: {named}"


def _content(case: Case) -> str:
    """Digest of a case without its tags and metadata."""
    return digest_of([msgspec.structs.replace(case, tags=(), metadata={})])


def _short(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


class Statistics(TypedDict, total=False):
    """Options of a comparison that a user may give; None means the setting of head's suite."""

    margin: float | None
    level: float | None
    resamples: int | None
    seed: int | None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a comparison.

    Attributes:
        margin: The loss that does not matter, in [0, 1].
        level: Confidence level of the intervals, in (0, 1).
        resamples: Number of bootstrap resamples, at least 1.
        seed: Seed of the bootstrap, at least 0.
    """

    margin: float
    level: float
    resamples: int
    seed: int

    @classmethod
    def of(cls, head: Run, given: Statistics) -> Self:
        """The options that are given, and else those of head's settings.

        Raises:
            ComparisonError: If any is out of range; it lists all of them.
        """
        settings = msgspec.convert(head.record.settings, Settings)
        own = {name: getattr(settings, name) for name in cls.__struct_fields__}
        return cls(**(own | {name: value for name, value in given.items() if value is not None}))

    def __post_init__(self) -> None:
        """Check the ranges of all options.

        Raises:
            ComparisonError: If any is out of range; it lists all of them.
        """
        rules = (
            ("margin", self.margin, "0 to 1", 0 <= self.margin <= 1),
            ("level", self.level, "between 0 and 1", 0 < self.level < 1),
            ("resamples", self.resamples, "at least 1", self.resamples >= 1),
            ("seed", self.seed, "at least 0", self.seed >= 0),
        )
        problems = [
            Problem(name, f"found {value:g}, expected {rule}") for name, value, rule, met in rules if not met
        ]
        if problems:
            raise ComparisonError("", problems)


def deltas_of(
    figures: dict[str, PairedScores], pairing: Pairing, tiers: dict[str, str], options: Options
) -> dict[str, MetricDelta]:
    """Compute the differences of all metrics from the same bootstrap resamples.

    Args:
        figures: Paired scores by metric, each with at least one pair.
        pairing: The pairing, for the clusters.
        tiers: Tiers by metric.
        options: Options of the comparison.
    """
    estimates = paired_means(
        np.array([figure.base for figure in figures.values()]),
        np.array([figure.head for figure in figures.values()]),
        pairing.groups,
        level=options.level,
        resamples=options.resamples,
        seed=options.seed,
    )
    with_missing = _answers_with_missing(figures, pairing, options)
    tested = {name: each.p for name, each in zip(figures, estimates, strict=True) if each.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {
        name: msgspec.structs.replace(
            _delta(figures[name], estimate, pairing, options, with_missing.get(name)),
            tier=tiers[name],
            p_holm=adjusted.get(name),
        )
        for name, estimate in zip(figures, estimates, strict=True)
    }


def _answers_with_missing(
    figures: dict[str, PairedScores], pairing: Pairing, options: Options
) -> dict[str, Answer]:
    """Decide on metrics with missing values.

    A metric passes only if it also passes with all missing values at their worst, and fails only if it also
    fails with all of them at their best (docs/definitions/scores.md#missing-scores).
    """
    extremes = {
        name: (figure.at_worst, figure.at_best)
        for name, figure in figures.items()
        if figure.at_worst is not None and figure.at_best is not None
    }
    if not extremes:
        return {}
    filled = np.array([values for worst_and_best in extremes.values() for values in worst_and_best])
    estimates = paired_means(
        filled[:, 0],
        filled[:, 1],
        pairing.groups,
        level=options.level,
        resamples=options.resamples,
        seed=options.seed,
    )
    answers = [non_inferiority(each.interval, margin=options.margin) for each in estimates]
    return {
        name: "pass" if worst == "pass" else "fail" if best == "fail" else "inconclusive"
        for name, worst, best in zip(extremes, answers[::2], answers[1::2], strict=True)
    }


def _delta(
    figure: PairedScores, estimate: Paired, pairing: Pairing, options: Options, with_missing: Answer | None
) -> MetricDelta:
    interval, paired = estimate.interval, figure.has_pair
    cases, groups = int(np.count_nonzero(paired)), int(np.unique(pairing.groups[paired]).size)
    answer = non_inferiority(interval, margin=options.margin)
    further: int | None = 0
    if answer == "inconclusive":
        further = settling_groups(estimate.clustered, margin=options.margin, level=options.level)
    if with_missing is not None:
        # If the present values settle the metric, only the missing ones keep it open.
        answer, further = with_missing, 0 if with_missing != "inconclusive" else further
    return MetricDelta(
        base=float(figure.base[paired].mean()) if cases else None,
        head=float(figure.head[paired].mean()) if cases else None,
        delta=estimate.delta,
        ci95=None if interval is None else (interval.low, interval.high),
        p=estimate.p,
        share_positive=estimate.share_positive,
        mde=estimate.mde,
        wins=estimate.counts.wins,
        losses=estimate.counts.losses,
        ties=estimate.counts.ties,
        n=cases,
        pairs=figure.pairs,
        left_out=figure.left_out,
        groups=groups,
        method=None if interval is None else interval.method,
        answer=answer,
        needs_cases=further and ceil(further * cases / groups),
        needs_groups=further,
        worst=figure.worst(WORST_SHOWN),
        missing=figure.missing,
    )


def passing(figure: MetricDelta) -> MetricDelta:
    """Decide on a metric of unchanged outputs: an inconclusive answer becomes a pass."""
    if figure.delta is not None and not (figure.wins or figure.losses):
        figure = msgspec.structs.replace(figure, ci95=None, p=None, p_holm=None, mde=None, method=None)
    if figure.answer != "inconclusive":
        return figure
    return msgspec.structs.replace(figure, answer="pass", needs_cases=0, needs_groups=0)


def overall_answer(
    deltas: dict[str, MetricDelta],
    decided_by: tuple[str, ...],
    options: Options,
    *,
    same: bool,
    unjudged: Sequence[str] = (),
) -> tuple[Answer, str]:
    """Return the answer of a comparison and its reason.

    Definition: docs/definitions/comparisons.md#overall-answer.

    Args:
        deltas: Differences by metric.
        decided_by: The deciding metrics.
        options: Options of the comparison.
        same: Whether all outputs are the same.
        unjudged: One sentence for each run that was not judged, with the reason.
    """
    failing = [
        name
        for name, one in deltas.items()
        if one.answer == "fail"
        and (name in decided_by or (one.p_holm is not None and one.p_holm <= 1 - options.level))
    ]
    answer = "fail" if failing else overall([deltas[name].answer for name in decided_by])
    if answer == "fail":
        return answer, f"{listed(failing)} got worse beyond what chance explains."
    chance = [name for name, one in deltas.items() if one.answer == "fail"]
    aside = ""
    if chance:
        aside = f" {listed(chance)} got worse, but no more than chance brings among {len(deltas)} figures."
    if same and answer == "pass":
        return answer, f"The outputs are the same.{aside}"
    if answer == "pass":
        return answer, f"{_no_loss({name: deltas[name] for name in decided_by}, options.margin)}{aside}"
    open_ = [name for name in decided_by if deltas[name].answer == "inconclusive"]
    why = " ".join(unjudged)
    reason = (
        f"{listed(open_)} could be worse by more than the {options.margin:g} margin, or unchanged.{aside}"
    )
    return answer, f"{why} {reason}".strip()


def _no_loss(figures: dict[str, MetricDelta], margin: float) -> str:
    """Describe metrics that pass: better, slightly worse, or no detectable difference."""
    better = [name for name, one in figures.items() if one.ci95 and one.ci95[0] > 0]
    worse = [name for name, one in figures.items() if one.ci95 and one.ci95[1] < 0]
    level = [name for name in figures if name not in {*better, *worse}]
    parts = [
        (better, "got better"),
        (worse, f"got worse, but by less than {margin:g}"),
        (level, f"lost less than {margin:g}, if anything"),
    ]
    return "; ".join(f"{listed(names)} {what}" for names, what in parts if names) + "."


def listed(names: Sequence[str]) -> str:
    """Join names as ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
