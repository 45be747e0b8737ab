"""Checks whether two runs are comparable, and decides on each difference: pass, fail or inconclusive."""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

import msgspec
import numpy as np

from trivium.errors import ComparisonError, Problem
from trivium.runs.comparing.comparison import MetricDelta
from trivium.runs.comparing.pairing import PairedScores, Pairing
from trivium.runs.run import Run
from trivium.suites.case import Case
from trivium.suites.digest import digest_of
from trivium.suites.settings import JudgeSettings, Settings
from trivium.trust.multiple_testing import holm
from trivium.trust.paired import Answer, Paired, non_inferiority, overall, paired_means, settling_groups

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
"""Settings that change what a score means. The encoder is not among them: scores name it."""
_OPERATION = frozenset(
    {"concurrency", "timeout", "budget_usd", "budget_tokens", "prices", "cache", "certificate"}
)
"""Settings of a judge that change its cost or speed, not its judgements."""
_RECORDED = ("metrics", "judge")
"""Parts of the provenance that determine scores: versions of metrics, models and prompts of judges."""
_CASES_NAMED = 5


def incomparabilities(base: Run, head: Run) -> Iterator[str]:
    """Describe each difference that makes two runs incomparable."""
    if (base.record.kind == "human") != (head.record.kind == "human"):
        yield "one run holds people's own outputs, scored against each other: its references are others"
    for part in _RECORDED:
        yield from _recorded(part, base.provenance.get(part), head.provenance.get(part))
    yield from _settings(
        msgspec.convert(base.record.settings, Settings), msgspec.convert(head.record.settings, Settings)
    )
    if base.record.suite != head.record.suite:
        yield from _cases(base, head)


def _recorded(part: str, base: Any, head: Any) -> Iterator[str]:
    if not (isinstance(base, Mapping) and isinstance(head, Mapping)):
        return
    # Differences of the settings are reported with the settings.
    told = JudgeSettings.__struct_fields__ if part == "judge" else ()
    for name in base:
        if part == "judge" and name == "addresses" and name in head:
            yield from _addresses(base[name], head[name])
        elif name not in told and name in head and base[name] != head[name]:
            yield f"{part}.{name}: {_short(base[name])} in base, {_short(head[name])} in head"


def _addresses(base: Mapping[str, str | None], head: Mapping[str, str | None]) -> Iterator[str]:
    """Models that had another address. A model that was off has none: its judgements are missing."""
    for model, ours in base.items():
        theirs = head.get(model)
        if ours is not None and theirs is not None and ours != theirs:
            yield f"{model} was asked at {ours} in base, at {theirs} in head"


def _settings(base: Settings, head: Settings) -> Iterator[str]:
    pairs = {name: (getattr(base, name), getattr(head, name)) for name in _MEANING}
    pairs["composite.weights"] = base.composite.weights, head.composite.weights
    pairs["composite.missing"] = base.composite.missing, head.composite.missing
    if base.judge and head.judge:
        asked = [name for name in JudgeSettings.__struct_fields__ if name not in _OPERATION]
        pairs |= {f"judge.{name}": (_setting(base.judge, name), _setting(head.judge, name)) for name in asked}
    for name, (ours, theirs) in pairs.items():
        if ours != theirs:
            yield f"{'pass' if name == 'passed' else name}: {_short(ours)} in base, {_short(theirs)} in head"


def _setting(judge: JudgeSettings, name: str) -> Any:
    """A setting of a judge; rubrics of the suite by name and digest."""
    if name != "rubric":
        return getattr(judge, name)
    return [each if isinstance(each, str) else f"{each.name} {each.digest}" for each in judge.rubric]


def _cases(base: Run, head: Run) -> Iterator[str]:
    known = {case.id: _content(case) for case in base.cases()}
    changed = [case.id for case in head.cases() if known.get(case.id, content := _content(case)) != content]
    if changed:
        named = ", ".join(changed[:_CASES_NAMED]) + (", …" if len(changed) > _CASES_NAMED else "")
        yield f"{len(changed):,} of the cases are not what they were: {named}"


def _content(case: Case) -> str:
    """Digest of what a case asks and expects, without tags and metadata."""
    return digest_of([msgspec.structs.replace(case, tags=(), metadata={})])


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How two runs are compared.

    Attributes:
        margin: The loss that does not matter, in [0, 1].
        level: Of the intervals, in (0, 1).
        resamples: Of the bootstrap, at least 1.
        seed: Of the bootstrap, at least 0.
    """

    margin: float
    level: float
    resamples: int
    seed: int

    def check(self) -> None:
        """Raise one error for all options that are out of range.

        Raises:
            ComparisonError: If anything is.
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


WORST_KEPT = 5


def deltas_of(
    figures: dict[str, PairedScores], pairing: Pairing, tiers: dict[str, str], options: Options
) -> dict[str, MetricDelta]:
    """The differences of all figures, computed from the same resamples.

    Args:
        figures: By name, each with at least one pair.
        pairing: Gives the clusters.
        tiers: Of the figures.
        options: Of the comparison.
    """
    found = paired_means(
        np.array([figure.base for figure in figures.values()]),
        np.array([figure.head for figure in figures.values()]),
        pairing.groups,
        level=options.level,
        resamples=options.resamples,
        seed=options.seed,
    )
    settled = _settled_whatever_is_missing(figures, pairing, options)
    tested = {name: one.p for name, one in zip(figures, found, strict=True) if one.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {
        name: msgspec.structs.replace(
            _delta(figures[name], one, pairing, options, settled.get(name)),
            tier=tiers[name],
            p_holm=adjusted.get(name),
        )
        for name, one in zip(figures, found, strict=True)
    }


def _settled_whatever_is_missing(
    figures: dict[str, PairedScores], pairing: Pairing, options: Options
) -> dict[str, Answer]:
    """The answers of figures with missing values that hold whatever the missing values are.

    One passes that does with all that is missing at its worst, and fails that does with it at its best
    (spec: metrics, "What was due and is not there").
    """
    sides = {
        name: (one.at_worst, one.at_best)
        for name, one in figures.items()
        if one.at_worst is not None and one.at_best is not None
    }
    if not sides:
        return {}
    filled = np.array([each for both in sides.values() for each in both])
    found = paired_means(
        filled[:, 0],
        filled[:, 1],
        pairing.groups,
        level=options.level,
        resamples=options.resamples,
        seed=options.seed,
    )
    answers = [non_inferiority(one.interval, margin=options.margin) for one in found]
    return {
        name: "pass" if worst == "pass" else "fail" if best == "fail" else "inconclusive"
        for name, worst, best in zip(sides, answers[::2], answers[1::2], strict=True)
    }


def _delta(
    figure: PairedScores, found: Paired, pairing: Pairing, options: Options, settled: Answer | None
) -> MetricDelta:
    interval, there = found.interval, figure.there
    cases, groups = int(np.count_nonzero(there)), int(np.unique(pairing.groups[there]).size)
    answer = non_inferiority(interval, margin=options.margin)
    further: int | None = 0
    if answer == "inconclusive":
        further = settling_groups(found.clustered, margin=options.margin, level=options.level)
    if settled is not None:
        # If the present values settle the figure, only the missing ones keep it open.
        answer, further = settled, 0 if settled != "inconclusive" else further
    return MetricDelta(
        base=float(figure.base[there].mean()) if cases else None,
        head=float(figure.head[there].mean()) if cases else None,
        delta=found.delta,
        ci95=None if interval is None else (interval.low, interval.high),
        p=found.p,
        share_positive=found.share_positive,
        mde=found.mde,
        wins=found.counts.wins,
        losses=found.counts.losses,
        ties=found.counts.ties,
        n=cases,
        pairs=figure.pairs,
        left_out=figure.left_out,
        groups=groups,
        method=None if interval is None else interval.method,
        answer=answer,
        needs_cases=further and ceil(further * cases / groups),
        needs_groups=further,
        worst=figure.worst(WORST_KEPT),
        missing=figure.missing,
    )


def passing(figure: MetricDelta) -> MetricDelta:
    """Decide on a figure of unchanged outputs: it passes unless it is certainly worse."""
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
    """The answer and the reasons for it.

    Args:
        deltas: The differences by figure.
        decided_by: The figures that decide.
        options: Of the comparison.
        same: Whether all outputs are the same.
        unjudged: Which run was not judged and why, a sentence each.
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
    """Describe figures that pass: better, slightly worse, or no detectable difference."""
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
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
