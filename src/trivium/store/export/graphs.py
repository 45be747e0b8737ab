"""Exports graphs of agents and tools as JSON lines, GraphML and DOT."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import BinaryIO
from xml.etree import ElementTree as ET

import msgspec

from trivium.metrics.graph.agents import interaction_graph
from trivium.metrics.graph.measures import Edge, NamedGraph
from trivium.metrics.graph.trajectories import tool_graph
from trivium.traces.writers.otlp import TraceToExport

GRAPHS = {"agents": interaction_graph, "tools": tool_graph}


_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in {0x09, 0x0A, 0x0D}}
_PICTURES |= dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), 0xFFFD)
"""Visible replacements for characters that XML 1.0 forbids or that its parsers change, by code point."""


def pooled_graph(traces: Iterable[TraceToExport], which: str) -> NamedGraph:
    """Merge the graphs of all traces.

    Args:
        traces: The traces, read one at a time.
        which: ``agents`` or ``tools``.

    Returns:
        The graph. On each edge, ``count`` is the sum over the traces, ``traces`` the number that have it.
    """
    nodes: dict[str, None] = {}
    counts: Counter[tuple[str, str]] = Counter()
    having: Counter[tuple[str, str]] = Counter()
    types: dict[tuple[str, str], Counter[str]] = {}
    for entry in traces:
        graph = GRAPHS[which](entry.trace)
        nodes |= dict.fromkeys(graph.nodes)
        for pair, edge in graph.edges.items():
            counts[pair] += edge.count
            having[pair] += 1
            types.setdefault(pair, Counter()).update(edge.types)
    edges = {pair: Edge(counts[pair], dict(types[pair]), having[pair]) for pair in counts}
    return NamedGraph(tuple(nodes), edges)


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
        for node in graph.nodes:
            yield msgspec.json.encode({**origin, "graph": which, "node": node}) + b"\n"
        for (source, target), edge in graph.edges.items():
            ends = {"graph": which, "source": source, "target": target}
            yield msgspec.json.encode({**origin, **ends, **msgspec.to_builtins(edge)}) + b"\n"


def write_graphml(graph: NamedGraph, which: str, file: BinaryIO) -> None:
    """Write GraphML; counts by type become JSON text.

    In names, characters that XML cannot contain are replaced by Unicode's pictures of them.
    """
    root = ET.Element("graphml", xmlns="http://graphml.graphdrawing.org/xmlns")
    for key, kind in (("count", "long"), ("traces", "long"), ("types", "string")):
        ET.SubElement(root, "key", {"id": key, "for": "edge", "attr.name": key, "attr.type": kind})
    inside = ET.SubElement(root, "graph", id=which, edgedefault="directed")
    names = _names(graph)
    for name in names.values():
        ET.SubElement(inside, "node", id=name)
    for (source, target), edge in graph.edges.items():
        drawn = ET.SubElement(inside, "edge", source=names[source], target=names[target])
        types = _printable(msgspec.json.encode(edge.types).decode()) if edge.types else None
        for key, value in (("count", edge.count), ("traces", edge.traces), ("types", types)):
            if value is not None:
                ET.SubElement(drawn, "data", key=key).text = str(value)
    ET.ElementTree(root).write(file, encoding="utf-8", xml_declaration=True)


def write_dot(graph: NamedGraph, which: str, file: BinaryIO) -> None:
    """Write Graphviz DOT; names are escaped labels, so that nothing in them is interpreted."""
    lines = [f"digraph {_quoted(which)} {{"]
    ids = {node: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines += [f"  {ids[node]} [label={_quoted(_printable(node))}];" for node in graph.nodes]
    for (source, target), edge in graph.edges.items():
        lines.append(f"  {ids[source]} -> {ids[target]} [label={_quoted(str(edge.count))}];")
    file.write("\n".join([*lines, "}", ""]).encode())


def _names(graph: NamedGraph) -> dict[str, str]:
    """Map each node to a unique name that XML can contain."""
    names: dict[str, str] = {}
    taken = {node for node in graph.nodes if _printable(node) == node}
    for node in graph.nodes:
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
