"""Tests that other programs read the same nodes, edges and counts from exported graphs."""

import io
import json
import re
from collections import Counter

import networkx as nx
import pydot
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import traces
from trivium.metrics.graph.agents import interaction_graph
from trivium.store.export.graphs import graph_lines, pooled_graph, write_dot, write_graphml
from trivium.traces.normalize import normalise
from trivium.traces.trace import Message, Span, Trace
from trivium.traces.writers.otlp import TraceToExport, traces_to_export

HOSTILE = [
    'say "hi"',
    "two\nlines",
    "<b>bold</b>",
    "back\\",
    "\\n",
    "a -> b;",
    "}",
    "ünï",
    "",
    "\t",
    "\x01",
    "\x0b\r",
    "␁",
]
wild = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def wild_traces(draw):
    """Traces whose agents and tools have hostile names."""
    message = st.builds(Message, sender=wild, receiver=wild, type=st.sampled_from(["handoff", '<"\\>']))
    tools = draw(st.lists(wild, max_size=5))
    return normalise(
        [Span(id=str(number), kind="tool", name=name) for number, name in enumerate(tools)],
        draw(st.lists(message, max_size=5)),
    )


many = st.lists(wild_traces() | traces(), max_size=3)


def exported(written):
    return list(traces_to_export(written))


def counted(graph):
    return {pair: edge.count for pair, edge in graph.edges.items()}


@given(written=many)
def test_a_pooled_graph_has_every_message_once(written):
    graph = pooled_graph(exported(written), "agents")
    messages = [message for trace in written for message in trace.agent_messages]
    assert counted(graph) == Counter((message.sender, message.receiver) for message in messages)
    types = Counter()
    for edge in graph.edges.values():
        types.update(edge.types)
        assert 1 <= edge.traces <= len(written)
    assert types == Counter(message.type for message in messages)


@given(written=many, which=st.sampled_from(["agents", "tools"]))
def test_networkx_reads_graphml_back_as_it_was(written, which):
    graph = pooled_graph(exported(written), which)
    file = io.BytesIO()
    write_graphml(graph, which, file)
    file.seek(0)
    back = nx.read_graphml(file)
    names = dict(zip(graph.nodes, back, strict=True))
    assert back.is_directed()
    for name, its in names.items():
        if not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", name):
            assert its == name
    read = {(a, b): data["count"] for a, b, data in back.edges(data=True)}
    assert read == {(names[a], names[b]): count for (a, b), count in counted(graph).items()}
    for (source, target), edge in graph.edges.items():
        assert back[names[source]][names[target]]["traces"] == edge.traces


def unescaped(label):
    """What Graphviz shows for a quoted label (its escString)."""
    assert label[0] == label[-1] == '"'
    told_ = {"n": "\n", '"': '"', "\\": "\\"}
    return re.sub(r"\\(.)", lambda found: told_[found[1]], label[1:-1], flags=re.DOTALL)


def shown(name):
    lines = name.replace("\r\n", "\n").replace("\r", "\n")
    lines = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", lambda found: chr(0x2400 + ord(found[0])), lines)
    return re.sub("[\ufffe\uffff]", "\ufffd", lines)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # pydot uses old names of pyparsing's
@given(written=many, which=st.sampled_from(["agents", "tools"]))
def test_dot_is_read_by_others_and_names_are_nothing_but_labels(written, which):
    graph = pooled_graph(exported(written), which)
    file = io.BytesIO()
    write_dot(graph, which, file)
    (back,) = pydot.graph_from_dot_data(file.getvalue().decode())
    nodes = {node.get_name(): unescaped(node.get_label()) for node in back.get_nodes()}
    assert list(nodes.values()) == [shown(node) for node in graph.nodes]
    ids = dict(zip(graph.nodes, nodes, strict=True))
    edges = {(edge.get_source(), edge.get_destination()): edge.get_label() for edge in back.get_edges()}
    assert edges == {(ids[a], ids[b]): f'"{count}"' for (a, b), count in counted(graph).items()}


@given(written=many)
def test_lines_hold_the_graph_of_each_trace(written):
    lines = [json.loads(line) for line in graph_lines(exported(written), "agents")]
    places = list(dict.fromkeys(each.name for each in exported(written)))
    for name, trace in zip(places, written, strict=False):
        graph = interaction_graph(trace)
        mine = [line for line in lines if line["trace"] == name]
        assert {line["node"] for line in mine if "node" in line} >= set(graph.nodes)
        assert sum(line["count"] for line in mine if "count" in line) >= sum(counted(graph).values())


def test_a_line_of_a_run_says_which_attempt_it_is_of():
    trace = Trace(messages=(Message(sender="a", receiver="b"),))
    each = TraceToExport(trace=trace, key="k", attributes={"trivium.case.id": "c", "trivium.repeat": 1})
    *_, edge = graph_lines([each], "agents")
    assert json.loads(edge) == {
        "case": "c", "repeat": 1, "graph": "agents", "source": "a", "target": "b",
        "count": 1, "types": {"task_request": 1},
    }  # fmt: skip


def test_names_that_look_alike_once_shown_stay_apart():
    trace = Trace(messages=(Message(sender="\x01", receiver="␁"),))
    file = io.BytesIO()
    write_graphml(pooled_graph(exported([trace]), "agents"), "agents", file)
    file.seek(0)
    assert len(nx.read_graphml(file)) == 2
