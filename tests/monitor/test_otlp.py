"""Tests decoding: JSON gives what protobuf gives, and no input raises anything but a TraceError."""

import base64
import json
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.otlp_requests import BEGAN, agent_trace, request, span
from trivium.errors import TooLarge, TraceError
from trivium.monitor.otlp import IntakeLimits, batch_of
from trivium.traces.readers.otlp import read_content
from trivium.traces.readers.otlp.json import spans_of_json
from trivium.traces.readers.otlp.protobuf import recorded_span

LIMITS = IntakeLimits()
TRACE = bytes(range(16))

EXAMPLE = b"""{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name",
  "value": {"stringValue": "my.service"}}]}, "scopeSpans": [{"scope": {"name": "my.library",
  "version": "1.0.0", "attributes": [{"key": "my.scope.attribute", "value": {"stringValue":
  "some scope attribute"}}]}, "spans": [{"traceId": "5B8EFFF798038103D269B633813FC60C",
  "spanId": "EEE19B7EC3C1B174", "parentSpanId": "EEE19B7EC3C1B173", "name": "I'm a server span",
  "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000", "kind": 2,
  "attributes": [{"key": "my.span.attr", "value": {"stringValue": "some value"}}]}]}]}]}"""
"""The example of the OTLP specification (opentelemetry-proto, examples/trace.json)."""


def decoded(body: bytes) -> Any:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    return [Span.FromString(each.body) for each in batch_of(body, "json", LIMITS).spans]


def as_json(message: Any) -> bytes:
    """A request as the specification of OTLP/JSON has it: ids in hexadecimal, enumerations as numbers."""
    document = MessageToDict(message, use_integers_for_enums=True)
    for group in document.get("resourceSpans", []):
        for scope in group["scopeSpans"]:
            for one in scope.get("spans", []):
                for each in (one, *one.get("links", [])):
                    for key in {"traceId", "spanId", "parentSpanId"} & each.keys():
                        each[key] = base64.b64decode(each[key]).hex()
    return json.dumps(document).encode()


def test_the_example_of_the_specification():
    (found,) = batch_of(EXAMPLE, "json", LIMITS).spans
    assert (found.trace, found.span) == ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174")
    assert (found.service, found.ended_root) == ("my.service", False)
    (one,) = decoded(EXAMPLE)
    assert (one.kind, one.name, one.parent_span_id.hex()) == (2, "I'm a server span", "eee19b7ec3c1b173")
    (expected,) = spans_of_json(EXAMPLE, source="f")
    assert recorded_span(one, "my.library") == structs.replace(expected, events=[])


def test_json_gives_what_protobuf_gives():
    spans = agent_trace(TRACE, tools=3)
    spans[0].links.add(trace_id=b"L" * 16, span_id=b"linkedto")
    spans[1].events.add(name="exception", time_unix_nano=BEGAN)
    spans[1].status.code = 2
    spans[2].attributes.add(key="bytes").value.bytes_value = b"\x00\xff"
    spans[2].attributes.add(key="double").value.double_value = 0.1
    spans[2].attributes.add(key="big").value.int_value = 2**62 + 1
    spans[2].attributes.add(key="map").value.kvlist_value.values.add(key="k").value.bool_value = True
    message = request(spans, service="shop")
    assert batch_of(as_json(message), "json", LIMITS) == batch_of(
        message.SerializeToString(), "protobuf", LIMITS
    )


def test_fields_left_out_have_their_defaults_and_unknown_fields_are_ignored():
    body = json.dumps(
        {
            "resourceSpans": [
                {"scopeSpans": [{"spans": [{"traceId": "a1" * 16, "spanId": "b2" * 8, "new": {"x": [1]}}]}]}
            ],
            "more": 1,
        }
    ).encode()
    (one,) = decoded(body)
    assert (one.kind, one.name, one.start_time_unix_nano) == (0, "", 0)
    assert batch_of(body, "json", LIMITS).spans[0].ended_root is False


def test_a_root_has_no_parent_and_has_ended():
    cases = {
        True: [span(TRACE), span(TRACE, parent=bytes(8))],
        False: [span(TRACE, parent=b"parentid"), span(TRACE)],
    }
    cases[False][1].end_time_unix_nano = 0
    for expected, spans in cases.items():
        for encoding in ("protobuf", "json"):
            message = request(spans)
            body = message.SerializeToString() if encoding == "protobuf" else as_json(message)
            assert [each.ended_root for each in batch_of(body, encoding, LIMITS).spans] == [expected] * 2


@pytest.mark.parametrize("bad", ["", "xyz", "a1" * 15, "a1" * 17, "0" * 32, 7, ["a1" * 16], "é" * 16])
def test_an_id_that_is_not_hexadecimal_or_of_another_length_refuses_the_span(bad):
    good = {"traceId": "a1" * 16, "spanId": "b2" * 8}
    spans = [good, good | {"traceId": bad}, {"spanId": "b2" * 8}]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    batch = batch_of(body, "json", LIMITS)
    assert (len(batch.spans), batch.refused) == (1, {"bad_id": 2})


def one_span(text: bytes) -> bytes:
    return b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + text + b"]}]}]}"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b'{"resourceSpans": [', "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "expected an object"),
        (b'{"resourceSpans": 7}', "is not OTLP JSON"),
        (b'{"resourceSpans": [{"scopeSpans": 7}]}', "is not OTLP JSON"),
        (b'{"resourceSpans": ' + b"[" * 100_000, "nested too deeply|is not JSON"),
    ],
)  # fmt: skip
def test_json_that_is_no_request_is_refused_with_a_reason(body, says):
    with pytest.raises(TraceError, match=f"the request: .*({says})"):
        batch_of(body, "json", LIMITS)


LONE = "cut \ud83d, \ude00 and \ud83d\ud83d"  # five halves of no pair
SOUND = [span(TRACE, mark="sound"), span(bytes(16)), span(TRACE)]  # the second has no trace id


def test_a_text_that_json_cannot_hold_costs_that_text_only():
    whole = json.loads(as_json(request(SOUND)))
    spans = whole["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["name"] = LONE[:-1] + "\U0001f600 \\ud83d"  # a pair, and what is no escape
    batch = batch_of(json.dumps(whole).encode(), "json", LIMITS)
    assert (batch.refused, batch.replaced) == ({"bad_id": 1}, 3)
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    first, second = (Span.FromString(each.body).name for each in batch.spans)
    assert (first, second) == ("cut \ufffd, \ufffd and \ufffd\U0001f600 \\ud83d", "work")
    raw = as_json(request(SOUND)).replace(b'"sound"', b'"caf\xe9"')
    assert batch_of(raw, "json", LIMITS).replaced == 1


@pytest.mark.parametrize("odd", [{"startTimeUnixNano": "x"}, {"kind": 1e99}, {"attributes": [{"key": 7}]}, 7])
def test_a_span_that_is_not_otlp_costs_that_span_only(odd):
    whole = json.loads(as_json(request(SOUND)))
    whole["resourceSpans"][0]["scopeSpans"][0]["spans"].insert(1, odd)
    batch = batch_of(json.dumps(whole).encode(), "json", LIMITS)
    assert (len(batch.spans), batch.refused) == (2, {"bad_id": 1, "unreadable_span": 1})


@pytest.mark.parametrize("code", [2, "2", "STATUS_CODE_ERROR", "ERROR", "Error"])
def test_a_status_is_known_by_its_name(code):
    status = {"code": code, "message": "gave up"}
    one = {"traceId": "a1" * 16, "spanId": "b2" * 8, "status": status}
    (found,) = batch_of(one_span(json.dumps(one).encode()), "json", LIMITS).spans
    assert found.failed


def test_the_names_of_the_first_versions_of_otlp_and_of_protobuf_are_read():
    modern = json.loads(EXAMPLE)
    (resource,) = modern["resourceSpans"]
    (scope,) = resource.pop("scopeSpans")
    (one,) = scope["spans"]
    for old, new in (("trace_id", "traceId"), ("span_id", "spanId"), ("parent_span_id", "parentSpanId")):
        one[old] = one.pop(new)
    scope["instrumentationLibrary"] = scope.pop("scope")
    resource["instrumentationLibrarySpans"] = [scope]
    older = {"resource_spans": [resource]}
    found, expected = (batch_of(each, "json", LIMITS) for each in (json.dumps(older).encode(), EXAMPLE))
    assert found == expected


def with_bad_byte(text: str, sound=SOUND) -> bytes:
    """A request in protobuf in which a byte of a text is not UTF-8."""
    whole = request([span(TRACE, mark="broken"), *sound], service="the shop").SerializeToString()
    assert whole.count(text.encode()) == 1
    return whole.replace(text.encode(), b"\xff" + text.encode()[1:])


@pytest.mark.parametrize(("text", "kept"), [("broken", 2), ("the shop", 3)])
def test_a_bad_byte_in_protobuf_costs_that_span_or_that_resource_only(text, kept):
    batch = batch_of(with_bad_byte(text), "protobuf", LIMITS)
    assert (len(batch.spans), batch.refused) == (kept, {"bad_id": 1, "unreadable_span": 1})
    assert {each.service for each in batch.spans} == {"" if text == "the shop" else "the shop"}


def test_a_bad_byte_in_a_file_leaves_its_trace_incomplete():
    (trace,) = read_content(with_bad_byte("broken", [span(TRACE)]), "f.pb")
    assert len(trace.spans) == 1
    assert str(trace.missing_part).startswith("1 spans, resources and scopes of f.pb cannot be decoded")


def test_a_request_that_is_cut_off_in_a_bad_text_is_refused_whole():
    with pytest.raises(TraceError, match="protobuf"):
        batch_of(with_bad_byte("broken")[:-1], "protobuf", LIMITS)


def test_a_span_with_values_nested_too_deeply_is_refused():
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(300):
        value = {"arrayValue": {"values": [value]}}
    one = {"traceId": "a1" * 16, "spanId": "b2" * 8, "attributes": [{"key": "k", "value": value}]}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}).encode()
    assert batch_of(body, "json", LIMITS).refused == {"unreadable_span": 1}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["resourceSpans", "resource", "scopeSpans", "scope", "spans", "attributes", "key", "value", "links",
         "traceId", "spanId", "startTimeUnixNano", "kind", "status", "code", "stringValue", "arrayValue"]
    ), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@given(_json)
def test_any_json_is_a_batch_or_a_trace_error(value):
    bodies = [value, {"resourceSpans": [value]}, {"resourceSpans": [{"scopeSpans": [{"spans": [value]}]}]}]
    for body in bodies:
        try:
            batch_of(json.dumps(body).encode(), "json", LIMITS)
        except TraceError:
            continue


@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 255))
def test_any_bytes_are_a_batch_or_a_trace_error(noise, at, byte):
    whole = bytearray(request(agent_trace(TRACE, tools=1), service="shop").SerializeToString())
    whole[at % len(whole)] = byte
    for body in (noise, bytes(whole), bytes(whole) + noise):
        try:
            batch = batch_of(body, "protobuf", LIMITS)
        except TraceError:
            continue
        assert all(len(each.trace) == 32 and len(each.span) == 16 for each in batch.spans)


def test_a_small_request_that_would_be_large_once_decoded_is_refused():
    with pytest.raises(TraceError, match="empty or nearly so"):
        batch_of(b"\x0a\x00" * 2**20 + b"\x0a\x00", "protobuf", LIMITS)


def test_a_request_has_a_largest_number_of_spans_resources_and_scopes():
    limits = IntakeLimits(request_spans=3)
    four = [span(TRACE) for _ in range(4)]
    assert len(batch_of(request(four[:3]).SerializeToString(), "protobuf", limits).spans) == 3
    resources, scopes = request([]), request([])
    for _ in range(3):
        resources.resource_spans.add()
        scopes.resource_spans[0].scope_spans.add()
    for message in (request(four), resources, scopes):
        with pytest.raises(TooLarge, match="more than 3 spans, or resources and scopes: send smaller"):
            batch_of(message.SerializeToString(), "protobuf", limits)
