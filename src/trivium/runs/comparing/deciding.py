"""Deciding: from paired values to differences, and to one answer (spec: metrics, B.4, B.5)."""

from collections.abc import Sequence
from math import ceil

import msgspec
import numpy as np

from trivium.runs.comparing.comparison import MetricDelta
from trivium.runs.comparing.options import Options
from trivium.runs.comparing.pairing import Pairing, Reduced
from trivium.trust.differences import holm
from trivium.trust.paired import (
    Answer,
    Paired,
    non_inferiority,
    overall,
    paired_means,
    settling_groups,
)

WORST_KEPT = 5


def deltas_of(
    figures: dict[str, Reduced], pairing: Pairing, tiers: dict[str, str], options: Options
) -> dict[str, MetricDelta]:
    """The difference of every figure, over the same resamples.

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
    figures: dict[str, Reduced], pairing: Pairing, options: Options
) -> dict[str, Answer]:
    """The answers of the figures of which something is missing: those that hold however it comes out.

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
    figure: Reduced, found: Paired, pairing: Pairing, options: Options, settled: Answer | None
) -> MetricDelta:
    interval, there = found.interval, figure.there
    cases, groups = int(np.count_nonzero(there)), int(np.unique(pairing.groups[there]).size)
    answer = non_inferiority(interval, margin=options.margin)
    further: int | None = 0
    if answer == "inconclusive":
        further = settling_groups(found.found, margin=options.margin, level=options.level)
    if settled is not None:
        # With a settled figure nothing but what is missing keeps it open.
        answer, further = settled, 0 if settled != "inconclusive" else further
    return MetricDelta(
        base=float(figure.base[there].mean()) if cases else None,
        head=float(figure.head[there].mean()) if cases else None,
        delta=found.delta,
        ci95=None if interval is None else (interval.low, interval.high),
        p=found.p,
        share_positive=found.share_positive,
        mde=found.mde,
        wins=found.tally.wins,
        losses=found.tally.losses,
        ties=found.tally.ties,
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
    """A figure of unchanged outputs: what did not surely get worse passes; equal values need no interval."""
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
    """The answer and what it rests on.

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
    """How figures that pass came out: better, worse by little, or not to be told apart."""
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
