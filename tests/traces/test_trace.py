"""Trace: calls in order, agents, people, length."""

from hypothesis import given
from hypothesis import strategies as st

from tests.traces.samples import agent, tool
from trivium.traces.trace import Message, Trace, max_depth, nearest, parents_first


def test_calls_are_ordered_by_start_and_ties_by_file():
    spans = (
        tool("1", "b", start=2.0),
        tool("2", "a", start=1.0),
        tool("3", "c", start=2.0),
        tool("4", "after c"),
        tool("5", "d", start=3.0),
    )
    assert [call.name for call in Trace(spans=spans).tool_calls] == ["a", "b", "c", "after c", "d"]


def test_a_hand_off_dressed_as_a_tool_is_no_call():
    spans = (tool("1", "handoff to billing", attributes={"handoff": True}), tool("2", "refund"))
    assert [call.name for call in Trace(spans=spans).tool_calls] == ["refund"]


def test_agents_are_those_that_acted_or_were_addressed():
    trace = Trace(
        spans=(agent("1", "manager"), tool("2", "read", agent="reader")),
        messages=(Message(sender="manager", receiver="idle"), Message(sender="user", receiver="manager")),
        metadata={"people": ["user"]},
    )
    assert trace.agents == ("manager", "reader", "idle")
    assert trace.agent_messages == trace.messages[:1]


def test_seconds_run_from_the_first_start_to_the_last_end():
    trace = Trace(spans=(tool("1", "a", start=3.0, end=4.0), tool("2", "b", start=1.0, end=9.5)))
    assert trace.seconds == 8.5


def test_parents_come_first_and_depth_counts_levels():
    spans = (tool("c", "c", "b"), tool("b", "b", "a"), agent("a", "a"), agent("x", "x"))
    order = [spans[index].id for index in parents_first(spans)]
    assert order.index("a") < order.index("b") < order.index("c")
    assert max_depth(spans) == 3
    assert max_depth(()) == 0


nodes = st.integers(0, 9)


@given(st.dictionaries(nodes, nodes | st.none()), st.dictionaries(nodes, st.text()))
def test_the_nearest_value_is_that_of_the_first_node_on_the_way_up(above, stated):
    known = dict(stated)
    for node in range(10):
        at, visited = node, set()
        while at is not None and at not in stated and at not in visited:
            visited.add(at)
            at = above.get(at)
        expected = stated.get(at, "nothing")
        assert nearest(node, above, known, "nothing") == expected
    assert nearest(None, above, known, "nothing") == "nothing"
