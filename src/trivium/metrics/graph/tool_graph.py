"""The tool graph: which tool call follows which (spec: metrics, T3.1)."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from trivium.metrics.graph.calls.counted import tool_walks
from trivium.metrics.graph.measures import Shape
from trivium.metrics.graph.memo import once
from trivium.suites.settings import ToolSettings
from trivium.traces.trace import Trace

if TYPE_CHECKING:
    import networkx as nx

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


class ToolShape:
    """The tool graph by numbers: node 0 is START, 1 is END, the others are tools.

    Attributes:
        shape: The graph.
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
        self.shape = Shape(len(place) + 2 if place else 0, list(edges))


def tool_shape(trace: Trace, tools: ToolSettings) -> ToolShape:
    """The tool graph of a trace by numbers."""
    return once(trace, ("tool_shape", tools.ignore, tools.by), lambda: ToolShape(tool_walks(trace, tools)))
