"""Draws the tool graph and the interaction graph of a trace as SVG, from top to bottom."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len

from trivium.metrics.graph import measures
from trivium.metrics.graph.measures import NamedGraph
from trivium.reports.drawings.layout import Edge, Layout, layered
from trivium.reports.drawings.svg import (
    Drawing,
    Point,
    arrow_head,
    count_mark,
    element,
    picture,
    text,
    thickness,
)
from trivium.safe_text import one_line
from trivium.values import counted

AGENTS_SHOWN = 30
TOOLS_SHOWN = 30
EDGES_SHOWN = 90
NAME_CHARS = 32
CHARACTER_WIDTH, SMALL_CHARACTER_WIDTH = 7.6, 6.2
"""Widths of an average character of a node's name, and of the line below it, in pixels."""
NODE_HEIGHTS = {"agent": 30.0, "tool": 38.0, "terminal": 22.0}
CORNERS = {"agent": 15.0, "tool": 7.0, "terminal": 11.0}
"""Heights of the nodes and radii of their corners, by kind, in pixels."""
LOOP = 44.0
"""Width in pixels for the edge from a node to itself, on both sides so that the node stays centred."""


class _Node(NamedTuple):
    """What stands in a node, and what it says when it is pointed at."""

    kind: str
    name: str = ""
    below: str = ""
    title: str = ""
    failed: bool = False

    @property
    def width(self) -> float:
        name = CHARACTER_WIDTH * cell_len(one_line(self.name, at_most=NAME_CHARS))
        return max(32.0, name, SMALL_CHARACTER_WIDTH * len(self.below)) + 22


class _Edge(NamedTuple):
    """How often an edge was walked, what it says when it is pointed at, and in the picture's description."""

    times: int
    title: str
    said: str


def draw_interaction_graph(graph: NamedGraph) -> Drawing:
    """Draw agents, each below those that it met and that appeared before it.

    Args:
        graph: Agents, and their messages.
    """
    degree: Counter[str] = Counter()
    for pair, edge in graph.edges.items():
        for agent in pair:
            degree[agent] += edge.count
    nodes = {agent: _Node("agent", agent, title=agent) for agent in _most(graph.nodes, degree, AGENTS_SHOWN)}
    few = len(nodes) < len(graph.nodes)
    notes = [f"{len(nodes)} of {len(graph.nodes):,} agents shown, the busiest ones."] if few else []
    most = _frequent(graph, nodes, notes, "senders with their receivers")
    edges = {pair: _messages(*pair, edge) for pair, edge in most.items()}
    return _drawing("agents", "Interaction graph", "Messages between agents", nodes, edges, notes)


def _messages(source: str, target: str, edge: measures.Edge) -> _Edge:
    types = ", ".join(f"{kind} {number}" for kind, number in edge.types.items())
    messages = counted(edge.count, "message")
    title = f"{source} → {target}: {messages} {types and f'({types})'}"
    return _Edge(edge.count, title, f"{source} to {target}: {messages}")


def draw_tool_graph(graph: NamedGraph, *, start: str, end: str, failed: Mapping[str, int]) -> Drawing:
    """Draw a tool graph.

    Args:
        graph: Tools, ``start`` and ``end``.
        start: The node before the first call.
        end: The node after the last call.
        failed: Calls of each tool that failed.
    """
    calls: Counter[str] = Counter()
    for (_, tool), edge in graph.edges.items():
        calls[tool] += edge.count
    tools = [node for node in graph.nodes if node not in {start, end}]
    nodes = {start: _Node("terminal", below=start)}
    for tool in _most(tools, calls, TOOLS_SHOWN):
        wrong = failed.get(tool, 0)
        below = counted(calls[tool], "call") + (f", {wrong:,} failed ✕" if wrong else "")
        nodes[tool] = _Node("tool", tool, below, f"{tool}: {below}", failed=bool(wrong))
    nodes[end] = _Node("terminal", below=end)
    notes = []
    if len(nodes) - 2 < len(tools):
        notes.append(f"{len(nodes) - 2:,} of {counted(len(tools), 'tool')} shown, the most called ones.")
    most = _frequent(graph, nodes, notes, "transitions")
    edges = {pair: _transition(*pair, edge.count) for pair, edge in most.items()}
    return _drawing("tools", "Tool graph", "Tools in the order of their calls", nodes, edges, notes, last=end)


def _transition(source: str, target: str, count: int) -> _Edge:
    title = f"{source} → {'itself' if source == target else target}: {count:,}"
    return _Edge(count, title, f"{source} to {target}" + (f" {count} times" if count > 1 else ""))


def _most(names: Sequence[str], weights: Mapping[str, int], most: int) -> list[str]:
    """The names with the largest weights, in the order given."""
    chosen = set(sorted(names, key=lambda name: -weights[name])[:most])
    return [name for name in names if name in chosen]


def _frequent(
    graph: NamedGraph, nodes: Mapping[str, _Node], notes: list[str], called: str
) -> dict[Edge, measures.Edge]:
    """The most frequent edges between the nodes; a note says if others are left out."""
    found = {pair: edge for pair, edge in graph.edges.items() if nodes.keys() >= {*pair}}
    most = set(sorted(found, key=lambda pair: -found[pair].count)[:EDGES_SHOWN])
    if len(most) < len(found):
        notes.append(f"{len(most):,} of {len(found):,} {called} shown, the most frequent ones.")
    return {pair: edge for pair, edge in found.items() if pair in most}


def _drawing(
    kind: str,
    what: str,
    title: str,
    nodes: Mapping[str, _Node],
    edges: Mapping[Edge, _Edge],
    notes: Sequence[str],
    last: str | None = None,
) -> Drawing:
    layout = layered(
        {name: node.width + (LOOP if (name, name) in edges else 0.0) for name, node in nodes.items()},
        [edge for edge in edges if edge[0] != edge[1]],
        node_height=max(NODE_HEIGHTS[node.kind] for node in nodes.values()),
        last=last,
    )
    body = [_edge(pair, edge, layout, nodes, backwards=kind == "tools") for pair, edge in edges.items()]
    body += [_node(node, layout.centres[name]) for name, node in nodes.items()]
    label = f"{what}. {'; '.join(edge.said for edge in edges.values())}"
    size = {"width": layout.width, "height": layout.height}
    svg = picture(*body, label=label, **size, class_=f"graph {kind}")
    return Drawing(svg=svg, title=title, width=layout.width, notes=tuple(notes))


def _node(node: _Node, centre: Point) -> str:
    (x, y), width, height = centre, node.width, NODE_HEIGHTS[node.kind]
    alone = not (node.name and node.below)
    lines = [(node.name, "name", 4 if alone else -2), (node.below, "below", 4 if alone else 12)]
    corner = {"x": x - width / 2, "y": y - height / 2, "rx": CORNERS[node.kind]}
    return element(
        "g",
        *([element("title", text(node.title))] if node.title else []),
        element("rect", **corner, width=width, height=height),
        *(
            element("text", text(line, at_most=NAME_CHARS), x=x, y=y + down, class_=class_)
            for line, class_, down in lines
            if line
        ),
        class_=f"node {node.kind}{' failed' * node.failed}",
    )


def _edge(pair: Edge, edge: _Edge, layout: Layout, nodes: Mapping[str, _Node], *, backwards: bool) -> str:
    """An edge; one that goes up is marked as going back where ``backwards``."""
    if pair[0] == pair[1]:
        path, tip, (dx, dy), middle = _loop(layout.centres[pair[0]], nodes[pair[0]].width)
    else:
        path, tip, (dx, dy), middle = _curve(layout.routes[pair])
    return element(
        "g",
        element("title", text(edge.title)),
        element("path", d=path, stroke_width=thickness(edge.times)),
        arrow_head(*tip, dx, dy),
        *([count_mark(middle, edge.times)] if edge.times > 1 else []),
        class_="edge back" if backwards and dy < 0 else "edge",
    )


_Drawn = tuple[str, Point, Point, Point]
"""A path, its tip, the unit vector in which the tip points, and the place of a number."""


def _curve(points: list[Point]) -> _Drawn:
    tip, down = points[-1], 1.0 if points[-1][1] > points[0][1] else -1.0
    points = [*points[:-1], (tip[0], tip[1] - 5 * down)]
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        path += f" C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}"
    half = (len(points) - 1) // 2
    (x1, y1), (x2, y2) = points[half], points[half + 1]
    return path, tip, (0.0, down), ((x1 + x2) / 2, (y1 + y2) / 2)


def _loop(centre: Point, width: float) -> _Drawn:
    x, y = centre[0] + width / 2, centre[1]
    path = (
        f"M{x:.1f},{y - 8:.1f} C{x + 24:.1f},{y - 16:.1f} {x + 24:.1f},{y + 16:.1f} {x + 5:.1f},{y + 8:.1f}"
    )
    return path, (x, y + 7), (-0.93, -0.37), (x + 18, y)
