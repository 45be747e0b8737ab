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


def pooled_graph(told: Iterable[TraceToExport], which: str) -> "nx.DiGraph[Any]":
    """One graph of all traces: counts are summed, ``traces`` says in how many of them an edge is.

    Args:
        told: The traces, read one at a time.
        which: ``agents`` or ``tools``.
    """
    import networkx as nx

    graph: nx.DiGraph[Any] = nx.DiGraph(name=which)
    for each in told:
        found = GRAPHS[which](each.trace)
        graph.add_nodes_from(found)
        for source, target, data in found.edges(data=True):
            if not graph.has_edge(source, target):
                graph.add_edge(source, target, count=0, traces=0)
            edge = graph[source][target]
            edge["count"] += data["count"]
            edge["traces"] += 1
            if "types" in data:
                edge["types"] = dict(Counter(edge.get("types", {})) + Counter(data["types"]))
    return graph


def graph_lines(told: Iterable[TraceToExport], which: str) -> Iterator[bytes]:
    """A JSON object a line: the nodes of each trace's graph, then its edges.

    Args:
        told: The traces, read one at a time.
        which: ``agents`` or ``tools``.
    """
    for each in told:
        graph = GRAPHS[which](each.trace)
        place = {
            word: each.attributes[key]
            for word, key in (("case", "trivium.case.id"), ("repeat", "trivium.repeat"))
            if key in each.attributes
        } or {"trace": each.name}
        for node in graph:
            yield msgspec.json.encode({**place, "graph": which, "node": node}) + b"\n"
        for source, target, data in graph.edges(data=True):
            edge = {**place, "graph": which, "source": source, "target": target, **data}
            yield msgspec.json.encode(edge) + b"\n"


def write_graphml(graph: "nx.DiGraph[Any]", file: BinaryIO) -> None:
    """GraphML, as NetworkX writes it; counts by type are JSON texts.

    Characters that XML cannot hold, in names, are shown by the pictures that Unicode has of them.
    """
    import networkx as nx

    plain: nx.DiGraph[Any] = nx.DiGraph(name=graph.name)
    names = _names(graph)
    plain.add_nodes_from(names.values())
    for source, target, data in graph.edges(data=True):
        kept: dict[str, Any] = {key: value for key, value in data.items() if isinstance(value, int)}
        if "types" in data:
            kept["types"] = _shown(msgspec.json.encode(data["types"]).decode())
        plain.add_edge(names[source], names[target], **kept)
    nx.write_graphml_xml(plain, file, named_key_ids=True)


def write_dot(graph: "nx.DiGraph[Any]", file: BinaryIO) -> None:
    """Graphviz's language: names are labels, and nothing in them is read as part of it."""
    lines = [f"digraph {_quoted(graph.name)} {{"]
    ids = {node: f"n{number}" for number, node in enumerate(graph)}
    lines += [f"  {ids[node]} [label={_quoted(_shown(node))}];" for node in graph]
    for source, target, data in graph.edges(data=True):
        lines.append(f"  {ids[source]} -> {ids[target]} [label={_quoted(str(data['count']))}];")
    file.write("\n".join([*lines, "}", ""]).encode())


def _names(graph: "nx.DiGraph[Any]") -> dict[str, str]:
    """A name that XML can hold for each node, all different."""
    names: dict[str, str] = {}
    taken = {node for node in graph if _shown(node) == node}
    for node in graph:
        name = _shown(node)
        while name != node and name in taken:
            name += "′"
        taken.add(name)
        names[node] = name
    return names


def _shown(name: str) -> str:
    """A name with a picture for each character that XML 1.0 forbids or that a reader of it changes."""
    return name.translate(_PICTURES)


_PICTURES = {code: 0x2400 + code for code in range(0x20) if code not in {0x09, 0x0A, 0x0D}}
_PICTURES |= dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), 0xFFFD)


def _quoted(text: str) -> str:
    """A text as a quoted label: backslashes start escapes there, and a line ends by one."""
    for found, told in (("\\", "\\\\"), ('"', '\\"'), ("\r\n", "\\n"), ("\n", "\\n"), ("\r", "\\n")):
        text = text.replace(found, told)
    return f'"{text}"'
