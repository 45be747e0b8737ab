"""Lays out a directed graph in layers from top to bottom (Sugiyama, Tagawa and Toda 1981).

Layers follow the order in which nodes first appear, so a walk reads downwards and an edge back to an earlier
node goes up. No edge runs within a layer.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import msgspec

from trivium.reports.drawings.svg import Point

Edge = tuple[str, str]
_Slot = str | tuple[str, str, int]
"""A node, or the place where an edge passes through a layer."""

GAP_ACROSS = 22.0
GAP_DOWN = 46.0
PASSAGE = 12.0
_SWEEPS = 6
_STRAIGHT = 6.0


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Positions in pixels.

    Attributes:
        centres: Centre of each node.
        routes: Points along each edge, from the border of its source to that of its target.
        width: Width of the drawing.
        height: Height of the drawing.
    """

    centres: dict[str, Point]
    routes: dict[Edge, list[Point]]
    width: float
    height: float


def layered(
    nodes: Mapping[str, float], edges: Iterable[Edge], *, node_height: float, last: str | None = None
) -> Layout:
    """Place nodes and route edges.

    Args:
        nodes: Width of each node in pixels, in order of first appearance.
        edges: Ordered pairs of nodes, without self-loops.
        node_height: Height of each node in pixels.
        last: A node that is below all others.
    """
    edges = list(edges)
    layer = _layers(list(nodes), edges)
    if last is not None:
        layer[last] = 1 + max((depth for node, depth in layer.items() if node != last), default=-1)
    rows, chains = _insert_passages(nodes, edges, layer)
    _reduce_crossings(rows, chains)
    across = _straighten(rows, chains, nodes)
    left = min(across[slot] - _width(slot, nodes) / 2 for slot in across) - GAP_ACROSS
    right = max(across[slot] + _width(slot, nodes) / 2 for slot in across) + GAP_ACROSS
    pitch = node_height + GAP_DOWN

    def place(slot: _Slot, row: int) -> Point:
        return across[slot] - left, GAP_ACROSS + node_height / 2 + row * pitch

    places = {slot: place(slot, depth) for depth, row in enumerate(rows) for slot in row}
    centres = {node: places[node] for node in nodes}
    return Layout(
        centres=centres,
        routes=_routes(chains, places, nodes, node_height),
        width=right - left,
        height=2 * GAP_ACROSS + node_height + (len(rows) - 1) * pitch,
    )


def _layers(nodes: Sequence[str], edges: Sequence[Edge]) -> dict[str, int]:
    """Length of the longest path to each node, with every edge taken from the earlier to the later node."""
    order = {node: place for place, node in enumerate(nodes)}
    before: dict[str, list[str]] = {node: [] for node in nodes}
    for edge in edges:
        earlier, later = sorted(edge, key=order.__getitem__)
        before[later].append(earlier)
    layer: dict[str, int] = {}
    for node in nodes:
        layer[node] = 1 + max((layer[other] for other in before[node]), default=-1)
    return layer


def _insert_passages(
    nodes: Iterable[str], edges: Sequence[Edge], layer: Mapping[str, int]
) -> tuple[list[list[_Slot]], dict[Edge, list[_Slot]]]:
    """Rows of slots, and for each edge the slots it connects, from source to target."""
    rows: list[list[_Slot]] = [[] for _ in range(1 + max(layer.values()))]
    for node in nodes:
        rows[layer[node]].append(node)
    chains: dict[Edge, list[_Slot]] = {}
    for source, target in edges:
        step = 1 if layer[source] < layer[target] else -1
        between: list[_Slot] = [
            (source, target, depth) for depth in range(layer[source] + step, layer[target], step)
        ]
        for slot in between:
            rows[slot[2]].append(slot)  # type: ignore[index]  # each slot is a passage
        chains[source, target] = [source, *between, target]
    return rows, chains


def _neighbours(chains: Mapping[Edge, Sequence[_Slot]]) -> dict[_Slot, list[_Slot]]:
    near: dict[_Slot, list[_Slot]] = {}
    for chain in chains.values():
        for one, other in pairwise(chain):
            near.setdefault(one, []).append(other)
            near.setdefault(other, []).append(one)
    return near


def _reduce_crossings(rows: list[list[_Slot]], chains: Mapping[Edge, Sequence[_Slot]]) -> None:
    """Sort each row by the mean position of its neighbours, in a few sweeps down and up."""
    near = _neighbours(chains)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            place = {slot: index / max(1, len(row) - 1) for row in rows for index, slot in enumerate(row)}
            here = set(row)

            def pull(slot: _Slot, place: dict[_Slot, float] = place, here: set[_Slot] = here) -> float:
                others = [place[other] for other in near.get(slot, ()) if other not in here]
                return sum(others) / len(others) if others else place[slot]

            row.sort(key=pull)


def _width(slot: _Slot, nodes: Mapping[str, float]) -> float:
    return nodes[slot] if isinstance(slot, str) else PASSAGE


def _straighten(
    rows: list[list[_Slot]], chains: Mapping[Edge, Sequence[_Slot]], nodes: Mapping[str, float]
) -> dict[_Slot, float]:
    """Make edges as vertical as possible while keeping the order and gaps of each row.

    Each step minimises the squared horizontal lengths of the edges of one row, which converges.
    """
    near = _neighbours(chains)
    across: dict[_Slot, float] = {}
    for row in rows:
        across |= _place_row(row, [(0.0, 1.0)] * len(row), nodes)
    for sweep in range(4 * _SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            targets = []
            for slot in row:
                pulls = [(across[other], _pull(slot, other)) for other in near.get(slot, ())]
                weight = sum(pull for _, pull in pulls)
                at = sum(x * pull for x, pull in pulls) / weight if pulls else across[slot]
                targets.append((at, weight or 1.0))
            across |= _place_row(row, targets, nodes)
    return across


def _pull(one: _Slot, other: _Slot) -> float:
    """Weight of an edge segment: high between two nodes or two passages, low between a node and a passage."""
    return _STRAIGHT if isinstance(one, str) == isinstance(other, str) else 1.0


def _place_row(
    row: Sequence[_Slot], targets: Sequence[tuple[float, float]], nodes: Mapping[str, float]
) -> dict[_Slot, float]:
    """Positions of a row closest to the targets (position, weight) that keep the minimum gaps.

    After subtracting the minimum distances this is isotonic regression, solved by pooling adjacent violators.
    """
    offsets: list[float] = []
    for index, slot in enumerate(row):
        half = _width(slot, nodes) / 2
        before = _width(row[index - 1], nodes) / 2 + GAP_ACROSS + offsets[-1] if index else -half
        offsets.append(before + half)
    pools: list[tuple[float, float, int]] = []
    for (at, weight), offset in zip(targets, offsets, strict=True):
        mean, heavy, size = at - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, other_heavy, other_size = pools.pop()
            mean = (mean * heavy + other * other_heavy) / (heavy + other_heavy)
            heavy, size = heavy + other_heavy, size + other_size
        pools.append((mean, heavy, size))
    fitted = [mean for mean, _, size in pools for _ in range(size)]
    return {slot: base + offset for slot, base, offset in zip(row, fitted, offsets, strict=True)}


def _routes(
    chains: Mapping[Edge, Sequence[_Slot]],
    places: Mapping[_Slot, Point],
    nodes: Mapping[str, float],
    node_height: float,
) -> dict[Edge, list[Point]]:
    """Points of each edge; edges at the same side of a node are spread along it."""
    ends: dict[tuple[str, bool], list[tuple[float, Edge]]] = {}
    for edge, chain in chains.items():
        for node, next_slot in ((edge[0], chain[1]), (edge[1], chain[-2])):
            below = places[next_slot][1] > places[node][1]
            ends.setdefault((node, below), []).append((places[next_slot][0], edge))
    ports: dict[tuple[str, Edge], Point] = {}
    for (node, below), meeting in ends.items():
        x, y = places[node]
        meeting.sort()
        step = min(14.0, 0.8 * nodes[node] / len(meeting))
        for index, (_, edge) in enumerate(meeting):
            offset = (index - (len(meeting) - 1) / 2) * step
            ports[node, edge] = (x + offset, y + (node_height / 2 if below else -node_height / 2))
    return {
        edge: [ports[edge[0], edge], *(places[slot] for slot in chain[1:-1]), ports[edge[1], edge]]
        for edge, chain in chains.items()
    }
