"""The tool graph: which tool call followed which (spec: metrics, T3.1)."""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from rich.cells import cell_len

from trivium.reports.drawings.layers import Edge, Layout, layered
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
from trivium.reports.untrusted import one_line
from trivium.reports.wording import counted

if TYPE_CHECKING:
    import networkx as nx

TOOLS_SHOWN = 30
EDGES_SHOWN = 90
NAME_CHARS = 32
NODE_HEIGHT = 38.0
END_HEIGHT = 22.0
LOOP = 44.0
"""Room for the edge from a node to itself, on both sides so that the node stays in the middle."""
CHARACTER = 7.6
"""Width of an average character of a node's name, in pixels."""
SMALL_CHARACTER = 6.2
"""The same in the line under the name."""


def draw_tool_graph(graph: "nx.DiGraph[str]", *, start: str, end: str, failed: Mapping[str, int]) -> Drawing:
    """Draw a tool graph from top to bottom.

    Args:
        graph: Tools, ``start`` and ``end``; edges carry ``count``.
        start: The node before the first call.
        end: The node after the last call.
        failed: Calls of each tool that failed.
    """
    calls: dict[str, int] = dict(graph.in_degree(weight="count"))
    kept = _kept(graph, start, end, calls)
    counts = {
        (source, target): int(data["count"])
        for source, target, data in graph.edges(data=True)
        if source in kept and target in kept
    }
    shown = dict(sorted(counts.items(), key=lambda entry: -entry[1])[:EDGES_SHOWN])
    edges = {edge: count for edge, count in counts.items() if edge in shown}
    below = {tool: _below(calls[tool], failed.get(tool, 0)) for tool in kept}
    widths = {node: _width(node, below[node]) for node in kept}
    layout = layered(
        {node: widths[node] + (LOOP if (node, node) in edges else 0.0) for node in kept},
        [edge for edge in edges if edge[0] != edge[1]],
        node_height=NODE_HEIGHT,
    )
    body = [_edge(edge, layout, count) for edge, count in edges.items() if edge[0] != edge[1]]
    body += [
        _loop(layout.centres[edge[0]], edge[0], widths[edge[0]], count)
        for edge, count in edges.items()
        if edge[0] == edge[1]
    ]
    for node in kept:
        if node in {start, end}:
            body.append(_terminal(layout.centres[node], node))
        else:
            body.append(_tool(layout.centres[node], node, widths[node], below[node], failed=node in failed))
    tools = len(graph) - 2
    notes = []
    if len(kept) - 2 < tools:
        notes.append(f"{len(kept) - 2:,} of {counted(tools, 'tool')} shown, the most called ones.")
    if len(edges) < graph.number_of_edges():
        notes.append(
            f"{len(edges):,} of {graph.number_of_edges():,} transitions shown, the most frequent ones."
        )
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


def _kept(graph: "nx.DiGraph[str]", start: str, end: str, calls: Mapping[str, int]) -> list[str]:
    """Nodes to draw, in order of appearance: start first, end last."""
    tools = [node for node in graph if node not in {start, end}]
    most = set(sorted(tools, key=lambda tool: -calls[tool])[:TOOLS_SHOWN])
    return [start, *(tool for tool in tools if tool in most), end]


def _below(calls: int, failed: int) -> str:
    return counted(calls, "call") + (f", {failed:,} failed ✕" if failed else "")


def _width(node: str, below: str) -> float:
    name = CHARACTER * cell_len(one_line(node, at_most=NAME_CHARS))
    return max(52.0, name, SMALL_CHARACTER * len(below)) + 22


def _tool(centre: Point, name: str, width: float, below: str, *, failed: bool) -> str:
    x, y = centre
    return element(
        "g",
        element("title", text(f"{name}: {below}")),
        element(
            "rect", x=x - width / 2, y=y - NODE_HEIGHT / 2, width=width, height=NODE_HEIGHT, rx=7
        ),
        element("text", text(name, at_most=NAME_CHARS), x=x, y=y - 2, class_="name"),
        element("text", text(below), x=x, y=y + 12, class_="below"),
        class_="node failed" if failed else "node",
    )  # fmt: skip


def _terminal(centre: Point, name: str) -> str:
    x, y = centre
    return element(
        "g",
        element("rect", x=x - 27, y=y - END_HEIGHT / 2, width=54, height=END_HEIGHT, rx=END_HEIGHT / 2),
        element("text", text(name), x=x, y=y + 4, class_="below"),
        class_="node terminal",
    )


def _edge(edge: Edge, layout: Layout, count: int) -> str:
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


def _loop(centre: Point, tool: str, width: float, count: int) -> str:
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
