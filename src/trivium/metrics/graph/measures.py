"""Computes graph measures with rustworkx; they equal those of NetworkX.

A graph is an :class:`IndexGraph`: its nodes are 0 … n−1, its edges are pairs of them. Distances are computed
once, on first use.
"""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import rustworkx as rx
from numpy.typing import NDArray

EXACT_DISTANCES = 5_000
"""Nodes up to which all distances are held, 200 MB each way; beyond, those from sampled sources."""

SOURCES = 100
"""Sources sampled where a graph is too large to start from every node."""

SEED = 42

Distances = NDArray[np.float64]


class IndexGraph:
    """A directed graph by numbers.

    Args:
        n: Number of nodes.
        edges: Distinct (from, to) pairs of nodes; a self loop is one.
    """

    def __init__(self, n: int, edges: Sequence[tuple[int, int]]) -> None:
        self.n = n
        self.edges = edges

    @classmethod
    def of(cls, nodes: Iterable[Hashable], edges: Iterable[tuple[Hashable, Hashable]]) -> "IndexGraph":
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


def degree(graph: IndexGraph) -> list[float]:
    """In- and out-degree of each node over n − 1, up to 2; a self loop counts twice.

    A lone node has 1, as ``networkx.degree_centrality`` defines it.
    """
    if graph.n == 1:
        return [1.0]
    counts = [0] * graph.n
    for source, target in graph.edges:
        counts[source] += 1
        counts[target] += 1
    return [count * (1.0 / (graph.n - 1)) for count in counts]


def branching_factor(graph: IndexGraph) -> float | None:
    """Mean out-degree of the nodes that have a successor, self loops included; None when none has."""
    sources = {source for source, _ in graph.edges}
    return len(graph.edges) / len(sources) if sources else None


def clustering(graph: IndexGraph) -> float | None:
    """Mean over nodes of the share of pairs of neighbours that are neighbours themselves.

    Of the undirected graph without self loops, as ``networkx.average_clustering`` defines it.

    Returns:
        In [0, 1], or None without nodes.
    """
    if graph.n == 0:
        return None
    neighbours: list[set[int]] = [set() for _ in range(graph.n)]
    for source, target in graph.edges:
        if source != target:
            neighbours[source].add(target)
            neighbours[target].add(source)
    links = [0] * graph.n  # edges between neighbours of each node, met from both of their ends
    for node, near in enumerate(neighbours):
        for other in near:
            if other > node:
                shared = len(near & neighbours[other])
                links[node] += shared
                links[other] += shared
    counts = [len(near) for near in neighbours]
    return sum([n / (k * (k - 1)) for n, k in zip(links, counts, strict=True) if n]) / graph.n


_BLOCK = 512
"""Rows of distances taken at once, so that a large graph needs no second copy of them."""


def average_shortest_path(graph: IndexGraph) -> float | None:
    """Mean number of edges on the shortest path, over ordered pairs of nodes that have one.

    Returns:
        At least 1, or None when no node reaches another.
    """
    distances = graph.distances
    pairs = int(np.count_nonzero(distances))
    return float(distances.sum()) / pairs if pairs else None


def closeness(graph: IndexGraph) -> list[float]:
    """Closeness of each node over incoming distance, with the Wasserman–Faust factor.

    For a node that r others reach over a total distance of t: (r / t) · (r / (n − 1)); 0 when none does.
    As ``networkx.closeness_centrality`` defines it on a DiGraph. From sampled sources, r and t are theirs and
    n − 1 is their number.

    Returns:
        One value a node, in [0, 1].
    """
    distances = graph.distances
    reach = np.count_nonzero(distances, axis=0).tolist()
    total = distances.sum(axis=0).tolist()
    others = [graph.n - 1 if graph.sources is None else len(distances)] * graph.n
    for source in graph.sources or ():
        others[source] -= 1  # a source is no other node to itself
    return [(r / t) * (r / asked) if t else 0.0 for r, t, asked in zip(reach, total, others, strict=True)]


def diameter(graph: IndexGraph) -> tuple[int | None, bool]:
    """Longest shortest path of the undirected graph, in edges, and whether the graph is connected.

    Of a disconnected graph it is that of the largest component; where several are largest, the longest.
    From sampled sources it is a lower bound. None without nodes.
    """
    if graph.n == 0:
        return None, False
    distances = graph.undirected_distances
    if np.count_nonzero(distances) == len(distances) * (graph.n - 1):
        return int(distances.max()), True
    reach = np.count_nonzero(distances, axis=1)
    return int(distances[reach == reach.max()].max()), False


def global_efficiency(graph: IndexGraph) -> float:
    """Mean of 1 / distance over ordered pairs of the undirected graph, 0 where there is no path.

    Latora & Marchiori, "Efficient behavior of small-world networks", Phys. Rev. Lett. 87 (2001). It is 1
    when everyone talks to everyone, and 0 for fewer than two nodes.
    """
    if graph.n < 2:
        return 0.0
    distances = graph.undirected_distances
    total = 0.0
    for start in range(0, len(distances), _BLOCK):
        block = distances[start : start + _BLOCK]
        total += float((1.0 / block[block > 0]).sum())
    return total / (len(distances) * (graph.n - 1))


EXACT_BETWEENNESS = 2_000
"""Nodes up to which it is exact (spec: metrics, T3)."""

_THREADS_FROM = 300
"""Nodes from which threads pay."""


class Betweenness(msgspec.Struct, frozen=True):
    """Betweenness of every node, normalised by (n − 1)(n − 2).

    Attributes:
        values: One a node, in [0, 1].
        sources: Sources that it was estimated from, or None when it is exact.
        standard_errors: One a node, or None when it is exact.
    """

    values: list[float]
    sources: int | None = None
    standard_errors: list[float] | None = None


def betweenness(graph: IndexGraph) -> Betweenness:
    """Betweenness as ``networkx.betweenness_centrality`` defines it on a DiGraph.

    Above 2,000 nodes it is estimated from sampled sources (Brandes & Pich, "Centrality estimation in
    large networks", 2007): the mean dependency of the sampled sources on a node, with the standard
    error of that mean.
    """
    if graph.n <= EXACT_BETWEENNESS:
        found = rx.digraph_betweenness_centrality(graph.directed, parallel_threshold=_THREADS_FROM)
        return Betweenness(list(found.values()))
    return estimated_betweenness(graph, graph.sample(SOURCES))


def estimated_betweenness(graph: IndexGraph, sources: Sequence[int]) -> Betweenness:
    """Betweenness from some sources, at least two; exact when every node is one."""
    following: list[list[int]] = [[] for _ in range(graph.n)]
    for source, target in graph.edges:
        following[source].append(target)
    total, squares = np.zeros(graph.n), np.zeros(graph.n)
    for source in sources:
        dependency = np.array(_dependency(following, source))
        total += dependency
        squares += dependency**2
    # A source is not on its own shortest paths: its mean is over the other sources.
    asked = np.full(graph.n, float(len(sources)))
    asked[list(sources)] -= 1
    mean = total / asked
    variance = np.maximum(squares - asked * mean**2, 0.0) / (asked - 1)
    error = np.sqrt(variance / asked * (1 - asked / (graph.n - 1)))
    pairs = graph.n - 2
    return Betweenness((mean / pairs).tolist(), len(sources), (error / pairs).tolist())


def _dependency(following: list[list[int]], source: int) -> list[float]:
    """Dependency of a source on each node: Brandes, "A faster algorithm for betweenness centrality"."""
    n = len(following)
    depth = [-1] * n
    ways = [0.0] * n
    depth[source], ways[source] = 0, 1.0
    order = [source]
    for node in order:  # grows while it is walked
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
"""Cycles counted at most: a graph of 20 nodes can have more of them than could ever be listed."""

_WORK = 1_000_000
"""Steps that counting may take: each cycle costs up to one for every node and edge."""


class Cycles(msgspec.Struct, frozen=True):
    """The simple cycles of a graph.

    Attributes:
        count: How many were counted; a self loop is one.
        counted_up_to: Where counting stopped, or None when all were counted.
        shortest: Nodes of the shortest one, in order; of those counted, where ``counted_up_to`` is set.
    """

    count: int
    counted_up_to: int | None
    shortest: tuple[int, ...]


NO_CYCLES = Cycles(0, None, ())


def simple_cycles(graph: IndexGraph) -> Cycles:
    """Counts simple cycles and finds the shortest (spec: metrics, T3.6)."""
    if rx.is_directed_acyclic_graph(graph.directed):
        return NO_CYCLES
    limit = max(10, min(MOST_CYCLES, _WORK // (graph.n + len(graph.edges))))
    count, shortest = 0, None
    for cycle in islice(rx.simple_cycles(graph.directed), limit + 1):
        count += 1
        if shortest is None or len(cycle) < len(shortest):
            shortest = cycle
    if count <= limit:
        return Cycles(count, None, tuple(shortest or ()))
    return Cycles(limit, limit, _shortest(graph) or tuple(shortest or ()))


def _shortest(graph: IndexGraph) -> tuple[int, ...] | None:
    """The shortest cycle: a self loop, or an edge and the shortest way back.

    None where not all distances are held.
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
