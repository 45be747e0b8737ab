"""Tests which edges of the process graph appeared, vanished or changed, and which steps became slower."""

from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import exp, log
from statistics import median
from typing import Literal, TypeVar

import msgspec
import numpy as np

from trivium.runs.run import Run
from trivium.traces.trace import Trace
from trivium.trust.arrays import Floats, Ints
from trivium.trust.intervals import mean_interval
from trivium.trust.paired import holm, sign_test

EdgeKind = Literal["message", "call", "order"]
Became = Literal["appeared", "vanished", "more", "fewer", "same"]
Pace = Literal["slower", "faster", "same"]


class EdgeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of an edge, over the attempts with a trace in both runs.

    Attributes:
        kind: ``message`` from agent to agent, ``call`` of a tool by an agent, ``order`` of one tool after
            another (including START and END).
        source: Node that the edge starts at; None for a call by no known agent.
        target: Node that the edge ends at.
        became: appeared, vanished, more, fewer or same, in the attempts compared.
        sure: Whether the change is significant: ``p_holm`` is at most 1 − level.
        base: Mean count per attempt in base, over cases.
        head: The same in head.
        delta: Head minus base.
        ci95: Interval of ``delta`` at the comparison's level, not always 95 %.
        share_base: Share of base's attempts that have the edge, in [0, 1].
        share_head: The same in head.
        groups_more: Clusters in which head has the edge more often.
        groups_fewer: Clusters in which head has the edge less often.
        p: Two-sided p-value of the exact sign test over clusters; None if no cluster differs.
        p_holm: ``p`` adjusted for the number of edges (Holm); None if too few clusters differ for any
            significant p-value.
    """

    kind: EdgeKind
    source: str | None
    target: str
    became: Became
    sure: bool
    base: float
    head: float
    delta: float
    ci95: tuple[float, float] | None
    share_base: float
    share_head: float
    groups_more: int
    groups_fewer: int
    p: float | None
    p_holm: float | None


class PaceChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of the time that calls of a tool, or turns of an agent, take.

    Attributes:
        kind: tool or agent.
        name: Name of the tool or agent.
        became: slower, faster or same.
        sure: Whether the change is significant (see :class:`EdgeChange`).
        base: Median over cases of the median time in base, in seconds.
        head: The same in head.
        factor: Geometric mean over cases of head's median time / base's; above 1 is slower.
        ci95: Interval of ``factor``.
        cases: Number of cases in which both runs have a time above 0.
        groups: Number of their clusters.
        groups_slower: Clusters in which head is slower.
        groups_faster: Clusters in which head is faster.
        p: Two-sided p-value of the exact sign test over clusters.
        p_holm: ``p`` adjusted for the number of tools and agents (Holm).
    """

    kind: Literal["tool", "agent"]
    name: str
    became: Pace
    sure: bool
    base: float
    head: float
    factor: float
    ci95: tuple[float, float] | None
    cases: int
    groups: int
    groups_slower: int
    groups_faster: int
    p: float | None
    p_holm: float | None


class GraphComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of the process between two runs.

    Attributes:
        attempts: Pairs of attempts with a trace on both sides.
        cases: Number of their cases.
        groups: Number of their clusters.
        without_trace: Pairs of attempts in which a side has no trace.
        edges: Changes of edges: significant ones first, then the largest.
        edges_left_out: Number of edges beyond the first thousand.
        paces: Changes of the times of tools and agents, in the same order.
        paces_left_out: Number of tools and agents beyond the first thousand.
        level: Confidence level of the intervals; significance is at 1 − level.
    """

    attempts: int
    cases: int
    groups: int
    without_trace: int
    edges: tuple[EdgeChange, ...]
    edges_left_out: int
    paces: tuple[PaceChange, ...]
    paces_left_out: int
    level: float


Edge = tuple[EdgeKind, str | None, str]
Step = tuple[str, str]
"""``tool`` or ``agent``, and its name."""

START, END = "START", "END"


def edges_of(trace: Trace) -> Counter[Edge]:
    """Count each edge of an attempt.

    Messages and the order of tools are those of the interaction graph and the tool graph
    (docs/definitions/traces.md#interaction-graph, docs/definitions/traces.md#tool-graph).
    """
    calls = trace.tool_calls
    counts: Counter[Edge] = Counter(
        ("message", message.sender, message.receiver) for message in trace.agent_messages
    )
    counts.update(("call", call.agent, call.name) for call in calls)
    if calls:
        names = [f'"{call.name}"' if call.name in (START, END) else call.name for call in calls]
        counts.update(("order", source, target) for source, target in pairwise([START, *names, END]))
    return counts


def paces_of(trace: Trace) -> dict[Step, float]:
    """Return the median time in seconds of the finished calls of each tool and turns of each agent."""
    times: dict[Step, list[float]] = {}
    for span in trace.spans:
        if span.start is None or span.end is None:
            continue
        if span.kind == "agent":
            times.setdefault(("agent", span.agent or span.name), []).append(span.end - span.start)
        elif span.kind == "tool" and not span.attributes.get("handoff"):
            times.setdefault(("tool", span.name), []).append(span.end - span.start)
    return {step: median(taken) for step, taken in times.items()}


Key = tuple[str, int]


class _Side:
    """Edges and times of one run, stored sparsely; a row is an attempt with a trace.

    Attributes:
        rows: Row of each attempt with a trace.
        bare: The attempts without one.
        values: By edge or step, the rows that have it, and its counts or times there.
        case_of: Place of the case of each row, shape (rows,); -1 for attempts that are not paired.
    """

    def __init__(self, run: Run) -> None:
        self.rows: dict[Key, int] = {}
        self.bare: set[Key] = set()
        self.values: dict[Edge | Step, tuple[array[int], array[float]]] = {}
        for outline in run.store.attempt_outlines(run.record):
            key = (outline.case, outline.repeat)
            if outline.steps is None:
                self.bare.add(key)
                continue
            row = self.rows[key] = len(self.rows)
            for found in (edges_of(outline.steps), paces_of(outline.steps)):
                for name, value in found.items():
                    if name not in self.values:
                        self.values[name] = (array("q"), array("d"))
                    self.values[name][0].append(row)
                    self.values[name][1].append(value)
        self.case_of: Ints = np.full(len(self.rows), -1, np.int64)

    def of(self, name: "Edge | Step") -> tuple[Ints, Floats]:
        """The cases of the paired attempts that have an edge or a step, and its counts or times, (n,)."""
        rows, values = self.values.get(name, (array("q"), array("d")))
        cases: Ints = self.case_of[np.asarray(rows, np.int64)]
        return cases[cases >= 0], np.asarray(values)[cases >= 0]


class PairedGraphs:
    """Edges and times of two runs by case, over the attempts that both have.

    Attributes:
        attempts: Number of pairs with a trace on both sides.
        without_trace: Number of pairs in which a side has no trace.
        groups: Code 0 … G - 1 of the cluster of each case, shape (cases,).

    Args:
        base: The run to compare with.
        head: The candidate run.
        clusters: Cluster of every case of head.
    """

    def __init__(self, base: Run, head: Run, *, clusters: dict[str, str]) -> None:
        self._base, self._head = ours, theirs = _Side(base), _Side(head)
        keys = [key for key in theirs.rows if key in ours.rows]
        self.attempts = len(keys)
        self.without_trace = len(
            (ours.bare & (theirs.bare | theirs.rows.keys())) | (theirs.bare & ours.rows.keys())
        )
        places = {case: place for place, case in enumerate(dict.fromkeys(case for case, _ in keys))}
        for side in (ours, theirs):
            for key in keys:
                side.case_of[side.rows[key]] = places[key[0]]
        self._sizes = np.bincount([places[case] for case, _ in keys], minlength=len(places))
        codes = {name: code for code, name in enumerate(dict.fromkeys(clusters[case] for case in places))}
        self.groups: Ints = np.fromiter((codes[clusters[case]] for case in places), np.int64, len(places))

    @property
    def edges(self) -> list[Edge]:
        """Every edge that either run has."""
        return [name for name in {**self._head.values, **self._base.values} if len(name) == 3]

    @property
    def steps(self) -> list[Step]:
        """Every tool and agent that has times in both runs."""
        return [name for name in self._head.values if len(name) == 2 and name in self._base.values]

    def counts(self, edge: Edge) -> tuple[tuple[Floats, int], tuple[Floats, int]]:
        """Of base and of head: an edge's mean count per attempt by case, and the attempts that have it."""
        return self._counts(self._base, edge), self._counts(self._head, edge)

    def _counts(self, side: _Side, edge: Edge) -> tuple[Floats, int]:
        cases, counts = side.of(edge)
        return np.bincount(cases, counts, len(self._sizes)) / self._sizes, cases.size

    def pace(self, step: Step) -> tuple[Floats, Floats]:
        """Return the median times by case in base and in head, NaN without a time, shape (cases,)."""
        return self._times(self._base, step), self._times(self._head, step)

    def _times(self, side: _Side, step: Step) -> Floats:
        cases, seconds = side.of(step)
        medians = np.full(len(self._sizes), np.nan)
        order = np.lexsort((seconds, cases))
        present, starts, sizes = np.unique(cases[order], return_index=True, return_counts=True)
        ascending = seconds[order]
        # Sorted within each case, so that its median lies in the middle.
        medians[present] = (ascending[starts + (sizes - 1) // 2] + ascending[starts + sizes // 2]) / 2
        return medians


T = TypeVar("T", EdgeChange, PaceChange)

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
        head: The candidate run.
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
    (base, with_base), (head, with_head) = paired.counts(edge)
    deltas = _cleared(head - base)
    more, fewer = _signs(deltas, paired.groups)
    delta = float(deltas.mean())
    became = "more" if delta > ROUNDING else "fewer" if delta < -ROUNDING else "same"
    if not with_base or not with_head:
        became = "appeared" if with_head else "vanished" if with_base else "same"
    kind, source, target = edge
    return EdgeChange(
        kind=kind,
        source=source,
        target=target,
        became=became,  # type: ignore[arg-type]  # one of the words above
        sure=False,
        base=float(base.mean()),
        head=float(head.mean()),
        delta=delta,
        ci95=None,
        share_base=with_base / paired.attempts,
        share_head=with_head / paired.attempts,
        groups_more=more,
        groups_fewer=fewer,
        p=sign_test(more, fewer),
        p_holm=None,
    )


def _with_interval(change: EdgeChange, paired: PairedGraphs, level: float) -> EdgeChange:
    (base, _), (head, _) = paired.counts((change.kind, change.source, change.target))
    deltas = _cleared(head - base)
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
