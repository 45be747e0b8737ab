"""Repair: what is wrong in a trace is mended or flagged, and never stops anything."""

from math import inf, isfinite, nan

from hypothesis import given

from tests.strategies import hostile_spans, messages
from tests.traces.samples import agent, kinds, tool
from trivium.traces.normalize import normalise
from trivium.traces.trace import Message, Span


def test_a_sound_trace_is_left_as_it_is():
    spans = (agent("a", "boss", start=0.0, end=3.0), tool("t", "read", "a", agent="boss", start=1.0, end=2.0))
    trace = normalise(spans, trace_id="7", metadata={"k": 1})
    assert trace.spans == spans
    assert (trace.trace_id, trace.metadata, trace.problems) == ("7", {"k": 1}, ())


def test_a_missing_parent_makes_a_root():
    trace = normalise([tool("t", "read", "gone")])
    assert trace.spans[0].parent is None
    assert kinds(trace) == [("orphan", "t")]
    assert '"gone"' in trace.problems[0].what


def test_a_cycle_is_cut_at_its_earliest_span():
    spans = [
        tool("x", "x", "z", start=2.0, end=3.0),
        tool("y", "y", "x", start=1.0, end=3.0),
        tool("z", "z", "y", start=3.0, end=4.0),
        tool("below", "b", "z", start=3.0, end=4.0),
    ]
    trace = normalise(spans)
    assert {span.id: span.parent for span in trace.spans} == {"x": "z", "y": None, "z": "y", "below": "z"}
    assert ("cycle", "y") in kinds(trace)


def test_a_span_that_is_its_own_parent_becomes_a_root():
    trace = normalise([tool("t", "read", "t")])
    assert trace.spans[0].parent is None
    assert kinds(trace) == [("cycle", "t")]


def test_a_repeated_id_becomes_unique_and_children_stay_with_the_first():
    spans = [agent("a", "one"), agent("a", "two"), agent("a#2", "three"), tool("t", "read", "a")]
    trace = normalise(spans)
    assert [span.id for span in trace.spans] == ["a", "a#3", "a#2", "t"]
    assert trace.spans[3].agent == "one"
    assert kinds(trace) == [("duplicate_id", "a#3")]


def test_an_end_before_its_start_is_never_a_negative_duration():
    trace = normalise([tool("t", "read", start=5.0, end=4.0)])
    assert (trace.spans[0].start, trace.spans[0].end) == (5.0, 5.0)
    assert kinds(trace) == [("negative_duration", "t")]


def test_a_child_before_its_parent_is_flagged_and_stays_in_order_of_start():
    spans = [
        agent("a", "boss", start=10.0, end=20.0),
        tool("late", "late", "a", start=12.0, end=13.0),
        tool("early", "early", "a", start=4.0, end=5.0),
    ]
    trace = normalise(spans)
    assert kinds(trace) == [("clock_skew", "early")]
    assert [call.name for call in trace.tool_calls] == ["early", "late"]


def test_rounding_of_nanosecond_clocks_is_no_skew():
    spans = [
        agent("a", "boss", start=1795232338.6072977, end=1795232339.0),
        tool("t", "t", "a", start=1795232338.6072972, end=1795232339.0),
    ]
    assert normalise(spans).problems == ()


def test_a_span_without_an_end_neither_succeeded_nor_failed():
    spans = [
        tool("open", "read", start=1.0),
        tool("failed", "read", start=1.0, ok=False),
        tool("done", "read", start=1.0, end=2.0),
    ]
    trace = normalise(spans)
    assert [span.ok for span in trace.spans] == [None, False, True]
    assert kinds(trace) == [("unfinished", "open"), ("unfinished", "failed")]


def test_a_format_without_times_leaves_nothing_unfinished():
    trace = normalise([tool("t", "read")])
    assert trace.spans[0].ok is True
    assert trace.problems == ()
    assert trace.seconds is None


def test_times_that_are_no_numbers_are_dropped():
    sent = [Message(sender="a", receiver="b", time=nan), Message(sender="b", receiver="a", time=1.0)]
    trace = normalise([tool("t", "read", start=nan, end=inf)], sent)
    assert (trace.spans[0].start, trace.spans[0].end) == (None, None)
    assert [message.time for message in trace.messages] == [None, 1.0]
    assert [problem.kind for problem in trace.problems] == ["bad_time"] * 3


def test_callers_come_from_the_nearest_agent_above():
    spans = [
        tool("inner", "search", "mid"),  # listed before its parents, as exporters list spans by end
        Span(id="mid", kind="other", name="chain", parent="b"),
        agent("b", "researcher", "hand"),
        tool("hand", "delegate", "a"),
        agent("a", "run", agent="manager"),
        tool("alone", "ping"),
        tool("stated", "ping", "b", agent="somebody"),
    ]
    callers = {span.id: span.agent for span in normalise(spans).spans}
    assert callers == {
        "inner": "researcher",
        "mid": "researcher",
        "b": None,
        "hand": "manager",
        "a": "manager",
        "alone": None,
        "stated": "somebody",
    }


def test_nesting_speaks_where_no_message_is_stated():
    spans = [
        agent("m", "manager", start=0.0, end=9.0),
        tool("d", "delegate", "m", start=1.0, end=5.0),
        agent("r", "researcher", "d", start=2.0, end=4.0),
        agent("again", "researcher", "r", start=2.5, end=3.0),
        agent("w", "writer", "m", start=6.0),
    ]
    sent = [(m.sender, m.receiver, m.type, m.time) for m in normalise(spans).messages]
    assert sent == [
        ("manager", "researcher", "task_request", 2.0),
        ("researcher", "manager", "result_delivery", 4.0),
        ("manager", "writer", "task_request", 6.0),
    ]


def test_nesting_without_times_ends_what_is_not_unfinished():
    spans = [agent("m", "manager"), agent("r", "researcher", "m"), agent("w", "writer", "m", ok=None)]
    sent = [(m.sender, m.receiver) for m in normalise(spans).messages]
    assert sent == [("manager", "researcher"), ("researcher", "manager"), ("manager", "writer")]


def test_stated_messages_are_believed():
    spans = [agent("m", "manager"), agent("r", "researcher", "m")]
    sent = (Message(sender="manager", receiver="researcher", type="handoff"),)
    assert normalise(spans, sent).messages == sent


def test_fifty_thousand_spans_33_000_deep_are_read_in_any_order():
    count, deep = 50_000, 33_000
    spans = [
        Span(
            id=str(index),
            kind="agent" if index % 2 == 0 else "tool",
            name=f"n{index}",
            parent=str(index - 1 if index < deep else 0) if index else None,
        )
        for index in range(count)
    ]
    for listed in (spans, spans[::-1]):
        trace = normalise(listed)
        assert len(trace.spans) == count
        assert trace.problems == ()
        assert trace.tool_calls[0].agent is not None


@given(hostile_spans())
def test_any_spans_become_a_sound_forest(spans):
    trace = normalise(spans)
    parents = {span.id: span.parent for span in trace.spans}
    assert len(parents) == len(trace.spans) == len(spans)
    for span in trace.spans:
        steps, above = 0, span.parent
        while above is not None:
            above, steps = parents[above], steps + 1
            assert steps <= len(spans)
        for time in (span.start, span.end):
            assert time is None or isfinite(time)
        if span.start is not None and span.end is not None:
            assert span.start <= span.end


@given(hostile_spans())
def test_nothing_is_lost_or_invented(spans):
    after = normalise(spans).spans
    assert [(s.name, s.kind, s.input) for s in after] == [(s.name, s.kind, s.input) for s in spans]


@given(hostile_spans())
def test_normalising_twice_changes_nothing_more(spans):
    once = normalise(spans)
    again = normalise(once.spans, once.messages, problems=once.problems)
    assert again.spans == once.spans
    assert again.messages == once.messages
    assert set(again.problems) == set(once.problems)


@given(hostile_spans(), messages)
def test_messages_keep_their_order_and_parties(spans, message):
    sent = normalise(spans, [message, message]).messages
    assert [(m.sender, m.receiver, m.type) for m in sent] == [
        (message.sender, message.receiver, message.type)
    ] * 2


def test_nesting_may_add_to_the_messages_that_are_stated():
    spans = [
        agent("1", "a", start=0.0, end=1.0),
        agent("2", "b", start=2.0, end=9.0),
        agent("3", "c", "2", start=3.0, end=4.0),
    ]
    handoff = Message(sender="a", receiver="b", type="handoff", time=1.0)
    untimed = Message(sender="c", receiver="a", type="handoff")
    assert normalise(spans, [handoff]).messages == (handoff,)
    trace = normalise(spans, [untimed, handoff], nested=True)
    assert [(m.sender, m.receiver, m.type) for m in trace.messages] == [
        ("a", "b", "handoff"),
        ("b", "c", "task_request"),
        ("c", "b", "result_delivery"),
        ("c", "a", "handoff"),
    ]
    assert normalise(spans[:2], [handoff], nested=True).messages == (handoff,)
