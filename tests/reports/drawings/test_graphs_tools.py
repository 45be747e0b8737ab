from collections import Counter
from xml.etree import ElementTree as ET

from trivium.metrics.graph.trajectories import END, START, tool_graph
from trivium.reports.drawings.graphs import EDGES_SHOWN, TOOLS_SHOWN, draw_tool_graph
from trivium.traces.trace import Span, Trace

SVG = "{http://www.w3.org/2000/svg}"


def drawing(names, failed=()):
    spans = tuple(
        Span(id=str(place), kind="tool", name=name, ok=place not in failed)
        for place, name in enumerate(names)
    )
    trace = Trace(spans=spans)
    wrong = Counter(span.name for span in spans if not span.ok)
    return draw_tool_graph(tool_graph(trace), start=START, end=END, failed=wrong)


def groups(made, word):
    return [g for g in ET.fromstring(made.svg).iter(f"{SVG}g") if word in g.get("class", "").split()]


def titles(made, word):
    return [group[0].text for group in groups(made, word) if group[0].tag == f"{SVG}title"]


def test_every_tool_is_a_node_with_its_calls():
    made = drawing(["search", "read", "search"])
    assert set(titles(made, "node")) == {"search: 2 calls", "read: 1 call"}
    assert len(groups(made, "terminal")) == 2


def test_every_transition_is_an_arrow_with_its_count():
    made = drawing(["a", "b", "a", "b", "b"])
    assert set(titles(made, "edge")) == {
        "START → a: 1", "a → b: 2", "b → a: 1", "b → itself: 1", "b → END: 1",
    }  # fmt: skip
    assert [text.text for group in groups(made, "count") for text in group.iter(f"{SVG}text")] == ["2"]
    for edge in groups(made, "edge"):
        assert len(edge.findall(f"{SVG}polygon")) == 1


def test_what_goes_back_to_an_earlier_tool_is_marked():
    made = drawing(["a", "b", "a"])
    assert set(titles(made, "back")) == {"b → a: 1"}


def test_a_tool_that_failed_is_marked_in_words_too():
    made = drawing(["a", "b"], failed={1})
    assert titles(made, "failed") == ["b: 1 call, 1 failed ✕"]


def test_of_many_tools_the_most_called_are_shown_with_a_note():
    names = [f"tool {place}" for place in range(120)] + ["tool 119"] * 5
    made = drawing(names)
    assert made.notes[0] == "30 of 120 tools shown, the most called ones."
    assert len(groups(made, "node")) == TOOLS_SHOWN + 2
    assert "tool 119: 6 calls" in titles(made, "node")


def test_of_many_transitions_the_most_frequent_are_shown_with_a_note():
    tools = [f"t{place}" for place in range(20)]
    names = [
        name
        for step in range(1, 20)
        for start in range(20)
        for name in (tools[start], tools[(start + step) % 20])
    ]
    made = drawing(names)
    assert len(groups(made, "edge")) == EDGES_SHOWN
    assert made.notes[-1].endswith("transitions shown, the most frequent ones.")


def test_names_of_strangers_are_escaped():
    made = drawing(["<script>alert(1)</script>", '"><img>'])
    assert "<script" not in made.svg
    assert "<img" not in made.svg
    assert any("<script>" in title for title in titles(made, "node"))


def test_the_drawing_can_be_read_out():
    title = ET.fromstring(drawing(["a", "b", "a", "b"]).svg)[0].text
    assert title.startswith("Tool graph. START to a; a to b 2 times")
