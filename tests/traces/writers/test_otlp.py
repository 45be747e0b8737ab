"""OTLP written: by the conventions, and read back as it was."""

import json
import math
import struct
from datetime import datetime

import pytest
from google.protobuf.json_format import Parse
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as genai

from tests.strategies import json_objects, json_values, messages, names, texts, traces
from trivium.errors import MissingExtra
from trivium.traces.normalize import normalise
from trivium.traces.readers.collection import read_path
from trivium.traces.trace import Message, Span, SpanUsage, Trace
from trivium.traces.writers.otlp import TraceToExport, delimited, request, resource_spans, traces_to_export

counts = st.none() | st.integers(0, 2**40)
usages = st.builds(
    SpanUsage,
    input_tokens=st.integers(2**20, 2**40),
    output_tokens=counts,
    cost_usd=st.none() | st.floats(0, 9),
    cache_read_tokens=st.none() | st.integers(0, 2**19),
    reasoning_tokens=counts,
    output_audio_tokens=counts,
)


@st.composite
def rich_traces(draw):
    """Traces with contents, usage, messages, an id and metadata, on a clock of any kind."""
    zero = draw(st.sampled_from([0.0, -5.0, 12.5, 1.7e9]))
    spans = []
    for number in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(["agent", "tool", "llm", "other"]))
        start = draw(st.floats(0, 100))
        spans.append(
            Span(
                id=draw(st.sampled_from(["", "00000000000000a"])) + str(number),
                kind=kind,
                name=draw(names),
                parent=draw(st.none() | st.sampled_from([span.id for span in spans])) if spans else None,
                start=zero + start,
                end=draw(st.none() | st.just(zero + start + draw(st.floats(0, 9)))),
                ok=draw(st.sampled_from([True, False, None])),
                input=draw(json_values),
                output=draw(json_values),
                usage=draw(st.none() | usages) if kind == "llm" else None,
                attributes=draw(json_objects),
            )
        )
    return normalise(
        spans,
        draw(st.lists(messages, max_size=3)),
        trace_id=draw(st.sampled_from(["", "T", "ab" * 16, "0" * 32])),
        metadata=draw(st.sampled_from([{}, {"started": "2026-01-02T03:04:05.000006Z", "people": ["a"]}])),
    )


def lines(*traces_, **fields):
    exports = [TraceToExport(trace=trace, key=str(number), **fields) for number, trace in enumerate(traces_)]
    return [request([entry]) for entry in resource_spans(exports)]


def read_back(path, content):
    path.write_bytes(content)
    return read_path(path)[1]


def near(one, other):
    return one == other or (None not in (one, other) and math.isclose(one, other, abs_tol=1e-6))


def assert_equal(back, trace):
    assert (back.trace_id, back.metadata) == (trace.trace_id, trace.metadata)
    found = {span.id: span for span in back.spans}
    assert found.keys() == {span.id for span in trace.spans}
    for span in trace.spans:
        its = found[span.id]
        assert near(its.start, span.start)
        assert near(its.end, span.end)
        for field in ("kind", "name", "parent", "agent", "ok", "input", "output", "usage", "attributes"):
            assert getattr(its, field) == getattr(span, field), field
    assert len(back.messages) == len(trace.messages)
    for its, message in zip(back.messages, trace.messages, strict=True):
        assert near(its.time, message.time)
        for field in ("sender", "receiver", "type", "content"):
            assert getattr(its, field) == getattr(message, field)
    assert set(back.agents) == set(trace.agents)


@given(written=st.lists(rich_traces() | traces(), min_size=1, max_size=3))
def test_what_is_read_back_is_what_was_written(tmp_path_factory, written):
    folder = tmp_path_factory.mktemp("otlp")
    for content in (
        b"\n".join(lines(*written)),
        b"".join(map(delimited, resource_spans(traces_to_export(written)))),
    ):
        back = read_back(folder / "file", content)
        assert len(back) == len(written)
        for its, trace in zip(back, written, strict=True):
            assert_equal(its, trace)


@given(trace=rich_traces())
def test_tool_calls_are_in_the_same_order_where_starts_differ(tmp_path_factory, trace):
    (back,) = read_back(tmp_path_factory.mktemp("otlp") / "file", lines(trace)[0])
    starts = [round(span.start, 6) for span in trace.tool_calls]
    if len(set(starts)) == len(starts):
        assert [span.id for span in back.tool_calls] == [span.id for span in trace.tool_calls]


@given(trace=rich_traces() | traces())
def test_the_json_parser_of_protobuf_accepts_it(trace):
    (line,) = lines(trace, resource={"service.name": "me"}, events=[("e", {"n": 1, "x": 0.5, "yes": True})])
    parsed = Parse(line, ExportTraceServiceRequest())
    (resource,) = parsed.resource_spans
    assert resource.resource.attributes[0].value.string_value == "me"
    spans = resource.scope_spans[0].spans
    assert len(spans) == max(1, len(trace.spans))
    assert sum(event.name == "e" for span in spans for event in span.events) == 1


@given(written=st.lists(rich_traces() | traces(), min_size=1, max_size=3))
def test_protobuf_holds_the_same_spans(written):
    for entry in resource_spans(traces_to_export(written)):
        content = delimited(entry)
        (length,) = struct.unpack(">I", content[:4])
        assert length == len(content) - 4
        (resource,) = ExportTraceServiceRequest.FromString(content[4:]).resource_spans
        ours = entry["scopeSpans"][0]["spans"]
        for span, its in zip(ours, resource.scope_spans[0].spans, strict=True):
            assert its.trace_id.hex() == span["traceId"]
            assert its.span_id.hex() == span["spanId"]
            assert its.parent_span_id.hex() == span.get("parentSpanId", "")


def plain(value):
    ((tag, inner),) = value.items()
    return int(inner) if tag == "intValue" else inner


def exported(trace, **fields):
    ((entry,),) = [json.loads(line)["resourceSpans"] for line in lines(trace, **fields)]
    spans = entry["scopeSpans"][0]["spans"]
    return [
        span | {"attributes": {a["key"]: plain(a["value"]) for a in span["attributes"]}} for span in spans
    ]


TRACE = normalise(
    [
        Span(id="1", kind="agent", name="boss", start=0.0, end=4.0, input="find it", output={"n": 1}),
        Span(id="2", kind="tool", name="look", parent="1", start=1.0, end=2.0, ok=False, input={"q": [1]},
             output="gone", attributes={"error": "404"}),
        Span(id="3", kind="llm", name="gpt-4o", parent="1", start=2.0, end=3.0, output="found",
             usage=SpanUsage(input_tokens=7, output_tokens=2, cost_usd=0.25)),
        Span(id="4", kind="other", name="GET", parent="1", start=3.0),
    ],
    metadata={"started": "2026-01-02T03:04:05Z"},
)  # fmt: skip


def test_spans_are_those_of_the_conventions():
    agent, tool, chat, other = exported(TRACE)
    assert [span["name"] for span in (agent, tool, chat, other)] == [
        "invoke_agent boss", "execute_tool look", "chat gpt-4o", "GET",
    ]  # fmt: skip
    known = {
        value for key, value in vars(genai).items() if key.startswith("GEN_AI_") and isinstance(value, str)
    }
    used = {
        key for span in (agent, tool, chat, other) for key in span["attributes"] if key.startswith("gen_ai.")
    }
    assert used <= known
    assert agent["attributes"]["gen_ai.operation.name"] == "invoke_agent"
    assert agent["attributes"]["gen_ai.agent.name"] == "boss"
    input_messages = json.loads(agent["attributes"]["gen_ai.input.messages"])
    assert (input_messages[0]["role"], input_messages[0]["parts"]) == (
        "user",
        [{"type": "text", "content": "find it"}],
    )
    assert tool["attributes"]["gen_ai.tool.name"] == "look"
    assert tool["attributes"]["gen_ai.agent.name"] == "boss"
    assert json.loads(tool["attributes"]["gen_ai.tool.call.arguments"]) == {"q": [1]}
    assert tool["attributes"]["gen_ai.tool.call.result"] == "gone"
    assert tool["status"] == {"code": 2, "message": "404"}
    assert tool["attributes"]["error.type"] == "_OTHER"
    assert chat["attributes"]["gen_ai.request.model"] == "gpt-4o"
    assert chat["attributes"]["gen_ai.usage.input_tokens"] == 7
    assert chat["attributes"]["gen_ai.usage.output_tokens"] == 2
    assert chat["attributes"]["operation.cost"] == 0.25
    assert "gen_ai.operation.name" not in other["attributes"]
    assert "endTimeUnixNano" not in other
    assert {span["parentSpanId"] for span in (tool, chat, other)} == {agent["spanId"]}


def test_a_reader_that_knows_only_the_conventions_sees_the_same_calls_and_tokens(tmp_path):
    content = lines(TRACE)[0].replace(b'"trivium.', b'"foreign.')
    (back,) = read_back(tmp_path / "file", content)
    assert [(span.name, span.agent, span.input, span.ok) for span in back.tool_calls] == [
        ("look", "boss", {"q": [1]}, False)
    ]
    assert back.spans[2].usage == TRACE.spans[2].usage
    assert [span.start for span in back.spans] == [0.0, 1.0, 2.0, 3.0]
    assert back.metadata["started"] == "2026-01-02T03:04:05Z"


def single(start=None, **metadata):
    return Trace(spans=(Span(id="1", kind="other", name="x", start=start),), metadata=metadata)


def nanoseconds(text):
    return str(round(datetime.fromisoformat(text).timestamp()) * 10**9)


@pytest.mark.parametrize(
    ("trace", "started_at", "since", "start"),
    [
        (TRACE, 1.0, "recorded", nanoseconds("2026-01-02T03:04:05+00:00")),
        (single(1.7e9), 1.0, "recorded", "1700000000000000000"),
        (single(-3.0), 1.6e9, "run", "1600000000000000000"),
        (single(9.0), None, "1970", "1000000000"),
        (single(), 1.6e9, "run", None),
        (single(1e300), 1.6e9, "1970", None),
        (single(0.0, started="yesterday"), None, "1970", "1000000000"),
        (single(0.0, started="2026-01-02T03:04:05"), 1.0, "recorded", nanoseconds("2026-01-02T03:04:05Z")),
        (single(9.0, started="2026-01-02T03:04:05Z"), 1.0, "recorded", nanoseconds("2026-01-02T03:04:14Z")),
        (single(1.7e9, started="2026-01-02T03:04:05Z"), 1.0, "recorded", "1700000000000000000"),
    ],
)  # fmt: skip
def test_times_are_moments_and_say_where_they_come_from(trace, started_at, since, start):
    span = exported(trace, started_at=started_at)[0]
    assert span["attributes"]["trivium.clock"] == since
    assert span.get("startTimeUnixNano") == start


def test_an_attempt_without_a_trace_is_exported_as_one_span(tmp_path):
    fields = {
        "started_at": 1.6e9,
        "seconds": 2.5,
        "input": {"q": 1},
        "output": "yes",
        "error": "late",
        "name": "attempt c",
    }
    (span,) = exported(Trace(), **fields)
    assert (span["name"], span["status"]) == ("attempt c", {"code": 2, "message": "late"})
    assert int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) == 2_500_000_000
    assert (span["attributes"]["input.value"], span["attributes"]["output.value"]) == ('{"q":1}', "yes")
    (back,) = read_back(tmp_path / "file", lines(Trace(), **fields)[0])
    assert back == Trace()


def test_messages_without_spans_are_exported(tmp_path):
    trace = Trace(messages=(Message(sender="a", receiver="b", time=2.0, content=[1]),))
    (back,) = read_back(tmp_path / "file", lines(trace)[0])
    assert_equal(back, trace)


def test_a_trace_keeps_its_id_but_two_do_not_share_one():
    one, two = (json.loads(line)["resourceSpans"][0] for line in lines(*[Trace(trace_id="AB" * 16)] * 2))
    ids = [entry["scopeSpans"][0]["spans"][0]["traceId"] for entry in (one, two)]
    assert ids[0] == "ab" * 16
    assert ids[1] != ids[0]


@given(cut=texts)
def test_own_words_that_were_cut_short_leave_what_the_conventions_tell(tmp_path_factory, cut):
    document = json.loads(lines(TRACE)[0])
    for span in document["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for attribute in span["attributes"]:
            if attribute["key"] == "trivium.span":
                attribute["value"] = {"stringValue": attribute["value"]["stringValue"][:9] + cut}
    (back,) = read_back(tmp_path_factory.mktemp("otlp") / "file", json.dumps(document).encode())
    assert [span.name for span in back.tool_calls] == ["look"]


def test_without_the_protobufs_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "google.protobuf.json_format", None)
    with pytest.raises(MissingExtra, match=r"trivium\[otel\]"):
        delimited({"scopeSpans": []})
