"""Shape: a directed graph by numbers, and the distances in it.

The measures work on this instead of on NetworkX graphs: nodes are 0 … n−1, edges are pairs, and
rustworkx does the walking. Each thing is worked out once, when it is first asked for.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

EXACT_DISTANCES = 5_000
"""Nodes up to which all distances are held, 200 MB each way; beyond, those from sampled sources."""

SOURCES = 100
"""Sources sampled where a graph is too large to start from every node."""

SEED = 42

Distances = NDArray[np.float64]


class Shape:
    """A directed graph by numbers.

    Args:
        n: Number of nodes.
        edges: Distinct (from, to) pairs of nodes; a self loop is one.
    """

    def __init__(self, n: int, edges: Sequence[tuple[int, int]]) -> None:
        self.n = n
        self.edges = edges

    @classmethod
    def of(cls, nodes: Iterable[Hashable], edges: Iterable[tuple[Hashable, Hashable]]) -> "Shape":
        """The shape of a graph with named nodes; repeated edges collapse."""
        place = {node: index for index, node in enumerate(nodes)}
        distinct = dict.fromkeys((place[source], place[target]) for source, target in edges)
        return cls(len(place), list(distinct))

    @cached_property
    def directed(self) -> Any:
        """The graph as rustworkx holds it."""
        graph = rx.PyDiGraph(multigraph=False)
        graph.add_nodes_from(range(self.n))
        graph.add_edges_from_no_data(self.edges)
        return graph

    @cached_property
    def undirected(self) -> Any:
        """The same without directions."""
        return self.directed.to_undirected(multigraph=False)

    @cached_property
    def sources(self) -> tuple[int, ...] | None:
        """Nodes that distances start from, or None when all do."""
        return None if self.n <= EXACT_DISTANCES else self.sample(SOURCES)

    def sample(self, count: int) -> tuple[int, ...]:
        """Distinct nodes, the same ones every time."""
        chosen = np.random.default_rng(SEED).choice(self.n, size=count, replace=False)
        return tuple(int(node) for node in np.sort(chosen))

    @cached_property
    def distances(self) -> Distances:
        """Edges on the shortest path, shape (sources, n); 0 for itself and where there is no path."""
        if self.sources is None:
            return _matrix(rx.digraph_distance_matrix(self.directed))
        return _rows(self.directed, self.n, self.sources)

    @cached_property
    def undirected_distances(self) -> Distances:
        """As ``distances``, without directions."""
        if self.sources is None:
            return _matrix(rx.graph_distance_matrix(self.undirected))
        return _rows(self.undirected, self.n, self.sources)

    def hops(self, source: int, target: int) -> int | None:
        """Edges on the shortest path between two nodes, or None when there is no path."""
        for depth, layer in enumerate(rx.bfs_layers(self.directed, [source])):
            if target in layer:
                return depth
        return None


def _matrix(found: Any) -> Distances:
    matrix: Distances = found
    return matrix


def _rows(graph: Any, n: int, sources: Sequence[int]) -> Distances:
    rows = np.zeros((len(sources), n))
    for row, source in zip(rows, sources, strict=True):
        layers = rx.bfs_layers(graph, [source])
        row[np.concatenate(layers)] = np.repeat(np.arange(len(layers)), [len(layer) for layer in layers])
    return rows
