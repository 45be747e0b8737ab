"""One trace in every encoding that the specifications allow, and that exporters really write."""

import base64
import gzip
import json
import re
import struct
import sys

import pytest

from tests.traces.opentelemetry.spans import TRACE, agent, chat, content, request, span, span_id, tool
from trivium.errors import MissingExtra, TraceError
from trivium.traces.readers import FORMATS
from trivium.traces.readers.collection import read_path, read_paths, read_trace_file
from trivium.traces.readers.otlp import json as quickly
from trivium.traces.readers.otlp import opens

SPANS = (
    chat("think", parent="aide", at=(2.5, 3)),
    tool(
        "look",
        "look",
        {"gen_ai.tool.call.arguments": {"deep": [{"n": 1}, 2.5, "x", True]}},
        parent="aide",
        at=(3, 4),
        failed="no such page",
        events=[("exception", {"exception.message": "no"})],
    ),
    agent("aide", parent="ask", at=(2, 4)),
    tool("ask", parent="boss", at=(1, 5)),
    tool("open", parent="boss", at=(6, None)),
    agent("boss", at=(0, 9)),
)


def snake(value):
    """Keys by their names in protobuf."""
    if isinstance(value, dict):
        return {re.sub("([A-Z])", r"_\1", key).lower(): snake(item) for key, item in value.items()}
    return [snake(item) for item in value] if isinstance(value, list) else value


def each_span(value, change):
    for span_ in value["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        change(span_)
    return value


def in_base64(span_):
    for key in ("traceId", "spanId", "parentSpanId"):
        if key in span_:
            span_[key] = base64.b64encode(bytes.fromhex(span_[key])).decode()


def times_as_numbers(span_):
    for key in ("startTimeUnixNano", "endTimeUnixNano"):
        if key in span_:
            span_[key] = int(span_[key])


def enums_by_name(span_):
    span_["kind"] = "SPAN_KIND_INTERNAL"
    span_["status"] = (
        {"code": "STATUS_CODE_ERROR", **span_["status"]} if span_["status"] else {"code": "STATUS_CODE_UNSET"}
    )
    if span_["status"].get("code") == 2:
        span_["status"]["code"] = "STATUS_CODE_ERROR"


def upper_ids(span_):
    for key in ("traceId", "spanId", "parentSpanId"):
        if key in span_:
            span_[key] = span_[key].upper()


def empty_parents(span_):
    span_.setdefault("parentSpanId", "")


def zero_parents_and_ends(span_):
    span_.setdefault("parentSpanId", "0" * 16)
    span_.setdefault("endTimeUnixNano", "0")


def null_ends(span_):
    span_.setdefault("endTimeUnixNano", None)


def numbers_as_numbers(span_):
    for pair in span_["attributes"]:
        if "intValue" in pair["value"]:
            pair["value"]["intValue"] = int(pair["value"]["intValue"])


def foreign_fields(span_):
    span_ |= {"flags": 256, "traceState": "", "links": [], "droppedAttributesCount": 0, "new": {"x": [1]}}


def values_as_they_are(span_):
    span_["attributes"] = {pair["key"]: plain(pair["value"]) for pair in span_["attributes"]}


def plain(value):
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [plain(item) for item in inner["values"]]
    if kind == "kvlistValue":
        return {pair["key"]: plain(pair["value"]) for pair in inner["values"]}
    return int(inner) if kind == "intValue" else inner


def fresh():
    return json.loads(content(*SPANS))


def wanted(tmp_path):
    path = tmp_path / "plain.json"
    path.write_bytes(content(*SPANS))
    (trace,) = read_trace_file(path, "otlp")
    assert [(s.name, s.kind) for s in trace.spans] == [
        ("boss", "agent"),
        ("ask", "tool"),
        ("aide", "agent"),
        ("m", "llm"),
        ("look", "tool"),
        ("open", "tool"),
    ]
    return trace


JSON = {
    "snake case": snake(fresh()),
    "indented": json.dumps(fresh(), indent=2),
    "a list of requests": [fresh()],
    "before scopes had their name": json.loads(
        content(*SPANS).replace(b'"scopeSpans"', b'"instrumentationLibrarySpans"')
    ),
    "keys of both kinds": json.loads(content(*SPANS).replace(b'"spanId"', b'"span_id"')),
    "a byte order mark": "\ufeff" + json.dumps(fresh()),
    "a late key": {"padding": "x" * 100_000} | fresh(),
    "one span a line": "\n".join(json.dumps(request(each)) for each in SPANS),
    "one span a line, windows": "\r\n".join(json.dumps(request(each)) for each in SPANS) + "\r\n\r\n",
    "lines in snake case": "\n".join(json.dumps(snake(request(each))) for each in SPANS),
    "lines of other signals between": "\n".join(
        ['{"resourceLogs": []}', *(json.dumps(request(each)) for each in SPANS), '{"resourceMetrics": []}']
    ),
    "a request with nothing in it": [{"resourceSpans": []}, fresh()],
} | {
    change.__name__: each_span(fresh(), change)
    for change in (
        in_base64,
        times_as_numbers,
        enums_by_name,
        upper_ids,
        empty_parents,
        zero_parents_and_ends,
        null_ends,
        numbers_as_numbers,
        foreign_fields,
        values_as_they_are,
    )
}


@pytest.mark.parametrize("encoding", JSON)
def test_every_encoding_of_json_says_the_same(encoding, tmp_path):
    value = JSON[encoding]
    text = value if isinstance(value, str) else json.dumps(value)
    for name, stored in (("x.json", text.encode()), ("x.json.gz", gzip.compress(text.encode()))):
        path = tmp_path / name
        path.write_bytes(stored)
        found, (trace,) = read_path(path)
        assert found == "otlp"
        assert trace == wanted(tmp_path)


def test_the_quick_way_is_taken_for_what_exporters_write(monkeypatch, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content(*SPANS))
    monkeypatch.setattr(quickly, "parse_lenient", None)
    (trace,) = read_trace_file(path)
    assert len(trace.spans) == len(SPANS)


def protobuf(*spans):
    """An export request, by the protobuf library itself from its JSON form."""
    json_format = pytest.importorskip("google.protobuf.json_format")
    pytest.importorskip("opentelemetry.proto")
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    stated = each_span(json.loads(content(*spans)), in_base64)
    return json_format.ParseDict(stated, ExportTraceServiceRequest())


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def one_a_request(prefix):
    messages = [protobuf(each).SerializeToString() for each in SPANS]
    return b"".join(prefix(len(message)) + message for message in messages)


PROTOBUF = {
    "one request": lambda: protobuf(*SPANS).SerializeToString(),
    "requests joined": lambda: b"".join(protobuf(each).SerializeToString() for each in SPANS),
    "a stream with lengths of four bytes": lambda: one_a_request(lambda n: struct.pack(">I", n)),
    "a stream with lengths as varints": lambda: one_a_request(varint),
}


@pytest.mark.parametrize("encoding", PROTOBUF)
def test_protobuf_says_the_same(encoding, tmp_path):
    for name, stored in (("x.binpb", PROTOBUF[encoding]()), ("x.gz", gzip.compress(PROTOBUF[encoding]()))):
        path = tmp_path / name
        path.write_bytes(stored)
        found, (trace,) = read_path(path)
        assert found == "otlp"
        assert trace == wanted(tmp_path)


def test_what_protobuf_s_own_printer_writes_is_read(tmp_path):
    message = protobuf(*SPANS)
    from google.protobuf.json_format import MessageToJson

    for options in (
        {},
        {"preserving_proto_field_name": True},
        {"use_integers_for_enums": True, "indent": None},
    ):
        path = tmp_path / "x.json"
        path.write_text(MessageToJson(message, **options))
        assert read_trace_file(path) == [wanted(tmp_path)]


def test_a_trace_split_over_encodings_is_one(tmp_path):
    paths = [tmp_path / name for name in ("a.json", "b.binpb", "c.jsonl")]
    paths[0].write_bytes(content(*SPANS[:2]))
    paths[1].write_bytes(protobuf(*SPANS[2:4]).SerializeToString())
    paths[2].write_text("\n".join(json.dumps(request(each)) for each in SPANS[4:]))
    found, traces = read_paths(paths)
    assert (found, traces) == ("otlp", [wanted(tmp_path)])
    assert len(read_paths(paths[:2])[1]) == 1


def test_what_the_sdk_s_exporter_encodes_is_read(tmp_path):
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import Status, StatusCode

    exporter = InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")
    stated = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"}
    with (
        tracer.start_as_current_span("run", attributes=stated),
        tracer.start_as_current_span("call", attributes={"gen_ai.tool.name": "look"}) as call,
    ):
        call.set_status(Status(StatusCode.ERROR, "broke"))
    spans = exporter.get_finished_spans()
    path = tmp_path / "x.binpb"
    path.write_bytes(encoder.encode_spans(spans).SerializeToString())
    (trace,) = read_trace_file(path)
    by_id = {f"{each.context.span_id:016x}": each for each in spans}
    assert trace.trace_id == f"{spans[0].context.trace_id:032x}"
    assert [(s.kind, s.name, s.ok) for s in trace.spans] == [("agent", "boss", True), ("tool", "look", False)]
    for found in trace.spans:
        theirs = by_id[found.id]
        assert found.end - found.start == pytest.approx((theirs.end_time - theirs.start_time) / 1e9, abs=1e-9)


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    path = tmp_path / "x.binpb"
    path.write_bytes(protobuf(*SPANS).SerializeToString())
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.trace.v1.trace_pb2", None)
    with pytest.raises(MissingExtra, match=r'pip install "trivium\[otel\]"'):
        read_trace_file(path)


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\n",
        b"\n\n\n{",
        b"\n{",
        b"  {}",
        b"PK\x03\x04",
        b"SQLite format 3\x00",
        b"\x00\x00\x00\x05hello",
        b"\x0a\x00",
    ],
)
def test_other_files_are_not_taken_for_it(head, tmp_path):
    assert not opens(tmp_path, head)


@pytest.mark.parametrize(
    ("stored", "what"),
    [
        (b'{"resourceSpans": []}', "it holds no span"),
        (
            b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}, 3]}]}]}',
            "none of its 1 spans has a spanId",
        ),
        (b'{"resourceSpans": [], "x": }', "not valid JSON"),
        (b'{"resourceSpans": []}\n{"x": 1}', "document 2: expected an export request"),
        (b'{"resourceSpans": []}\n{"resourceSp', "line 2: not valid JSON"),
        (b'[{"resourceSpans": []}, 1]', "document 2: expected an export request"),
    ],
)
def test_what_holds_no_span_is_refused(stored, what, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(stored)
    with pytest.raises(TraceError, match=re.escape(what)) as raised:
        read_trace_file(path)
    assert str(path) in str(raised.value)


def test_protobuf_without_spans_or_cut_off_is_refused(tmp_path):
    whole = protobuf(*SPANS).SerializeToString()
    path = tmp_path / "x.binpb"
    for stored, what in (
        (whole[:-3], "not readable OTLP protobuf"),
        (one_a_request(varint)[:-3], "message 6: is cut off: 3 bytes are missing"),
        (b"\x0a\x04\x12\x02\x0a\x00", "it holds no span"),
        (one_a_request(varint) + b"\xff" * 12, "message 7: is cut off"),
    ):
        path.write_bytes(stored)
        with pytest.raises(TraceError, match=what):
            read_trace_file(path)


def test_ids_of_other_lengths_and_spans_without_a_trace_are_read(tmp_path):
    odd = span("s") | {"spanId": "7", "traceId": None, "parentSpanId": "not base64!"}
    none = span("n") | {"spanId": "0" * 16}
    short = span("t") | {"spanId": "AAEC", "traceId": "AA=="}
    zero = span("z") | {"spanId": base64.b64encode(bytes(8)).decode()}
    path = tmp_path / "x.json"
    path.write_bytes(content(odd, short, zero, none))
    traces = read_trace_file(path)
    assert [(t.trace_id, t.spans[0].id) for t in traces] == [("", "7"), ("AA==", "AAEC")]


@pytest.mark.parametrize("time", ["x", -5, 0, None, True, 1e30, float("nan"), "9" * 30, 2**63, [1], {"a": 1}])
def test_what_is_no_time_is_none(time, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(request(span("s") | {"startTimeUnixNano": time, "endTimeUnixNano": time})))
    (trace,) = read_trace_file(path)
    assert (trace.spans[0].start, trace.spans[0].end, trace.spans[0].ok) == (None, None, None)
    path.write_text(json.dumps(request(span("s") | {"endTimeUnixNano": time}, span("t", at=(1, 2)))))
    assert [s.start for s in read_trace_file(path)[0].spans] == [0, 1]


def test_a_time_as_a_float_is_read(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(request(span("s", at=(1, 2)) | {"startTimeUnixNano": 1.7e18}, span("t"))))
    assert [s.start for s in read_trace_file(path)[0].spans] == [0, 0]


def test_the_format_has_a_name():
    assert "otlp" in FORMATS
    assert span_id("a") != span_id("b")
    assert len(TRACE) == 32
