"""The two graphs: built by definition, and the same by numbers."""

from hypothesis import given

from tests.metrics.graph import peer
from tests.strategies import traces
from tests.traces.samples import agent, calls, tool
from trivium.metrics.graph.agents import interaction_graph
from trivium.metrics.graph.matching import counted_calls
from trivium.metrics.graph.trajectories import END, START, indexed_tool_graph, tool_graph
from trivium.suites.settings import ToolSettings
from trivium.traces.trace import Message, Trace


def counts(graph):
    return {pair: edge.count for pair, edge in graph.edges.items()}


def test_consecutive_calls_are_joined_from_start_to_end():
    graph = tool_graph(calls("search", "read", "search", "read", "write"))
    assert counts(graph) == {
        (START, "search"): 1,
        ("search", "read"): 2,
        ("read", "search"): 1,
        ("read", "write"): 1,
        ("write", END): 1,
    }


def test_by_agent_each_has_a_sequence_of_its_own():
    spans = (tool("1", "a", agent="x"), tool("2", "p", agent="y"), tool("3", "b", agent="x"))
    graph = tool_graph(Trace(spans=spans), ToolSettings(by="agent"))
    assert counts(graph) == {(START, "a"): 1, ("a", "b"): 1, ("b", END): 1, (START, "p"): 1, ("p", END): 1}


def test_ignored_tools_leave_no_trace_and_no_calls_no_nodes():
    assert counts(tool_graph(calls("think", "a", "think"), ToolSettings(ignore=("think",)))) == {
        (START, "a"): 1,
        ("a", END): 1,
    }
    assert tool_graph(Trace()).nodes == ()


def test_a_tool_may_be_called_start():
    assert set(tool_graph(calls("START")).nodes) == {START, '"START"', END}


def test_messages_join_agents_with_counts_by_type():
    sent = (
        Message(sender="m", receiver="r"),
        Message(sender="m", receiver="r", type="handoff"),
        Message(sender="user", receiver="m"),
    )
    trace = Trace(spans=(agent("1", "idle"),), messages=sent, metadata={"people": ["user"]})
    graph = peer.named(interaction_graph(trace))
    assert set(graph.nodes) == {"idle", "m", "r"}
    assert list(graph.edges(data=True)) == [
        ("m", "r", {"count": 2, "types": {"task_request": 1, "handoff": 1}})
    ]


@given(traces())
def test_graphs_by_numbers_are_the_graphs_by_definition(trace):
    for by in ("run", "agent"):
        tools = ToolSettings(by=by)
        found, graph = indexed_tool_graph(trace, tools), peer.named(tool_graph(trace, tools))
        names = (START, END, *found.tools)
        assert {(names[s], names[t]) for s, t in found.graph.edges} == set(graph.edges)
        assert found.graph.n == len(graph)
    graph = interaction_graph(trace)
    assert graph.measures.n == len(graph.nodes)
    assert [(graph.nodes[s], graph.nodes[t]) for s, t in graph.measures.edges] == list(graph.edges)


@given(traces())
def test_the_sequence_is_that_of_the_calls(trace):
    assert len(counted_calls(trace, ToolSettings())) == sum(span.kind == "tool" for span in trace.spans)
