"""Betweenness: the share of shortest paths that pass through a node, exact or estimated."""

from collections.abc import Sequence

import msgspec
import numpy as np
import rustworkx as rx

from trivium.metrics.graph.measures.shape import SOURCES, Shape

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


def betweenness(shape: Shape) -> Betweenness:
    """Betweenness as ``networkx.betweenness_centrality`` defines it on a DiGraph.

    Above 2,000 nodes it is estimated from sampled sources (Brandes & Pich, "Centrality estimation in
    large networks", 2007): the mean dependency of the sampled sources on a node, with the standard
    error of that mean.
    """
    if shape.n <= EXACT_BETWEENNESS:
        found = rx.digraph_betweenness_centrality(shape.directed, parallel_threshold=_THREADS_FROM)
        return Betweenness(list(found.values()))
    return estimated_betweenness(shape, shape.sample(SOURCES))


def estimated_betweenness(shape: Shape, sources: Sequence[int]) -> Betweenness:
    """Betweenness from some sources, at least two; exact when every node is one."""
    following: list[list[int]] = [[] for _ in range(shape.n)]
    for source, target in shape.edges:
        following[source].append(target)
    total, squares = np.zeros(shape.n), np.zeros(shape.n)
    for source in sources:
        dependency = np.array(_dependency(following, source))
        total += dependency
        squares += dependency**2
    # A source says nothing about itself: its own mean is over the others.
    asked = np.full(shape.n, float(len(sources)))
    asked[list(sources)] -= 1
    mean = total / asked
    variance = np.maximum(squares - asked * mean**2, 0.0) / (asked - 1)
    error = np.sqrt(variance / asked * (1 - asked / (shape.n - 1)))
    pairs = shape.n - 2
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
