"""Spans in the form in which OpenInference records LlamaIndex's workflows and smolagents' agents."""

import json

from tests.traces.opentelemetry.spans import request, span
from trivium.traces.readers import read_trace

KIND = "openinference.span.kind"
FLOW = "AgentWorkflow"


def read(scope, *spans):
    made = request(*spans)
    made["resourceSpans"][0]["scopeSpans"][0]["scope"] = {"name": f"openinference.instrumentation.{scope}"}
    return read_trace(made, "otlp")


def workflow(*steps):
    """A workflow: ("step", agent) asks a model, ("call", tool, arguments) calls a tool."""
    spans = [span("run", {KIND: "CHAIN"}, name="AgentWorkflow.run", at=(0, 99))]
    for at, (what, name, *arguments) in enumerate(steps, start=1):
        whole, part = (at, at + 0.5), (at + 0.1, at + 0.2)
        if what == "step":
            event = {"ev": f"AgentSetup(input=[2 items], current_agent_name='{name}', current_agent=<…>)"}
            attributes = {KIND: "CHAIN", "input.value": json.dumps(event)}
            spans.append(span(f"s{at}", attributes, parent="run", name=f"{FLOW}.run_agent_step", at=whole))
            spans.append(span(f"m{at}", {KIND: "LLM"}, parent=f"s{at}", name="LLM.achat", at=part))
            continue
        given = {"kwargs": {**arguments[0], "ctx": "<Context>"}}
        answer = {"blocks": [{"text": "x"}], "tool_name": name, "raw_output": "x", "is_error": False}
        attributes = {KIND: "TOOL", "tool.name": name, "input.value": json.dumps(given)}
        attributes["output.value"] = json.dumps(answer)
        spans.append(span(f"c{at}", {KIND: "CHAIN"}, parent="run", name=f"{FLOW}.call_tool", at=whole))
        spans.append(span(f"t{at}", attributes, parent=f"c{at}", name="FunctionTool.acall", at=part))
    return read("llama_index", *spans)


def test_a_workflow_s_agents_calls_arguments_and_hand_offs():
    trace = workflow(
        ("step", "boss"),
        ("call", "search", {"query": "a"}),
        ("step", "boss"),
        ("call", "handoff", {"to_agent": "writer", "reason": "r"}),
        ("step", "writer"),
        ("call", "search", {"query": "b"}),
        ("step", "writer"),
    )
    assert trace.agents == ("boss", "writer")
    assert [(call.agent, call.name, call.input, call.output) for call in trace.tool_calls] == [
        ("boss", "search", {"query": "a"}, "x"),
        ("writer", "search", {"query": "b"}, "x"),
    ]
    assert [(m.sender, m.receiver, m.type) for m in trace.messages] == [("boss", "writer", "handoff")]
    assert [each.agent for each in trace.spans if each.kind == "llm"] == ["boss", "boss", "writer", "writer"]
    assert trace.recorders == ("openinference.instrumentation.llama_index",)
    assert trace.problems == ()


def test_a_tool_whose_one_argument_is_called_kwargs_keeps_it_elsewhere():
    given = json.dumps({"kwargs": {"query": "a"}})
    trace = read("langchain", span("t", {KIND: "TOOL", "tool.name": "search", "input.value": given}))
    assert trace.tool_calls[0].input == {"kwargs": {"query": "a"}}


def test_agents_of_smolagents_go_by_their_names():
    def tool(id, name, parent, **arguments):
        given = {"args": [], "sanitize_inputs_outputs": True, "kwargs": arguments}
        return span(
            id, {KIND: "TOOL", "tool.name": name, "input.value": json.dumps(given)}, parent=parent, at=(4, 5)
        )

    trace = read(
        "smolagents",
        span("b", {KIND: "AGENT"}, name="boss.run", at=(0, 9)),
        span("b1", {KIND: "CHAIN"}, parent="b", name="Step 1", at=(1, 8)),
        tool("t1", "search", "b1", query="a"),
        span("w", {KIND: "AGENT"}, parent="b1", name="writer.run", at=(3, 7)),
        tool("t2", "final_answer", "w", answer="a draft"),
    )
    assert trace.agents == ("boss", "writer")
    assert [(call.agent, call.name, call.input) for call in trace.tool_calls] == [
        ("boss", "search", {"query": "a"})
    ]
    assert [(m.sender, m.receiver) for m in trace.messages] == [("boss", "writer"), ("writer", "boss")]
