"""OpenAI Agents SDK: native items, whatever their order, and what the SDK's versions write."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.goldens import data
from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents
from trivium.traces.readers.collection import read_path

TRACE = {"object": "trace", "id": "t", "workflow_name": "support", "group_id": "g", "metadata": None}


def item(id: str, type: str, parent: str | None = None, start: float = 0, end: Any = 9, **fields: Any) -> Any:
    error = fields.pop("error", None)
    return {
        "object": "trace.span",
        "id": id,
        "trace_id": "t",
        "parent_id": parent,
        "started_at": stamp(start),
        "ended_at": None if end is None else stamp(end),
        "span_data": {"type": type, **fields},
        "error": error,
    }


def stamp(second: float) -> str:
    return f"2026-01-02T03:04:{5 + second:09.6f}+00:00"


def turn(id: str, agent: str, parent: str | None, **fields: Any) -> Any:
    inner = {"sdk_span_type": "turn", "turn": 1, "agent_name": agent, "usage": {"input_tokens": 99}}
    return item(id, "custom", parent, name="turn", data=inner, **fields)


CASE = [
    TRACE,
    item("g1", "generation", "t1", 1, 2, model="m", usage={"input_tokens": 5, "output_tokens": 2}),
    item("f1", "function", "t1", 2, 3, name="look", input='{"id": 4}', output="four"),
    item("h1", "handoff", "t1", 3, 3.5, from_agent="triage", to_agent="billing"),
    turn("t1", "triage", "a1", start=0.5, end=3.6),
    item("a1", "agent", None, 0, 4, name="triage", handoffs=["billing"], tools=["look"]),
    item("r2", "response", "t3", 5.5, 6, response_id="resp", usage={"input_tokens": 7, "output_tokens": 1}),
    turn("t3", "writer", "a3", start=5.4, end=6.2),
    item("a3", "agent", "f2", 5.2, 6.4, name="writer"),
    item("f2", "function", "t2", 5, 6.5, name="write", input="plain", output="letter"),
    turn("t2", "billing", "a2", start=4.1, end=7),
    item("a2", "agent", None, 4, 8, name="billing"),
]


def read_all(*items: Any):
    _, traces = read_documents(list(items), source="items", format="openai-agents")
    return traces


def message_tuples(trace):
    return [(m.sender, m.receiver, m.type) for m in trace.messages]


def test_the_real_items_have_the_counts_worked_out_by_hand():
    path = data("traces/openai-agents/native_items.jsonl")
    expected = json.loads((path.parent / "expected.json").read_text())[path.name]
    found, traces = read_path(path)
    facts = trace_facts(traces, format=found)
    (trace,) = traces
    types = Counter(span.attributes["type"] for span in trace.spans)
    customs = Counter(span.name for span in trace.spans if span.attributes["type"] == "custom")
    assert found == "openai-agents"
    assert facts.spans == expected["spans"]
    assert types - Counter(custom=types["custom"]) + customs == expected["types"]
    assert sorted(facts.agent_runs) == expected["agents"]
    assert [list(pair) for pair in facts.agent_to_agent] == expected["agent_to_agent"]
    assert facts.tools == expected["tools"]
    assert facts.failed_tool_spans == expected["tools_with_error"]
    # six requests of 25 and 7 tokens; tasks and turns repeat them
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (150, 42)
    assert facts.problems == []
    assert [call.agent for call in trace.tool_calls] == ["triage-agent"] * 2 + ["billing-agent"] * 2
    named = {"workflow_name": "support case 42", "group_id": "case-42"}
    assert trace.metadata == {**named, "recorders": ["openai-agents"]}


def test_a_handoff_joins_siblings_and_an_agent_as_a_tool_lies_below_its_call():
    (trace,) = read_all(*CASE)
    assert message_tuples(trace) == [
        ("triage", "billing", "handoff"),
        ("billing", "writer", "task_request"),
        ("writer", "billing", "result_delivery"),
    ]
    assert [(call.name, call.agent, call.input) for call in trace.tool_calls] == [
        ("look", "triage", {"id": 4}),
        ("write", "billing", "plain"),
    ]
    assert trace_facts([trace]).llm_input_tokens == 12


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_the_lines_changes_nothing_but_the_order_of_the_spans(order):
    (trace,) = read_all(*CASE[::order])
    assert message_tuples(trace)[0] == ("triage", "billing", "handoff")
    assert {span.id: (span.agent, span.parent) for span in trace.spans} == {
        span.id: (span.agent, span.parent) for span in read_all(*CASE)[0].spans
    }


def test_an_agent_that_never_ended_was_not_exported_and_its_turns_still_name_it():
    (trace,) = read_all(*(line for line in CASE if line["id"] not in {"a1", "a2"}))
    assert {call.name: call.agent for call in trace.tool_calls} == {"look": "triage", "write": "billing"}
    assert [problem.kind for problem in trace.problems] == ["orphan", "orphan"]
    assert message_tuples(trace)[0] == ("triage", "billing", "handoff")


def test_a_handoff_without_a_receiver_or_from_a_turn_is_read():
    (trace,) = read_all(
        turn("t", "a", None),
        item("h", "handoff", "t", to_agent="b"),
        item("i", "handoff", "t", from_agent="a", end=None),
        item("j", "handoff", None, to_agent="c"),
    )
    assert message_tuples(trace) == [("a", "b", "handoff")]
    assert [span.name for span in trace.spans][1:] == ["handoff to b", "handoff to nobody", "handoff to c"]


def test_spans_without_an_end_neither_succeeded_nor_failed():
    (trace,) = read_all(
        item("a", "agent", None, name="x", end=None),
        item("f", "function", "a", name="f", end=None, error={"message": "no", "data": {}}),
        item("g", "function", "a", name="f", error={"message": "Error running tool", "data": None}),
        item("h", "function", "a", name="f", error={}),
    )
    assert {span.id: span.ok for span in trace.spans} == {"a": None, "f": False, "g": False, "h": True}
    assert [(problem.kind, problem.span) for problem in trace.problems] == [
        ("unfinished", "a"),
        ("unfinished", "f"),
    ]


def test_every_type_of_span_has_its_kind():
    types = {
        "agent": "agent",
        "function": "tool",
        "generation": "llm",
        "response": "llm",
        "transcription": "llm",
        "speech": "llm",
        "speech_group": "other",
        "handoff": "other",
        "guardrail": "other",
        "mcp_tools": "other",
        "custom": "other",
        "task": "other",
        "of tomorrow": "other",
    }
    (trace,) = read_all(*(item(type_, type_, server="files", triggered=True) for type_ in types))
    assert {span.id: span.kind for span in trace.spans} == types
    names = {span.id: span.name for span in trace.spans}
    assert (names["mcp_tools"], names["speech"]) == ("tools of files", "speech")
    assert all(span.ok for span in trace.spans)  # a guardrail that is triggered has done its work


def test_usage_is_read_in_the_words_of_every_version():
    spans = [
        item("1", "generation", usage={"prompt_tokens": 1, "completion_tokens": 2}),
        item("2", "response", response={"usage": {"input_tokens": 10, "output_tokens": 20}}),
        item("3", "generation", usage={"inputTokens": 100, "outputTokens": 200}),
        item("4", "generation", usage=None),
        item("5", "response", usage={"requests": 3}),
        item("6", "generation", usage={"input_tokens": 1000}),
    ]
    facts = trace_facts(read_all(*spans))
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (1111, 222)


def test_keys_may_be_in_camel_case_and_several_traces_in_one_file():
    camel = {
        "object": "trace.span",
        "spanId": "s",
        "traceId": "u",
        "parentId": None,
        "startedAt": stamp(0),
        "endedAt": stamp(1),
        "spanData": {"type": "handoff", "fromAgent": "a", "toAgent": "b"},
        "metadata": {"routing": 1},
    }
    first, second, third = read_all(
        camel, TRACE, {"data": [item("x", "agent", name="n")]}, TRACE | {"id": "v"}
    )
    assert (first.trace_id, message_tuples(first)) == ("u", [("a", "b", "handoff")])
    assert first.spans[0].attributes["metadata"] == {"routing": 1}
    assert (second.trace_id, len(second.spans), second.metadata["group_id"]) == ("t", 1, "g")
    assert (third.trace_id, third.spans) == ("v", ())


@pytest.mark.parametrize("shape", ["lines", "list", "batches", "ingest", "holder"])
def test_every_shape_is_recognised(tmp_path, shape):
    lines = {
        "lines": CASE,
        "list": [CASE],
        "batches": [CASE[:5], CASE[5:]],
        "ingest": [{"data": CASE[:5]}, {"data": CASE[5:]}],
        "holder": [{"trace": TRACE, "spans": CASE[1:]}],
    }[shape]
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    found, (trace,) = read_path(path)
    assert (found, len(trace.spans), trace.metadata["workflow_name"]) == ("openai-agents", 11, "support")


def test_a_span_recorded_at_its_start_and_at_its_end_is_one_span():
    begun = item("a", "agent", None, 0, None, name="x")
    ended = item("a", "agent", None, 0, 4, name="x")
    for lines in ([begun, ended], [ended, begun], [begun, begun, ended]):
        (trace,) = read_all(*lines)
        assert [(span.id, span.end is not None) for span in trace.spans] == [("a", True)]
    (trace,) = read_all(ended, ended)
    assert [problem.kind for problem in trace.problems] == ["duplicate_id"]
    (trace,) = read_all(ended, item("a", "agent", None, 5, 6, name="y"))
    assert [span.id for span in trace.spans] == ["a", "a#2"]


def test_a_thousand_records_of_a_span_are_merged():
    lines = [item("a", "function", None, 0, None, name="x") | {f"key{n}": n} for n in range(3_000)]
    (trace,) = read_all(*lines, item("a", "function", None, 0, 4, name="y"), *lines)
    assert [(span.name, span.ok) for span in trace.spans] == [("y", True)]


def test_other_values_are_left_out_and_reported_once():
    first, second = read_all(3, CASE[1], {"foo": 1}, [None], CASE[2] | {"trace_id": "u"})
    (problem,) = (problem for problem in first.problems if problem.kind == "foreign_record")
    assert "3 records are" in problem.what
    assert "number 1" in problem.what
    assert [problem.kind for problem in second.problems] == ["orphan"]
    with pytest.raises(TraceError, match="no trace and no span of the OpenAI Agents SDK"):
        read_all({"foo": 1})


def test_a_chain_of_15_000_spans_is_read():
    spans = [item(str(n), "agent", str(n - 1) if n else None, name="ab"[n % 2]) for n in range(15_000)]
    (trace,) = read_all(*reversed(spans))
    assert trace_facts([trace]).max_depth == 15_000
    assert len(trace.messages) == 2 * 14_999
