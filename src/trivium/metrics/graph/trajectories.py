"""Measures the sequence of tool calls: path convergence and agreement, complexity, loops, retries."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any, Literal

from trivium.metrics.graph.matching import (
    cached,
    case_matching,
    counted_calls,
    counted_names,
    lcs_length,
    logical_calls,
    tool_walks,
)
from trivium.metrics.graph.measures import (
    IndexGraph,
    average_shortest_path,
    branching_factor,
    clustering,
    diameter,
    simple_cycles,
)
from trivium.metrics.graph.tool_calls import ToolMetric
from trivium.metrics.metric import Score, Skip
from trivium.metrics.registry import metric
from trivium.suites.case import Case
from trivium.suites.settings import ToolSettings
from trivium.traces.process.loops import call_loops, looped_calls, repeated_calls
from trivium.traces.trace import Trace

if TYPE_CHECKING:
    import networkx as nx


def walk_convergence(graph: IndexGraph, source: int, target: int, steps: int) -> float | None:
    """Shortest path / edges walked, as a function of a graph.

    Args:
        graph: The graph.
        source: Where the walk began.
        target: Where it ended.
        steps: Edges walked.

    Returns:
        In [0, 1], or None when no edge was walked or there is no path.
    """
    shortest = graph.hops(source, target)
    return None if shortest is None or steps <= 0 else min(1.0, shortest / steps)


WITHOUT_EXPECTATION = "shortest path of the calls made"
"""How it was worked out where the case does not say which calls it expects."""


@metric("path_convergence")
class PathConvergence(ToolMetric):
    """Fewest calls that would have done / calls made, in [0, 1].

    When the case states its calls, their number is the fewest, and the ratio is multiplied by
    ``tool_recall``, so that stopping early is not rewarded; when it states that none is needed, none made
    is 1 and any made is 0. When nothing is known, the fewest is the number of calls on the shortest way
    from START to END in the tool graph (with ``by: agent``, added up over the agents' own graphs). No
    calls and nothing known: skipped.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; ``detail`` has minimum, steps, recall and logical calls."""
        calls = counted_calls(trace, self.tools)
        steps = len(calls)
        matching = case_matching(trace, case, self.tools)
        recall, method = None, None
        if matching is not None:
            minimum, recall = matching.expected, matching.recall
            value = float(not steps) if minimum == 0 else minimum / max(steps, minimum) * recall
        elif steps:
            minimum, method = self._shortest(trace), WITHOUT_EXPECTATION
            value = minimum / steps
        else:
            raise Skip("no tool was called, and the case does not say what was expected")
        detail: dict[str, Any] = {
            "minimum": minimum,
            "steps": steps,
            "logical_calls": logical_calls(trace, self.tools),
        }
        if recall is not None:
            detail["recall"] = recall
        return self.ok(min(1.0, value), method=method, detail=detail)

    def _shortest(self, trace: Trace) -> int:
        if self.tools.by == "run":
            graphs = [indexed_tool_graph(trace, self.tools)]
        else:
            graphs = [ToolGraph([walk]) for walk in tool_walks(trace, self.tools)]
        return sum((each.graph.hops(0, 1) or 1) - 1 for each in graphs)


NAME = "path_agreement"


def path_agreement(sequences: Sequence[Sequence[str]]) -> Score:
    """Mean over pairs of attempts of 2 · LCS / (length + length) of their tool sequences.

    A figure of a case, not of an attempt (spec: metrics, T3.14). Two attempts without calls agree.

    Args:
        sequences: Tools called in each attempt, in order (``calls.counted.tool_sequence``).

    Returns:
        A score in [0, 1], skipped for fewer than two attempts; ``detail`` has the number of attempts and
        of distinct paths.
    """
    if len(sequences) < 2:
        return Score(name=NAME, tier="trace", status="skipped", reason="fewer than two attempts have a trace")
    paths = Counter(tuple(sequence) for sequence in sequences)
    total = sum(count * (count - 1) / 2 for count in paths.values())  # pairs that took the same path
    for (first, times), (second, again) in combinations(paths.items(), 2):
        total += times * again * 2 * lcs_length(first, second) / (len(first) + len(second))
    pairs = len(sequences) * (len(sequences) - 1) / 2
    return Score(
        name=NAME,
        tier="trace",
        value=min(1.0, total / pairs),
        detail={"attempts": len(sequences), "distinct_paths": len(paths)},
    )


@metric("complexity")
class Complexity(ToolMetric):
    """Average shortest path × branching factor of the tool graph: reported, not scored.

    ``raw`` holds it. The average is over ordered pairs of nodes, START and END included, of which one
    reaches the other; the branching factor is the mean out-degree of nodes with a successor. Skipped when
    no tool was called.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The figure of one trace.

        ``detail`` has its two factors; diameter and clustering coefficient of the undirected graph, and
        whether it is connected (else the diameter is that of the largest component); the number of simple
        cycles, ``cycles_counted_up_to`` where counting stopped, and the tools on the shortest one. Beyond
        5,000 distinct tools distances are estimated from sampled sources: ``estimated`` is then true.
        """
        indexed = indexed_tool_graph(trace, self.tools)
        graph = indexed.graph
        path, branching = average_shortest_path(graph), branching_factor(graph)
        if path is None or branching is None:
            raise Skip("no tool was called")
        longest, connected = diameter(graph)
        cycles = simple_cycles(graph)
        names = (START, END, *indexed.tools)
        detail: dict[str, Any] = {
            "average_shortest_path": path,
            "branching_factor": branching,
            "diameter": longest,
            "connected": connected,
            "clustering": clustering(graph),
            "cycles": cycles.count,
            "shortest_cycle": [names[node] for node in cycles.shortest],
        }
        if cycles.counted_up_to is not None:
            detail["cycles_counted_up_to"] = cycles.counted_up_to
        if graph.sources is not None:
            detail |= {"estimated": True, "sources": len(graph.sources)}
        return self.ok(None, raw=path * branching, detail=detail)


LOOPS_TOLD = 5


@metric("loop_free")
class LoopFree(ToolMetric):
    """1 − calls after the first round of a loop / calls, in [0, 1]; ``raw`` is the share that goes round.

    A loop is the same calls with the same arguments by one agent, three times or more in a row. Skipped
    without calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace; ``detail`` has the number of loops and the longest of them."""
        calls = counted_calls(trace, self.tools)
        if not calls:
            raise Skip("no tool was called")
        loops = call_loops(calls)
        again = len(looped_calls(loops))
        return self.ok(
            1.0 - again / len(calls),
            raw=again / len(calls),
            detail={
                "calls": len(calls),
                "looped": again,
                "loops": len(loops),
                "longest": [
                    {"agent": loop.agent, "tools": list(loop.tools), "rounds": loop.rounds}
                    for loop in loops[:LOOPS_TOLD]
                ],
            },
        )


@metric("retry_rate")
class RetryRate(ToolMetric):
    """1 − retries / calls, in [0, 1]; ``raw`` is the rate of retries, lower is better.

    A retry is a call by the same agent, of the same tool, with the same arguments as one that failed, when
    that was the latest such call. Skipped without calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """The score of one trace.

        ``detail`` has the retries by tool, those that did not fail again, and the calls that repeat what had
        succeeded.
        """
        calls = counted_calls(trace, self.tools)
        if not calls:
            raise Skip("no tool was called")
        found = repeated_calls(calls)
        retries = [calls[one.call] for one in found if one.retry]
        rate = len(retries) / len(calls)
        return self.ok(
            1.0 - rate,
            raw=rate,
            detail={
                "calls": len(calls),
                "retries": counted_names(retries),
                "recovered": sum([call.ok is True for call in retries]),
                "repeats": counted_names([calls[one.call] for one in found if not one.retry]),
            },
        )


START, END = "START", "END"


def tool_graph(
    trace: Trace, *, by: Literal["run", "agent"] = "run", ignore: tuple[str, ...] = ()
) -> "nx.DiGraph[Any]":
    """The tool graph as NetworkX holds it, for drawing and for measures of one's own.

    Nodes are the tools called plus START and END (a tool that is itself called so gets quotation marks);
    an edge says that one call followed another, and its ``count`` how often. START leads to the first
    call and the last to END. A trace without calls has no nodes.

    Args:
        trace: The trace.
        by: One sequence for the run, or one for each agent.
        ignore: Tools to leave out.
    """
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    for walk in tool_walks(trace, ToolSettings(by=by, ignore=ignore)):
        names = [f'"{name}"' if name in (START, END) else name for name in walk]
        for source, target in pairwise([START, *names, END]):
            if graph.has_edge(source, target):
                graph[source][target]["count"] += 1
            else:
                graph.add_edge(source, target, count=1)
    return graph


class ToolGraph:
    """The tool graph by numbers: node 0 is START, 1 is END, the others are tools.

    Attributes:
        graph: The graph.
        tools: Names of nodes 2, 3, …
    """

    def __init__(self, walks: list[tuple[str, ...]]) -> None:
        place: dict[str, int] = {}
        edges: dict[tuple[int, int], None] = {}
        for walk in walks:
            at = 0
            for name in walk:
                to = place.setdefault(name, len(place) + 2)
                edges[at, to] = None
                at = to
            edges[at, 1] = None
        self.tools = tuple(place)
        self.graph = IndexGraph(len(place) + 2 if place else 0, list(edges))


def indexed_tool_graph(trace: Trace, tools: ToolSettings) -> ToolGraph:
    """The tool graph of a trace by numbers."""
    return cached(
        trace, ("indexed_tool_graph", tools.ignore, tools.by), lambda: ToolGraph(tool_walks(trace, tools))
    )
