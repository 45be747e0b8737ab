"""What a trace says of itself as a whole."""

import pytest

from tests.traces.samples import agent
from trivium.traces.outcome import (
    completed,
    counted_usage,
    input_of,
    output_of,
    started,
    stated_usage,
    total_usage,
)
from trivium.traces.trace import Span, SpanUsage, Trace, wall_seconds

UNIX = 1_790_000_000.0


def made(*spans, **metadata):
    return Trace(trace_id="t", spans=spans, metadata=metadata)


def llm(id, by, inputs, cost=None):
    usage = SpanUsage(input_tokens=inputs, output_tokens=1, cost_usd=cost)
    return Span(id=id, kind="llm", name="m", agent=by, usage=usage)


def test_the_input_is_the_first_and_the_output_the_last_of_the_outermost():
    trace = made(agent("a", "x", input="ask", output="half"), agent("b", "y", input="more", output="whole"))
    assert (input_of(trace), output_of(trace)) == ("ask", "whole")


def test_metadata_stands_for_what_no_span_has():
    trace = made(agent("a", "x"), question="why?", output="so")
    assert (input_of(trace), output_of(trace)) == ("why?", "so")
    assert (input_of(made()), output_of(made())) == (None, None)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [((True, True), True), ((True, None), None), ((None, False), False), ((), None)],
)
def test_a_failure_outweighs_what_is_unfinished(outcomes, expected):
    spans = [agent(str(n), "x", ok=ok) for n, ok in enumerate(outcomes)]
    assert completed(made(*spans)) is expected


@pytest.mark.parametrize(
    ("start", "metadata", "expected"),
    [
        (UNIX, {}, UNIX),
        (2.0, {"started": "2026-09-21T14:13:20Z"}, UNIX + 2),
        (2.0, {}, None),
        (2.0, {"started": "2026-09-21T14:13:20"}, UNIX + 2),
        (2.0, {"started": "2026-09-21T16:13:20+02:00"}, UNIX + 2),
        (2.0, {"started": "soon"}, None),
        (UNIX, {"started": "2026-09-21T16:13:20+02:00"}, UNIX),
        (1e13, {}, None),
        (None, {}, None),
    ],
)
def test_the_start_is_a_time_of_day_only_if_the_trace_says_so(start, metadata, expected):
    assert started(made(agent("a", "x", start=start), **metadata)) == expected


def test_tokens_count_once_where_an_agent_has_the_total_of_its_requests():
    lead = Span(id="a", kind="agent", name="lead", usage=SpanUsage(input_tokens=100, output_tokens=9))
    trace = made(lead, llm("1", "lead", 60), llm("2", "aide", 5, cost=0.5))
    total = total_usage(usage for _, usage in counted_usage(trace))
    assert total == SpanUsage(input_tokens=105, output_tokens=10, cost_usd=0.5)


def test_a_session_may_state_its_totals_itself():
    stated = stated_usage(made(usage={"input_tokens": 7, "cost_usd": 1.5}))
    assert stated == SpanUsage(input_tokens=7, cost_usd=1.5)
    assert stated_usage(made(usage={"prompt_tokens": 7})) is None
    assert stated_usage(made(usage="much")) is None
    assert stated_usage(made(usage={"input_tokens": True, "cost_usd": -1.0})) is None
    assert wall_seconds(made(seconds=True)) is None
    assert wall_seconds(made(seconds=12)) == 12
    assert wall_seconds(made(agent("a", "x", start=1.0, end=3.0), seconds=12)) == 2
