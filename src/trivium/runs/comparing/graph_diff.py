"""Tests which edges of the process graph appeared, vanished or changed, and which steps became slower."""

from collections.abc import Sequence
from math import exp, log
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.runs.comparing.graph_edges import (
    Edge,
    EdgeChange,
    GraphComparison,
    PaceChange,
    PairedGraphs,
    Step,
)
from trivium.runs.run import Run
from trivium.trust.intervals import mean_interval
from trivium.trust.multiple_testing import holm, sign_test

T = TypeVar("T", EdgeChange, PaceChange)
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_KEPT = 1_000
"""Most edges, and most tools and agents, in a comparison; further ones are counted."""

NOISE = 1e-9
"""Differences below this, in times an attempt or in the logarithm of a ratio, are rounding."""


def compare_graphs(base: Run, head: Run, *, clusters: dict[str, str], level: float) -> GraphComparison:
    """Compare the process graphs of two runs, over the attempts with a trace in both.

    Every edge is counted an attempt and averaged by case; the interval is the cluster-robust t interval of
    the differences, the p-value that of the exact sign test over clusters, in which a cluster counts by the
    sign of its mean difference. Holm's adjustment is over the edges of which enough clusters differ that
    their p-value could be small enough at all (Tarone, "A modified Bonferroni method for discrete data",
    Biometrics 46, 1990). Times are compared alike, by the logarithm of the ratio of a case's median times.

    Args:
        base: The run to compare with.
        head: The run in question.
        clusters: Cluster of every case of head.
        level: Of the intervals, in (0, 1); what is sure has an adjusted p-value of at most 1 − level.
    """
    paired = PairedGraphs(base, head, clusters=clusters)
    edges: list[EdgeChange] = []
    paces: list[PaceChange] = []
    if paired.attempts:
        met = [_edge(edge, paired) for edge in paired.edges]
        edges = [one for one in met if one.share_base or one.share_head]
        edges = _adjusted(edges, [one.groups_more + one.groups_fewer for one in edges], level)
        found = [_pace(step, paired, level) for step in paired.steps]
        paces = [one for one in found if one is not None]
        paces = _adjusted(paces, [one.groups_slower + one.groups_faster for one in paces], level)
    edges.sort(key=lambda one: (not one.sure, -abs(one.delta), one.kind, one.source or "", one.target))
    paces.sort(key=lambda one: (not one.sure, -abs(log(one.factor)), one.kind, one.name))
    return GraphComparison(
        attempts=paired.attempts,
        cases=len(paired.groups),
        groups=int(np.unique(paired.groups).size),
        without_trace=paired.without_trace,
        edges=tuple(_with_interval(one, paired, level) for one in edges[:MOST_KEPT]),
        edges_left_out=max(0, len(edges) - MOST_KEPT),
        paces=tuple(paces[:MOST_KEPT]),
        paces_left_out=max(0, len(paces) - MOST_KEPT),
        level=level,
    )


def _edge(edge: Edge, paired: PairedGraphs) -> EdgeChange:
    """An edge without interval; only listed edges get one."""
    columns = paired.edge(edge)
    deltas = _cleared(columns.head - columns.base)
    more, fewer = _signs(deltas, paired.groups)
    delta = float(deltas.mean())
    became = "more" if delta > NOISE else "fewer" if delta < -NOISE else "same"
    if not columns.with_base or not columns.with_head:
        became = "appeared" if columns.with_head else "vanished" if columns.with_base else "same"
    kind, source, target = edge
    return EdgeChange(
        kind=kind,
        source=source,
        target=target,
        became=became,  # type: ignore[arg-type]  # one of the words above
        sure=False,
        base=float(columns.base.mean()),
        head=float(columns.head.mean()),
        delta=delta,
        ci95=None,
        share_base=columns.with_base / paired.attempts,
        share_head=columns.with_head / paired.attempts,
        groups_more=more,
        groups_fewer=fewer,
        p=sign_test(more, fewer),
        p_holm=None,
    )


def _with_interval(change: EdgeChange, paired: PairedGraphs, level: float) -> EdgeChange:
    columns = paired.edge((change.kind, change.source, change.target))
    deltas = _cleared(columns.head - columns.base)
    return msgspec.structs.replace(change, ci95=_interval(deltas, paired.groups, level))


def _pace(step: Step, paired: PairedGraphs, level: float) -> PaceChange | None:
    """The change of a step's time; None if no case has a time above 0 on both sides."""
    base, head = paired.pace(step)
    there = (base > 0) & (head > 0)
    if not there.any():
        return None
    base, head, groups = base[there], head[there], paired.groups[there]
    ratios = _cleared(np.log(head) - np.log(base))
    slower, faster = _signs(ratios, groups)
    ends = _interval(ratios, groups, level)
    mean = float(ratios.mean())
    return PaceChange(
        kind="tool" if step[0] == "tool" else "agent",
        name=step[1],
        became="slower" if mean > NOISE else "faster" if mean < -NOISE else "same",
        sure=False,
        base=float(np.median(base)),
        head=float(np.median(head)),
        factor=exp(mean),
        ci95=None if ends is None else (exp(ends[0]), exp(ends[1])),
        cases=int(np.count_nonzero(there)),
        groups=int(np.unique(groups).size),
        groups_slower=slower,
        groups_faster=faster,
        p=sign_test(slower, faster),
        p_holm=None,
    )


def _signs(deltas: Floats, groups: Ints) -> tuple[int, int]:
    """Numbers of clusters whose mean difference is above 0 and below 0."""
    sums = _cleared(np.bincount(groups, weights=deltas).astype(np.float64))
    return int(np.count_nonzero(sums > 0)), int(np.count_nonzero(sums < 0))


def _interval(deltas: Floats, groups: Ints, level: float) -> tuple[float, float] | None:
    """Interval of the mean difference over cases."""
    interval = mean_interval(deltas, groups, level=level, low=None, high=None)
    return None if interval is None else (interval.low, interval.high)


def _cleared(values: Floats) -> Floats:
    """Set differences that are only rounding to 0."""
    return np.where(np.abs(values) < NOISE, 0.0, values)


def _adjusted(found: Sequence[T], differing: Sequence[int], level: float) -> list[T]:
    """Adjust the p-values, over those that could be small enough.

    Args:
        found: Changes, not adjusted.
        differing: Clusters that differ, of each: with m of them no sign test gives less than 2 · 2^−m.
        level: What is sure has an adjusted p-value of at most 1 − level.
    """
    tested = [place for place, clusters in enumerate(differing) if 2 * 0.5**clusters <= 1 - level]
    adjusted = dict(zip(tested, holm([found[place].p or 0.0 for place in tested]), strict=True))
    return [
        msgspec.structs.replace(one, p_holm=adjusted[place], sure=adjusted[place] <= 1 - level)
        if place in adjusted
        else one
        for place, one in enumerate(found)
    ]
