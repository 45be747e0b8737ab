"""OpenTelemetry's spans: heard, written as OTLP and collected."""

import gc
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode

import trivium as tv
from trivium.errors import TraceError
from trivium.traces.readers import read_path
from trivium.traces.recording import configuring, listening


@pytest.fixture
def provider():
    made = TracerProvider(shutdown_on_exit=False)
    tv.trace.listen(made)
    return made


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(configuring._Now, "recording", configuring.Recording(folder=tmp_path / "traces"))
    return tmp_path / "traces"


def work(provider, *, fail=False):
    tracer = provider.get_tracer("a library")
    with tracer.start_as_current_span("invoke_agent boss") as agent:
        agent.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "boss"})
        with tracer.start_as_current_span("execute_tool search") as span:
            span.set_attributes(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "search",
                    "gen_ai.tool.call.arguments": '{"query": "cats"}',
                    "gen_ai.tool.call.result": "sk-abcdefghijklmnop",
                    "flag": True,
                    "share": 0.5,
                    "tags": ["a", "b"],
                    "gen_ai.usage.input_tokens": 3,
                }
            )
            span.add_event("note", {"content": "private"})
            if fail:
                span.set_status(Status(StatusCode.ERROR, "it broke"))


def test_what_is_heard_becomes_the_trace_of_the_block(provider, folder):
    with tv.trace.recorded() as recorded:
        work(provider)
    (call,) = recorded.trace.tool_calls
    assert (call.name, call.agent, call.input, call.output) == (
        "search",
        "boss",
        {"query": "cats"},
        "[masked]",
    )
    assert not folder.exists()
    assert call.start > 1e9


def test_what_is_heard_elsewhere_is_written_as_otlp(provider, folder):
    work(provider)
    work(provider, fail=True)
    name, (first, second) = read_path(folder)
    assert name == "recorded"
    assert [span.name for span in first.spans] == ["boss", "search"]
    assert [call.ok for call in (*first.tool_calls, *second.tool_calls)] == [True, False]
    assert "abcdefghij" not in next(folder.iterdir()).read_text()
    assert first.problems == second.problems == ()


def test_a_last_line_that_is_being_written_is_left_out_and_told(provider, folder):
    work(provider)
    work(provider)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    number = whole.count(b"\n")
    file.write_bytes(whole[:-5])
    _, (first, second) = read_path(file)
    assert first.problems == ()
    assert [(span.name, span.end is None) for span in second.spans] == [("boss", True), ("search", False)]
    assert [problem.what for problem in second.problems if problem.kind == "truncated"] == [
        f"line {number} of {file} was cut short and is left out"
    ]
    file.write_bytes(whole[:30])
    with pytest.raises(TraceError, match="no JSON"):
        read_path(file)


def test_own_spans_and_those_that_are_heard_are_one_trace(provider):
    with tv.trace.recorded() as recorded, tv.trace.agent("lead"):
        work(provider)
    assert [span.name for span in recorded.trace.spans] == ["lead", "boss", "search"]


def test_agents_that_are_heard_below_others_and_messages_go_together(provider):
    tracer = provider.get_tracer("a library")
    with tv.trace.recorded() as recorded:
        tv.trace.message("boss", "hello", sender="user")
        with tracer.start_as_current_span("invoke_agent chief") as span:
            span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "chief"})
            work(provider)
    assert [(m.sender, m.receiver) for m in recorded.trace.messages] == [
        ("user", "boss"),
        ("chief", "boss"),
        ("boss", "chief"),
    ]


def test_without_content_nothing_that_was_said_is_kept(provider, folder):
    tv.trace.configure(folder=folder, content=False)
    work(provider, fail=True)
    told = next(folder.iterdir()).read_text()
    assert "private" not in told
    assert "cats" not in told
    assert "it broke" not in told
    assert "search" in told
    with tv.trace.recorded() as recorded:
        work(provider)
    assert "cats" not in repr(recorded.trace)


def test_what_never_ends_is_written_when_something_below_it_ends(provider, folder):
    tracer = provider.get_tracer("x")
    with tracer.start_as_current_span("outer", end_on_exit=False), tracer.start_as_current_span("inner"):
        pass
    _, (trace,) = read_path(folder)
    assert [(span.name, span.ok) for span in trace.spans] == [("outer", None), ("inner", True)]


def test_nothing_is_written_when_recording_is_off(provider, folder):
    tv.trace.configure(folder=None)
    work(provider)
    assert not folder.exists()


def test_a_provider_is_listened_to_once(provider, folder):
    tv.trace.listen(provider)
    work(provider)
    _, traces = read_path(folder)
    assert len(traces) == 1


def test_a_block_that_is_gone_is_forgotten(provider):
    listener = provider._active_span_processor._span_processors[0]
    with tv.trace.recorded():
        work(provider)
    gc.collect()
    assert listener._collecting == set()
    assert listener._open == {}


def test_the_processor_is_one_of_opentelemetrys(provider):
    provider.force_flush()
    provider.shutdown()
    assert isinstance(provider._active_span_processor._span_processors[0], listening.Listener)


def test_the_global_provider_is_listened_to_by_itself_while_an_agent_is_evaluated(tmp_path):
    """In a process of its own: OpenTelemetry lets a global provider be set once."""
    code = """
import trivium as tv
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))

def agent(question):
    with trace.get_tracer("library").start_as_current_span("execute_tool search") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"})
    return "answer"

suite = tv.Suite(cases=[tv.Case(id="1", input="x")], name="s")
run = tv.evaluate(suite, agent=agent, metrics=["tool_success"])
(attempt,) = run.attempts()
print(attempt.trace.tool_calls[0].name)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split() == ["search"]
    assert not (tmp_path / "logs").exists()


def test_without_a_provider_one_is_made(tmp_path):
    code = """
import trivium as tv
from opentelemetry import trace
tv.trace.listen()
with trace.get_tracer("library").start_as_current_span("step"):
    pass
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    _, (trace,) = read_path(tmp_path / "logs" / "traces")
    assert [span.name for span in trace.spans] == ["step"]
