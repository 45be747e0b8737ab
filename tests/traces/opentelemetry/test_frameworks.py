"""One job in the vocabulary of each framework: the same question, answer, requests and calls."""

import copy
import json
import random

import pytest

from tests.traces.opentelemetry.frameworks import ANSWER, ARGUMENTS, QUESTION, RECORDED
from tests.traces.opentelemetry.spans import agent, chat, request, span, tool
from trivium.traces.outcome import input_of, output_of
from trivium.traces.readers import read_documents, read_trace


def read(framework):
    return read_trace(RECORDED[framework](), "otlp")


@pytest.mark.parametrize("framework", [name for name in RECORDED if name != "google_adk"])
def test_the_question_and_the_answer_are_found_where_the_framework_puts_them(framework):
    trace = read(framework)
    assert (input_of(trace), output_of(trace)) == (QUESTION, ANSWER)


def test_contents_that_are_not_recorded_are_none():
    trace = read("google_adk")
    assert (input_of(trace), output_of(trace)) == (None, None)


AGENTS = {
    "autogen": ("boss", "clerk"),
    "google_adk": ("boss", "clerk"),
    "dspy": ("ReAct",),
    "haystack": ("agent",),  # it records no names
}
NO_CALLS, NO_ARGUMENTS = {"crewai"}, {"google_adk"}


@pytest.mark.parametrize("framework", RECORDED)
def test_agents_requests_tokens_and_calls_are_counted_once(framework):
    trace = read(framework)
    requests = [each for each in trace.spans if each.kind == "llm"]
    extra = framework == "autogen"  # a third request, which hands over
    assert trace.agents == AGENTS.get(framework, ("boss",))
    assert len(requests) == 2 + extra
    assert {each.name for each in requests} == {"m"}
    used = [each.usage for each in requests if each.usage is not None]
    assert sum(each.input_tokens for each in used) == 10 * (2 + extra)
    assert sum(each.output_tokens for each in used) == 2 * (2 + extra)
    arguments = None if framework in NO_ARGUMENTS else ARGUMENTS
    calls = [("look_up", arguments, False), ("look_up", arguments, True)]
    assert [(call.name, call.input, call.ok) for call in trace.tool_calls] == (
        [] if framework in NO_CALLS else calls
    )
    handed = [(m.sender, m.receiver) for m in trace.messages if m.type == "handoff"]
    assert handed == ([("boss", "clerk")] if framework in {"autogen", "google_adk"} else [])
    kinds = ["not_recorded"] if framework in NO_CALLS | NO_ARGUMENTS else []
    assert [problem.kind for problem in trace.problems] == kinds


@pytest.mark.parametrize("framework", RECORDED)
def test_the_order_of_the_spans_in_the_file_changes_nothing(framework):
    made = RECORDED[framework]()
    expected = read_trace(made, "otlp")
    spans = made["resourceSpans"][0]["scopeSpans"][0]["spans"]
    for number, each in enumerate(spans):  # no ties
        each["startTimeUnixNano"] = str(int(each["startTimeUnixNano"]) + number)
    expected = read_trace(made, "otlp")
    for seed in range(5):
        shuffled = copy.deepcopy(made)
        random.Random(seed).shuffle(shuffled["resourceSpans"][0]["scopeSpans"][0]["spans"])
        assert read_trace(shuffled, "otlp") == expected


def test_calls_recorded_by_two_instrumentations_are_one_call_that_failed():
    given = {"gen_ai.tool.call.arguments": '{"a": 1}'}
    trace = read_trace(
        request(
            agent("a", at=(0, 9)),
            tool("outer", "find", given, parent="a", at=(1, 8)),
            span("http", parent="outer", at=(2, 7)),
            tool("inner", "find", given, parent="http", at=(3, 6), failed="down"),
        ),
        "otlp",
    )
    assert [(call.name, call.input, call.ok) for call in trace.tool_calls] == [("find", {"a": 1}, False)]


def test_a_tool_that_calls_itself_with_other_arguments_is_called_twice():
    calls = [{"gen_ai.tool.call.arguments": json.dumps({"n": n})} for n in (2, 1)]
    trace = read_trace(
        request(
            tool("outer", "count", calls[0], at=(1, 8)),
            tool("inner", "count", calls[1], parent="outer", at=(2, 7)),
        ),
        "otlp",
    )
    assert [call.input for call in trace.tool_calls] == [{"n": 2}, {"n": 1}]


def test_requests_of_agents_that_a_tool_runs_are_no_repetitions():
    trace = read_trace(
        request(
            agent("a", at=(0, 9)),
            chat("outer", (30, 3), parent="a", at=(1, 8)),
            tool("ask", parent="outer", at=(2, 7)),
            agent("b", parent="ask", at=(3, 6)),
            chat("inner", (10, 1), parent="b", at=(4, 5)),
        ),
        "otlp",
    )
    assert [each.usage.input_tokens for each in trace.spans if each.usage] == [30, 10]


def test_a_transfer_to_what_is_no_agent_is_a_call():
    trace = read_trace(
        request(agent("a", at=(0, 9)), tool("transfer_to_savings", parent="a", at=(1, 2))), "otlp"
    )
    assert [call.name for call in trace.tool_calls] == ["transfer_to_savings"]
    nested = read_trace(
        request(
            agent("a", at=(0, 9)),
            tool("transfer_to_b", parent="a", at=(1, 8)),
            agent("b", parent="transfer_to_b", at=(2, 7)),
        ),
        "otlp",
    )
    assert [call.name for call in nested.tool_calls] == ["transfer_to_b"]


def test_spans_that_set_agents_up_are_no_interaction():
    made = span("s", {"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "a"}, trace="1" * 32)
    _, traces = read_documents([request(made, agent("a"))], source="")
    assert [trace.agents for trace in traces] == [("a",)]
    _, alone = read_documents([request(made)], source="")
    assert [(trace.sets_up, trace.agents) for trace in alone] == [(True, ())]


def test_a_trace_in_which_nothing_is_recognised_says_so():
    trace = read_trace(request(span("a", {"http.method": "GET"}), span("b", parent="a")), "otlp")
    (problem,) = trace.problems
    assert problem.kind == "unrecognised"
    assert "none of its 2 spans" in problem.what
