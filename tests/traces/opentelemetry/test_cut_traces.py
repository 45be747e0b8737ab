"""A trace of which a part is missing is never better than the whole one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.traces.opentelemetry.spans import agent, request, span, tool
from trivium.metrics.scoring import score
from trivium.traces.native import native_trace
from trivium.traces.opentelemetry.assemble import traces_of
from trivium.traces.outcome import completed
from trivium.traces.readers import read_trace
from trivium.traces.readers.otlp.json import spans_of_json
from trivium.traces.trace import CUT, Trace, TraceProblem, cut_trace

REMOTE = {"flags": 0x300}
LOCAL = {"flags": 0x100}


def read(*spans) -> Trace:
    return read_trace(request(*spans))


@given(data=st.data())
def test_a_trace_of_which_any_part_is_lost_has_not_completed_unless_the_whole_one_has(data):
    """The spans form any tree of agents, tools and others; flags say of some parents that they are remote."""
    makers = [
        lambda name, above, **more: agent(name, name, parent=above, **more),
        lambda name, above, **more: tool(name, name, parent=above, **more),
        lambda name, above, **more: span(name, parent=above, **more),
    ]
    spans = []
    for number in range(data.draw(st.integers(1, 8))):
        above = f"s{data.draw(st.integers(0, number - 1))}" if number else None
        made = data.draw(st.sampled_from(makers))(f"s{number}", above, failed=data.draw(st.booleans()))
        spans.append(made | data.draw(st.sampled_from([{}, LOCAL])))
    whole = completed(read(*spans))
    kept = [each for each in spans if data.draw(st.booleans())]
    if kept:
        part = read(*kept)
        assert completed(part) is not True or whole is True
        assert (score("completed", trace=part).value == 1) is (completed(part) is True)
        assert part.without_root is (spans[0] not in kept)


def test_a_span_whose_parent_is_in_another_process_is_a_root():
    below = tool("b", "track", parent="a")
    trace = read(agent("a", "desk", parent="caller") | REMOTE, below)
    assert (completed(trace), trace.without_root) == (True, False)
    assert [problem.kind for problem in trace.problems] == ["remote_parent"]
    assert completed(read(agent("a", "desk", parent="caller") | LOCAL, below)) is None
    both = read(span("caller"), agent("a", "desk", parent="caller") | REMOTE, below)
    assert (both.problems, both.spans[1].parent) == ((), both.spans[0].id)
    assert completed(cut_trace(trace, 3)) is None  # what it is below may be among what was left out


def test_protobuf_and_the_lenient_reader_know_the_flag_too():
    pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

    from trivium.traces.readers.otlp.protobuf import recorded_span

    made = Message(
        trace_id=bytes(15) + b"a", span_id=bytes(7) + b"b", parent_span_id=b"elsewher", flags=0x301
    )
    assert completed(traces_of([recorded_span(made, "")])[0]) is not True  # it has no end
    made.end_time_unix_nano = made.start_time_unix_nano = 10**18
    assert completed(traces_of([recorded_span(made, "")])[0]) is True
    odd = agent("a", "desk", parent="caller") | REMOTE | {"spanId": "AAAAAAAAAAE="}
    assert completed(read(odd)) is True


def test_a_cut_is_told_by_the_trace_its_scores_and_what_is_written_of_it():
    trace = cut_trace(read(agent("a", "desk"), tool("b", "track", parent="a")), 398)
    found = score("tool_success", trace=trace)
    assert (found.value, found.detail["cut"]) == (1, True)
    assert "398 of its spans are left out" in found.reason
    assert native_trace(trace).cut is True
    assert cut_trace(trace, 0) is trace
    incomplete = Trace(spans=trace.spans, problems=(TraceProblem(kind="incomplete", what="a file is"),))
    assert "cut" not in (score("tool_success", trace=incomplete).detail or {})
    assert [problem.kind for problem in trace.problems] == [CUT]


@pytest.mark.parametrize("code", [2, "2", "STATUS_CODE_ERROR", "ERROR", "Error"])
def test_a_status_is_known_by_its_name(code):
    one = agent("a", "desk") | {"status": {"code": code, "message": "gave up"}}
    assert completed(read(one)) is False


def test_the_names_of_the_first_versions_of_otlp_are_read():
    old = request(agent("a", "desk"))
    (resource,) = old["resourceSpans"]
    (scope,) = resource.pop("scopeSpans")
    scope["instrumentationLibrary"] = scope.pop("scope", {"name": "lib"})
    resource["instrumentationLibrarySpans"] = [scope]
    (trace,) = traces_of(spans_of_json(json.dumps(old).encode(), source="f"))
    assert trace.agents == ("desk",)
