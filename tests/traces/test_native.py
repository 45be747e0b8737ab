"""Native traces: read from bytes or objects, and every mistake named with its path."""

import msgspec
import pytest
from hypothesis import given

from tests.strategies import traces
from trivium.errors import TraceError
from trivium.traces.native import native_trace
from trivium.traces.trace import Trace

WHOLE = {
    "trace_id": "t",
    "spans": [
        {"id": "a1", "parent": None, "kind": "agent", "name": "researcher", "agent": "researcher",
         "start": 0.0, "end": 3.2, "ok": True, "input": {"q": 1}, "output": [1],
         "usage": None, "attributes": {}},
        {"id": "l1", "parent": "a1", "kind": "llm", "name": "model", "start": 0, "end": 1,
         "usage": {"input_tokens": 5, "output_tokens": 7, "cost_usd": 0.1}},
    ],
    "messages": [
        {"sender": "manager", "receiver": "researcher", "type": "task_request", "time": 0.1, "content": "…"}
    ],
}  # fmt: skip


def test_bytes_and_objects_read_alike():
    from_object = native_trace(WHOLE)
    assert native_trace(msgspec.json.encode(WHOLE)) == from_object
    assert from_object.spans[1].agent == "researcher"
    assert from_object.spans[1].usage.output_tokens == 7
    assert from_object.messages[0].receiver == "researcher"


def test_numbers_as_ids_become_text():
    trace = native_trace(
        {"trace_id": 7, "spans": [{"id": 1, "kind": "agent", "name": "a"},
                                  {"id": 2, "parent": 1, "kind": "tool", "name": "t"}], "metadata": {"x": 1}}
    )  # fmt: skip
    assert trace.trace_id == "7"
    assert [(span.id, span.parent) for span in trace.spans] == [("1", None), ("2", "1")]
    assert trace.metadata == {"x": 1}


def test_a_trace_without_an_id_is_read():
    spans = [{"id": "1", "kind": "agent", "name": "a"}]
    unnamed = native_trace({"spans": spans})
    assert unnamed.trace_id == ""
    assert native_trace({"trace_id": None, "spans": spans}) == unnamed
    assert native_trace(msgspec.json.encode({"trace_id": None, "spans": spans})) == unnamed


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (3, ["expected a mapping", "the number 3"]),
        ([], ["expected a mapping", "an empty list"]),
        ({"span": []}, ['unknown key "span"', 'mean "spans"']),
        ({"spans": {}}, ["spans: found an empty mapping, expected a list"]),
        ({"messages": "x"}, ['messages: found the text "x", expected a list']),
        ({"metadata": None}, ["metadata: found nothing (null), expected a mapping"]),
        ({"spans": [{"id": "1", "kind": "tol", "name": "x"}]}, ["spans[0].kind", '"tol"', 'mean "tool"']),
        ({"spans": [{"id": "1", "kind": "tool"}]}, ["spans[0]", '"name"']),
        ({"spans": [{"id": True, "kind": "tool", "name": "x"}]}, ["spans[0].id: found true, expected text"]),
        ({"spans": [{"id": "1", "kind": "tool", "name": "x", "attribues": {}}]}, ['mean "attributes"']),
        (
            {"spans": [{"id": "1", "kind": "llm", "name": "x", "usage": {"input_tokens": "many"}}]},
            ["spans[0].usage.input_tokens"],
        ),
        ({"messages": [{"sender": "a"}]}, ["messages[0]", '"receiver"']),
        (b"{", ["not valid JSON"]),
        (b'{"trace_id": "\xff"}', ["UTF-8"]),
        (b'{"spans": ' + b"[" * 100_000, ["nested too deep"]),
    ],
)
def test_a_mistake_says_what_and_where(value, parts):
    with pytest.raises(TraceError) as raised:
        native_trace(value, source="f.jsonl", where="line 12")
    text = str(raised.value)
    assert "f.jsonl: line 12" in text
    for part in parts:
        assert part in text


def test_all_mistakes_are_found_at_once_and_the_rest_counted():
    spans = [{"id": str(index), "kind": "tool"} for index in range(30)]
    with pytest.raises(TraceError) as raised:
        native_trace({"spans": spans})
    assert len(raised.value.problems) == 20
    assert raised.value.left_out == 10


@given(traces())
def test_a_written_trace_reads_back_the_same(trace):
    again = native_trace(msgspec.json.encode(trace))
    assert (again.spans, again.messages) == (trace.spans, trace.messages)
    assert set(again.problems) == set(trace.problems)


def test_a_trace_may_be_given_as_such():
    assert native_trace(Trace(trace_id="x")) == Trace(trace_id="x")
