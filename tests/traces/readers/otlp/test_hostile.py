"""Hostile files: read, or refused with one message; never a crash, a hang or unbounded memory."""

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import json_values
from tests.traces.opentelemetry.spans import ORIGIN, TRACE, agent, chat, content, request, span, span_id, tool
from tests.traces.readers.otlp.test_encodings import PROTOBUF, SPANS, protobuf
from trivium.errors import TraceError
from trivium.traces.opentelemetry.semconv import READ_AS
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents, read_trace
from trivium.traces.readers.collection import read_path

quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def survives(path, stored):
    """Reads bytes as a file, or refuses them in words; what is read can be counted and written."""
    path.write_bytes(stored)
    try:
        found, traces = read_path(path)
    except TraceError as error:
        refusal = str(error)
    else:
        refusal = None
    if refusal is not None:
        assert str(path) in refusal
        assert len(refusal) < 2_000
        return None
    trace_facts(traces, format=found)
    for trace in traces:
        again = read_trace(json.loads(msgspec.json.encode(trace)), "native")
        assert [s.id for s in again.spans] == [s.id for s in trace.spans]
    return traces


def long_file():
    """About 30 kilobytes of spans."""
    return [
        each
        for turn in range(20)
        for each in (
            agent(f"a{turn}", at=(turn, turn + 0.9)),
            tool(f"t{turn}", "look", parent=f"a{turn}", at=(turn + 0.1, turn + 0.2)),
            chat(f"c{turn}", parent=f"a{turn}", at=(turn + 0.3, turn + 0.4)),
        )
    ]


@pytest.mark.parametrize("form", ["json", "lines", "protobuf", "stream"])
def test_a_file_cut_off_anywhere_is_read_or_refused(form, tmp_path):
    spans = long_file()
    whole = {
        "json": lambda: content(*spans),
        "lines": lambda: b"\n".join(json.dumps(request(each)).encode() for each in spans),
        "protobuf": lambda: protobuf(*spans).SerializeToString(),
        "stream": PROTOBUF["a stream with lengths of four bytes"],
    }[form]()
    path = tmp_path / "cut"
    step = 1024 if form in {"json", "lines"} else 97
    results = [survives(path, whole[:cut]) for cut in range(0, len(whole), step)]
    assert results[0] is None
    assert survives(path, whole) is not None
    if form == "json":
        assert not any(results)


@quick
@given(st.randoms(use_true_random=False))
def test_the_order_of_spans_in_a_file_changes_nothing_but_ties(random):
    shuffled = list(SPANS)
    random.shuffle(shuffled)
    assert read_trace(request(*shuffled), "otlp") == read_trace(request(*SPANS), "otlp")


@quick
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_bytes_that_flipped_are_read_or_refused(tmp_path, random, flips):
    for name, whole in (("x.json", content(*SPANS)), ("x.binpb", protobuf(*SPANS).SerializeToString())):
        flipped = bytearray(whole)
        for _ in range(flips):
            flipped[random.randrange(len(flipped))] = random.randrange(256)
        survives(tmp_path / name, bytes(flipped))


@quick
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path, stored):
    survives(tmp_path / "x", stored)
    survives(tmp_path / "x", b"\x0a" + stored)
    survives(tmp_path / "x", b'{"resourceSpans":' + stored)


parts = {
    "traceId": st.just(TRACE) | json_values,
    "spanId": st.sampled_from([span_id(name) for name in "abc"]) | json_values,
    "parentSpanId": st.sampled_from([span_id(name) for name in "abc"]) | json_values,
    "name": st.text(max_size=5) | json_values,
    "startTimeUnixNano": st.integers(ORIGIN, ORIGIN + 5).map(str) | json_values,
    "endTimeUnixNano": st.integers(ORIGIN, ORIGIN + 5).map(str) | json_values,
    "status": st.sampled_from([{}, {"code": 2, "message": "m"}, {"code": "STATUS_CODE_ERROR"}]) | json_values,
    "events": json_values,
}
tagged = st.recursive(
    st.one_of(
        st.fixed_dictionaries(
            {"stringValue": st.text(max_size=9) | st.sampled_from(["AGENT", "chat", "{", "[1]"])}
        ),
        st.fixed_dictionaries({"intValue": st.integers().map(str) | json_values}),
        st.fixed_dictionaries({"doubleValue": st.floats() | json_values}),
        json_values,
    ),
    lambda inner: (
        st.fixed_dictionaries({"arrayValue": st.fixed_dictionaries({"values": st.lists(inner, max_size=3)})})
        | st.fixed_dictionaries(
            {
                "kvlistValue": st.fixed_dictionaries(
                    {"values": st.lists(st.fixed_dictionaries({"key": st.text(), "value": inner}))}
                )
            }
        )
    ),
    max_leaves=5,
)
pairs = st.fixed_dictionaries({"key": st.sampled_from(sorted(READ_AS)), "value": tagged})
any_spans = st.fixed_dictionaries(
    {}, optional=parts | {"attributes": st.lists(pairs | json_values, max_size=8)}
)


@given(st.lists(any_spans, min_size=1, max_size=6))
def test_spans_of_any_content_are_read_or_refused(spans):
    try:
        _, traces = read_documents([request(*spans)], source="x", format="otlp")
    except TraceError:
        return
    facts = trace_facts(traces)
    assert facts.spans == sum(len(trace.spans) for trace in traces)
    for trace in traces:
        assert all(each.end is None or each.start is None or each.start <= each.end for each in trace.spans)
        msgspec.json.encode(trace)


@quick
@given(st.lists(any_spans, min_size=1, max_size=4))
def test_the_quick_way_and_the_lenient_way_read_the_same(tmp_path, spans):
    path = tmp_path / "x.json"
    path.write_text(json.dumps(request(*spans)))
    try:
        _, lenient = read_documents([json.loads(path.read_text())], source="x", format="otlp")
    except TraceError:
        lenient = None
    try:
        found = read_path(path, "otlp")[1]
    except TraceError:
        found = None
    assert repr(found) == repr(lenient)


DEEP = 100_000
ODD = {
    "deep JSON in a text": "[" * DEEP + "]" * DEEP,
    "a deep text that is no JSON": "[" * DEEP,
    "a text of ten megabytes": "x" * 10_000_000,
    "half a surrogate pair, twice encoded": '{"a": "\\ud800"}',
    "a null character": "a\0b",
    "a number of many digits, twice encoded": '{"a": ' + "9" * 5_000 + "}",
    "not a number, twice encoded": '{"a": NaN}',
    "an escape sequence": "\x1b[31m\u202e",
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_texts_anywhere_are_read_as_texts(odd, tmp_path):
    kinds = {"gen_ai.operation.name", "openinference.span.kind"}
    keys = [key for key in READ_AS if key not in kinds and not re.search(r"\.[1-9]\d*\.", key)]
    if len(ODD[odd]) > DEEP:
        keys = ["gen_ai.tool.call.result", "metadata", "events"]
    for operation in ("execute_tool", "chat", "invoke_agent", ""):
        attributes = dict.fromkeys(keys, ODD[odd]) | {"gen_ai.operation.name": operation}
        events = [("exception", dict.fromkeys(("exception.message", "message"), ODD[odd][:DEEP]))]
        stored = content(span("s", attributes, failed=True, events=events, name=ODD[odd][:DEEP]))
        (trace,) = survives(tmp_path / "x.json", stored)
        assert len(trace.spans) == 1


def test_surrogates_alone_become_a_replacement_character(tmp_path):
    stored = content(tool("t", "@", attrs={"gen_ai.tool.call.arguments": r"\ud800"}))
    for escape, text in (
        (rb"\ud800", "\ufffd"),
        (rb"\ud83d\ude00", "😀"),
        (rb"\\ud800", r"\ud800"),
        (rb"\udc00x", "\ufffdx"),
    ):
        (trace,) = survives(tmp_path / "x.json", stored.replace(b"@", escape))
        assert trace.spans[0].name == text


def test_values_nested_deep_are_read_or_refused(tmp_path):
    for depth in (50, 200, 5_000, 100_000):
        for opening, closing in (
            ('{"arrayValue":{"values":[', "]}}"),
            ('{"kvlistValue":{"values":[{"key":"k","value":', "}]}}"),
        ):
            value = opening * depth + '{"stringValue":"x"}' + closing * depth
            whole = content(span("s", {"gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": "@"}))
            found = survives(tmp_path / "x.json", whole.replace(b'{"stringValue": "@"}', value.encode()))
            assert found or depth > 200


def test_a_number_of_more_digits_than_a_float_holds_is_left_out(tmp_path):
    whole = content(span("s", {"gen_ai.tool.name": "t", "gen_ai.tool.call.arguments": "@"}))
    large = b'{"doubleValue": 1' + b"0" * 400 + b"}"
    (trace,) = survives(tmp_path / "x.json", whole.replace(b'{"stringValue": "@"}', large))
    assert (trace.spans[0].name, trace.spans[0].input) == ("t", None)


def test_shuffled_ids_that_make_cycles_and_doubles_are_repaired(tmp_path):
    spans = [
        span("a", parent="b", at=(0, 1)),
        span("b", parent="a", at=(0, 1)),
        span("c", parent="c", at=(0, 1)),
        span("d", at=(5, 2)),
        span("d", at=(6, 7)),
    ]
    (trace,) = survives(tmp_path / "x.json", content(*spans))
    assert {problem.kind for problem in trace.problems} - {"unrecognised"} == {
        "cycle",
        "negative_duration",
        "duplicate_id",
    }


BOUNDED = """
import resource, sys
from trivium.traces.readers.collection import read_path
from trivium.errors import TraceError
limit = 300 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for path in sys.argv[1:]:
    try:
        print(sum(len(trace.spans) for trace in read_path(path)[1]))
    except TraceError as error:
        print("refused", str(error)[-60:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process's memory is kept on Linux")
def test_20_000_spans_and_a_bomb_are_read_in_bounded_memory(tmp_path):
    import gzip

    spans = [tool(f"{number:08}", "look", parent="boss", at=(number, number + 1)) for number in range(20_000)]
    for number, each in enumerate(spans):
        each["spanId"] = f"{number + 1:016x}"
    (tmp_path / "large.json").write_bytes(content(agent("boss", at=(0, 20_001)), *spans))
    (tmp_path / "bomb.gz").write_bytes(80 * gzip.compress(b" " * 2**23, compresslevel=1))
    paths = [str(tmp_path / name) for name in ("large.json", "bomb.gz")]
    completed = subprocess.run(
        [sys.executable, "-c", BOUNDED, *paths[:1]], capture_output=True, text=True, check=False
    )
    assert (completed.stdout, completed.stderr) == ("20001\n", "")
    assert Path(paths[1]).stat().st_size < 4_000_000
    completed = subprocess.run(
        [sys.executable, "-c", BOUNDED.replace("300", "2500"), paths[1]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "refused" in completed.stdout
    assert completed.stderr == ""
