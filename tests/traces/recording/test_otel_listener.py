"""OpenTelemetry's spans: heard, written as OTLP and collected."""

import contextvars
import gc
import subprocess
import sys
import threading

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode, set_span_in_context

import trivium as tv
from trivium.errors import TraceError
from trivium.traces.readers.collection import read_path
from trivium.traces.recording import config as configuring
from trivium.traces.recording import otel_listener as listening


@pytest.fixture
def provider():
    made = TracerProvider(shutdown_on_exit=False)
    tv.trace.listen(made)
    return made


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording(folder=tmp_path / "traces"))
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


def test_recorded_otel_spans_become_the_trace_of_the_block(provider, folder):
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


def test_otel_spans_outside_a_block_are_written_as_otlp(provider, folder):
    work(provider)
    work(provider, fail=True)
    name, (first, second) = read_path(folder)
    assert name == "otlp"
    assert [span.name for span in first.spans] == ["boss", "search"]
    assert [call.ok for call in (*first.tool_calls, *second.tool_calls)] == [True, False]
    assert "abcdefghij" not in next(folder.iterdir()).read_text()
    assert first.problems == second.problems == ()


def test_an_incomplete_last_line_is_left_out_and_reported(provider, folder):
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
    with pytest.raises(TraceError, match="not valid JSON"):
        read_path(file)


def test_own_spans_and_otel_spans_are_one_trace(provider):
    with tv.trace.recorded() as recorded, tv.trace.agent("lead"):
        work(provider)
    assert [span.name for span in recorded.trace.spans] == ["lead", "boss", "search"]


def test_otel_agents_below_others_and_messages_are_merged(provider):
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


def test_without_content_no_text_is_recorded(provider, folder):
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
    gc.collect()
    before, still_open = len(listening._SPANS), len(listening._OPEN_SPANS)
    with tv.trace.recorded() as recorded:
        work(provider)
    assert len(listening._SPANS) == before + 2
    del recorded
    gc.collect()
    assert len(listening._SPANS) == before
    assert len(listening._OPEN_SPANS) == still_open


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


def mixed(provider):
    """A decorated agent asks one of a library, whose tool calls a decorated tool; each asks a model."""
    tracer = provider.get_tracer("a library")

    def model(name):
        with tracer.start_as_current_span("chat") as span:
            span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": name})
            span.set_attributes({"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2})

    @tv.trace.tool
    def lookup(word):
        model("in the tool")

    with tv.trace.agent("outer"):
        model("of outer")
        with tracer.start_as_current_span("invoke_agent inner") as span:
            span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "inner"})
            with tracer.start_as_current_span("execute_tool find") as call:
                call.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"})
                lookup("cat")
                tv.trace.message("a friend", "hello")


def test_spans_of_decorators_and_of_opentelemetry_are_one_trace_in_both_directions(provider, folder):
    with tv.trace.recorded() as recorded:
        mixed(provider)
    mixed(provider)
    mixed(provider)
    _, (first, second) = read_path(folder)
    for trace in (recorded.trace, first, second):
        names = {span.id: span.name for span in trace.spans}
        assert [(names.get(span.parent), span.name, span.agent) for span in trace.spans] == [
            (None, "outer", "outer"),
            ("outer", "of outer", "outer"),
            ("outer", "inner", "inner"),
            ("inner", "find", "inner"),
            ("find", "lookup", "inner"),
            ("lookup", "in the tool", "inner"),
        ]
        assert sorted((m.sender, m.receiver, m.type) for m in trace.messages) == [
            ("inner", "a friend", "task_request"),
            ("inner", "outer", "result_delivery"),
            ("outer", "inner", "task_request"),
        ]
        assert trace.problems == ()
        assert all(span.start > 1e9 for span in trace.spans)


def test_a_decorated_tool_of_a_library_is_one_call(provider):
    tracer = provider.get_tracer("a library")

    @tv.trace.tool
    def search(query):
        return "a page"

    with tv.trace.recorded() as recorded, tracer.start_as_current_span("execute_tool search") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"})
        search("cats")
    assert [call.name for call in recorded.trace.tool_calls] == ["search"]


def test_tokens_that_a_decorator_and_a_library_tell_are_counted_once(provider):
    tracer = provider.get_tracer("a library")
    with tv.trace.recorded() as recorded, tv.trace.llm("model") as outer:
        outer.used(input_tokens=10, output_tokens=2)
        with tracer.start_as_current_span("chat") as span:
            span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 10})
    assert [each.usage and each.usage.input_tokens for each in recorded.trace.spans] == [None, 10]


def test_a_span_of_a_thread_that_knows_its_parent_only_is_of_the_block(provider):
    """As LangChain's instrumentation makes them, in threads that carry no context."""
    tracer = provider.get_tracer("a library")

    def below(parent):
        with tracer.start_as_current_span("child", context=set_span_in_context(parent)):
            pass

    with tv.trace.recorded() as recorded, tracer.start_as_current_span("root") as root:
        thread = (
            threading.Thread(target=below, args=(root,), context=contextvars.Context())
            if (sys.version_info >= (3, 14))
            else threading.Thread(target=below, args=(root,))
        )
        thread.start()
        thread.join()
    assert [span.name for span in recorded.trace.spans] == ["root", "child"]


def test_listening_for_an_evaluation_writes_no_file_afterwards(folder):
    provider = TracerProvider(shutdown_on_exit=False)
    listening.listener_of(provider)
    work(provider)
    assert not folder.exists()
