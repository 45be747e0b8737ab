"""Path convergence: how direct the way through the tools was (spec: metrics, T3.2)."""

from typing import Any

from trivium.metrics.graph.calls.counted import counted_calls, logical_calls, tool_walks
from trivium.metrics.graph.calls.matching import case_matching
from trivium.metrics.graph.measures import Shape
from trivium.metrics.graph.tool_graph import ToolShape, tool_shape
from trivium.metrics.graph.tool_metric import ToolMetric
from trivium.metrics.metric import Skip, metric
from trivium.metrics.score import Score
from trivium.suites.case import Case
from trivium.traces.trace import Trace


def walk_convergence(shape: Shape, source: int, target: int, steps: int) -> float | None:
    """Shortest path / edges walked, as a function of a graph.

    Args:
        shape: The graph.
        source: Where the walk began.
        target: Where it ended.
        steps: Edges walked.

    Returns:
        In [0, 1], or None when no edge was walked or there is no path.
    """
    shortest = shape.hops(source, target)
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
            graphs = [tool_shape(trace, self.tools)]
        else:
            graphs = [ToolShape([walk]) for walk in tool_walks(trace, self.tools)]
        return sum((graph.shape.hops(0, 1) or 1) - 1 for graph in graphs)
