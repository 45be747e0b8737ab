"""NetworkX as the oracle of the measures."""

from typing import Any

import msgspec
import networkx as nx

from trivium.metrics.graph.measures import NamedGraph


def digraph(n: int, edges: list[tuple[int, int]]) -> Any:
    """The graph as NetworkX holds it."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    return graph


def named(graph: NamedGraph) -> Any:
    """A named graph as NetworkX holds it."""
    made = nx.DiGraph()
    made.add_nodes_from(graph.nodes)
    made.add_edges_from((*pair, msgspec.to_builtins(edge)) for pair, edge in graph.edges.items())
    return made


def average_shortest_path(graph: Any) -> float | None:
    lengths = [d for _, found in nx.all_pairs_shortest_path_length(graph) for d in found.values() if d]
    return sum(lengths) / len(lengths) if lengths else None


def diameter(graph: Any) -> tuple[int, bool]:
    """Of the largest component, the longest where several are largest; and whether there is but one."""
    undirected = graph.to_undirected()
    components = list(nx.connected_components(undirected))
    largest = max(map(len, components))
    longest = max(nx.diameter(undirected.subgraph(c)) for c in components if len(c) == largest)
    return longest, len(components) == 1
