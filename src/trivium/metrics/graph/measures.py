"""Computes graph measures with rustworkx; the values equal those of NetworkX.

A graph is an :class:`IndexGraph` with nodes 0 … n−1. It computes its distances and measures once, on first
use.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

EXACT_DISTANCES = 5_000
"""Largest graph whose full distance matrix is computed (200 MB each, directed and undirected); larger graphs
use sampled sources."""

SOURCES = 100
"""Number of source nodes sampled in a larger graph."""

SEED = 42

SHARED_UP_TO = 16
"""Largest graph, in nodes, that is cached across traces: an agent's traces often have the same few graphs."""

_SHARED = 256
"""Number of graphs in that cache; with its distances, a graph takes up to about 10 kB."""

Distances = NDArray[np.float64]


class Edge(msgspec.Struct, frozen=True, omit_defaults=True):
    """An edge of a graph that people see.

    Attributes:
        count: How often it was taken.
        types: Number of messages by type, between agents.
        traces: Number of traces that have it, in a graph of several.
    """

    count: int
    types: dict[str, int] = {}
    traces: int = 0


class NamedGraph(msgspec.Struct, frozen=True, dict=True):
    """A directed graph that people see: its nodes by name, in order of appearance, and its edges."""

    nodes: tuple[str, ...]
    edges: dict[tuple[str, str], Edge]

    @cached_property
    def measures(self) -> "IndexGraph":
        """Its measures; node i there is node i here."""
        return IndexGraph.of(self.nodes, self.edges)


class Betweenness(msgspec.Struct, frozen=True):
    """Betweenness of every node, normalised by (n − 1)(n − 2).

    Attributes:
        values: One value per node, in [0, 1].
        sources: Number of sampled sources, or None if exact.
        standard_errors: One per node, or None if exact.
    """

    values: list[float]
    sources: int | None = None
    standard_errors: list[float] | None = None


class Cycles(msgspec.Struct, frozen=True):
    """The simple cycles of a graph.

    Attributes:
        count: Number of cycles counted; a self loop is one.
        counted_up_to: Limit at which counting stopped, or None if all were counted.
        shortest: Nodes of the shortest cycle, in order; if ``counted_up_to`` is set, perhaps only the
            shortest of those counted.
    """

    count: int
    counted_up_to: int | None
    shortest: tuple[int, ...]


NO_CYCLES = Cycles(0, None, ())


class IndexGraph:
    """A directed graph with nodes 0 … n−1, which never changes, and its measures.

    Args:
        n: Number of nodes.
        edges: Distinct (from, to) pairs of nodes; self loops are allowed.
    """

    def __init__(self, n: int, edges: Sequence[tuple[int, int]]) -> None:
        self.n = n
        self.edges = edges

    @classmethod
    def of(cls, nodes: Iterable[Hashable], edges: Iterable[tuple[Hashable, Hashable]]) -> "IndexGraph":
        """Make the graph from named nodes; repeated edges collapse."""
        place = {node: index for index, node in enumerate(nodes)}
        distinct = dict.fromkeys([(place[source], place[target]) for source, target in edges])
        return cls.shared(len(place), tuple(distinct))

    @classmethod
    def shared(cls, n: int, edges: tuple[tuple[int, int], ...]) -> "IndexGraph":
        """Make the graph, or return an equal cached one if it is small."""
        return _shared_graph(n, edges) if n <= SHARED_UP_TO else cls(n, edges)

    @cached_property
    def directed(self) -> Any:
        """The graph in rustworkx."""
        graph = rx.PyDiGraph(multigraph=False)
        graph.add_nodes_from(range(self.n))
        graph.add_edges_from_no_data(self.edges)
        return graph

    @cached_property
    def undirected(self) -> Any:
        """The undirected graph in rustworkx."""
        return self.directed.to_undirected(multigraph=False)

    @cached_property
    def sources(self) -> tuple[int, ...] | None:
        """Sampled source nodes of the distances, or None if every node is a source."""
        return None if self.n <= EXACT_DISTANCES else self.sample(SOURCES)

    def sample(self, count: int) -> tuple[int, ...]:
        """Sample distinct nodes with a fixed seed, in ascending order."""
        chosen = np.random.default_rng(SEED).choice(self.n, size=count, replace=False)
        return tuple(int(node) for node in np.sort(chosen))

    @cached_property
    def distances(self) -> Distances:
        """Lengths of shortest paths, shape (sources, n); 0 where there is no path, and on the diagonal."""
        if self.sources is None:
            return _matrix(rx.digraph_distance_matrix(self.directed))
        return _rows(self.directed, self.n, self.sources)

    @cached_property
    def undirected_distances(self) -> Distances:
        """Like ``distances``, in the undirected graph."""
        if self.sources is None:
            return _matrix(rx.graph_distance_matrix(self.undirected))
        return _rows(self.undirected, self.n, self.sources)

    def hops(self, source: int, target: int) -> int | None:
        """The length of the shortest path between two nodes, or None if there is no path."""
        for depth, layer in enumerate(rx.bfs_layers(self.directed, [source])):
            if target in layer:
                return depth
        return None

    @cached_property
    def degree(self) -> Sequence[float]:
        """(in-degree + out-degree) / (n − 1) of each node, up to 2; a self loop counts twice.

        A single node has 1, as in ``networkx.degree_centrality``.
        """
        if self.n == 1:
            return [1.0]
        counts = [0] * self.n
        for source, target in self.edges:
            counts[source] += 1
            counts[target] += 1
        return [count * (1.0 / (self.n - 1)) for count in counts]

    @cached_property
    def branching_factor(self) -> float | None:
        """The mean out-degree of nodes with a successor, self loops included; None without edges."""
        sources = {source for source, _ in self.edges}
        return len(self.edges) / len(sources) if sources else None

    @cached_property
    def clustering(self) -> float | None:
        """The average clustering coefficient: the share of pairs of neighbours that are connected.

        The graph is taken as undirected and without self loops, as in ``networkx.average_clustering``.

        Returns:
            In [0, 1], or None without nodes.
        """
        if self.n == 0:
            return None
        neighbours: list[set[int]] = [set() for _ in range(self.n)]
        for source, target in self.edges:
            if source != target:
                neighbours[source].add(target)
                neighbours[target].add(source)
        links = [0] * self.n  # edges between the neighbours of each node, each counted twice
        for node, near in enumerate(neighbours):
            for other in near:
                if other > node:
                    shared = len(near & neighbours[other])
                    links[node] += shared
                    links[other] += shared
        counts = [len(near) for near in neighbours]
        return sum([n / (k * (k - 1)) for n, k in zip(links, counts, strict=True) if n]) / self.n

    @cached_property
    def average_shortest_path(self) -> float | None:
        """The mean length of shortest paths, over ordered pairs of nodes with a path.

        Returns:
            At least 1, or None if no node reaches another.
        """
        distances = self.distances
        pairs = int(np.count_nonzero(distances))
        return float(distances.sum()) / pairs if pairs else None

    @cached_property
    def closeness(self) -> Sequence[float]:
        """The closeness of each node by incoming distance, with the Wasserman–Faust factor.

        If r other nodes reach a node over a total distance t, its closeness is (r / t) · (r / (n − 1)), or 0
        if none reaches it, as in ``networkx.closeness_centrality`` on a DiGraph. With sampled sources, r and
        t count only sources, and their number replaces n − 1.

        Returns:
            One value per node, in [0, 1].
        """
        distances = self.distances
        reach = np.count_nonzero(distances, axis=0).tolist()
        total = distances.sum(axis=0).tolist()
        others = [self.n - 1 if self.sources is None else len(distances)] * self.n
        for source in self.sources or ():
            others[source] -= 1  # a source does not count for itself
        return [(r / t) * (r / count) if t else 0.0 for r, t, count in zip(reach, total, others, strict=True)]

    @cached_property
    def diameter(self) -> tuple[int | None, bool]:
        """The diameter of the undirected graph, in edges, and whether the graph is connected.

        A disconnected graph has the diameter of its largest component; of equally large components, the
        largest diameter. Sampled sources give a lower bound. None without nodes.
        """
        if self.n == 0:
            return None, False
        distances = self.undirected_distances
        if np.count_nonzero(distances) == len(distances) * (self.n - 1):
            return int(distances.max()), True
        reach = np.count_nonzero(distances, axis=1)
        return int(distances[reach == reach.max()].max()), False

    @cached_property
    def global_efficiency(self) -> float:
        """The mean of 1 / distance over ordered pairs of nodes, 0 for a pair without a path.

        The graph is taken as undirected; 1 for a complete graph, 0 for fewer than two nodes. Latora &
        Marchiori, "Efficient behavior of small-world networks", Phys. Rev. Lett. 87 (2001).
        """
        if self.n < 2:
            return 0.0
        distances = self.undirected_distances
        total = 0.0
        for start in range(0, len(distances), _BLOCK):
            block = distances[start : start + _BLOCK]
            total += float((1.0 / block[block > 0]).sum())
        return total / (len(distances) * (self.n - 1))

    @cached_property
    def betweenness(self) -> Betweenness:
        """The betweenness of each node, as in ``networkx.betweenness_centrality`` on a DiGraph.

        Above 2,000 nodes, estimate it as the mean dependency of sampled sources on a node, with the standard
        error of that mean (Brandes & Pich, "Centrality estimation in large networks", 2007).
        """
        if self.n <= EXACT_BETWEENNESS:
            exact = rx.digraph_betweenness_centrality(self.directed, parallel_threshold=_THREADS_FROM)
            return Betweenness(list(exact.values()))
        return estimated_betweenness(self, self.sample(SOURCES))

    @cached_property
    def simple_cycles(self) -> Cycles:
        """Count simple cycles and find the shortest (docs/definitions/traces.md#complexity)."""
        if rx.is_directed_acyclic_graph(self.directed):
            return NO_CYCLES
        limit = max(10, min(MOST_CYCLES, _WORK // (self.n + len(self.edges))))
        count, shortest = 0, None
        for cycle in islice(rx.simple_cycles(self.directed), limit + 1):
            count += 1
            if shortest is None or len(cycle) < len(shortest):
                shortest = cycle
        if count <= limit:
            return Cycles(count, None, tuple(shortest or ()))
        return Cycles(limit, limit, _shortest(self) or tuple(shortest or ()))


_shared_graph = lru_cache(maxsize=_SHARED)(IndexGraph)


def _matrix(untyped: Any) -> Distances:
    matrix: Distances = untyped
    return matrix


def _rows(graph: Any, n: int, sources: Sequence[int]) -> Distances:
    rows = np.zeros((len(sources), n))
    for row, source in zip(rows, sources, strict=True):
        layers = rx.bfs_layers(graph, [source])
        row[np.concatenate(layers)] = np.repeat(np.arange(len(layers)), [len(layer) for layer in layers])
    return rows


_BLOCK = 512
"""Rows of the distance matrix processed together, which avoids a second copy of the matrix."""


EXACT_BETWEENNESS = 2_000
"""Largest graph with exact betweenness (docs/definitions/traces.md#estimated-measures)."""

_THREADS_FROM = 300
"""Smallest graph for which threads are faster."""


def estimated_betweenness(graph: IndexGraph, sources: Sequence[int]) -> Betweenness:
    """Estimate betweenness from at least two sources; exact if every node is a source."""
    following: list[list[int]] = [[] for _ in range(graph.n)]
    for source, target in graph.edges:
        following[source].append(target)
    total, squares = np.zeros(graph.n), np.zeros(graph.n)
    for source in sources:
        dependency = np.array(_dependency(following, source))
        total += dependency
        squares += dependency**2
    # A source is never inside its own shortest paths: its mean is over the other sources.
    others = np.full(graph.n, float(len(sources)))
    others[list(sources)] -= 1
    mean = total / others
    variance = np.maximum(squares - others * mean**2, 0.0) / (others - 1)
    error = np.sqrt(variance / others * (1 - others / (graph.n - 1)))
    pairs = graph.n - 2
    return Betweenness((mean / pairs).tolist(), len(sources), (error / pairs).tolist())


def _dependency(following: list[list[int]], source: int) -> list[float]:
    """The dependency of a source on each node (Brandes, "A faster algorithm for betweenness …")."""
    n = len(following)
    depth = [-1] * n
    ways = [0.0] * n
    depth[source], ways[source] = 0, 1.0
    order = [source]
    for node in order:  # grows during the loop
        below = depth[node] + 1
        for target in following[node]:
            if depth[target] < 0:
                depth[target] = below
                order.append(target)
            if depth[target] == below:
                ways[target] += ways[node]
    dependency = [0.0] * n
    for node in reversed(order):
        below = depth[node] + 1
        for target in following[node]:
            if depth[target] == below:
                dependency[node] += ways[node] / ways[target] * (1.0 + dependency[target])
    dependency[source] = 0.0
    return dependency


MOST_CYCLES = 100
"""Maximum number of cycles to count: even a graph of 20 nodes can have too many to enumerate."""

_WORK = 1_000_000
"""Maximum number of steps to count cycles; a cycle costs up to one step for every node and edge."""


def _shortest(graph: IndexGraph) -> tuple[int, ...] | None:
    """The shortest cycle: a self loop, or an edge and the shortest path back.

    None if distances are only sampled.
    """
    loop = next((source for source, target in graph.edges if source == target), None)
    if loop is not None:
        return (loop,)
    if graph.sources is not None:
        return None
    sources, targets = np.array(graph.edges).T
    back = graph.distances[targets, sources]
    back[back == 0] = np.inf
    at = int(back.argmin())
    start, end = int(targets[at]), int(sources[at])
    path = rx.digraph_dijkstra_shortest_paths(graph.directed, start, target=end)[end]
    return tuple(path)
