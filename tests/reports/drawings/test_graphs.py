import itertools
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from trivium.metrics.graph.agents import interaction_graph
from trivium.metrics.graph.measures import NamedGraph
from trivium.reports.drawings.graphs import AGENTS_SHOWN, EDGES_SHOWN, draw_interaction_graph
from trivium.traces.trace import Message, Trace

SVG = "{http://www.w3.org/2000/svg}"


def drawing(*pairs, **fields):
    messages = tuple(Message(sender=a, receiver=b, **fields) for a, b in pairs)
    return draw_interaction_graph(interaction_graph(Trace(messages=messages)))


def groups(made, word):
    return [g for g in ET.fromstring(made.svg).iter(f"{SVG}g") if word in g.get("class", "").split()]


def boxes(made):
    for group in groups(made, "node"):
        rect = group.find(f"{SVG}rect")
        x, y, w, h = (float(rect.get(name)) for name in ("x", "y", "width", "height"))
        yield x, y, x + w, y + h


def test_every_agent_is_a_node_and_every_pair_an_arrow():
    made = drawing(("boss", "clerk"), ("boss", "clerk"), ("clerk", "boss"), type="handoff")
    assert {group[0].text for group in groups(made, "node")} == {"boss", "clerk"}
    assert {group[0].text for group in groups(made, "edge")} == {
        "boss → clerk: 2 messages (handoff 2)",
        "clerk → boss: 1 message (handoff 1)",
    }


def test_a_message_to_oneself_is_a_loop():
    made = drawing(("a", "b"), ("b", "b"), ("b", "b"))
    assert "b → b: 2 messages (task_request 2)" in {group[0].text for group in groups(made, "edge")}


@given(st.lists(st.text("abcdefgh_", min_size=1, max_size=18), min_size=2, max_size=30, unique=True))
def test_no_agent_covers_another_and_all_lie_inside(names):
    made = draw_interaction_graph(NamedGraph(tuple(names), {}))
    root = ET.fromstring(made.svg)
    placed = list(boxes(made))
    for left, top, right, bottom in placed:
        assert left >= 0
        assert top >= 0
        assert right <= float(root.get("width"))
        assert bottom <= float(root.get("height"))
    for one, other in itertools.combinations(placed, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart


def test_of_many_agents_the_busiest_are_shown_with_a_note():
    made = drawing(*((f"agent {place}", "hub") for place in range(50)), ("agent 49", "hub"))
    assert made.notes == ("30 of 51 agents shown, the busiest ones.",)
    shown = {group[0].text for group in groups(made, "node")}
    assert len(shown) == AGENTS_SHOWN
    assert {"hub", "agent 49"} <= shown


def test_of_many_ways_of_messages_the_most_frequent_are_shown_with_a_note():
    names = [f"agent {place}" for place in range(30)]
    made = drawing(*itertools.permutations(names, 2), ("agent 29", "agent 28"))
    assert len(groups(made, "edge")) == EDGES_SHOWN
    assert made.notes == ("90 of 870 senders with their receivers shown, the most frequent ones.",)
    assert "agent 29 → agent 28: 2 messages (task_request 2)" in {g[0].text for g in groups(made, "edge")}


def test_names_of_strangers_are_escaped():
    made = drawing(("<script>alert(1)</script>", "b"), type="<img src=x>")
    assert "<script" not in made.svg
    assert "<img" not in made.svg
