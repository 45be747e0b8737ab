"""The interaction graph: which agent turned to which (spec: metrics, T3.7)."""

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trivium.metrics.graph.measures import Shape
from trivium.metrics.graph.memo import once
from trivium.traces.trace import Trace

if TYPE_CHECKING:
    import networkx as nx


def interaction_graph(trace: Trace) -> "nx.DiGraph[Any]":
    """The interaction graph as NetworkX holds it, for drawing and for measures of one's own.

    Nodes are agents; an edge says that one sent the other messages, its ``count`` how many and its
    ``types`` how many of each type. People, such as the user of a chat, are no agents.
    """
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph()
    graph.add_nodes_from(trace.agents)
    types: dict[tuple[str, str], Counter[str]] = {}
    for message in trace.agent_messages:
        types.setdefault((message.sender, message.receiver), Counter())[message.type] += 1
    for (sender, receiver), counts in types.items():
        graph.add_edge(sender, receiver, count=counts.total(), types=dict(counts))
    return graph


class Interactions:
    """The messages of a trace by numbers.

    Attributes:
        agents: All agents; the shape's nodes.
        pairs: Distinct (sender, receiver), in order of their first message.
        types: Number of messages by type.
    """

    def __init__(self, trace: Trace) -> None:
        self.agents = trace.agents
        pairs: dict[tuple[str, str], None] = {}
        types: dict[str, int] = {}
        for message in trace.agent_messages:
            pairs[message.sender, message.receiver] = None
            types[message.type] = types.get(message.type, 0) + 1
        self.pairs = tuple(pairs)
        self.types = types

    @cached_property
    def shape(self) -> Shape:
        """The interaction graph."""
        return Shape.of(self.agents, self.pairs)


def interactions(trace: Trace) -> Interactions:
    """The messages of a trace by numbers."""
    return once(trace, "interactions", lambda: Interactions(trace))
