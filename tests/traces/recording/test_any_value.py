"""Recording touches nothing that it records: values, names and attributes of any type."""

import json

import numpy as np
import pytest
from opentelemetry.sdk.trace import TracerProvider

import trivium as tv
from tests.odd_values import AS_TEXT, ODD, PLAIN, NoText, Text
from trivium.traces.readers.collection import read_path
from trivium.traces.recording import config as configuring


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording(folder=tmp_path / "traces"))
    return tmp_path / "traces"


def everything(value):
    """Uses a value wherever a value or a name may stand."""

    @tv.trace.tool("give")
    def give(given):
        tv.trace.current().note(context=value, **{Text("more"): value})
        return value

    @tv.trace.tool("yields")
    def yields():
        yield value

    @tv.trace.tool("fails")
    def fails():
        tv.trace.current().failed(value)
        raise RuntimeError(value)

    with tv.trace.agent("boss"):
        assert give(value) is value
        assert next(yields()) is value
        with pytest.raises(RuntimeError):
            fails()
        with tv.trace.tool(name=value, agent=value, input=value) as span:
            span.output = value
        with tv.trace.llm("model") as span:
            span.used(input_tokens=value, output_tokens=np.int64(3), cost_usd=value)
            span.record_output({"usage": value})
        tv.trace.message(value, value, sender=value, type=value)


@pytest.mark.parametrize("name", ODD)
def test_errors_of_a_value_do_not_reach_the_program(name, folder):
    everything(ODD[name])
    _, (written,) = read_path(folder)
    with tv.trace.recorded() as recorded:
        everything(ODD[name])
    assert len(written.spans) == len(recorded.trace.spans) == 6
    assert len(written.messages) == len(recorded.trace.messages) == 1
    kinds = {problem.kind for problem in (*written.problems, *recorded.trace.problems)}
    assert kinds <= {"recorded_as_text", "unfinished"}
    if name in AS_TEXT:
        assert "recorded_as_text" in kinds


@pytest.mark.parametrize("name", PLAIN)
def test_arguments_and_results_have_their_plain_form(name):
    value, expected = PLAIN[name]
    with tv.trace.recorded() as recorded:
        tv.trace.tool("give")(lambda given: given)(value)
    (call,) = recorded.trace.tool_calls
    assert call.input == {"given": expected}
    assert call.output == expected
    assert recorded.trace.problems == ()


def test_the_number_of_values_recorded_as_text_is_reported():
    with tv.trace.recorded() as recorded:
        give = tv.trace.tool("give")(lambda given: given)
        give(object())
        give({"a": NoText()})
        give("plain")
    (problem,) = recorded.trace.problems
    assert problem.what == "4 values that JSON does not have recorded as text: 2 object, 2 NoText"


def test_a_run_has_every_attempt_for_any_return_value_of_a_tool(tmp_path):
    @tv.trace.tool
    def look_up(word):
        return ODD[word]

    @tv.trace.agent
    def agent(word):
        look_up(word)
        return "done"

    expect = tv.Expect(tools=(tv.ExpectedTool(name="look_up"),))
    suite = tv.Suite(cases=[tv.Case(id=name, input=name, expect=expect) for name in ODD], name="odd")
    run = tv.evaluate(suite, agent=agent, metrics=["tool_recall"], store=f"sqlite:///{tmp_path}/s.db")
    assert run.summary().metrics["tool_recall"].mean == 1.0
    assert run.summary().metrics["tool_recall"].n == len(ODD)


@pytest.fixture
def tracer():
    provider = TracerProvider(shutdown_on_exit=False)
    tv.trace.listen(provider)
    return provider.get_tracer("a library")


def smolagents(tracer, result):
    """The spans of smolagents under OpenInference, whose attributes are texts of its own classes."""
    with tracer.start_as_current_span(Text("boss.run")) as agent:
        agent.set_attributes({"openinference.span.kind": "AGENT", "agent.name": "boss"})
        with tracer.start_as_current_span(Text("search")) as tool:
            tool.set_attribute(Text("openinference.span.kind"), "TOOL")
            tool.set_attribute("tool.name", Text("search"))
            tool.set_attribute("output.value", result)
            tool.set_attribute("score", np.float64(0.5))
            tool.set_attribute("tags", (Text("a"), Text("b")))
            tool.add_event(Text("note"), {"content": Text("c")})


@pytest.mark.parametrize("result", [Text("a page"), np.str_("a page"), np.float64(0.5), (Text("a page"),)])
def test_attributes_of_opentelemetry_may_be_of_any_class(tracer, folder, result):
    smolagents(tracer, result)
    with tv.trace.recorded() as recorded:
        smolagents(tracer, result)
    _, (written,) = read_path(folder)
    for trace in (written, recorded.trace):
        (call,) = trace.tool_calls
        assert (call.name, call.agent) == ("search", "boss")
        assert call.output == (list(result) if isinstance(result, tuple) else result)
        assert type(call.output) in {str, float, list}
    lines = next(folder.iterdir()).read_text().splitlines()[-2:]
    assert '"doubleValue":0.5' in json.dumps([json.loads(line) for line in lines], separators=(",", ":"))


@pytest.mark.parametrize("name", ODD)
def test_the_name_of_a_span_may_be_anything(tracer, folder, name):
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span(ODD[name]):
        pass
    _, (trace,) = read_path(folder)
    assert len(trace.spans) == 2
