"""Draws the tool graph and the interaction graph of a trace as SVG."""

import math
from collections import Counter
from collections.abc import Mapping
from itertools import combinations, pairwise

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
from trivium.reports.wording import counted
from trivium.safe_text import one_line

AGENTS_SHOWN = 30
NAME_CHARS = 18
CHARACTER_WIDTH = 7.6
"""Width of an average character of a node's name, in pixels."""
NODE_HEIGHT = 30.0
MARGIN = 16.0
_BEND = 0.16
"""Curvature of an edge as a share of its length; it separates the two directions."""


def draw_interaction_graph(graph: NamedGraph) -> Drawing:
    """Draw agents on an ellipse, in order of appearance, clockwise from the top.

    Args:
        graph: Agents, and their messages.
    """
    agents = graph.nodes
    degree: Counter[str] = Counter()
    for pair, edge in graph.edges.items():
        for agent in pair:
            degree[agent] += edge.count
    busiest = sorted(agents, key=lambda agent: -degree[agent])[:AGENTS_SHOWN]
    nodes = [agent for agent in agents if agent in set(busiest)]
    centres, width, height = _circle(nodes)
    edges = [
        (source, target, edge)
        for (source, target), edge in graph.edges.items()
        if source in centres and target in centres
    ]
    body = [_message_edge(source, target, edge, centres, middle=height / 2) for source, target, edge in edges]
    body += [_agent(agent, centres[agent]) for agent in nodes]
    label = "Interaction graph. " + "; ".join(
        f"{source} to {target}: {counted(edge.count, 'message')}" for source, target, edge in edges
    )
    notes: tuple[str, ...] = ()
    if len(nodes) < len(agents):
        notes = (f"{len(nodes)} of {len(agents):,} agents shown, the busiest ones.",)
    return Drawing(
        svg=picture(*body, label=label, width=width, height=height, class_="graph agents"),
        title="Messages between agents",
        width=width,
        notes=notes,
    )


def _half_width(agent: str) -> float:
    return max(30.0, CHARACTER_WIDTH * cell_len(one_line(agent, at_most=NAME_CHARS)) / 2 + 12)


def _circle(agents: list[str]) -> tuple[dict[str, Point], float, float]:
    """Centres on the smallest ellipse on which no two agents touch, and the size of the drawing."""
    halves = [_half_width(agent) for agent in agents]
    widest, count = max(halves), len(agents)
    across, down = (widest + 62.0, 78.0) if count > 1 else (0.0, 0.0)
    angles = [2 * math.pi * place / count - math.pi / 2 for place in range(count)]
    while True:
        centres = [(across * math.cos(angle), down * math.sin(angle)) for angle in angles]
        if not _any_touch(centres, halves):
            break
        across, down = 1.1 * across, 1.1 * down
    corner_x, corner_y = across + widest + MARGIN, down + NODE_HEIGHT / 2 + MARGIN + 14
    placed = {agent: (corner_x + x, corner_y + y) for agent, (x, y) in zip(agents, centres, strict=True)}
    return placed, 2 * corner_x, 2 * corner_y


def _any_touch(centres: list[Point], halves: list[float]) -> bool:
    return any(
        abs(x1 - x2) < one + other + MARGIN and abs(y1 - y2) < NODE_HEIGHT + MARGIN
        for ((x1, y1), one), ((x2, y2), other) in combinations(zip(centres, halves, strict=True), 2)
    )


def _agent(name: str, centre: Point) -> str:
    x, y = centre
    half = _half_width(name)
    return element(
        "g",
        element("title", text(name)),
        element(
            "rect", x=x - half, y=y - NODE_HEIGHT / 2, width=2 * half, height=NODE_HEIGHT, rx=NODE_HEIGHT / 2
        ),
        element("text", text(name, at_most=NAME_CHARS), x=x, y=y + 4, class_="name"),
        class_="node agent",
    )


def _message_edge(
    source: str, target: str, edge: measures.Edge, centres: Mapping[str, Point], *, middle: float
) -> str:
    count = edge.count
    types = ", ".join(f"{kind} {number}" for kind, number in edge.types.items())
    messages = counted(count, "message")
    title = element("title", text(f"{source} → {target}: {messages} {types and f'({types})'}"))
    if source == target:
        return _agent_loop(centres[source], count, title, up=centres[source][1] <= middle)
    (x1, y1), (x2, y2) = centres[source], centres[target]
    bend_x = (x1 + x2) / 2 - _BEND * (y2 - y1)
    bend_y = (y1 + y2) / 2 + _BEND * (x2 - x1)
    start = _border_point(source, centres[source], (bend_x, bend_y), gap=1.0)
    tip = _border_point(target, centres[target], (bend_x, bend_y), gap=2.0)
    far = math.hypot(tip[0] - bend_x, tip[1] - bend_y) or 1.0
    dx, dy = (tip[0] - bend_x) / far, (tip[1] - bend_y) / far
    end = (tip[0] - 5 * dx, tip[1] - 5 * dy)
    path = f"M{start[0]:.1f},{start[1]:.1f} Q{bend_x:.1f},{bend_y:.1f} {end[0]:.1f},{end[1]:.1f}"
    midpoint = ((start[0] + 2 * bend_x + end[0]) / 4, (start[1] + 2 * bend_y + end[1]) / 4)
    return element(
        "g",
        title,
        element("path", d=path, stroke_width=thickness(count)),
        arrow_head(*tip, dx, dy),
        *([count_mark(midpoint, count)] if count > 1 else []),
        class_="edge",
    )


def _border_point(agent: str, centre: Point, towards: Point, *, gap: float) -> Point:
    """The point where the line from a node's centre crosses its border."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    wide, high = _half_width(agent) + gap, NODE_HEIGHT / 2 + gap
    scale = 1 / max(abs(dx) / wide, abs(dy) / high, 1e-9)
    return centre[0] + scale * dx, centre[1] + scale * dy


def _agent_loop(centre: Point, count: int, title: str, *, up: bool) -> str:
    """An edge from an agent to itself, on the outer side of the ellipse."""
    out = -1.0 if up else 1.0
    x, y = centre[0], centre[1] + out * NODE_HEIGHT / 2
    swing = f"{x - 22:.1f},{y + 26 * out:.1f} {x + 22:.1f},{y + 26 * out:.1f}"
    path = f"M{x - 9:.1f},{y:.1f} C{swing} {x + 11:.1f},{y + 5 * out:.1f}"
    return element(
        "g",
        title,
        element("path", d=path, stroke_width=thickness(count)),
        arrow_head(x + 9, y + out, -0.4, -0.92 * out),
        *([count_mark((x, y + 20 * out), count)] if count > 1 else []),
        class_="edge",
    )


TOOLS_SHOWN = 30
EDGES_SHOWN = 90
TOOL_NAME_CHARS = 32
TOOL_NODE_HEIGHT = 38.0
END_HEIGHT = 22.0
LOOP = 44.0
"""Width in pixels for the edge from a node to itself, on both sides so that the node stays centred."""
SMALL_CHARACTER_WIDTH = 6.2
"""Width of an average character in the line below a node's name, in pixels."""


def draw_tool_graph(graph: NamedGraph, *, start: str, end: str, failed: Mapping[str, int]) -> Drawing:
    """Draw a tool graph from top to bottom.

    Args:
        graph: Tools, ``start`` and ``end``.
        start: The node before the first call.
        end: The node after the last call.
        failed: Calls of each tool that failed.
    """
    calls: Counter[str] = Counter()
    for (_, tool), edge in graph.edges.items():
        calls[tool] += edge.count
    nodes = _most_called(graph, start, end, calls)
    counts = {
        (source, target): edge.count
        for (source, target), edge in graph.edges.items()
        if source in nodes and target in nodes
    }
    shown = dict(sorted(counts.items(), key=lambda entry: -entry[1])[:EDGES_SHOWN])
    edges = {edge: count for edge, count in counts.items() if edge in shown}
    below = {tool: _below(calls[tool], failed.get(tool, 0)) for tool in nodes}
    widths = {node: _width(node, below[node]) for node in nodes}
    layout = layered(
        {node: widths[node] + (LOOP if (node, node) in edges else 0.0) for node in nodes},
        [edge for edge in edges if edge[0] != edge[1]],
        node_height=TOOL_NODE_HEIGHT,
    )
    body = [_tool_edge(edge, layout, count) for edge, count in edges.items() if edge[0] != edge[1]]
    body += [
        _tool_loop(layout.centres[edge[0]], edge[0], widths[edge[0]], count)
        for edge, count in edges.items()
        if edge[0] == edge[1]
    ]
    for node in nodes:
        if node in {start, end}:
            body.append(_terminal(layout.centres[node], node))
        else:
            body.append(_tool(layout.centres[node], node, widths[node], below[node], failed=node in failed))
    tools = len(graph.nodes) - 2
    notes = []
    if len(nodes) - 2 < tools:
        notes.append(f"{len(nodes) - 2:,} of {counted(tools, 'tool')} shown, the most called ones.")
    if len(edges) < len(graph.edges):
        notes.append(f"{len(edges):,} of {len(graph.edges):,} transitions shown, the most frequent ones.")
    label = "Tool graph. " + "; ".join(
        f"{source} to {target}" + (f" {count} times" if count > 1 else "")
        for (source, target), count in edges.items()
    )
    return Drawing(
        svg=picture(*body, label=label, width=layout.width, height=layout.height, class_="graph tools"),
        title="Tools in the order of their calls",
        width=layout.width,
        notes=tuple(notes),
    )


def _most_called(graph: NamedGraph, start: str, end: str, calls: Mapping[str, int]) -> list[str]:
    """Nodes to draw, in order of appearance, with start first and end last."""
    tools = [node for node in graph.nodes if node not in {start, end}]
    most = set(sorted(tools, key=lambda tool: -calls[tool])[:TOOLS_SHOWN])
    return [start, *(tool for tool in tools if tool in most), end]


def _below(calls: int, failed: int) -> str:
    return counted(calls, "call") + (f", {failed:,} failed ✕" if failed else "")


def _width(node: str, below: str) -> float:
    name = CHARACTER_WIDTH * cell_len(one_line(node, at_most=TOOL_NAME_CHARS))
    return max(52.0, name, SMALL_CHARACTER_WIDTH * len(below)) + 22


def _tool(centre: Point, name: str, width: float, below: str, *, failed: bool) -> str:
    x, y = centre
    return element(
        "g",
        element("title", text(f"{name}: {below}")),
        element(
            "rect", x=x - width / 2, y=y - TOOL_NODE_HEIGHT / 2, width=width, height=TOOL_NODE_HEIGHT, rx=7
        ),
        element("text", text(name, at_most=TOOL_NAME_CHARS), x=x, y=y - 2, class_="name"),
        element("text", text(below), x=x, y=y + 12, class_="below"),
        class_="node failed" if failed else "node",
    )


def _terminal(centre: Point, name: str) -> str:
    x, y = centre
    return element(
        "g",
        element("rect", x=x - 27, y=y - END_HEIGHT / 2, width=54, height=END_HEIGHT, rx=END_HEIGHT / 2),
        element("text", text(name), x=x, y=y + 4, class_="below"),
        class_="node terminal",
    )


def _tool_edge(edge: Edge, layout: Layout, count: int) -> str:
    points = layout.routes[edge]
    down = 1.0 if points[-1][1] > points[0][1] else -1.0
    tip_x, tip_y = points[-1]
    points = [*points[:-1], (tip_x, tip_y - 5 * down)]
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = (y1 + y2) / 2
        path += f" C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}"
    children = [
        element("title", text(f"{edge[0]} → {edge[1]}: {count:,}")),
        element("path", d=path, stroke_width=thickness(count)),
        arrow_head(tip_x, tip_y, 0.0, down),
    ]
    if count > 1:
        children.append(count_mark(_middle(points), count))
    return element("g", *children, class_="edge" if down > 0 else "edge back")


def _middle(points: list[Point]) -> Point:
    half = (len(points) - 1) // 2
    (x1, y1), (x2, y2) = points[half], points[half + 1]
    return (x1 + x2) / 2, (y1 + y2) / 2


def _tool_loop(centre: Point, tool: str, width: float, count: int) -> str:
    x, y = centre[0] + width / 2, centre[1]
    path = (
        f"M{x:.1f},{y - 8:.1f} C{x + 24:.1f},{y - 16:.1f} {x + 24:.1f},{y + 16:.1f} {x + 5:.1f},{y + 8:.1f}"
    )
    return element(
        "g",
        element("title", text(f"{tool} → itself: {count:,}")),
        element("path", d=path, stroke_width=thickness(count)),
        arrow_head(x, y + 7, -0.93, -0.37),
        *([count_mark((x + 18, y), count)] if count > 1 else []),
        class_="edge back",
    )
