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

MAX_LISTED = 1_000
"""Most edges, and most tools and agents, that a comparison lists; the others are counted."""

ROUNDING = 1e-9
"""Smaller differences, in counts per attempt or in the logarithm of a ratio, are due to rounding."""


def compare_graphs(base: Run, head: Run, *, clusters: dict[str, str], level: float) -> GraphComparison:
    """Compare the process graphs of two runs, over the attempts with a trace in both.

    Edges are counted per attempt and averaged by case. The interval is the cluster-robust t interval of the
    differences. The p-value is that of the exact sign test over clusters, in which a cluster counts by the
    sign of its mean difference. Holm's adjustment is over the edges for which enough clusters differ that
    their p-value could be small enough at all (Tarone, "A modified Bonferroni method for discrete data",
    Biometrics 46, 1990). Times are compared in the same way, by the logarithm of the ratio of a case's median
    times.

    Args:
        base: The run to compare with.
        head: The run in question.
        clusters: Cluster of every case of head.
        level: Confidence level of the intervals, in (0, 1); a change is significant if its adjusted p-value
            is at most 1 − level.
    """
    paired = PairedGraphs(base, head, clusters=clusters)
    edges: list[EdgeChange] = []
    paces: list[PaceChange] = []
    if paired.attempts:
        all_edges = [_edge(edge, paired) for edge in paired.edges]
        edges = [edge for edge in all_edges if edge.share_base or edge.share_head]
        edges = _adjusted(edges, [edge.groups_more + edge.groups_fewer for edge in edges], level)
        all_paces = [_pace(step, paired, level) for step in paired.steps]
        paces = [pace for pace in all_paces if pace is not None]
        paces = _adjusted(paces, [pace.groups_slower + pace.groups_faster for pace in paces], level)
    edges.sort(key=lambda edge: (not edge.sure, -abs(edge.delta), edge.kind, edge.source or "", edge.target))
    paces.sort(key=lambda pace: (not pace.sure, -abs(log(pace.factor)), pace.kind, pace.name))
    return GraphComparison(
        attempts=paired.attempts,
        cases=len(paired.groups),
        groups=int(np.unique(paired.groups).size),
        without_trace=paired.without_trace,
        # Computing intervals takes long, so only listed edges get one.
        edges=tuple(_with_interval(edge, paired, level) for edge in edges[:MAX_LISTED]),
        edges_left_out=max(0, len(edges) - MAX_LISTED),
        paces=tuple(paces[:MAX_LISTED]),
        paces_left_out=max(0, len(paces) - MAX_LISTED),
        level=level,
    )


def _edge(edge: Edge, paired: PairedGraphs) -> EdgeChange:
    """Compute the change of an edge, without its interval."""
    columns = paired.edge(edge)
    deltas = _cleared(columns.head - columns.base)
    more, fewer = _signs(deltas, paired.groups)
    delta = float(deltas.mean())
    became = "more" if delta > ROUNDING else "fewer" if delta < -ROUNDING else "same"
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
    """Compute the change of a step's time; None if no case has a time above 0 on both sides."""
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
        became="slower" if mean > ROUNDING else "faster" if mean < -ROUNDING else "same",
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
    """Count the clusters whose mean difference is above 0, and below 0."""
    sums = _cleared(np.bincount(groups, weights=deltas).astype(np.float64))
    return int(np.count_nonzero(sums > 0)), int(np.count_nonzero(sums < 0))


def _interval(deltas: Floats, groups: Ints, level: float) -> tuple[float, float] | None:
    """Interval of the mean difference over cases."""
    interval = mean_interval(deltas, groups, level=level, low=None, high=None)
    return None if interval is None else (interval.low, interval.high)


def _cleared(values: Floats) -> Floats:
    """Set differences that are only rounding to 0."""
    return np.where(np.abs(values) < ROUNDING, 0.0, values)


def _adjusted(changes: Sequence[T], differing: Sequence[int], level: float) -> list[T]:
    """Adjust the p-values of the changes that could be significant at all.

    Args:
        changes: The changes.
        differing: For each change, the number m of clusters that differ: its p-value is at least 2 · 2^−m.
        level: A change is significant if its adjusted p-value is at most 1 − level.
    """
    tested = [index for index, clusters in enumerate(differing) if 2 * 0.5**clusters <= 1 - level]
    adjusted = dict(zip(tested, holm([changes[index].p or 0.0 for index in tested]), strict=True))
    return [
        msgspec.structs.replace(change, p_holm=adjusted[index], sure=adjusted[index] <= 1 - level)
        if index in adjusted
        else change
        for index, change in enumerate(changes)
    ]
