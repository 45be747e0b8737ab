"""Simple cycles: how many there are, and the shortest."""

from itertools import islice

import msgspec
import numpy as np
import rustworkx as rx

from trivium.metrics.graph.measures.shape import Shape

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


def simple_cycles(shape: Shape) -> Cycles:
    """Counts simple cycles and finds the shortest (spec: metrics, T3.6)."""
    if rx.is_directed_acyclic_graph(shape.directed):
        return NO_CYCLES
    limit = max(10, min(MOST_CYCLES, _WORK // (shape.n + len(shape.edges))))
    count, shortest = 0, None
    for cycle in islice(rx.simple_cycles(shape.directed), limit + 1):
        count += 1
        if shortest is None or len(cycle) < len(shortest):
            shortest = cycle
    if count <= limit:
        return Cycles(count, None, tuple(shortest or ()))
    return Cycles(limit, limit, _shortest(shape) or tuple(shortest or ()))


def _shortest(shape: Shape) -> tuple[int, ...] | None:
    """The shortest cycle: a self loop, or an edge and the shortest way back.

    None where not all distances are held.
    """
    loop = next((source for source, target in shape.edges if source == target), None)
    if loop is not None:
        return (loop,)
    if shape.sources is not None:
        return None
    sources, targets = np.array(shape.edges).T
    back = shape.distances[targets, sources]
    back[back == 0] = np.inf
    at = int(back.argmin())
    start, end = int(targets[at]), int(sources[at])
    path = rx.digraph_dijkstra_shortest_paths(shape.directed, start, target=end)[end]
    return tuple(path)
