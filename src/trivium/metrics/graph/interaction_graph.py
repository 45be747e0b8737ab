"""The interaction graph: which agent turned to which (spec: metrics, T3.7)."""

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from trivium.metrics.graph.measures import Shape
from trivium.metrics.graph.memo import once
from trivium.metrics.metric import RECORDED_BY
from trivium.traces.trace import Trace

if TYPE_CHECKING:
    import networkx as nx

HANDING_ON = frozenset({"task_request", "handoff", "delegation", "data_transfer"})
"""Types of messages that hand work on; answers back and status do not (spec: metrics, T3.10)."""


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
        handed_on: Those among them where work was handed on.
        types: Number of messages by type.
    """

    def __init__(self, trace: Trace) -> None:
        self.agents = trace.agents
        pairs: dict[tuple[str, str], None] = {}
        types: dict[str, int] = {}
        handed_on: dict[tuple[str, str], None] = {}
        for message in trace.agent_messages:
            pairs[message.sender, message.receiver] = None
            if message.type in HANDING_ON:
                handed_on[message.sender, message.receiver] = None
            types[message.type] = types.get(message.type, 0) + 1
        self.pairs = tuple(pairs)
        self.handed_on = tuple(handed_on)
        self.types = types

    @cached_property
    def shape(self) -> Shape:
        """The interaction graph."""
        return Shape.of(self.agents, self.pairs)


def recorded_by(trace: Trace) -> str | None:
    """Who recorded the trace, as the method of a figure that depends on it; None where it is not known."""
    return f"{RECORDED_BY}{' and '.join(trace.recorders)}" if trace.recorders else None


def interactions(trace: Trace) -> Interactions:
    """The messages of a trace by numbers."""
    return once(trace, "interactions", lambda: Interactions(trace))
