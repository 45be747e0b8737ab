"""The counts of files that others recorded, against those worked out by hand."""

import json
from collections import Counter

import msgspec
import pytest

from tests.goldens import data
from trivium.traces.outcome import input_of, output_of
from trivium.traces.process.totals import trace_facts
from trivium.traces.readers.collection import read_path

TOKENS = ("llm_input_tokens", "llm_output_tokens")


def facts_of(relative):
    path = data(f"traces/{relative}")
    found, traces = read_path(path)
    assert found == "otlp"
    expected = json.loads((path.parent / "expected.json").read_text())[path.name]
    return json.loads(msgspec.json.encode(trace_facts(traces, format=found))), expected, traces


@pytest.mark.parametrize("version", ["v2", "v5", "v6"])
def test_pydantic_ai_in_every_version_of_its_instrumentation(version):
    facts, expected, _ = facts_of(f"pydantic-ai/otlp_{version}.json")
    assert {key: facts[key] for key in expected} == expected
    assert facts["problems"] == []


def test_current_conventions_with_structured_values():
    facts, expected, (trace,) = facts_of("genai-semconv/current_structured.json")
    same = (
        "spans",
        "agent_runs",
        "failed_tool_spans",
        *TOKENS,
        "agent_to_agent",
    )
    assert {key: facts[key] for key in same} == {key: expected[key] for key in same}
    assert facts["kinds"]["llm"] == expected["llm_calls"]
    # a retrieval is a tool span too, beside the calls of tools
    assert facts["tools"] == {**expected["tool_calls"], "papers": 1}
    owners = {span.id: span.agent for span in trace.spans}
    owned = expected["owner_of_span_without_agent_name"]
    assert {span: owners[span] for span in owned} == owned
    (transfer,) = [span for span in trace.spans if span.name == "transfer_to_researcher"]
    assert (transfer.input, transfer.output) == ({"query": "MT"}, {"papers": 3})


def test_legacy_conventions_without_operation_names():
    facts, expected, (trace,) = facts_of("genai-semconv/legacy_pre_1_37.json")
    same = ("spans", *TOKENS)
    assert {key: facts[key] for key in same} == {key: expected[key] for key in same}
    assert facts["agent_runs"] == dict.fromkeys(expected["agents"], 1)
    assert (facts["tools"], facts["kinds"]["llm"]) == (expected["tool_calls"], expected["llm_calls"])
    assert {span.agent for span in trace.spans} == {"manager"}
    assert [span.output for span in trace.spans if span.kind == "llm"][1] == "done"


def test_openinference_of_a_langgraph_run():
    facts, expected, (trace,) = facts_of("langgraph/openinference_otlp.json")
    same = ("spans", "tools", "failed_tool_spans", *TOKENS, "agent_to_agent")
    assert {key: facts[key] for key in same} == {key: expected[key] for key in same}
    assert sorted(facts["agent_runs"]) == expected["agents"]
    assert facts["agent_runs"] == {"supervisor": 3, "researcher": 1, "analyst": 1}
    assert Counter(span.agent for span in trace.tool_calls) == {"researcher": 2, "analyst": 2}
    assert {span.agent for span in trace.spans if span.kind == "llm"} == set(expected["agents"])


def test_openinference_of_an_openai_agents_run():
    facts, expected, (trace,) = facts_of("openai-agents/openinference_otlp.json")
    same = ("spans", "tools", "failed_tool_spans", *TOKENS)
    assert {key: facts[key] for key in same} == {key: expected[key] for key in same}
    assert facts["agent_runs"] == expected["agent_name_attributes"]
    native = json.loads((data("traces/openai-agents") / "expected.json").read_text())["native_items.jsonl"]
    assert facts["agent_to_agent"] == native["agent_to_agent"]
    assert dict(Counter(call.name for call in trace.tool_calls)) == native["tools"]


EXPORTS = sorted(
    [
        "ag2",
        "agent_framework",
        "ai_sdk",
        "autogen",
        "crewai_openllmetry",
        "dspy",
        "google_adk",
        "haystack",
        "langgraph",
        "litellm_otel",
        "llamaindex",
        "mastra",
        "pydantic_ai",
        "strands",
    ]
)
NO_CONTENTS = frozenset({"google_adk"})


def export(name):
    """The traces of one framework's export, and the truth about its job."""
    path = data(f"traces/frameworks/{name}.jsonl")
    truth = json.loads(path.with_name(f"{name}.expected.json").read_text())
    return read_path(path)[1], truth


@pytest.mark.parametrize("name", EXPORTS)
def test_the_question_and_the_answer_of_every_framework(name):
    traces, truth = export(name)
    job = max(traces, key=lambda trace: len(trace.spans))
    if name in NO_CONTENTS:
        assert (input_of(job), output_of(job)) == (None, None)
        return
    assert output_of(job) == truth["final"]
    question = input_of(job)
    asked = {"litellm_otel": "hi", "crewai_openllmetry": "find facts"}.get(name, "Report")
    assert isinstance(question, str)
    assert asked in question


NOT_IN_THE_FILE = {
    "crewai_openllmetry": {"tools"},
    "google_adk": {"arguments"},
    "haystack": {"agents"},
}
"""What an export does not hold; Google's ADK also counts a reasoning token twice."""


@pytest.mark.parametrize("name", EXPORTS)
def test_agents_requests_tokens_calls_and_hand_offs_of_every_framework(name):
    traces, truth = export(name)
    lacks = NOT_IN_THE_FILE.get(name, set())
    spans = [span for trace in traces for span in trace.spans]
    requests = [span for span in spans if span.kind == "llm"]
    used = [span.usage for span in requests if span.usage is not None]
    expected_output = truth["tokens"][1] + (truth["llm"] if name == "google_adk" else 0)
    assert len(requests) == truth["llm"]
    assert sum(each.input_tokens for each in used) == truth["tokens"][0]
    assert sum(each.output_tokens for each in used) == expected_output
    if "agents" not in lacks:
        assert {agent for trace in traces for agent in trace.agents} == set(truth["agents"])
    if "tools" not in lacks:
        calls = [call for trace in traces for call in trace.tool_calls]
        found = [[call.name, call.input, call.ok] for call in calls]
        tools = [[tool, None if "arguments" in lacks else given, ok] for tool, given, ok in truth["tools"]]
        assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, tools))
        assert sum(call.ok is False for call in calls) == truth["failed_calls"]
    sent = [[m.sender, m.receiver] for trace in traces for m in trace.messages if m.type == "handoff"]
    assert sent == truth.get("handoffs", [])
    lost = ["not_recorded"] if lacks & {"tools", "arguments"} else []
    assert [problem.kind for trace in traces for problem in trace.problems] == lost
