"""Exports graphs of agents and tools as JSON lines, GraphML and DOT."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from trivium.metrics.graph.agents import interaction_graph
from trivium.metrics.graph.trajectories import tool_graph
from trivium.traces.writers.otlp import TraceToExport

if TYPE_CHECKING:
    import networkx as nx

GRAPHS = {"agents": interaction_graph, "tools": tool_graph}


_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in {0x09, 0x0A, 0x0D}}
_PICTURES |= dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), 0xFFFD)
"""Visible replacements for characters that XML 1.0 forbids or that its parsers change, by code point."""


def pooled_graph(traces: Iterable[TraceToExport], which: str) -> "nx.DiGraph[Any]":
    """Merge the graphs of all traces.

    Args:
        traces: The traces, read one at a time.
        which: ``agents`` or ``tools``.

    Returns:
        The graph. On each edge, ``count`` is the sum over the traces, ``traces`` the number that have it.
    """
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph(name=which)
    for entry in traces:
        trace_graph = GRAPHS[which](entry.trace)
        graph.add_nodes_from(trace_graph)
        for source, target, data in trace_graph.edges(data=True):
            if not graph.has_edge(source, target):
                graph.add_edge(source, target, count=0, traces=0)
            edge = graph[source][target]
            edge["count"] += data["count"]
            edge["traces"] += 1
            if "types" in data:
                edge["types"] = dict(Counter(edge.get("types", {})) + Counter(data["types"]))
    return graph


def graph_lines(traces: Iterable[TraceToExport], which: str) -> Iterator[bytes]:
    """Yield one JSON object per line: the nodes of each trace's graph, then its edges.

    Args:
        traces: The traces, read one at a time.
        which: ``agents`` or ``tools``.
    """
    for entry in traces:
        graph = GRAPHS[which](entry.trace)
        origin = {
            name: entry.attributes[key]
            for name, key in (("case", "trivium.case.id"), ("repeat", "trivium.repeat"))
            if key in entry.attributes
        } or {"trace": entry.name}
        for node in graph:
            yield msgspec.json.encode({**origin, "graph": which, "node": node}) + b"\n"
        for source, target, data in graph.edges(data=True):
            edge = {**origin, "graph": which, "source": source, "target": target, **data}
            yield msgspec.json.encode(edge) + b"\n"


def write_graphml(graph: "nx.DiGraph[Any]", file: BinaryIO) -> None:
    """Write GraphML with NetworkX; counts by type become JSON text.

    In names, characters that XML cannot contain are replaced by Unicode's pictures of them.
    """
    import networkx as nx

    plain: nx.DiGraph[Any] = nx.DiGraph(name=graph.name)
    names = _names(graph)
    plain.add_nodes_from(names.values())
    for source, target, data in graph.edges(data=True):
        attributes: dict[str, object] = {key: value for key, value in data.items() if isinstance(value, int)}
        if "types" in data:
            attributes["types"] = _printable(msgspec.json.encode(data["types"]).decode())
        plain.add_edge(names[source], names[target], **attributes)
    nx.write_graphml_xml(plain, file, named_key_ids=True)


def write_dot(graph: "nx.DiGraph[Any]", file: BinaryIO) -> None:
    """Write Graphviz DOT; names are escaped labels, so that nothing in them is interpreted."""
    lines = [f"digraph {_quoted(graph.name)} {{"]
    ids = {node: f"n{number}" for number, node in enumerate(graph)}
    lines += [f"  {ids[node]} [label={_quoted(_printable(node))}];" for node in graph]
    for source, target, data in graph.edges(data=True):
        lines.append(f"  {ids[source]} -> {ids[target]} [label={_quoted(str(data['count']))}];")
    file.write("\n".join([*lines, "}", ""]).encode())


def _names(graph: "nx.DiGraph[Any]") -> dict[str, str]:
    """Map each node to a unique name that XML can contain."""
    names: dict[str, str] = {}
    taken = {node for node in graph if _printable(node) == node}
    for node in graph:
        name = _printable(node)
        while name != node and name in taken:
            name += "′"
        taken.add(name)
        names[node] = name
    return names


def _printable(name: str) -> str:
    return name.translate(_PICTURES)


def _quoted(text: str) -> str:
    """Quote and escape a text for DOT."""
    for raw, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\r\n", "\\n"), ("\n", "\\n"), ("\r", "\\n")):
        text = text.replace(raw, escaped)
    return f'"{text}"'
