"""Metrics of the sequence of tool calls: path convergence and agreement, complexity, loops, retries."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain, combinations, pairwise
from typing import NamedTuple

from trivium.metrics.graph.matching import (
    ALL_CALLS,
    case_matching,
    counted_calls,
    counted_names,
    lcs_length,
    logical_calls,
    once,
    tool_walks,
)
from trivium.metrics.graph.measures import (
    Edge,
    IndexGraph,
    NamedGraph,
)
from trivium.metrics.graph.tool_calls import ToolMetric
from trivium.metrics.metric import Score, Skip, TraceMetric
from trivium.metrics.registry import metric
from trivium.suites.case import Case
from trivium.suites.settings import ToolSettings
from trivium.traces.outcome import deciding_spans, failure_of
from trivium.traces.process.loops import CallRepeats
from trivium.traces.trace import Trace

WITHOUT_EXPECTATION = "shortest path of the calls made"
"""Method of the score if the case does not state ``expect.tools``."""


@metric("path_convergence")
class PathConvergence(ToolMetric):
    """Fewest calls that would have sufficed / calls made, in [0, 1].

    Definition: docs/definitions/traces.md#path-convergence.

    If the case states its calls, their number is the minimum, and the ratio is multiplied by ``tool_recall``,
    so that stopping early is not rewarded; if it states that none is needed, the score is 1 without calls and
    0 with any. If the case does not state its calls, the minimum is the number of calls on the shortest path
    from START to END in the tool graph (with ``by: agent``, summed over the agents' graphs). Skipped without
    calls and without expected calls.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace; ``detail`` has minimum, steps, recall and logical calls."""
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
        detail: dict[str, object] = {
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
            graphs = [ToolGraph.of([walk]) for walk in tool_walks(trace, self.tools)]
        return sum((each.graph.hops(0, 1) or 1) - 1 for each in graphs)


NAME = "path_agreement"


def path_agreement(sequences: Sequence[Sequence[str]]) -> Score:
    """Return the mean of 2 · LCS / (length + length) over pairs of attempts and their tool sequences.

    A metric of a case, not of an attempt (docs/definitions/traces.md#path-agreement). Two attempts without
    calls agree.

    Args:
        sequences: Names of the tools called in each attempt, in order (see ``counted_calls``).

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

    Definition: docs/definitions/traces.md#complexity.

    The product is in ``raw``. The average is over ordered pairs of nodes with a path, START and END included;
    the branching factor is the mean out-degree of nodes with a successor. Skipped without calls.
    """

    unit = ""
    better = None

    def measure(self, trace: Trace, case: Case) -> Score:
        """Compute the complexity of one trace.

        ``detail`` has both factors; diameter and clustering coefficient of the undirected graph, and whether
        it is connected (otherwise the diameter is that of the largest component); the number of simple
        cycles, ``cycles_counted_up_to`` if counting stopped at a limit, and the tools on the shortest cycle.
        Above 5,000 distinct tools, distances are estimated from sampled sources and ``estimated`` is true.
        """
        indexed = indexed_tool_graph(trace, self.tools)
        graph = indexed.graph
        path, branching = graph.average_shortest_path, graph.branching_factor
        if path is None or branching is None:
            raise Skip("no tool was called")
        longest, connected = graph.diameter
        cycles = graph.simple_cycles
        names = (START, END, *indexed.tools)
        detail: dict[str, object] = {
            "average_shortest_path": path,
            "branching_factor": branching,
            "diameter": longest,
            "connected": connected,
            "clustering": graph.clustering,
            "cycles": cycles.count,
            "shortest_cycle": [names[node] for node in cycles.shortest],
        }
        if cycles.counted_up_to is not None:
            detail["cycles_counted_up_to"] = cycles.counted_up_to
        if graph.sources is not None:
            detail |= {"estimated": True, "sources": len(graph.sources)}
        return self.ok(None, raw=path * branching, detail=detail)


@once
def call_repeats(trace: Trace, tools: ToolSettings) -> CallRepeats:
    """Return the loops and the repeated calls of a trace."""
    return CallRepeats(counted_calls(trace, tools))


MOST_LOOPS_LISTED = 5


@metric("loop_free")
class LoopFree(ToolMetric):
    """1 − calls after the first round of a loop / calls, in [0, 1]; ``raw`` is the share of looped calls.

    Definition: docs/definitions/traces.md#loop-free.

    In a loop, an agent repeats the same calls with the same arguments at least three times in a row. Skipped
    without calls.
    """

    compares_arguments = True
    unit = "of calls looped"
    better = "lower"

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace; ``detail`` has the number of loops and the longest of them."""
        calls = counted_calls(trace, self.tools)
        if not calls:
            raise Skip("no tool was called")
        repeats = call_repeats(trace, self.tools)
        loops, again = repeats.loops, len(repeats.looped)
        return self.ok(
            1.0 - again / len(calls),
            raw=again / len(calls),
            detail={
                "calls": len(calls),
                "looped": again,
                "loops": len(loops),
                "longest": [
                    {"agent": loop.agent, "tools": list(loop.tools), "rounds": loop.rounds}
                    for loop in loops[:MOST_LOOPS_LISTED]
                ],
            },
        )


@metric("retry_rate")
class RetryRate(ToolMetric):
    """1 − retries / calls, in [0, 1]; ``raw`` is the rate of retries, lower is better.

    Definition: docs/definitions/traces.md#retry-rate.

    A retry repeats an agent's call with the same tool and arguments after the latest such call failed.
    Skipped without calls.
    """

    compares_arguments = True
    unit = "retries per call"
    better = "lower"

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace.

        ``detail`` has the retries by tool, the number of retries that succeeded, and by tool the calls that
        repeat a successful call.
        """
        calls = counted_calls(trace, self.tools)
        if not calls:
            raise Skip("no tool was called")
        found = call_repeats(trace, self.tools).repeated
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


@metric("completed")
class Completed(TraceMetric):
    """1 if the outermost span ended without an error, 0 if it failed; skipped if it has not, or is missing.

    Definition: docs/definitions/traces.md#completed.

    Says that the run went through, not that its answer is right. If an agent's span is outermost, agents'
    spans decide; of several, one that failed decides.
    """

    def measure(self, trace: Trace, case: Case) -> Score:
        """Score one trace; the reason of a 0 is the recorded error."""
        outermost = deciding_spans(trace)
        if not outermost:
            raise Skip("the trace has no spans")
        failure = failure_of(trace)
        if failure is not None:
            return self.ok(0.0, reason=failure)
        unfinished = next((span for span in outermost if span.ok is None), None)
        if unfinished is not None:
            raise Skip(f"{unfinished.kind} {unfinished.name} has not ended")
        if trace.without_root:
            raise Skip("the outermost span is missing: how it ended is not known")
        return self.ok(1.0)


START, END = "START", "END"


def tool_graph(trace: Trace, tools: ToolSettings = ALL_CALLS) -> NamedGraph:
    """Return the tool graph, for drawings and exports.

    Definition: docs/definitions/traces.md#tool-graph.

    Nodes are the tools called, START and END (a tool with such a name gets quotation marks). An edge connects
    consecutive calls, with how often they occur. START leads to the first call, and the last call
    to END. A trace without calls has no nodes.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for walk in tool_walks(trace, tools):
        names = [f'"{name}"' if name in (START, END) else name for name in walk]
        counts.update(pairwise([START, *names, END]))
    nodes = tuple(dict.fromkeys(chain.from_iterable(counts)))
    return NamedGraph(nodes, {pair: Edge(count) for pair, count in counts.items()})


class ToolGraph(NamedTuple):
    """The tool graph with nodes as integers: 0 is START, 1 is END, the others are tools.

    Attributes:
        graph: The graph.
        tools: Names of nodes 2, 3, …
    """

    graph: IndexGraph
    tools: tuple[str, ...]

    @classmethod
    def of(cls, walks: Sequence[Sequence[str]]) -> "ToolGraph":
        """Make the graph of some call sequences, none of them empty."""
        tools = tuple(dict.fromkeys(chain.from_iterable(walks)))
        edges = chain.from_iterable(pairwise([0, *walk, 1]) for walk in walks)
        return cls(IndexGraph.of([0, 1, *tools] if tools else [], edges), tools)


@once
def indexed_tool_graph(trace: Trace, tools: ToolSettings) -> ToolGraph:
    """Return the tool graph of a trace."""
    return ToolGraph.of(tool_walks(trace, tools))
