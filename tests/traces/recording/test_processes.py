"""Work that an agent gives to other processes."""

import multiprocessing
import os
import random
from concurrent.futures import ProcessPoolExecutor

import pytest
from opentelemetry.sdk.trace import TracerProvider

import trivium as tv
from trivium.traces.readers.collection import read_path
from trivium.traces.recording import config as configuring

# Python 3.12 warns of forks of processes with threads.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

CALLS = 20


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(configuring._Current, "recording", configuring.Recording(folder=tmp_path / "traces"))
    return tmp_path / "traces"


@tv.trace.tool
def double(number):
    return 2 * number


def pooled(_question, start="fork", prepare=lambda function: function):
    """Twenty calls of a tool in two processes."""
    with (
        tv.trace.agent("boss"),
        ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(start)) as pool,
    ):
        return sum(pool.map(prepare(double), range(CALLS)))


def assert_all_calls(trace):
    assert sorted(call.input["number"] for call in trace.tool_calls) == list(range(CALLS))
    assert {call.agent for call in trace.tool_calls} == {"boss"}
    assert trace.problems == ()


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_calls_in_other_processes_are_in_the_trace_of_an_attempt(start):
    prepare = tv.trace.carried if start == "spawn" else lambda function: function

    def agent(question):
        return str(pooled(question, start, prepare))

    suite = tv.Suite(
        cases=[tv.Case(id=name, input="q", expect=tv.Expect(tools=())) for name in "ab"], name="s"
    )
    run = tv.evaluate(suite, agent=agent, metrics=["tool_success"])
    for attempt in run.attempts():
        assert attempt.output == "380"
        assert_all_calls(attempt.trace)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_calls_in_other_processes_are_in_the_files_of_one_trace(start, folder):
    random.seed(1)
    pooled("q", start, tv.trace.carried if start == "spawn" else lambda function: function)
    _, (trace,) = read_path(folder)
    assert_all_calls(trace)


def test_opentelemetry_s_spans_of_a_forked_process_are_in_the_trace_too():
    provider = TracerProvider(shutdown_on_exit=False)
    tv.trace.listen(provider)
    tracer = provider.get_tracer("a library")
    with tv.trace.recorded() as recorded, tracer.start_as_current_span("root"):
        child = os.fork()
        if child == 0:
            with tracer.start_as_current_span("in the child"), tv.trace.tool("also"):
                pass
            os._exit(0)
        os.waitpid(child, 0)
    names = {span.id: span.name for span in recorded.trace.spans}
    assert [(names.get(span.parent), span.name) for span in recorded.trace.spans] == [
        (None, "root"),
        ("root", "in the child"),
        ("in the child", "also"),
    ]


def test_two_spans_of_one_id_are_a_problem_and_both_are_there(folder):
    with tv.trace.tool("search"):
        pass
    (file,) = folder.iterdir()
    line = file.read_text()
    file.write_text(line + line.replace('"search"', '"fetch"'))
    _, (trace,) = read_path(folder)
    assert [call.name for call in trace.tool_calls] == ["search", "fetch"]
    assert [problem.kind for problem in trace.problems] == ["duplicate_id"]
