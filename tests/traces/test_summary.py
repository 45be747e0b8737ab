"""Facts: the counts of a file of traces."""

import msgspec

from tests.traces.samples import agent, tool
from trivium.traces.normalize import normalise
from trivium.traces.process.totals import handoffs_as_tools, trace_facts
from trivium.traces.trace import Message, Span, SpanUsage


def test_counts_have_the_keys_that_files_promise():
    spans = [
        agent("m", "manager"),
        tool("d", "delegate", "m"),
        agent("r", "researcher", "d"),
        Span(id="l", kind="llm", name="x", parent="r", usage=SpanUsage(input_tokens=3, output_tokens=4)),
        Span(id="k", kind="llm", name="x", parent="r", usage=SpanUsage(input_tokens=5)),
        tool("t", "read", "gone", ok=False),
    ]
    facts = msgspec.to_builtins(trace_facts([normalise(spans), normalise([])], format="otlp"))
    (problem,) = facts.pop("problems")
    assert (problem["kind"], problem["span"]) == ("orphan", "t")
    assert facts == {
        "format": "otlp",
        "traces": 2,
        "spans": 6,
        "kinds": {"agent": 2, "tool": 2, "llm": 2},
        "agent_runs": {"manager": 1, "researcher": 1},
        "tools": {"delegate": 1, "read": 1},
        "failed_tool_spans": 1,
        "llm_input_tokens": 8,
        "llm_output_tokens": 4,
        "agent_to_agent": [("manager", "researcher", 1)],
        "orphans": 1,
        "max_depth": 4,
    }


def test_results_going_back_are_no_requests_but_results_handed_on_are():
    messages = [
        Message(sender="a", receiver="b"),
        Message(sender="b", receiver="a", type="result_delivery"),
        Message(sender="b", receiver="c", type="result_delivery"),
        Message(sender="a", receiver="b", type="handoff"),
    ]
    assert trace_facts([normalise([], messages)]).agent_to_agent == [("a", "b", 2), ("b", "c", 1)]


def test_tokens_that_were_not_counted_are_unknown():
    facts = trace_facts([normalise([Span(id="l", kind="llm", name="x")])])
    assert facts.llm_input_tokens is None
    assert facts.llm_output_tokens is None


def test_hand_offs_recorded_as_tools_are_counted_apart():
    spans = [tool("t1", "search"), tool("t2", "handoff to editor", attributes={"handoff": True})]
    assert handoffs_as_tools([normalise(spans)]) == {"handoff to editor": 1}
