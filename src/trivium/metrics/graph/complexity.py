"""Complexity: how involved the way through the tools was (spec: metrics, T3.6)."""

from typing import Any

from trivium.metrics.graph.measures import (
    average_shortest_path,
    branching_factor,
    clustering,
    diameter,
    simple_cycles,
)
from trivium.metrics.graph.tool_graph import END, START, tool_shape
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.trace import Trace


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
        graph = tool_shape(trace, self.tools)
        shape = graph.shape
        path, branching = average_shortest_path(shape), branching_factor(shape)
        if path is None or branching is None:
            raise Skip("no tool was called")
        longest, connected = diameter(shape)
        cycles = simple_cycles(shape)
        names = (START, END, *graph.tools)
        detail: dict[str, Any] = {
            "average_shortest_path": path,
            "branching_factor": branching,
            "diameter": longest,
            "connected": connected,
            "clustering": clustering(shape),
            "cycles": cycles.count,
            "shortest_cycle": [names[node] for node in cycles.shortest],
        }
        if cycles.counted_up_to is not None:
            detail["cycles_counted_up_to"] = cycles.counted_up_to
        if shape.sources is not None:
            detail |= {"estimated": True, "sources": len(shape.sources)}
        return self.ok(None, raw=path * branching, detail=detail)
