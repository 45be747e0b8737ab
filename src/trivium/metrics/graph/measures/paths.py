"""Measures of distance: average path, closeness, diameter, efficiency."""

import numpy as np

from trivium.metrics.graph.measures.shape import Shape

_BLOCK = 512
"""Rows of distances taken at once, so that a large graph needs no second copy of them."""


def average_shortest_path(shape: Shape) -> float | None:
    """Mean number of edges on the shortest path, over ordered pairs of nodes that have one.

    Returns:
        At least 1, or None when no node reaches another.
    """
    distances = shape.distances
    pairs = int(np.count_nonzero(distances))
    return float(distances.sum()) / pairs if pairs else None


def closeness(shape: Shape) -> list[float]:
    """Closeness of each node over incoming distance, with the Wasserman–Faust factor.

    For a node that r others reach over a total distance of t: (r / t) · (r / (n − 1)); 0 when none does.
    As ``networkx.closeness_centrality`` defines it on a DiGraph. From sampled sources, r and t are theirs and
    n − 1 is their number.

    Returns:
        One value a node, in [0, 1].
    """
    distances = shape.distances
    reach = np.count_nonzero(distances, axis=0).tolist()
    total = distances.sum(axis=0).tolist()
    others = [shape.n - 1 if shape.sources is None else len(distances)] * shape.n
    for source in shape.sources or ():
        others[source] -= 1  # a source is no other node to itself
    return [(r / t) * (r / asked) if t else 0.0 for r, t, asked in zip(reach, total, others, strict=True)]


def diameter(shape: Shape) -> tuple[int | None, bool]:
    """Longest shortest path of the undirected graph, in edges, and whether the graph is connected.

    Of a disconnected graph it is that of the largest component; where several are largest, the longest.
    From sampled sources it is a lower bound. None without nodes.
    """
    if shape.n == 0:
        return None, False
    distances = shape.undirected_distances
    if np.count_nonzero(distances) == len(distances) * (shape.n - 1):
        return int(distances.max()), True
    reach = np.count_nonzero(distances, axis=1)
    return int(distances[reach == reach.max()].max()), False


def global_efficiency(shape: Shape) -> float:
    """Mean of 1 / distance over ordered pairs of the undirected graph, 0 where there is no path.

    Latora & Marchiori, "Efficient behavior of small-world networks", Phys. Rev. Lett. 87 (2001). It is 1
    when everyone talks to everyone, and 0 for fewer than two nodes.
    """
    if shape.n < 2:
        return 0.0
    distances = shape.undirected_distances
    total = 0.0
    for start in range(0, len(distances), _BLOCK):
        block = distances[start : start + _BLOCK]
        total += float((1.0 / block[block > 0]).sum())
    return total / (len(distances) * (shape.n - 1))
