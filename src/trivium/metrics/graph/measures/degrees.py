"""Measures of neighbourhood: degree, branching, clustering."""

from trivium.metrics.graph.measures.shape import Shape


def degree(shape: Shape) -> list[float]:
    """In- and out-degree of each node over n − 1, up to 2; a self loop counts twice.

    A lone node has 1, as ``networkx.degree_centrality`` defines it.
    """
    if shape.n == 1:
        return [1.0]
    counts = [0] * shape.n
    for source, target in shape.edges:
        counts[source] += 1
        counts[target] += 1
    return [count * (1.0 / (shape.n - 1)) for count in counts]


def branching_factor(shape: Shape) -> float | None:
    """Mean out-degree of the nodes that have a successor, self loops included; None when none has."""
    sources = {source for source, _ in shape.edges}
    return len(shape.edges) / len(sources) if sources else None


def clustering(shape: Shape) -> float | None:
    """Mean over nodes of the share of pairs of neighbours that are neighbours themselves.

    Of the undirected graph without self loops, as ``networkx.average_clustering`` defines it.

    Returns:
        In [0, 1], or None without nodes.
    """
    if shape.n == 0:
        return None
    neighbours: list[set[int]] = [set() for _ in range(shape.n)]
    for source, target in shape.edges:
        if source != target:
            neighbours[source].add(target)
            neighbours[target].add(source)
    links = [0] * shape.n  # edges between neighbours of each node, met from both of their ends
    for node, near in enumerate(neighbours):
        for other in near:
            if other > node:
                shared = len(near & neighbours[other])
                links[node] += shared
                links[other] += shared
    counts = [len(near) for near in neighbours]
    return sum([n / (k * (k - 1)) for n, k in zip(links, counts, strict=True) if n]) / shape.n
