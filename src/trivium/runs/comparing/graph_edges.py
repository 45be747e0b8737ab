"""Counts edges and step times case by case, for two runs."""

from array import array
from collections import Counter
from itertools import pairwise
from statistics import median
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from trivium.runs.run import Run
from trivium.traces.trace import Trace

EdgeKind = Literal["message", "call", "order"]
Became = Literal["appeared", "vanished", "more", "fewer", "same"]
Pace = Literal["slower", "faster", "same"]


class EdgeChange(msgspec.Struct, frozen=True, kw_only=True):
    """An edge in both runs, over the attempts that both have with a trace.

    Attributes:
        kind: ``message`` from agent to agent, ``call`` of a tool by an agent, ``order`` of one tool after
            another (START and END included).
        source: Where the edge leads from; None for a call that is no agent's.
        target: Where it leads to.
        became: appeared, vanished, more, fewer or same, in the attempts that were met.
        sure: Whether that is beyond chance among so many edges: ``p_holm`` is at most 1 − level.
        base: Mean number of times an attempt, over cases.
        head: Alike.
        delta: Head minus base.
        ci95: Interval of ``delta``, at the comparison's level whatever its name says.
        share_base: Share of base's attempts that have the edge at all, in [0, 1].
        share_head: Alike.
        groups_more: Clusters in which head has it more often.
        groups_fewer: Clusters in which it has it less often.
        p: Two-sided exact sign test over clusters; None where no cluster differs.
        p_holm: The same, adjusted for the number of edges; None where too few clusters differ for any
            p-value to be small enough.
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
    """How long the calls of a tool, or the turns of an agent, take in both runs.

    Attributes:
        kind: tool or agent.
        name: Which.
        became: slower, faster or same.
        sure: Whether that is beyond chance among so many (see :class:`EdgeChange`).
        base: Median over cases of the median time in base, in seconds.
        head: Alike.
        factor: Geometric mean over cases of head's median time / base's; above 1 is slower.
        ci95: Interval of ``factor``.
        cases: Cases in which both runs have a time above 0.
        groups: Their clusters.
        groups_slower: Clusters in which head is slower.
        groups_faster: Clusters in which it is faster.
        p: Two-sided exact sign test over clusters.
        p_holm: The same, adjusted for the number of tools and agents.
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
    """What changed in what two runs did.

    Attributes:
        attempts: Pairs of attempts that have a trace on both sides.
        cases: Their cases.
        groups: Their clusters.
        without_trace: Pairs of attempts of which one side has no trace.
        edges: The sure changes first, then the largest.
        edges_left_out: Edges beyond the first thousand.
        paces: Likewise, of tools and agents.
        paces_left_out: Tools and agents beyond the first thousand.
        level: Of the intervals, and of what is sure.
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

    Messages and the order of tools are those of the interaction graph and the tool graph (spec: metrics,
    T3.1, T3.7).
    """
    calls = trace.tool_calls
    found: Counter[Edge] = Counter(
        ("message", message.sender, message.receiver) for message in trace.agent_messages
    )
    found.update(("call", call.agent, call.name) for call in calls)
    if calls:
        names = [f'"{call.name}"' if call.name in (START, END) else call.name for call in calls]
        found.update(("order", source, target) for source, target in pairwise([START, *names, END]))
    return found


def paces_of(trace: Trace) -> dict[Step, float]:
    """Median time in seconds of the calls of each tool and of the turns of each agent that ended."""
    times: dict[Step, list[float]] = {}
    for span in trace.spans:
        if span.start is None or span.end is None:
            continue
        if span.kind == "agent":
            times.setdefault(("agent", span.agent or span.name), []).append(span.end - span.start)
        elif span.kind == "tool" and not span.attributes.get("handoff"):
            times.setdefault(("tool", span.name), []).append(span.end - span.start)
    return {step: median(taken) for step, taken in times.items()}


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Key = tuple[str, int]


class _Side:
    """Edges and times of one run by row (an attempt with a trace), stored sparsely."""

    def __init__(self, run: Run) -> None:
        self.rows: dict[Key, int] = {}
        self.bare: set[Key] = set()
        self.edges: dict[Edge, tuple[array[int], array[int]]] = {}
        self.paces: dict[Step, tuple[array[int], array[float]]] = {}
        for outline in run.store.attempt_outlines(run.record):
            key = (outline.case, outline.repeat)
            trace = outline.steps
            if trace is None:
                self.bare.add(key)
                continue
            row = self.rows[key] = len(self.rows)
            for edge, count in edges_of(trace).items():
                if edge not in self.edges:
                    self.edges[edge] = (array("q"), array("q"))
                self.edges[edge][0].append(row)
                self.edges[edge][1].append(count)
            for step, seconds in paces_of(trace).items():
                if step not in self.paces:
                    self.paces[step] = (array("q"), array("d"))
                self.paces[step][0].append(row)
                self.paces[step][1].append(seconds)


class EdgeColumns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """An edge by case: mean number of times an attempt, shape (cases,), and attempts that have it."""

    base: Floats
    head: Floats
    with_base: int
    with_head: int


class PairedGraphs:
    """Edges and times of two runs by case, over the attempts that both have.

    Attributes:
        attempts: Pairs with a trace on both sides.
        without_trace: Pairs of which one side has none.
        groups: Code 0 … G - 1 of the cluster of each case, shape (cases,).

    Args:
        base: One run.
        head: The other.
        clusters: Cluster of every case of head.
    """

    def __init__(self, base: Run, head: Run, *, clusters: dict[str, str]) -> None:
        self._base, self._head = _Side(base), _Side(head)
        keys = [key for key in self._head.rows if key in self._base.rows]
        self.attempts = len(keys)
        ours, theirs = self._base, self._head
        self.without_trace = len(
            (ours.bare & (theirs.bare | theirs.rows.keys())) | (theirs.bare & ours.rows.keys())
        )
        places = {case: place for place, case in enumerate(dict.fromkeys(case for case, _ in keys))}
        self._sizes = np.zeros(len(places))
        self._case_of = {side: np.full(len(side.rows), -1, np.int64) for side in (ours, theirs)}
        for key in keys:
            place = places[key[0]]
            self._sizes[place] += 1
            for side, cases in self._case_of.items():
                cases[side.rows[key]] = place
        codes = {name: code for code, name in enumerate(dict.fromkeys(clusters[case] for case in places))}
        self.groups: Ints = np.fromiter((codes[clusters[case]] for case in places), np.int64, len(places))

    @property
    def edges(self) -> dict[Edge, None]:
        """Every edge of either run."""
        return dict.fromkeys([*self._head.edges, *self._base.edges])

    @property
    def steps(self) -> dict[Step, None]:
        """Every tool and agent that has times in both runs."""
        return {step: None for step in self._head.paces if step in self._base.paces}

    def edge(self, edge: Edge) -> EdgeColumns:
        """An edge by case."""
        base, with_base = self._counts(self._base, edge)
        head, with_head = self._counts(self._head, edge)
        return EdgeColumns(base=base, head=head, with_base=with_base, with_head=with_head)

    def _counts(self, side: _Side, edge: Edge) -> tuple[Floats, int]:
        rows, counts = side.edges.get(edge, (array("q"), array("q")))
        cases = self._case_of[side][np.frombuffer(rows, np.int64) if rows else np.zeros(0, np.int64)]
        paired = cases >= 0
        weights = np.array(counts, np.float64)[paired]
        sums = np.bincount(cases[paired], weights=weights, minlength=len(self._sizes))
        return sums / self._sizes, int(np.count_nonzero(paired))

    def pace(self, step: Step) -> tuple[Floats, Floats]:
        """Median time by case in base and in head, NaN where a case has none, shape (cases,)."""
        return self._times(self._base, step), self._times(self._head, step)

    def _times(self, side: _Side, step: Step) -> Floats:
        rows, seconds = side.paces[step]
        cases = self._case_of[side][np.frombuffer(rows, np.int64)]
        found = np.full(len(self._sizes), np.nan)
        order = np.lexsort((np.array(seconds), cases))
        order = order[cases[order] >= 0]
        met, starts, sizes = np.unique(cases[order], return_index=True, return_counts=True)
        risen = np.array(seconds)[order]
        # Sorted within each case: its median lies in the middle.
        found[met] = (risen[starts + (sizes - 1) // 2] + risen[starts + sizes // 2]) / 2
        return found
