"""Opik: exports and rows mean the same; agents are told by metadata, tags and names."""

import json
from typing import Any

import pytest

from tests.goldens import data
from trivium.errors import TraceError
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers import read_documents
from trivium.traces.readers.collection import read_path

TRACE = {
    "id": "t",
    "project_id": "p",
    "name": "review",
    "start_time": "2026-03-02T22:04:21Z",
    "end_time": "2026-03-02T22:04:30Z",
    "input": {"q": 1},
    "usage": {"prompt_tokens": 999},
    "feedback_scores": [{"name": "Relevance", "value": 0.9}],
    "thread_id": "thread-7",
}


def span(id: str, type: str = "general", parent: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": id,
        "trace_id": "t",
        "parent_span_id": parent,
        "name": id,
        "type": type,
        "start_time": "2026-03-02 22:04:21+00:00",
        "end_time": "2026-03-02 22:04:22.5+00:00",
        "metadata": None,
        "error_info": None,
    } | fields


def one(*spans: Any):
    _, (trace,) = read_documents([{"trace": TRACE, "spans": list(spans)}], source="trace")
    return trace


@pytest.mark.parametrize(
    "name", ["trace_0195589a-7b20-7a11-8c01-5d3f00000001.json", "trace_and_spans_rows.jsonl"]
)
def test_the_made_up_files_have_the_counts_worked_out_by_hand(name):
    path = data(f"traces/opik/{name}")
    expected = json.loads((path.parent / "expected.json").read_text())
    found, traces = read_path(path)
    facts = trace_facts(traces, format=found)
    (trace,) = traces
    assert found == "opik"
    assert facts.spans == expected["spans"]
    types = [str(span.attributes["type"]) for span in trace.spans]
    assert {type_: types.count(type_) for type_ in types} == expected["types"]
    assert sorted(facts.agent_runs) == expected["agents"]
    assert facts.failed_tool_spans == expected["failed_tools"]
    assert sum(problem.kind == "unfinished" for problem in facts.problems) == expected["unfinished"]
    assert facts.llm_input_tokens == expected["usage_prompt_tokens"]
    assert [list(pair) for pair in facts.agent_to_agent] == expected["agent_to_agent"]
    assert trace.metadata["feedback_scores"][0]["value"] == 0.9
    assert trace.seconds == pytest.approx(0.98)


SPANS = [span("a", metadata={"agent": "a"}), span("x", "tool", "a"), span("m", "llm", "a", model="gpt")]


@pytest.mark.parametrize(
    "documents",
    [
        [{"trace": TRACE, "spans": SPANS, "attachments": [], "downloaded_at": "x", "project_name": "demo"}],
        [{"row": "trace"} | TRACE, *({"row": "span"} | one for one in SPANS)],
        [*({"row": "span"} | one for one in SPANS), {"row": "trace"} | TRACE],
        [TRACE, *SPANS],
        [[TRACE, *SPANS[::-1]]],
        [{"content": [TRACE], "page": 1, "total": 1}, {"content": SPANS, "page": 1}],
        [{"traces": [TRACE], "spans": SPANS}],
        [{"spans": SPANS}, {"traces": [TRACE]}],
    ],
)
def test_every_shape_is_recognised_and_means_the_same(tmp_path, documents):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(document) for document in documents))
    found, (trace,) = read_path(path)
    assert (found, trace.trace_id, trace.metadata["thread_id"]) == ("opik", "t", "thread-7")
    assert {span.id: (span.kind, span.name, span.agent) for span in trace.spans} == {
        "a": ("agent", "a", "a"),
        "x": ("tool", "x", "a"),
        "m": ("llm", "gpt", "a"),
    }


def test_spans_of_an_export_may_leave_their_trace_and_type_out():
    bare = {"id": "b", "name": "b", "start_time": "2026-03-02T22:04:21Z"}
    trace = one(
        bare | {"parent_span_id": None}, {"parentSpanId": "b", "startTime": 1_772_489_061_000, "id": "c"}
    )
    assert [(span.id, span.kind, span.parent, span.ok) for span in trace.spans] == [
        ("b", "other", None, None),
        ("c", "other", "b", None),
    ]
    assert trace.spans[0].start == trace.spans[1].start


def test_several_traces_and_traces_without_spans_are_read():
    documents = [TRACE, TRACE | {"id": "u", "name": "other"}, span("a"), span("b", trace_id="v")]
    _, traces = read_documents(documents, source="rows")
    assert [(trace.trace_id, len(trace.spans)) for trace in traces] == [("t", 1), ("u", 0), ("v", 1)]
    assert traces[1].metadata["input"] == {"q": 1}


@pytest.mark.parametrize(
    ("fields", "agent"),
    [
        ({"metadata": {"agent": "manager"}}, "manager"),
        ({"metadata": {"agent_name": "manager"}}, "manager"),
        ({"metadata": {"gen_ai.agent.name": "manager"}}, "manager"),
        ({"metadata": '{"agent": "manager"}'}, "manager"),
        ({"metadata": {"object_type": "agent"}}, "x"),
        ({"metadata": {"type": "agent", "handoffs": []}}, "x"),
        ({"metadata": {"openinference.span.kind": "AGENT"}}, "x"),
        ({"tags": ["demo", "Agent"]}, "x"),
        ({"name": "research_agent"}, "research_agent"),
        ({"name": "ResearchAgent"}, "ResearchAgent"),
        ({"name": "AgentExecutor"}, "AgentExecutor"),
        ({"name": "agent"}, "agent"),
        ({"name": "reagent"}, None),
        ({"name": "agent_setup"}, None),
        ({"name": "crew agent", "metadata": {"object_type": "task"}}, None),
        ({"metadata": {"type": "custom", "name": "turn"}}, None),
        ({"metadata": ["agent"]}, None),
        ({"tags": "agent"}, None),
        ({}, None),
    ],
)
def test_a_general_span_is_an_agent_where_anything_says_so(fields, agent):
    (found,) = one(span("x", **fields)).spans
    assert (found.name if found.kind == "agent" else None) == agent


def test_a_step_that_names_the_agent_it_runs_in_is_no_run_of_its_own():
    owner = {"metadata": {"agent": "manager"}}
    trace = one(
        span("manager", **owner), span("format", parent="manager", **owner), span("x", "tool", "format")
    )
    assert trace_facts([trace]).agent_runs == {"manager": 1}
    assert trace.messages == ()
    (lone,) = one(span("x", "tool", **owner)).spans
    assert (lone.kind, lone.agent) == ("tool", "manager")


def test_errors_ends_and_usage():
    trace = one(
        span("ok", "tool"),
        span("bad", "tool", error_info={"exception_type": "KeyError", "message": None, "traceback": ""}),
        span("open", "tool", end_time=None),
        span("guard", "guardrail", output={"guardrail_result": "failed"}),
        span("m", "llm", usage={"prompt_tokens": 1, "completion_tokens": 2}, total_estimated_cost=0.25),
        span("n", "llm", usage={"input_tokens": 10, "output_tokens": 20}, total_estimated_cost=0),
        span("o", "llm", usage={"total_tokens": 5}),
        span("q", "llm", total_estimated_cost=0.5),
        span("p", usage={"prompt_tokens": 100}),
    )
    spans = {span.id: span for span in trace.spans}
    assert [spans[name].ok for name in ("ok", "bad", "open", "guard")] == [True, False, None, True]
    assert spans["guard"].kind == "other"
    assert spans["m"].usage is not None
    assert spans["m"].usage.cost_usd == 0.25
    assert spans["o"].usage is None
    assert spans["q"].usage.cost_usd == 0.5
    facts = trace_facts([trace])
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (11, 22)


def test_a_tracked_call_around_a_tracked_client_counts_once():
    usage = {"prompt_tokens": 1, "completion_tokens": 2}
    facts = trace_facts([one(span("outer", "llm", usage=usage), span("inner", "llm", "outer", usage=usage))])
    assert (facts.llm_input_tokens, facts.llm_output_tokens) == (1, 2)


def test_the_agents_sdk_s_handoffs_and_guardrails_are_neither_calls_nor_agents():
    trace = one(
        span("triage", metadata={"type": "agent"}),
        span(
            "Handoff", parent="triage", metadata={"type": "handoff", "from_agent": "triage", "to_agent": "b"}
        ),
        span("safe", "tool", "triage", metadata={"type": "guardrail"}),
        span("transfer_to_b", "tool", "triage"),
        span("b", metadata={"type": "agent"}),
    )
    assert [(m.sender, m.receiver, m.type) for m in trace.messages] == [("triage", "b", "handoff")]
    assert trace.tool_calls == ()


def test_other_values_are_left_out_and_reported():
    _, (trace,) = read_documents([SPANS[0], {"foo": 1}, 3], source="rows", format="opik")
    assert "2 records are left out: not a trace or span of Opik (first: number 2)" in trace.problems[0].what
    with pytest.raises(TraceError, match="no span of Opik"):
        read_documents([{"foo": 1}], source="rows", format="opik")


def test_feedback_scores_stay_with_their_span():
    scores = [{"name": "Depth", "value": 0.5}]
    (found,) = one(span("x", "tool", feedback_scores=scores)).spans
    assert found.attributes["feedback_scores"] == scores
