"""Changes: what became of the edges of two runs' graphs, and of the times that steps take."""

from typing import Literal

import msgspec

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
